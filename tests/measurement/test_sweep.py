"""The sweep on stub models whose loss is known beforehand: nothing lost, nothing counted twice, nothing invented."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lengthlab.data import Corpus, Recipe, load_or_train, vocabulary
from lengthlab.measurement import NonOverlapping, Plan, SameTarget, Sliding, Text, sweep
from lengthlab.measurement.ledger import PART
from lengthlab.model import Sequential
from lengthlab.schemes import Dims, Scheme
from lengthlab.schemes.extensions import Extension

quick = settings(max_examples=60, derandomize=True, deadline=None)
BOS = 0
NEVER = -1e4  # log-probability of a token that no text has


class Stub(nn.Module):
    """What the Reader uses of a GPT; `logits_of` gives (B,Q,V) from the tokens (B,Q) and their contexts (Q)."""

    def __init__(self, vocab, logits_of):
        super().__init__()
        self.embedding, self.vocab, self.logits_of = nn.Embedding(vocab, 1), vocab, logits_of
        self.scheme = Scheme(Dims(width=4, heads=1, head_size=4, layers=1, train_length=16, horizon=16))
        self.fed = []

    def hidden(self, tokens, pos):
        assert pos.tolist() == list(range(tokens.shape[1]))
        self.fed += tokens.tolist()
        return self.logits_of(tokens, pos + 1)

    def logits(self, states):
        return states


def unigram(nll):
    """A model that ignores its input: token i costs nll[i] nats (the rest of the probability is on BOS)."""
    rest = np.log(1 - np.exp(-np.array(nll)).sum())
    logits = torch.tensor([rest, *(-n for n in nll)], dtype=torch.float32)
    return Stub(len(logits), lambda tokens, context: logits.expand(*tokens.shape, -1))


def counter(vocab, nll):
    """For the text 1, 2, 3, …: the next token costs nll(target, context) nats, any but BOS else is impossible."""

    def logits_of(tokens, context):
        cost = nll(tokens + 1, context).double().expand(tokens.shape)
        logits = torch.full((*tokens.shape, vocab), NEVER, dtype=torch.float64)
        logits.scatter_(2, tokens.unsqueeze(-1) + 1, -cost.unsqueeze(-1))
        logits[..., BOS] = torch.log1p(-torch.exp(-cost))
        return logits

    return Stub(vocab, logits_of)


def counting(*sizes):
    return [Text(f"d{i}", np.arange(1, size + 1, dtype=np.uint16)) for i, size in enumerate(sizes)]


def measured(model, protocol, texts, cut=None, train_length=16, tokens_per_batch=2048):
    reader = sweep.Reader(
        model, Sequential(), BOS, np.ones(model.vocab, dtype=np.int64), train_length,
        tokens_per_batch=tokens_per_batch,
    )  # fmt: skip
    return reader.measure(Plan(protocol, texts, cut), Extension())


def rows_of(*args, **options):
    rows, status, reason, _ = measured(*args, **options)
    assert (status, reason) == ("done", None)
    return rows


def mean(rows):
    return rows.nll.sum() / rows.targets.sum()


protocols = st.one_of(
    st.integers(1, 40).map(NonOverlapping),
    st.integers(1, 40).flatmap(lambda length: st.builds(Sliding, st.just(length), st.integers(1, length))),
)
documents = st.lists(st.lists(st.integers(1, 4), max_size=70), min_size=1, max_size=4)


@quick
@given(protocols, documents, st.sampled_from([1, 50, 4096]))
def test_every_target_counts_once_and_at_its_own_cost(protocol, documents, tokens_per_batch):
    nll = np.array([np.nan, 1.25, 2.5, 3.0, 4.5])
    texts = [Text(f"d{i}", np.array(tokens, dtype=np.uint16)) for i, tokens in enumerate(documents)]
    rows = rows_of(unigram(nll[1:]), protocol, texts, tokens_per_batch=tokens_per_batch)
    sums = rows.groupby("document")[["targets", "nll"]].sum()
    for text in texts:
        if len(text.tokens):
            assert sums.targets[text.id] == len(text.tokens)
            assert sums.nll[text.id] == pytest.approx(nll[text.tokens].sum(), abs=1e-5)
    assert rows.targets.sum() == sum(map(len, documents))


@pytest.mark.parametrize("protocol", [NonOverlapping(40), Sliding(40, 9), SameTarget(40, 48, 8)])
def test_context_position_and_document_come_back_in_their_own_bins(protocol):
    texts = counting(200, 0, 97, 30)
    context = rows_of(counter(202, lambda target, context: 1 + context / 50), protocol, texts)
    np.testing.assert_allclose(context.nll / context.targets, 1 + context.context / 50, rtol=1e-5)
    position = rows_of(counter(202, lambda target, context: 1 + target / 50), protocol, texts)
    exact = position[position.position < 64]
    np.testing.assert_allclose(exact.nll / exact.targets, 1 + exact.position / 50, rtol=1e-5)
    constant = {"a": 1.0, "b": 2.5, "c": 3.5}
    texts = [Text(name, np.full(100, i + 1)) for i, name in enumerate(constant)]
    rows = rows_of(unigram([*constant.values()]), protocol, texts)
    np.testing.assert_allclose(rows.nll / rows.targets, rows.document.map(constant), rtol=1e-5)


def test_windows_weigh_what_they_score():
    """F1: the mean over windows is another number."""
    a, b = 5.0, 1.0

    def logits_of(tokens, context):  # a in the window that begins with BOS, b elsewhere
        cost = torch.where(tokens[:, :1] == BOS, a, b).expand(tokens.shape)
        return torch.stack((torch.log1p(-torch.exp(-cost)), -cost), dim=-1)

    plan = Plan(Sliding(2048, 256), [Text("d", np.ones(10_000, dtype=np.uint16))], None)
    rows = rows_of(Stub(2, logits_of), plan.protocol, plan.texts)
    right = (2048 * a + (10_000 - 2048) * b) / 10_000
    assert mean(rows) == pytest.approx(right, rel=1e-6)
    of_windows = np.mean([a if window.start == 0 else b for _, window in plan.windows])
    assert abs(of_windows - right) > 0.5


@pytest.mark.parametrize("protocol", [NonOverlapping(1024), Sliding(1024, 1024)])
def test_no_token_is_lost_where_the_stride_is_the_window(protocol):
    """F2: 10,000 tokens after BOS are 10,000 targets."""
    rows = rows_of(unigram([1.0]), protocol, [Text("d", np.ones(10_000, dtype=np.uint16))])
    assert rows.targets.sum() == 10_000
    assert rows.nll.sum() == pytest.approx(10_000, rel=1e-6)


@pytest.mark.parametrize("protocol", [NonOverlapping(12), Sliding(12, 5), SameTarget(12, 24, 3), NonOverlapping(500)])
def test_what_is_fed_is_the_stream_and_bos_only_its_first_token(protocol):
    """F13, F25: the ledger's numbers are those of the tensors that the model saw."""
    texts = counting(61, 0, 30, 24)
    model = counter(80, lambda target, context: torch.ones(()))
    rows_of(model, protocol, texts)
    plan = Plan(protocol, texts, None)
    streams = [[BOS, *text.tokens.tolist()] for text in texts]
    expected = [streams[index][window.start : window.stop] for index, window in plan.windows]
    assert sorted(model.fed) == sorted(expected)
    assert all(BOS not in fed[1:] for fed in model.fed)
    assert sum(fed[0] == BOS for fed in model.fed) == sum(window.start == 0 for _, window in plan.windows)
    account = plan.account()
    assert account["longest_context"] == max(map(len, model.fed))
    assert account["tokens_fed"] == sum(map(len, model.fed))


