"""Attention against a softmax written out in float64: with and without a bias, for fewer queries than keys, in bf16."""

import pytest
import torch

from lengthlab.model.attention import attend
from lengthlab.model.sight import causal as causal_mask

B, H, S, K = 2, 4, 11, 8


def written_out(q, k, v, bias):
    """softmax(q·k / sqrt(K) + bias) v over the keys that a query may see, one query at a time, float64."""
    q, k, v = q.double(), k.double(), v.double()
    share, past = q.shape[1] // k.shape[1], k.shape[2] - q.shape[2]
    out = torch.empty_like(q)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            for i in range(q.shape[2]):
                seen = past + i + 1
                logits = k[b, h // share, :seen] @ q[b, h, i] / K**0.5
                if bias is not None:
                    logits = logits + (bias[b] if bias.ndim == 4 else bias)[h, i, :seen].double()
                weights = logits.exp() / logits.exp().sum()
                out[b, h, i] = weights @ v[b, h // share, :seen]
    return out


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("queries", [S, 4, 1])
@pytest.mark.parametrize("biased", ["none", "one", "batched"])
def test_attention_is_the_causal_softmax(groups, queries, biased):
    q, k, v = torch.randn(B, H, queries, K), torch.randn(B, groups, S, K), torch.randn(B, groups, S, K)
    bias = {"none": None, "one": torch.randn(H, queries, S), "batched": torch.randn(B, H, queries, S)}[biased]
    torch.testing.assert_close(attend(q, k, v, bias).double(), written_out(q, k, v, bias), atol=1e-6, rtol=0)


@pytest.mark.parametrize("queries", [S, 4])
def test_a_bias_of_zeros_is_no_bias(queries):
    q, k, v = torch.randn(B, H, queries, K), torch.randn(B, H, S, K), torch.randn(B, H, S, K)
    torch.testing.assert_close(attend(q, k, v, torch.zeros(H, queries, S)), attend(q, k, v, None), atol=1e-6, rtol=0)


def test_the_mask_is_the_models_own():
    """A bias that favours the future opens nothing: a scheme's bias never stands in for the mask."""
    q, k, v = torch.randn(B, H, S, K), torch.randn(B, H, S, K), torch.randn(B, H, S, K)
    favours = 1e4 * torch.ones(H, S, S).triu(1)
    torch.testing.assert_close(attend(q, k, v, favours), attend(q, k, v, None), atol=1e-6, rtol=0)


def test_mask_is_aligned_with_the_last_key():
    expected = [[True, True, True, False], [True, True, True, True]]
    assert causal_mask(2, 4, torch.device("cpu")).tolist() == expected


@pytest.mark.parametrize("autocast", [False, True])
def test_a_float32_bias_serves_bfloat16_queries(autocast):
    """Biases of far keys differ by less than bfloat16 can tell; attention still sees the difference."""
    q, k, v = (torch.randn(B, H, 64, K).bfloat16() for _ in range(3))
    bias = -0.5 * (8192.0 - torch.arange(64)).expand(H, 64, 64)
    exact = attend(q.float(), k.float(), v.float(), bias)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        got = attend(q, k, v, bias)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.float(), exact, atol=2e-2, rtol=1e-2)
    rounded = attend(q.float(), k.float(), v.float(), bias.bfloat16().float())
    assert (rounded - exact).abs().max() > 0.3


@pytest.mark.parametrize("queries", [S, 4])
def test_gradients_reach_the_bias(queries):
    q, k, v = (torch.randn(B, H, size, K, dtype=torch.float64) for size in (queries, S, S))
    bias = torch.randn(H, queries, S, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda bias: attend(q, k, v, bias).sum(0), bias)
    attend(q, k, v, bias).square().sum().backward()
    unseen = ~causal_mask(queries, S, torch.device("cpu"))
    assert (bias.grad[:, unseen] == 0).all() and (bias.grad != 0).any()
