"""Attention against a softmax written out in float64: with and without a bias, for fewer queries than keys, in bf16."""

import pytest
import torch

from lengthlab.model import attention
from lengthlab.model.attention import attend, attend_blocks, attend_distances
from lengthlab.model.sight import Sight
from lengthlab.model.sight import causal as causal_mask
from lengthlab.model.term import Built, Distances, term_of
from lengthlab.schemes import Dims, DistanceBias
from lengthlab.schemes.alibi import ALiBi
from lengthlab.schemes.fire import FIRE
from lengthlab.schemes.kerple import KERPLELog
from lengthlab.schemes.t5 import T5

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


DIMS = Dims(width=H * K, heads=H, head_size=K, layers=1, train_length=16, horizon=16)


def drawn(length, groups=H, dtype=torch.float32):
    return [torch.randn(B, n, length, K, dtype=dtype) for n in (H, groups, groups)]


@pytest.mark.parametrize("scheme", [ALiBi(DIMS), T5(DIMS), KERPLELog(DIMS)], ids=["alibi", "t5", "kerple"])
@pytest.mark.parametrize("length, block", [(64, 512), (64, 16), (67, 16), (600, 512), (1, 16), (5, 1)])
@pytest.mark.parametrize("groups", [1, H])
def test_a_view_of_distances_is_the_dense_bias_to_the_bit(scheme, length, block, groups):
    (q, k, v), pos = drawn(length, groups), torch.arange(length)
    with torch.no_grad():  # the kernel that has a gradient for its mask rounds in another way
        term, bias = term_of(scheme, Sight(pos, pos, block=block)), scheme.bias(pos, pos)
        assert isinstance(term, Distances)
        dense = []
        for first in range(0, length, block):
            stop = first + block
            seen = (k[:, :, :stop], v[:, :, :stop], bias[:, first:stop, :stop])
            dense.append(attend(q[:, :, first:stop], *seen))
        got = attend_distances(q, k, v, term, block, 0.0)
    assert torch.equal(got, torch.cat(dense, dim=2))


@pytest.mark.parametrize("scheme", [T5(DIMS), KERPLELog(DIMS)], ids=["t5", "kerple"])
@pytest.mark.parametrize("block", [512, 16])
def test_gradients_flow_through_the_view_as_through_the_dense_bias(scheme, block):
    q, k, v = (t.requires_grad_() for t in drawn(67))
    pos, found = torch.arange(67), []
    for out in (
        attend(q, k, v, scheme.bias(pos, pos)),
        attend_distances(q, k, v, term_of(scheme, Sight(pos, pos, block=block)), block, 0.0),
    ):
        found.append(torch.autograd.grad(out.square().sum(), [q, k, v, *scheme.parameters()]))
    for dense, view in zip(*found, strict=True):
        torch.testing.assert_close(view, dense, rtol=1e-5, atol=1e-5 * dense.abs().max().item())


def test_a_view_serves_bfloat16_queries_in_float32():
    """F4, F6: distances beyond 256, which bfloat16 cannot tell apart, are told apart."""
    q, k, v = drawn(700, dtype=torch.bfloat16)
    pos = torch.arange(700)
    term = term_of(ALiBi(DIMS), Sight(pos, pos))
    assert term.row.dtype == torch.float32
    got = attend_distances(q, k, v, term, 512, 0.0)
    exact = attend(q.float(), k.float(), v.float(), ALiBi(DIMS).bias(pos, pos))
    torch.testing.assert_close(got.float(), exact, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("pos", [torch.arange(40) ** 2, torch.arange(40).expand(2, 40)], ids=["uneven", "batched"])
def test_positions_that_are_no_line_are_built_block_by_block(pos):
    """A view would give them the wrong distances."""
    scheme, (q, k, v) = ALiBi(DIMS), drawn(40)
    sight = Sight(pos, pos, block=16)
    term = term_of(scheme, sight)
    assert isinstance(term, Built) and term.whole is None
    torch.testing.assert_close(attend_blocks(q, k, v, term, sight, 0.0), attend(q, k, v, scheme.bias(pos, pos)))


@pytest.mark.parametrize("pos", [3 + 2 * torch.arange(40), torch.arange(40) / 4, 7 - torch.arange(40)])
def test_any_even_spacing_is_a_view(pos):
    scheme, (q, k, v) = KERPLELog(DIMS), drawn(40)
    term = term_of(scheme, Sight(pos, pos, block=16))
    assert isinstance(term, Distances)
    torch.testing.assert_close(attend_distances(q, k, v, term, 16, 0.0), attend(q, k, v, scheme.bias(pos, pos)))


@pytest.mark.parametrize("masked", [False, True])
def test_any_other_bias_in_blocks_is_the_whole_bias(masked):
    scheme, (q, k, v), pos = FIRE(DIMS), drawn(40), torch.arange(40)
    visible = (causal_mask(40, 40, pos.device) & (torch.rand(40, 40) < 0.7)) | torch.eye(40, dtype=torch.bool)
    whole = attend(q, k, v, scheme.bias(pos, pos), visible if masked else None)
    for block in (512, 16, 1):
        sight = Sight(pos, pos, visible if masked else None, block=block)
        blocks = attend_blocks(q, k, v, term_of(scheme, sight), sight, 0.0)
        torch.testing.assert_close(blocks, whole, atol=1e-6, rtol=1e-5)


def test_a_bias_of_distance_needs_no_matrix():
    """The whole bias of 100,000 tokens would be 160 GB."""

    class Far(DistanceBias):
        def of_distance(self, distance):
            return -distance.expand(self.dims.heads, *distance.shape)

    pos = torch.arange(100_000)
    term = term_of(Far(DIMS), Sight(pos, pos))
    assert term.row.numel() == H * (100_000 + 511)
    view = term.flipped(99_488, 100_000)[0]
    assert view.shape == (H, 512, 100_000) and view.untyped_storage().nbytes() < 2e6
    assert view[0, 0, -1] == 0 and view[0, 0, 0] == -99_999 and view[0, 1, -1] == float("-inf")


@pytest.mark.parametrize("length", [attention.SHORT, attention.SHORT + 1])
def test_both_kernels_of_16_bits_are_one_attention(length):
    q, k, v = drawn(length, dtype=torch.bfloat16)
    exact = attend(q.float(), k.float(), v.float(), None)
    torch.testing.assert_close(attend(q, k, v, None).float(), exact, atol=2e-2, rtol=2e-2)
