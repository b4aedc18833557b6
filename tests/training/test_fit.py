"""The training loop: what it learns, what it may not depend on, and how it stops."""

import math
from itertools import islice

import numpy as np
import pytest
import torch

from lengthlab.model import GPT, GPTConfig, Sequential
from lengthlab.model.positions import Interpolated, Offset, PoSE, Randomized
from lengthlab.schemes import Dims
from lengthlab.schemes.learned import Learned
from lengthlab.schemes.nope import NoPE
from lengthlab.training import Batches, Diverged, TrainSettings, fit
from lengthlab.training.fit import _groups

VOCAB, LENGTH = 12, 8
GOOD = {
    "length": LENGTH, "steps": 30, "tokens_per_step": 64, "lr": 1e-2, "warmup": 0.1, "floor": 0.1,
    "weight_decay": 0.1, "betas": (0.9, 0.95), "clip": 1.0, "validate_every": 10, "validation_tokens": 64,
}  # fmt: skip


def model_of(scheme=NoPE, seed=0, horizon=LENGTH, **options):
    config = GPTConfig(layers=2, width=16, heads=2, **options)
    model = GPT(config, VOCAB, scheme(Dims(16, 2, 8, 2, LENGTH, horizon)))
    model.initialise(seed)
    return model


def documents(seed=0, count=20):
    """A text that can be learned: 1, 2, …, 11 round and round, from a random place."""
    starts = np.random.default_rng(seed).integers(0, 11, count)
    return [(start + np.arange(40)) % 11 + 1 for start in starts]


def validation(length=LENGTH):
    return list(islice(Batches(documents(1), 0, length, 0).batches(8), 2))


def steps(model, seed=0, data=None, held_out=None, positions=None, **changes):
    """The rows of a whole training."""
    settings = TrainSettings(**{**GOOD, **changes})
    batches = data or Batches(documents(), 0, settings.length, seed).batches(settings.batch)
    return fit(model, positions or Sequential(), batches, held_out or [], settings, seed, torch.float32)


def without_time(rows):
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def weights(model):
    return {key: value.clone() for key, value in model.state_dict().items()}


def same(one, other):
    return all(torch.equal(one[key], other[key]) for key in other)


def test_the_rate_warms_up_then_falls_as_a_cosine_to_the_floor():
    settings = TrainSettings(**{**GOOD, "steps": 100, "warmup": 0.1, "floor": 0.2, "lr": 3.0})
    rates = [settings.rate(step) for step in range(100)]
    np.testing.assert_allclose(rates[:10], 3.0 * np.arange(1, 11) / 10)
    assert rates[9] == max(rates) == 3.0
    assert rates[99] == pytest.approx(0.6)
    assert rates[54] == pytest.approx((3.0 + 0.6) / 2)  # half way between warm-up and end
    assert (np.diff(rates[9:]) < 0).all()


@pytest.mark.parametrize(("count", "warmup", "floor"), [(1, 0.0, 0.1), (2, 0.0, 0.1), (2, 1.0, 0.0), (7, 0.5, 1.0)])
def test_rates_of_short_trainings_are_positive_and_at_most_the_peak(count, warmup, floor):
    settings = TrainSettings(**{**GOOD, "steps": count, "warmup": warmup, "floor": floor})
    rates = [settings.rate(step) for step in range(count)]
    assert max(rates) == settings.lr
    assert all(rate >= floor * settings.lr for rate in rates[rates.index(settings.lr) :])
    assert settings.rate(0) > 0


@pytest.mark.parametrize("options", [{}, {"norm": "layernorm", "tied_head": False, "qk_norm": True}])
def test_only_the_models_matrices_decay(options):
    model = model_of(Learned, **options)
    decayed, rest = _groups(model, 0.1)
    assert (decayed["weight_decay"], rest["weight_decay"]) == (0.1, 0.0)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    of_decayed, of_rest = ({names[id(p)] for p in group["params"]} for group in (decayed, rest))
    assert of_decayed | of_rest == set(names.values())
    assert not of_decayed & of_rest
    assert "scheme.table" in of_rest
    assert all("norm" not in name and "scheme" not in name for name in of_decayed)
    assert all(parameter.ndim >= 2 for parameter in decayed["params"])