def test_only_the_same_targets_make_a_fair_curve():
    """F14: difficulty rises along the text, and the model only misses what it could copy from 4 tokens before."""
    texts, lengths = counting(300, 260), (16, 32, 64, 128)
    model = counter(302, lambda target, context: 1 + target / 100 + 3.0 * (context < 4))
    same = [SameTarget(length, 128, 4) for length in lengths]
    flat = [mean(rows_of(model, protocol, texts)) for protocol in same]
    np.testing.assert_allclose(flat, flat[0], rtol=1e-6)
    assert len({Plan(protocol, texts, None).account()["target_hash"] for protocol in same}) == 1
    whole = [mean(rows_of(model, NonOverlapping(length), texts)) for length in lengths]
    assert (np.diff(whole) < -0.05).all()  # fewer early tokens
    beginnings = [mean(rows_of(model, NonOverlapping(length), texts, cut=length)) for length in lengths]
    assert np.ptp(beginnings) > 0.2  # other text at every length
    assert len({Plan(NonOverlapping(n), texts, n).account()["target_hash"] for n in lengths}) == len(lengths)


@pytest.mark.parametrize("length", [1, 7, 64])
def test_no_target_outside_the_text(length):
    """F15: any token that is not in the text costs 10,000 nats."""
    model = counter(90, lambda target, context: torch.full((), 2.0))
    rows = rows_of(model, NonOverlapping(length), counting(64, 63, 1), cut=64)
    np.testing.assert_allclose(rows.nll, 2.0 * rows.targets, rtol=1e-6)


