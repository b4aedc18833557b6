"""Real models against a plain loop of full forwards, one target at a time; and the cells that have no number."""

from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch

from lengthlab.commands import build
from lengthlab.commands.compose import CONF, jobs_of, parse, plain
from lengthlab.measurement import NonOverlapping, Plan, SameTarget, Sliding, Text
from lengthlab.measurement.sweep import Reader
from lengthlab.model.positions import generator_of
from lengthlab.schemes.extensions import Extension

SCHEMES = sorted(path.stem for path in (CONF / "scheme").glob("*.yaml"))
VOCAB, TRAIN_LENGTH, BOS = 50, 16, 0
SMALL = ["model.layers=2", "model.width=16", "model.heads=2", f"train.length={TRAIN_LENGTH}"]


@pytest.fixture(scope="module", params=SCHEMES)
def read(request):
    """(config, model) of a scheme, its weights moved away from where some schemes begin at zero."""
    words = [f"scheme={request.param}", *SMALL]
    return made(words)


def made(words, noise=0.05):
    config = plain(jobs_of(parse("config", words))[0].config)
    model = build.model_of(config, VOCAB)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += noise * torch.randn(parameter.shape, generator=generator)
    return config, model


def reader_of(config, model, dtype=torch.float32, tokens_per_batch=100):
    positions, token_bytes = build.positions_of(config), np.arange(VOCAB)
    return Reader(model, positions, BOS, token_bytes, TRAIN_LENGTH, dtype, tokens_per_batch)


def texts_of(*sizes):
    draw = np.random.default_rng(3)
    return [Text(f"d{i}", draw.integers(1, VOCAB, size).astype(np.uint16)) for i, size in enumerate(sizes)]


def starts_and_targets(protocol, size):
    """(start, stop, its targets), written down from the design's table of protocols."""
    length = protocol.length
    if isinstance(protocol, SameTarget):
        ends = range(protocol.reach, size + 1, max(1, protocol.reach // 4))
        return [(end - length, end, range(end - protocol.block + 1, end + 1)) for end in ends]
    step = protocol.stride if isinstance(protocol, Sliding) else length
    stops = [min(length, size)] if size else []
    while stops and stops[-1] < size:
        stops.append(min(stops[-1] + step, size))
    result = []
    for before, stop in pairwise([0, *stops]):
        start = max(0, stop - length) if isinstance(protocol, Sliding) else before
        result.append((start, stop, range(before + 1, stop + 1)))
    return result


@torch.inference_mode()
def plain_loop(config, model, protocol, texts):
    """{(document, context): summed nll} of full forwards of one window at a time."""
    sums, numbers = defaultdict(float), build.positions_of(config).numbers
    model.eval()
    for text in texts:
        stream = torch.tensor([BOS, *text.tokens.tolist()])
        for start, stop, targets in starts_and_targets(protocol, len(text.tokens)):
            model.scheme.extend(stop - start)
            nll = -model(stream[None, start:stop], numbers(stop - start))[0].double().log_softmax(-1)
            for target in targets:
                sums[text.id, target - start] += float(nll[target - 1 - start, stream[target]])
    return sums


@pytest.mark.parametrize(
    "protocol",
    [NonOverlapping(8), NonOverlapping(24), Sliding(8, 4), Sliding(24, 7), SameTarget(8, 24, 2), SameTarget(24, 24, 2)],
    ids=lambda protocol: f"{protocol.name}-{protocol.length}",
)
def test_a_sweep_is_a_plain_loop_of_full_forwards(read, protocol):
    config, model = read
    texts = texts_of(75, 0, 24, 5)
    rows, status, reason, _ = reader_of(config, model).measure(Plan(protocol, texts, None), Extension())
    if model.scheme.horizon is not None and protocol.length > model.scheme.horizon:
        assert (status, len(rows)) == ("undefined", 0)  # F19
        assert f"{model.scheme.horizon - 1}" in reason and "\n" not in reason
        return
    assert (status, reason) == ("done", None)
    expected = plain_loop(config, model, protocol, texts)
    found = rows.groupby(["document", "context"]).nll.sum()
    assert set(found.index) == set(expected)  # contexts under 64 are bins of their own
    for key, nll in found.items():
        assert nll == pytest.approx(expected[key], abs=1e-5 * max(1, expected[key]))


def test_batches_and_the_order_of_documents_change_nothing(read):
    """F16, on one process: what is read together with what has no say."""
    config, model = read
    texts, protocol = texts_of(75, 0, 33, 16, 5, 40, 21), Sliding(16, 5)
    frames = []
    for tokens_per_batch, order in ((1, 1), (64, 1), (100_000, 1), (64, -1)):
        plan = Plan(protocol, texts[::order], None)
        rows, status, *_ = reader_of(config, model, tokens_per_batch=tokens_per_batch).measure(plan, Extension())
        assert status == "done"
        frames.append(rows)
    for frame in frames[1:]:
        pd.testing.assert_frame_equal(frame, frames[0], rtol=1e-6, atol=1e-6)
    assert frames[0].targets.sum() == sum(len(text.tokens) for text in texts)


def test_a_measurement_leaves_the_model_as_it_was(read):
    config, model = read
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    scheme, texts = model.scheme, texts_of(40)
    first, *_ = reader_of(config, model).measure(Plan(NonOverlapping(8), texts, None), Extension())
    reader_of(config, model).measure(Plan(NonOverlapping(32), texts, None), Extension())
    again, *_ = reader_of(config, model).measure(Plan(NonOverlapping(8), texts, None), Extension())
    pd.testing.assert_frame_equal(first, again)
    assert model.scheme is scheme
    assert all(torch.equal(value, weights[key]) for key, value in model.state_dict().items())


@pytest.fixture
def learned():
    return made(["scheme=learned", *SMALL])


def test_learned_positions_past_their_end_are_undefined_and_keep_their_hash(learned):
    config, model = learned
    texts = texts_of(64)
    plans = [Plan(SameTarget(length, 32, 4), texts, None) for length in (16, 17, 32)]
    statuses = [reader_of(config, model).measure(plan, Extension())[1] for plan in plans]
    assert statuses == ["done", "undefined", "undefined"]
    assert len({plan.account()["target_hash"] for plan in plans}) == 1


def test_what_is_undefined_is_what_is_fed_not_what_is_asked(learned):
    """A length of 64 over documents of 16 tokens never leaves the table."""
    rows, status, *_ = reader_of(*learned).measure(Plan(NonOverlapping(64), texts_of(16, 9), None), Extension())
    assert (status, rows.targets.sum()) == ("done", 25)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.\nBuy more"),
        MemoryError(),
        MemoryError("Unable to allocate 9 TiB"),
        torch.cuda.OutOfMemoryError("CUDA out of memory."),
    ],
)
def test_out_of_memory_is_a_word_in_the_table(learned, monkeypatch, error):
    config, model = learned

    def hidden(tokens, pos):
        raise error

    monkeypatch.setattr(model, "hidden", hidden)
    rows, status, reason, _ = reader_of(config, model).measure(Plan(NonOverlapping(8), texts_of(9), None), Extension())
    assert (status, len(rows)) == ("out_of_memory", 0)
    assert reason and "\n" not in reason


