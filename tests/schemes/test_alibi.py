"""ALiBi's slopes against the published lists, Bloom's, MPT's and x-transformers', and its bias against the formula."""

import math

import pytest
import torch

from lengthlab.schemes.alibi import (
    ALiBi,
    LearnedALiBi,
    SymmetricALiBi,
    TwoSidedALiBi,
    geometric_slopes,
    reference_slopes,
)

PUBLISHED = {
    6: [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8],
    8: [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256],
    12: [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256, 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5],
}
LEARNED = pytest.mark.parametrize("cls", [LearnedALiBi, TwoSidedALiBi])
CLASSES = pytest.mark.parametrize("cls", [ALiBi, SymmetricALiBi, LearnedALiBi, TwoSidedALiBi])
FAR = torch.tensor([0.0, 1, 2, 63, 64, 257, 4096, 1_000_000])


@pytest.fixture
def dims(scheme_of):
    """Of a model with 12 heads: no power of two."""
    return scheme_of("nope", width=96, heads=12).dims


@pytest.mark.parametrize("heads", PUBLISHED)
def test_slopes_as_published(heads):
    assert reference_slopes(heads) == pytest.approx(PUBLISHED[heads], rel=1e-12)


@pytest.mark.parametrize("heads", [1, 2, 4, 6, 8, 10, 12, 40])
def test_slopes_as_bloom_has_them(heads):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    per_key = build_alibi_tensor(torch.ones(1, 2, dtype=torch.long), heads, torch.float32)
    torch.testing.assert_close(torch.tensor(reference_slopes(heads)), per_key[:, 0, 1], atol=0, rtol=1e-6)


@pytest.mark.parametrize("bias_max", [4.0, 8.0, 11.0])
@pytest.mark.parametrize("heads", [1, 2, 4, 6, 8, 10, 12, 40])
def test_slopes_as_mpt_has_them(heads, bias_max):
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    per_key = build_mpt_alibi_tensor(heads, 2, bias_max)  # of keys 1 and 0 tokens away
    torch.testing.assert_close(-torch.tensor(reference_slopes(heads, bias_max)), per_key[:, 0, 0], atol=0, rtol=1e-6)


@pytest.mark.parametrize("biased", [1, 3, 4, 7, 12])
def test_bias_is_x_transformers(dims, biased):
    """Theirs is symmetric, and its first `biased` heads of 12 are those of a model with `biased` heads."""
    theirs = pytest.importorskip("x_transformers.x_transformers").AlibiPositionalBias(biased, total_heads=12)
    pos, past = torch.arange(40), torch.arange(40)[:, None] >= torch.arange(40)
    for cls in (SymmetricALiBi, LearnedALiBi, TwoSidedALiBi):
        bias = cls(dims, heads=biased).bias(pos, pos)
        torch.testing.assert_close(bias, theirs.forward_custom_pos(pos), atol=0, rtol=1e-6)
    causal = ALiBi(dims, heads=biased).bias(pos, pos)
    torch.testing.assert_close(causal[:, past], theirs(40, 40)[:, past], atol=0, rtol=1e-6)


@pytest.mark.parametrize("heads", [1, 2, 4, 8, 16, 64])
@pytest.mark.parametrize("bias_max", [8.0, 5.5])
def test_geometric_is_the_reference_for_powers_of_two_alone(heads, bias_max):
    assert geometric_slopes(heads, bias_max) == reference_slopes(heads, bias_max)
    assert geometric_slopes(heads + 5, bias_max) != reference_slopes(heads + 5, bias_max)


def test_geometric_is_the_papers_text():
    """ "The geometric sequence that starts at 2^(-8/n) and uses that same value as its ratio"."""
    slopes, ratio = geometric_slopes(12), 2 ** (-8 / 12)
    assert slopes == pytest.approx([ratio * ratio**i for i in range(12)], rel=1e-12)


@CLASSES
def test_null_is_reference_8_and_all_heads(dims, cls):
    named = cls(dims, slopes="reference", bias_max=8.0, heads=12).of_distance(FAR)
    assert torch.equal(cls(dims).of_distance(FAR), named)
    for options in ({"slopes": "geometric"}, {"bias_max": 4.0}, {"heads": 11}):
        assert not torch.equal(cls(dims, **options).of_distance(FAR), named)


@CLASSES
def test_a_list_is_the_slopes_of_the_first_heads(dims, cls):
    bias = cls(dims, slopes=[0.5, 3.0, 0.25], heads=3).of_distance(FAR)
    expected = torch.zeros(12, len(FAR))
    expected[:3] = -torch.tensor([0.5, 3.0, 0.25])[:, None] * FAR
    torch.testing.assert_close(bias, expected, atol=0, rtol=1e-6)