@pytest.mark.parametrize("train_length", [16, 100, 1500])
def test_rows_are_the_documented_bins(train_length):
    protocol, size = Sliding(1100, 700), 2500
    rows = rows_of(counter(size + 2, lambda t, c: 1 + t / size), protocol, counting(size), train_length=train_length)
    edges = {*range(1, 65), *(int(64 * 2 ** (k / 16)) for k in range(100)), train_length, train_length + 1}
    ordered = sorted(edges)
    lower = lambda value: ordered[int(np.searchsorted(ordered, value, "right")) - 1]  # noqa: E731
    expected = pd.Series(0.0, index=pd.MultiIndex.from_tuples([], names=["part", "position", "context"]))
    for window in protocol.windows(size):
        for target in range(window.first, window.stop + 1):
            part = (target - 1) // PART
            key = part, max(lower(target), part * PART + 1), lower(target - window.start)
            expected[key] = expected.get(key, 0.0) + 1 + target / size
    found = rows.set_index(["part", "position", "context"]).nll
    pd.testing.assert_series_equal(found, expected.sort_index(), check_names=False, rtol=1e-5)


def test_the_head_may_score_in_chunks(monkeypatch):
    model, texts = counter(102, lambda target, context: 1 + target / 100 + context / 10), counting(100, 33)
    whole = rows_of(model, Sliding(20, 7), texts)
    monkeypatch.setattr(sweep, "LOGITS", 500)  # under 5 targets at once
    pd.testing.assert_frame_equal(rows_of(model, Sliding(20, 7), texts), whole)


def test_progress_hears_of_every_token_fed():
    plan, heard = Plan(Sliding(16, 4), counting(50, 9), None), []
    model = counter(52, lambda target, context: torch.ones(()))
    reader = sweep.Reader(model, Sequential(), BOS, np.ones(52, dtype=np.int64), 16)
    reader.measure(plan, Extension(), heard.append)
    assert sum(heard) == plan.account()["tokens_fed"]


def test_bytes_are_those_of_the_scored_text(tmp_path):
    text = "Naïve café — 你好 👍 and a good deal of plain text, twice over: plain text, plain text.\n"
    (tmp_path / "c.txt").write_text(text * 3, encoding="utf-8")
    tokenizer = load_or_train(Recipe("bytes"), Corpus("c", [str(tmp_path / "c.txt")]), tmp_path)
    words, tokens = vocabulary(tokenizer), np.array(tokenizer.encode(text).ids)
    model = Stub(words.size, lambda tokens, context: torch.zeros(*tokens.shape, words.size))
    reader = sweep.Reader(model, Sequential(), words.bos, words.token_bytes, 16)
    for cut in (None, 50):
        rows, *_ = reader.measure(Plan(NonOverlapping(16), [Text("c", tokens)], cut), Extension())
        scored = tokenizer.decode(tokens[: cut or len(tokens)].tolist())
        assert rows.bytes.sum() == len(scored.encode())
        assert rows.nll.sum() == pytest.approx(rows.targets.sum() * np.log(words.size), rel=1e-6)
