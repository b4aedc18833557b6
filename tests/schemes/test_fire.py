"""FIRE against a float64 transcription of the paper's formula, pair by pair, and its normaliser's meaning."""

import math

import pytest
import torch

from lengthlab.schemes.fire import FIRE


@pytest.fixture
def fire(scheme_of):
    """`fire(length=64, **options)` with parameters away from their start."""

    def make(length: int = 64, **options):
        scheme = FIRE(scheme_of("nope", length=length).dims, **options)
        for parameter in scheme.parameters():
            parameter.data += 0.1 * torch.randn(parameter.shape)
        return scheme

    return make


def papers(scheme, i: int, j: int) -> list[float]:
    """b(i, j) of every head: f(ψ(i - j) / ψ(max(L, i))), f a hidden layer of ReLU, ψ(x) = log(c x + 1)."""
    c, threshold = abs(scheme.c.item()), abs(scheme.multiplier.item() * scheme.threshold)
    x = math.log(c * (i - j) + 1) / (math.log(c * max(threshold, i) + 1) + 1e-6)
    weights, biases = scheme.up.weight.flatten().tolist(), scheme.up.bias.tolist()
    hidden = [max(0.0, w * x + b) for w, b in zip(weights, biases, strict=True)]
    return [
        b + sum(w * h for w, h in zip(row, hidden, strict=True))
        for row, b in zip(scheme.out.weight.tolist(), scheme.out.bias.tolist(), strict=True)
    ]


@pytest.mark.parametrize("options", [{}, {"threshold": 7.5}, {"threshold": 512.0}, {"hidden": 5, "c": 2.0}])
@pytest.mark.parametrize("sign", [1, -1])
def test_bias_is_the_papers(fire, options, sign):
    """c and the multiplier enter by their size alone."""
    scheme = fire(**options)
    scheme.c.data *= sign
    scheme.multiplier.data *= sign
    rows, columns = [0, 1, 7, 8, 63, 64, 700, 100_000], [0, 1, 5, 60, 650, 99_999]
    bias = scheme.bias(torch.tensor(rows), torch.tensor(columns)).double()
    for row, i in enumerate(rows):
        for column, j in enumerate(columns):
            if j <= i:
                expected = torch.tensor(papers(scheme, i, j), dtype=torch.float64)
                torch.testing.assert_close(bias[:, row, column], expected, atol=2e-6, rtol=0)


def test_one_distance_is_less_far_the_longer_the_text(fire):
    scheme, distance = fire(threshold=16.0), 8
    scheme.multiplier.data.fill_(1.0)
    at = lambda i: scheme.bias(torch.tensor([i]), torch.tensor([i - distance])).flatten()  # noqa: E731
    assert torch.equal(at(8), at(16)), "at and below the threshold only the distance counts"
    assert (at(16) - at(17)).abs().max() > 1e-5
    furthest = lambda i: scheme.bias(torch.tensor([i]), torch.tensor([0])).flatten()  # noqa: E731
    torch.testing.assert_close(furthest(100), furthest(1_000_000), atol=1e-5, rtol=0)  # always f(1)


def test_a_single_query_is_the_last_row(fire):
    """Decoding with a cache: the query's own position counts, not its place in the chunk."""
    scheme, pos = fire(threshold=16.0), torch.arange(100)
    torch.testing.assert_close(scheme.bias(pos[-1:], pos), scheme.bias(pos, pos)[:, -1:], atol=1e-6, rtol=0)


def test_each_row_of_a_batch_has_its_own_positions(fire):
    scheme, pos = fire(threshold=3.0), torch.tensor([[0, 1, 5], [2, 3, 40]])
    rows = torch.stack([scheme.bias(row, row) for row in pos])
    torch.testing.assert_close(scheme.bias(pos, pos), rows, atol=1e-6, rtol=0)


def test_starts_are_the_papers_and_the_threshold_is_no_longer_than_training(scheme_of):
    scheme = scheme_of("fire")
    assert (scheme.c.item(), scheme.multiplier.item()) == (pytest.approx(0.1), 1.0)
    assert sum(p.numel() for p in scheme.parameters()) == 2 + 2 * 32 + 33 * 4
    assert [scheme_of("fire", length=length).threshold for length in (64, 512, 1024)] == [64, 512, 512]


@pytest.mark.parametrize("c", [0.1, 0.0])
def test_gradients_are_finite_where_the_distance_is_0(fire, c):
    scheme = fire()
    scheme.c.data.fill_(c)
    scheme.bias(torch.arange(3), torch.arange(3)).square().sum().backward()
    for key, parameter in scheme.named_parameters():
        assert parameter.grad.isfinite().all(), key


def test_the_threshold_learns_from_queries_before_it(fire):
    scheme = fire(threshold=20.0)
    scheme.bias(torch.tensor([30]), torch.arange(30)).sum().backward()
    assert scheme.multiplier.grad == 0
    scheme.bias(torch.tensor([10]), torch.arange(10)).sum().backward()
    assert scheme.multiplier.grad != 0


@pytest.mark.parametrize(
    ("threshold", "said"), [(None, False), (64.0, False), (8.0, False), (512.0, True), (65.0, True)]
)
def test_a_threshold_above_the_training_length_is_named(scheme_of, threshold, said):
    scheme = FIRE(scheme_of("nope", length=64).dims, threshold=threshold)
    share = math.log(0.1 * 63 + 1) / math.log(0.1 * (threshold or 64) + 1)
    sentence = (
        f"fire: training positions end at 63, below scheme.threshold={threshold}, so the MLP is given {share:.2f} "
        "at most and up to 1 in longer texts; set scheme.threshold=64, or null"
    )
    assert scheme.untrained() == [sentence] * said


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"hidden": 0}, "hidden=0: must be above 0"),
        ({"c": -0.1}, "c=-0.1: must be above 0"),
        ({"threshold": 0.0}, "threshold=0.0: must be above 0"),
        ({"threshold": math.inf}, "threshold=inf: must be above 0"),
    ],
)
def test_bad_options_are_refused(fire, options, complaint):
    with pytest.raises(ValueError, match=f"^{complaint}$"):
        fire(**options)
