"""Which number each token carries: what every way of counting promises, and that every scheme works with any."""

from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path

import pytest
import torch

from lengthlab.model import Cache
from lengthlab.model.positions import Interpolated, Offset, PoSE, Positions, Randomized, Sequential, generator_of

SCHEMES = sorted(path.stem for path in (Path(__file__).parents[2] / "conf" / "scheme").glob("*.yaml"))
LENGTH = 23
WAYS = {
    "sequential": Sequential(),
    "randomized": Randomized(max=40),
    "interpolated": Interpolated(scale=3.0),
    "offset": Offset(max_offset=17),
    "pose": PoSE(max=40),
}
each_way = pytest.mark.parametrize("positions", WAYS.values(), ids=WAYS)
SEQUENTIAL_AT_HEART = {
    "randomized": Randomized(max=LENGTH),
    "interpolated": Interpolated(scale=1.0),
    "offset": Offset(max_offset=0),
    "pose": PoSE(max=LENGTH),
}


def training_draws(positions, length, count=400):
    generator = generator_of(7)
    return [positions.training(length, generator) for _ in range(count)]


@pytest.mark.parametrize("length", [1, 64])
def test_sequential_numbers_and_horizon(length):
    numbers = Sequential().numbers(length)
    assert numbers.tolist() == list(range(length))
    assert Sequential().horizon(length) == numbers.max() + 1


@each_way
@pytest.mark.parametrize("length", [1, 2, 17, 40])
def test_numbers_increase_from_0_on_and_training_stays_below_its_horizon(positions, length):
    for draw in [*training_draws(positions, length, 50), positions.numbers(length, generator_of(0))]:
        assert draw.shape == (length,) and draw.min() >= 0
        assert (draw.diff() > 0).all()
        assert draw.dtype in (torch.int64, torch.float32)
    assert all(draw.max().ceil() < positions.horizon(length) for draw in training_draws(positions, length, 50))


@each_way
def test_a_horizon_is_not_larger_than_need_be(positions):
    assert max(draw.max().ceil() for draw in training_draws(positions, 8)) == positions.horizon(8) - 1


@pytest.mark.parametrize("positions", SEQUENTIAL_AT_HEART.values(), ids=SEQUENTIAL_AT_HEART)
def test_without_room_every_way_is_sequential(positions):
    for numbers in (positions.numbers(LENGTH, generator_of(1)), positions.training(LENGTH, generator_of(2))):
        assert torch.equal(numbers, torch.arange(LENGTH).to(numbers.dtype))
    assert positions.horizon(LENGTH) == LENGTH


def test_a_random_subset_is_any_subset_as_likely_as_any_other():
    """Counted against the list of all subsets."""
    draws, generator = 5000, generator_of(3)
    counts = Counter(tuple(Randomized(max=6).numbers(3, generator).tolist()) for _ in range(draws))
    subsets = list(combinations(range(6), 3))
    assert counts.keys() == set(subsets)
    p = 1 / len(subsets)
    assert all(abs(count - draws * p) < 5 * (draws * p * (1 - p)) ** 0.5 for count in counts.values())


def test_randomized_draws_alike_in_training_and_evaluation():
    positions = Randomized(max=100)
    assert positions.random
    assert torch.equal(positions.numbers(9, generator_of(4)), positions.training(9, generator_of(4)))


def test_an_offset_is_any_start_in_training_and_none_in_evaluation():
    positions = Offset(max_offset=5)
    assert {tuple(draw.tolist()) for draw in training_draws(positions, 3)} == {(k, k + 1, k + 2) for k in range(6)}
    assert not positions.random and positions.numbers(3, generator_of(0)).tolist() == [0, 1, 2]


