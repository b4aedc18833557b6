"""ALiBi's slopes against the published lists and Bloom's, and its bias against -slope x distance."""

import pytest
import torch

from lengthlab.schemes.alibi import reference_slopes

PUBLISHED = {
    6: [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8],
    8: [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256],
    12: [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256, 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5],
}


@pytest.mark.parametrize("heads", PUBLISHED)
def test_slopes_as_published(heads):
    assert reference_slopes(heads) == pytest.approx(PUBLISHED[heads], rel=1e-12)


@pytest.mark.parametrize("heads", [1, 2, 4, 6, 8, 10, 12, 40])
def test_slopes_as_bloom_has_them(heads):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    per_key = build_alibi_tensor(torch.ones(1, 2, dtype=torch.long), heads, torch.float32)
    torch.testing.assert_close(torch.tensor(reference_slopes(heads)), per_key[:, 0, 1], atol=0, rtol=1e-6)


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


def test_nothing_is_learned(scheme_of):
    assert not scheme_of("alibi").state_dict()