@CLASSES
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"slopes": "sorted"}, r"slopes=sorted: must be reference, geometric, or a list of 12 numbers"),
        ({"slopes": [0.5] * 11}, r"slopes=\[0.5, .*\]: must be 12 numbers above 0, one per biased head"),
        ({"slopes": [0.5, 0.0], "heads": 2}, r"slopes=\[0.5, 0.0\]: must be 2 numbers above 0, .*"),
        ({"slopes": [0.5, -1.0], "heads": 2}, r"slopes=.*: must be 2 numbers above 0, .*"),
        ({"slopes": [0.5, math.inf], "heads": 2}, r"slopes=.*: must be 2 numbers above 0, .*"),
        ({"slopes": [], "heads": 2}, r"slopes=\[\]: must be 2 numbers above 0, .*"),
        ({"slopes": [0.5], "heads": 1, "bias_max": 8.0}, r"bias_max=8.0: must be null where slopes is a list"),
        ({"bias_max": 0.0}, r"bias_max=0.0: must be above 0"),
        ({"heads": 0}, r"heads=0: must be 1 to 12, or null for all"),
        ({"heads": 13}, r"heads=13: must be 1 to 12, or null for all"),
    ],
)
def test_bad_options_are_refused(dims, cls, options, complaint):
    with pytest.raises(ValueError, match=rf"^{complaint}$"):
        cls(dims, **options)


def test_bias_is_minus_slope_times_distance(scheme_of):
    bias = scheme_of("alibi").bias(torch.tensor([0, 7]), torch.tensor([0, 4, 7]))
    slopes = torch.tensor([1 / 4, 1 / 16, 1 / 64, 1 / 256])
    assert torch.equal(bias[:, 1], -slopes[:, None] * torch.tensor([7, 3, 0]))
    assert torch.equal(bias[:, 0, 0], torch.zeros(4))


def test_each_row_of_a_batch_has_its_own_distances(scheme_of):
    alibi, pos = scheme_of("alibi"), torch.tensor([[0, 1, 5], [2, 3, 4]])
    rows = torch.stack([alibi.bias(row, row) for row in pos])
    assert torch.equal(alibi.bias(pos, pos), rows)


@pytest.mark.parametrize("query", [8192, 1_000_000])
def test_the_nearest_keys_are_told_apart_far_from_the_start(scheme_of, query):
    alibi = scheme_of("alibi", width=64, heads=8).bfloat16()
    bias = alibi.bias(torch.tensor([query]), torch.arange(query - 63, query + 1))
    assert bias.dtype == torch.float32
    assert [len(head.unique()) for head in bias.flatten(1)] == [64] * 8
    assert torch.equal(bias, alibi.bias(torch.tensor([63]), torch.arange(64)))


@pytest.mark.parametrize("name", ["alibi", "alibi_symmetric"])
def test_nothing_is_learned(scheme_of, name):
    assert not scheme_of(name).state_dict()


def test_symmetric_is_the_same_on_both_sides_and_alibi_in_the_past(dims):
    symmetric = SymmetricALiBi(dims)
    assert torch.equal(symmetric.of_distance(FAR), ALiBi(dims).of_distance(FAR))
    assert torch.equal(symmetric.of_distance(-FAR), symmetric.of_distance(FAR))


@LEARNED
def test_learned_starts_as_symmetric_alibi(dims, cls):
    both = torch.cat((-FAR, FAR))
    torch.testing.assert_close(cls(dims).of_distance(both), SymmetricALiBi(dims).of_distance(both), atol=0, rtol=1e-6)


def test_a_slope_is_learned_by_its_logarithm_and_head(dims):
    learned = LearnedALiBi(dims, heads=5)
    assert [tuple(p.shape) for p in learned.parameters()] == [(5,)]
    before = learned.of_distance(FAR)
    with torch.no_grad():
        learned.log_slopes[2] += math.log(3)
    factors = torch.tensor([1.0, 1, 3, *[1.0] * 9])[:, None]
    torch.testing.assert_close(learned.of_distance(FAR), before * factors, atol=0, rtol=1e-6)
    learned.of_distance(torch.tensor(7.0)).sum().backward()
    torch.testing.assert_close(learned.log_slopes.grad, -7 * learned.log_slopes.detach().exp(), atol=0, rtol=1e-6)


def test_two_sides_have_slopes_of_their_own(dims):
    """A direct transcription of option 3 of the authors' issue 5, left slopes in the past and right ones ahead."""
    scheme = TwoSidedALiBi(dims, heads=4)
    with torch.no_grad():
        scheme.log_slopes += torch.randn(2, 4)
    left, right = scheme.log_slopes.detach().exp()
    bias, pos = scheme.bias(torch.arange(9), torch.arange(9)), torch.arange(9.0)
    away = (pos[:, None] - pos).abs()
    expected = -(left[:, None, None] * away.tril() + right[:, None, None] * away.triu())
    torch.testing.assert_close(bias[:4], expected, atol=0, rtol=1e-6)
    assert torch.equal(bias[4:], torch.zeros(8, 9, 9))


@pytest.mark.parametrize(("side", "trained"), [(1.0, [True, False]), (-1.0, [False, True])])
def test_each_side_trains_its_own_slopes(dims, side, trained):
    scheme = TwoSidedALiBi(dims)
    scheme.of_distance(side * torch.arange(5)).sum().backward()
    assert (scheme.log_slopes.grad != 0).all(1).tolist() == trained
    assert (scheme.log_slopes.grad != 0).any(1).tolist() == trained


@CLASSES
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 1, 3)])
def test_distances_of_any_shape(dims, cls, shape):
    distance = torch.randint(-9, 50, shape).float()
    bias = cls(dims).of_distance(distance)
    assert bias.shape == (12, *shape) and bias.dtype == torch.float32
    each = [cls(dims).of_distance(one)[:, None] for one in distance.flatten()]
    assert not each or torch.equal(bias.reshape(12, -1), torch.cat(each, dim=1))