def test_pose_is_two_chunks_and_one_skip():
    """Written down from the authors' code: first chunk of 1 to (L + 1) // 2 tokens, skip of 0 to max - L."""
    expected = {
        (*range(first), *range(first + skip, 5 + skip)) for first in range(1, 4) for skip in range(9 - 5 + 1)
    }  # fmt: skip
    positions = PoSE(max=9)
    draws = {tuple(draw.tolist()) for draw in training_draws(positions, 5)}
    assert draws == expected
    distances = {b - a for draw in draws for a, b in combinations(draw, 2)}
    assert distances == set(range(1, 9))
    assert not positions.random and positions.numbers(50, generator_of(0)).tolist() == list(range(50))


def test_interpolated_numbers_are_float32_whatever_the_default_dtype():
    numbers = Interpolated(scale=4.0).numbers(4097)
    assert numbers.dtype == torch.float32
    assert torch.equal(numbers.double(), torch.arange(4097).double() / 4)


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (Randomized, {"max": 0}), (Randomized, {"max": -3}), (PoSE, {"max": 0}), (Offset, {"max_offset": -1}),
        (Interpolated, {"scale": 0.0}), (Interpolated, {"scale": -1.0}), (Interpolated, {"scale": float("nan")}),
        (Interpolated, {"scale": float("inf")}),
    ],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused_in_one_line(make, wrong):
    (key, value), *_ = wrong.items()
    with pytest.raises(ValueError) as refusal:
        make(**wrong)
    assert str(refusal.value).startswith(f"{key}={value}: must be ") and "\n" not in str(refusal.value)


def test_more_tokens_than_numbers_are_refused_never_wrapped():
    """F24."""
    for ask in (Randomized(max=8).numbers, Randomized(max=8).training, PoSE(max=8).training):
        assert len(ask(8)) == 8
        with pytest.raises(ValueError, match="^max=8: .*at least 9"):
            ask(9)


def test_null_is_the_authors_2048():
    assert Randomized().max == PoSE().max == Randomized(max=None).horizon(4) == 2048


def test_a_draw_hangs_on_every_seed_and_on_nothing_else():
    draw = lambda *seeds: Randomized(max=1000).numbers(20, generator_of(*seeds)).tolist()  # noqa: E731
    first = draw(0, 1, 64)
    torch.rand(3)
    assert draw(0, 1, 64) == first
    others = [draw(*seeds) for seeds in ((1, 1, 64), (0, 0, 64), (0, 1, 65), (0, 1), (2**32, 1, 64), (1, 0, 64))]
    assert len({tuple(numbers) for numbers in [first, *others]}) == len(others) + 1


def test_an_interface_without_an_answer_says_what_is_missing():
    for ask in (Positions().numbers, Positions().training, Positions().horizon):
        with pytest.raises(TypeError, match="define"):
            ask(3)


@pytest.fixture(params=SCHEMES)
def model_for(request, config_of, model_of, monkeypatch):
    """`model_for(positions)`: a scheme's model whose horizon is the positions'."""

    def make(positions):
        monkeypatch.setattr("lengthlab.commands.build.positions_of", lambda config: positions)
        return model_of(request.param, length=LENGTH)

    return make


@each_way
def test_reading_in_pieces_equals_reading_whole(positions, model_for):
    model, tokens = model_for(positions), torch.randint(97, (2, LENGTH))
    model.scheme.extend(LENGTH)
    pos = positions.training(LENGTH, generator_of(1))  # what evaluation numbers otherwise, it numbers in sequence
    whole = model(tokens, pos)
    assert whole.isfinite().all()
    cuts, cache = [0, 1, 2, 7, 8, 9, 14, 19, 21, LENGTH - 1, LENGTH], Cache(model.config.layers)
    pieces = [model(tokens[:, start:stop], pos[start:stop], cache) for start, stop in pairwise(cuts)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-5, rtol=0)


def test_interpolated_at_scale_1_is_sequential_bit_for_bit(model_for):
    positions, tokens = Interpolated(scale=1.0), torch.randint(97, (2, LENGTH))
    model = model_for(positions)
    model.scheme.extend(LENGTH)
    assert torch.equal(model(tokens, positions.numbers(LENGTH)), model(tokens, torch.arange(LENGTH)))