def test_any_other_error_is_not_hidden(learned, monkeypatch):
    config, model = learned

    class Other(Extension):
        def wrap(self, scheme, length):
            return type(scheme)(scheme.dims)

    scheme = model.scheme
    monkeypatch.setattr(model, "hidden", lambda tokens, pos: torch.ones(2) @ torch.ones(3))
    with pytest.raises(RuntimeError, match="size"):
        reader_of(config, model).measure(Plan(NonOverlapping(8), texts_of(9), None), Other())
    assert model.scheme is scheme  # the extension's is taken off again


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", [slice(None), -1], ids=["everywhere", "at one target"])
def test_a_loss_that_is_not_finite_is_diverged(learned, monkeypatch, poison, where):
    config, model = learned
    logits = model.logits

    def poisoned(states):
        result = logits(states).clone()
        result[where, 0] = poison
        return result

    monkeypatch.setattr(model, "logits", poisoned)
    rows, status, reason, _ = reader_of(config, model).measure(Plan(NonOverlapping(8), texts_of(9), None), Extension())
    assert (status, len(rows)) == ("diverged", 0)
    assert "not finite" in reason


@pytest.mark.parametrize("texts", [[], texts_of(0), texts_of(7)])
def test_nothing_to_score_is_a_frame_without_rows(learned, texts):
    plan = Plan(SameTarget(8, 8, 1), texts, None)
    rows, status, *_ = reader_of(*learned).measure(plan, Extension())
    assert (len(rows), status) == (0, "done")
    assert plan.account()["targets_scored"] == 0
    full, *_ = reader_of(*learned).measure(Plan(SameTarget(8, 8, 1), texts_of(8), None), Extension())
    assert (rows.dtypes == full.dtypes).all()


def test_bfloat16_reads_the_same_targets(learned):
    config, model = learned
    plan = Plan(NonOverlapping(8), texts_of(60), None)
    exact, *_ = reader_of(config, model).measure(plan, Extension())
    rough, *_ = reader_of(config, model, torch.bfloat16).measure(plan, Extension())
    assert Counter(zip(rough.context, rough.targets, strict=True)) == Counter(
        zip(exact.context, exact.targets, strict=True)
    )
    assert rough.nll.sum() == pytest.approx(exact.nll.sum(), rel=0.02)
    assert rough.nll.sum() != exact.nll.sum()


DRAWN = ["scheme=rope", "positions=randomized", "positions.max=60", *SMALL]


def drawn_reader(config, model, draws=3, **options):
    token_bytes = np.arange(VOCAB)
    return Reader(model, build.positions_of(config), BOS, token_bytes, TRAIN_LENGTH, draws=draws, **options)