def test_what_a_scheme_learns_does_not_decay():
    """A table that no gradient reaches stays as it was, whatever the decay."""
    model = model_of(Learned)
    model.scheme.embed = lambda x, pos: x + 0.0 * model.scheme.table[pos]
    before = model.scheme.table.detach().clone()
    list(steps(model, steps=3, weight_decay=10.0))
    assert torch.equal(model.scheme.table, before)


def test_a_text_that_can_be_learned_is_learned():
    rows = list(steps(model_of(), held_out=validation(), steps=60))
    assert rows[0]["loss"] == pytest.approx(math.log(VOCAB), abs=0.5)
    assert rows[-1]["loss"] < 0.6 * rows[0]["loss"]
    assert rows[-1]["val_loss"] < 0.6 * rows[9]["val_loss"] or rows[-1]["val_loss"] < 0.5
    assert [row["step"] for row in rows] == list(range(1, 61))


def test_two_trainings_of_one_seed_are_equal_to_the_last_bit():
    """F27: and so a training that was killed is trained again to the same weights."""
    models = [model_of(Learned, dropout=0.2) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    first, second = (without_time(steps(model, seed=3, held_out=validation(), steps=8)) for model in models)
    assert first == second
    assert same(weights(models[0]), weights(models[1]))
    assert first != without_time(steps(model_of(Learned, dropout=0.2), seed=4, steps=8))


def test_dropout_is_not_shifted_by_what_a_scheme_drew():
    losses = []
    for draws in (0, 1000):
        model = model_of(dropout=0.3)
        torch.rand(draws)
        losses.append([row["loss"] for row in steps(model, steps=5)])
    assert losses[0] == losses[1]


def test_all_schemes_begin_with_the_same_weights():
    shared = [
        {key: value for key, value in weights(model_of(scheme, seed=7)).items() if "scheme" not in key}
        for scheme in (NoPE, Learned)
    ]
    assert same(*shared)
    assert not same(weights(model_of(seed=7)), weights(model_of(seed=8)))


@pytest.mark.parametrize("length", [4, 8, 32])
def test_a_step_has_the_same_tokens_whatever_the_length(length):
    fed = []

    def recorded(settings):
        for batch in Batches(documents(), 0, length, 0).batches(settings.batch):
            fed.append(batch[:, :-1].size)
            yield batch

    settings = TrainSettings(**{**GOOD, "length": length})
    rows = list(steps(model_of(), data=recorded(settings), length=length, steps=3))
    assert fed == [64, 64, 64]
    assert [row["tokens"] for row in rows] == [64, 128, 192]
    assert settings.batch * length == settings.tokens_per_step


def test_validation_does_not_change_training():
    models = [model_of(dropout=0.2) for _ in range(2)]
    with_it = without_time(steps(models[0], held_out=validation(), steps=10, validate_every=3))
    without = without_time(steps(models[1], steps=10))
    assert [row["step"] for row in with_it if row["val_loss"] is not None] == [3, 6, 9, 10]
    assert [{**row, "val_loss": None} for row in with_it] == without
    assert same(weights(models[0]), weights(models[1]))
    assert all(row["val_loss"] is None for row in steps(model_of(), held_out=validation(), steps=2, validate_every=0))


def test_the_loss_is_nats_per_token_and_validation_its_mean():
    model, held_out = model_of(), validation()
    (row,) = steps(model, held_out=held_out, steps=1, lr=1e-12, validate_every=1)
    expected = []
    for batch in held_out:
        tokens = torch.from_numpy(batch)
        logp = model(tokens[:, :-1], torch.arange(LENGTH)).double().log_softmax(-1)
        expected.append(-logp.gather(-1, tokens[:, 1:, None]).mean().item())
    assert row["val_loss"] == pytest.approx(np.mean(expected), abs=1e-5)


def numbers_seen(model, positions, **options):
    """The numbers of each forward of a training, and whether it was one of training."""
    seen = []
    handle = model.register_forward_pre_hook(lambda model, args: seen.append((model.training, args[1].tolist())))
    list(steps(model, positions=positions, **options))
    handle.remove()
    return seen


DRAWN = {"randomized": Randomized(max=32), "offset": Offset(max_offset=24), "pose": PoSE(max=32)}


@pytest.mark.parametrize("positions", DRAWN.values(), ids=DRAWN)
def test_every_scheme_has_the_same_draws_at_a_seed_and_another_at_every_step(positions):
    options = {"steps": 12, "held_out": validation(), "validate_every": 5, "seed": 3}
    seen = [numbers_seen(model_of(scheme, horizon=32), positions, **options) for scheme in (NoPE, Learned)]
    assert seen[0] == seen[1]
    of_training = [tuple(numbers) for training, numbers in seen[0] if training]
    assert len(of_training) == 12 and len(set(of_training)) > 8
    other = numbers_seen(model_of(), positions, **{**options, "seed": 4})
    assert of_training != [tuple(numbers) for training, numbers in other if training]
    held_out = {tuple(numbers) for training, numbers in seen[0] + other if not training}
    assert len(held_out) == 1  # one draw for all steps and seeds
    if not positions.random:
        assert held_out == {tuple(range(LENGTH))}


@pytest.mark.parametrize(
    "positions", [Randomized(max=LENGTH), Offset(max_offset=0), PoSE(max=LENGTH), Interpolated(scale=1.0)],
    ids=lambda positions: type(positions).__name__,
)  # fmt: skip
def test_without_room_training_is_that_of_sequential_numbers_bit_for_bit(positions):
    models = [model_of(Learned, dropout=0.1) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    options = {"steps": 4, "held_out": validation(), "validate_every": 2}
    rows = [
        without_time(steps(model, positions=way, **options))
        for model, way in zip(models, (None, positions), strict=True)
    ]
    assert rows[0] == rows[1]
    assert same(weights(models[0]), weights(models[1]))


def test_a_random_training_again_is_the_same_to_the_last_bit():
    models = [model_of(Learned, horizon=32) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    first, second = (without_time(steps(model, positions=Randomized(max=32), steps=6)) for model in models)
    assert first == second and same(weights(models[0]), weights(models[1]))


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_before_the_weights_are_touched(poison):
    model, rows = model_of(), []
    training = steps(model)
    rows += [next(training) for _ in range(4)]
    with torch.no_grad():
        model.norm.weight[0] = poison
    before = weights(model)
    with pytest.raises(Diverged, match="the loss became nan .* at step 5") as stop:
        rows += training
    assert "\n" not in str(stop.value)
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert all(math.isfinite(row["loss"]) and math.isfinite(row["grad_norm"]) for row in rows)
    after = weights(model)
    assert all(torch.equal(after[key].nan_to_num(7), before[key].nan_to_num(7)) for key in before)


def test_a_training_ends_ready_to_be_read():
    model = model_of()
    list(steps(model, steps=2))
    assert not model.training


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("length", 0), ("length", 8.0), ("length", True), ("steps", 0), ("steps", -1), ("steps", None),
        ("tokens_per_step", 0), ("tokens_per_step", 63), ("tokens_per_step", 4), ("tokens_per_step", "64"),
        ("lr", 0), ("lr", -1e-3), ("lr", math.nan), ("lr", math.inf), ("lr", "3e-3"), ("lr", None),
        ("warmup", -0.1), ("warmup", 1.1), ("warmup", math.nan), ("floor", 2), ("floor", -1),
        ("weight_decay", -0.1), ("weight_decay", math.inf), ("weight_decay", None), ("clip", 0), ("clip", math.inf),
        ("betas", (0.9,)), ("betas", (0.9, 1.0)), ("betas", (-0.1, 0.9)), ("betas", None), ("betas", 0.9),
        ("betas", ("0.9", 0.95)), ("validate_every", -1), ("validate_every", 0.5), ("validation_tokens", 0),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused_by_name(key, value):
    with pytest.raises(ValueError) as refusal:
        TrainSettings(**{**GOOD, key: value})
    assert str(refusal.value).startswith(f"{key}={value}")
    assert "\n" not in str(refusal.value)


def test_the_nearest_multiples_are_named():
    with pytest.raises(ValueError, match="use 56 or 64"):
        TrainSettings(**{**GOOD, "tokens_per_step": 63})
    with pytest.raises(ValueError, match="use 8$"):
        TrainSettings(**{**GOOD, "tokens_per_step": 4})
