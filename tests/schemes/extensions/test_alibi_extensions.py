"""ALiBi's slopes under PI and NTK, against the formulas written out in float64; heads go by rank, for any number."""

import pytest
import torch

from lengthlab.schemes.alibi import ALiBi, LearnedALiBi, SymmetricALiBi, TwoSidedALiBi, reference_slopes
from lengthlab.schemes.extensions.ntk import NTK
from lengthlab.schemes.extensions.pi import PI

KINDS = pytest.mark.parametrize("kind", [ALiBi, SymmetricALiBi, LearnedALiBi, TwoSidedALiBi])
HEADS = (1, 2, 6, 8, 12)
FACTORS = pytest.mark.parametrize("s", [1.0, 2.0, 3.7])


@pytest.fixture
def alibi_of(scheme_of):
    """`alibi_of(heads=8, kind=ALiBi, biased=None)`: the first `biased` heads, or all, have slopes."""

    def make(heads: int = 8, kind: type[ALiBi] = ALiBi, biased: int | None = None) -> ALiBi:
        return kind(scheme_of("nope", width=8 * heads, heads=heads).dims, heads=biased)

    return make


def slopes_of(scheme) -> torch.Tensor:
    """What is taken off per token of distance, read from the bias at distance 1; float64."""
    return -scheme.layer(0).bias(torch.tensor([8]), torch.tensor([7]))[:, 0, 0].double()


@KINDS
@FACTORS
def test_pi_divides_every_slope(alibi_of, kind, s):
    for heads in HEADS:
        got = slopes_of(PI(s).wrap(alibi_of(heads, kind), 9))
        expected = torch.tensor([slope / s for slope in reference_slopes(heads)], dtype=torch.float64)
        torch.testing.assert_close(got, expected, atol=0, rtol=1e-6)


@KINDS
@FACTORS
def test_ntk_spreads_the_slopes_by_rank(alibi_of, kind, s):
    for heads in HEADS:
        slopes = reference_slopes(heads)
        rank = {slope: place for place, slope in enumerate(sorted(slopes, reverse=True))}
        expected = [slope * s ** (-rank[slope] / max(1, heads - 1)) for slope in slopes]
        got = slopes_of(NTK(s).wrap(alibi_of(heads, kind), 9))
        torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64), atol=0, rtol=1e-6)


@pytest.mark.parametrize("heads", [6, 8, 12])
def test_under_ntk_the_steepest_head_stays_and_the_flattest_is_divided_by_s(alibi_of, heads):
    alibi = alibi_of(heads)
    ratio = slopes_of(NTK(4.0).wrap(alibi, 9)) / slopes_of(alibi)
    assert ratio[slopes_of(alibi).argmax()] == 1
    assert ratio[slopes_of(alibi).argmin()].item() == pytest.approx(1 / 4, rel=1e-6)
    assert len(ratio.unique()) == heads, "every head has a factor of its own"


@pytest.mark.parametrize("extension", [PI, NTK])
@KINDS
def test_a_head_without_a_slope_stays_without_and_counts_for_nothing(alibi_of, extension, kind):
    wrapped = extension(4.0).wrap(alibi_of(8, kind, biased=3), 9)
    assert torch.equal(slopes_of(wrapped)[3:], torch.zeros(5).double())
    alone = extension(4.0).wrap(alibi_of(3, kind), 9)
    torch.testing.assert_close(slopes_of(wrapped)[:3], slopes_of(alone), atol=0, rtol=1e-6)


@pytest.mark.parametrize("extension", [PI, NTK])
@KINDS
def test_at_one_the_bias_is_alibis_bit_for_bit(alibi_of, extension, kind):
    for heads in HEADS:
        alibi, pos = alibi_of(heads, kind), torch.arange(70) * 13
        assert torch.equal(extension(1.0).wrap(alibi, 9).layer(0).bias(pos, pos), alibi.bias(pos, pos)), heads


def test_pi_gives_distance_sd_what_alibi_gives_d(alibi_of):
    alibi, pos = alibi_of(), torch.arange(70)
    assert torch.equal(PI(4.0).wrap(alibi, 9).layer(0).bias(4 * pos, 4 * pos), alibi.bias(pos, pos))


def test_both_sides_of_a_two_sided_alibi_are_rescaled(alibi_of):
    alibi, pos = alibi_of(kind=TwoSidedALiBi), torch.arange(9)
    with torch.no_grad():
        alibi.log_slopes[1] += 1.0
    assert torch.equal(PI(2.0).wrap(alibi, 9).layer(0).bias(pos, pos), alibi.bias(pos, pos) / 2)


def test_the_wrapped_alibi_is_still_a_function_of_distance(alibi_of):
    """So that what is fast for a DistanceBias stays so."""
    from lengthlab.schemes import DistanceBias

    changed, distance = NTK(4.0).wrap(alibi_of(), 9).layer(0), torch.arange(5.0)
    assert isinstance(changed, DistanceBias)
    assert changed.of_distance(distance).shape == (8, 5) and changed.of_distance(distance.view(1, 5)).ndim == 3


def test_a_learned_slope_hears_a_gradient_through_the_extension(alibi_of):
    alibi = alibi_of(kind=LearnedALiBi)
    PI(2.0).wrap(alibi, 9).layer(0).bias(torch.arange(5), torch.arange(5)).sum().backward()
    assert alibi.log_slopes.grad.abs().min() > 0