@torch.inference_mode()
def loop_of_draws(model, positions, protocol, texts, draws, seed):
    """{(document, context): summed nll} of each draw: full forwards, one window at a time."""
    result = []
    for draw in range(draws):
        sums = defaultdict(float)
        for text in texts:
            stream = torch.tensor([BOS, *text.tokens.tolist()])
            for start, stop, targets in starts_and_targets(protocol, len(text.tokens)):
                pos = positions.numbers(stop - start, generator_of(seed, draw, stop - start))
                logits = model(stream[None, start:stop], pos)[0].double()
                for target in targets:
                    nll = -logits[target - 1 - start].log_softmax(-1)[stream[target]]
                    sums[text.id, target - start] += float(nll)
        result.append(sums)
    return result


@pytest.mark.parametrize("protocol", [NonOverlapping(24), Sliding(24, 7), SameTarget(16, 24, 2)])
def test_a_targets_nll_is_its_mean_over_the_draws_and_the_spread_is_told(protocol):
    """F24: against a plain loop over draws."""
    config, model = made(DRAWN, noise=0.5)  # attention so peaked that the numbers matter
    texts = texts_of(75, 0, 24, 5)
    model.eval()
    expected = loop_of_draws(model, build.positions_of(config), protocol, texts, 3, 11)
    reader = drawn_reader(config, model, draw_seed=11, tokens_per_batch=100)
    rows, status, reason, sd = reader.measure(Plan(protocol, texts, None), Extension())
    assert (status, reason) == ("done", None)
    found = rows.groupby(["document", "context"])[["nll", "targets"]].sum()
    assert set(found.index) == set(expected[0])
    for key, nll in found.nll.items():
        assert nll == pytest.approx(np.mean([sums[key] for sums in expected]), rel=1e-5)
    means = [sum(sums.values()) / found.targets.sum() for sums in expected]
    assert sd == pytest.approx(np.std(means, ddof=1), rel=1e-3)
    assert sd > 1e-3


def test_draws_hang_on_their_seed_and_not_on_batches():
    config, model = made(DRAWN, noise=0.5)  # attention so peaked that the numbers matter
    texts, protocol = texts_of(75, 33, 16, 5), Sliding(16, 5)
    readings = []
    for tokens_per_batch, order, seed in ((1, 1, 0), (64, -1, 0), (100_000, 1, 0), (64, 1, 1)):
        reader = drawn_reader(config, model, tokens_per_batch=tokens_per_batch, draw_seed=seed)
        readings.append(reader.measure(Plan(protocol, texts[::order], None), Extension()))
    for reading in readings[1:3]:
        pd.testing.assert_frame_equal(reading.rows, readings[0].rows, rtol=1e-6, atol=1e-6)
        assert reading.sd_over_draws == pytest.approx(readings[0].sd_over_draws, rel=1e-3)
    assert abs(readings[3].rows.nll.sum() - readings[0].rows.nll.sum()) > 1e-3


def test_one_draw_has_no_spread_and_what_draws_nothing_is_read_once(learned, monkeypatch):
    plan = Plan(NonOverlapping(8), texts_of(20), None)
    assert drawn_reader(*made(DRAWN), draws=1).measure(plan, Extension()).sd_over_draws is None
    config, model = learned
    read, hidden = [], model.hidden
    monkeypatch.setattr(model, "hidden", lambda tokens, pos: read.append(pos) or hidden(tokens, pos))
    rows, *_, sd = drawn_reader(config, model, draws=5).measure(plan, Extension())
    assert sd is None and len(read) == 2  # windows of 8, and the last of 4
    once, *_ = drawn_reader(config, model).measure(plan, Extension())
    pd.testing.assert_frame_equal(rows, once)


def test_a_draw_that_is_not_finite_makes_the_cell_diverged(monkeypatch):
    config, model = made(DRAWN, noise=0.5)  # attention so peaked that the numbers matter
    hidden, calls = model.hidden, []

    def poisoned(tokens, pos):
        calls.append(pos)
        return hidden(tokens, pos) * (float("nan") if len(calls) == 2 else 1)

    monkeypatch.setattr(model, "hidden", poisoned)
    rows, status, _, sd = drawn_reader(config, model).measure(Plan(NonOverlapping(8), texts_of(8), None), Extension())
    assert (status, len(rows), sd) == ("diverged", 0, None)


@pytest.mark.parametrize(
    ("words", "defined"),
    [
        (["positions=randomized", "positions.max=40"], 40),
        (["positions=pose", "positions.max=40"], 40),
        (["positions=offset", "positions.max_offset=24"], 40),
        (["positions=interpolated", "positions.scale=2"], 17),  # ceil(15 / 2) + 1 rows: 0 … 8, and 16 / 2 is 8
        (["positions=sequential"], 16),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_learned_table_is_read_as_far_as_its_positions_were_trained(words, defined):
    config, model = made(["scheme=learned", *words, *SMALL])
    reader = drawn_reader(config, model)
    assert reader.measure(Plan(NonOverlapping(defined), texts_of(defined), None), Extension()).status == "done"
    if words[0] == "positions=randomized":  # there are no numbers past max: refused before a cell is begun
        return
    rows, status, reason, _ = reader.measure(Plan(NonOverlapping(64), texts_of(defined + 1), None), Extension())
    assert (status, len(rows)) == ("undefined", 0)
    assert f"up to {model.scheme.horizon - 1}," in reason and f"needs {model.scheme.horizon}" in reason
