"""xPos against a float64 transcription of the paper's relative formula, and x-transformers' rotary with xpos."""

import pytest
import torch

from lengthlab.schemes.xpos import XPos

HEAD = 8


@pytest.fixture
def xpos_of(scheme_of):
    return lambda head=HEAD, **options: XPos(scheme_of("nope", width=4 * head).dims, **options)


def logits(scheme: XPos, q, k, q_pos, k_pos) -> torch.Tensor:
    """As the attention asks for them: turned, then decayed."""
    q, k = scheme.rotate(q, k, q_pos, k_pos)
    visible = k_pos.unsqueeze(-2) <= q_pos.unsqueeze(-1)
    s = q @ k.mT / q.shape[-1] ** 0.5
    return scheme.scores(s, q, k, None, q_pos, k_pos, visible.unsqueeze(1) if visible.ndim == 3 else visible)


def decayed(q, k, q_pos, k_pos, layout="half", scale_base=512) -> torch.Tensor:
    """Sum over pairs of the turned product times zeta_k^((i - j)/512), pair by pair and in float64; -inf ahead.

    q and k are as RoPE left them, so that what is compared is the decay, at positions where float32 angles are rough.
    """
    size, total = q.shape[-1], 0
    distance = (q_pos[:, None] - k_pos).double()
    for pair in range(size // 2):
        zeta = (2 * pair + 0.4 * size) / (1.4 * size)
        first, second = (pair, pair + size // 2) if layout == "half" else (2 * pair, 2 * pair + 1)
        product = sum(q[..., one, None].double() * k[..., None, :, one].double() for one in (first, second))
        total = total + product * (zeta ** (distance.clamp(min=0) / scale_base))
    return (total / size**0.5).masked_fill(distance < 0, float("-inf"))


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_logits_are_the_papers(xpos_of, layout):
    """Angles too in float64: equation 34's turns by complex numbers, then the decay."""
    scheme, pos = xpos_of(layout=layout, scale_base=64.0), torch.arange(40)
    q, k = torch.randn(1, 4, 40, HEAD), torch.randn(1, 4, 40, HEAD)

    def turned(x):
        first, second = x.double().chunk(2, -1) if layout == "half" else (x[..., 0::2].double(), x[..., 1::2].double())
        speed = torch.tensor([10000 ** (-2 * pair / HEAD) for pair in range(HEAD // 2)], dtype=torch.float64)
        pairs = torch.complex(first, second) * torch.exp(1j * pos.double()[:, None] * speed)
        both = (pairs.real, pairs.imag)
        return torch.cat(both, dim=-1) if layout == "half" else torch.stack(both, dim=-1).flatten(-2)

    expected = decayed(turned(q), turned(k), pos, pos, layout, scale_base=64)
    torch.testing.assert_close(logits(scheme, q, k, pos, pos).double(), expected, atol=1e-5, rtol=0)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # at its import
@pytest.mark.parametrize("head", [8, 64])
def test_logits_are_x_transformers(xpos_of, head):
    peer = pytest.importorskip("x_transformers.x_transformers")
    q, k, pos = torch.randn(2, 4, 100, head), torch.randn(2, 4, 100, head), torch.arange(100)
    freqs, scale = peer.RotaryEmbedding(head, use_xpos=True)(pos)
    turned_q, turned_k = peer.apply_rotary_pos_emb(q, freqs, scale), peer.apply_rotary_pos_emb(k, freqs, scale**-1)
    expected = turned_q @ turned_k.mT / head**0.5
    ours = logits(xpos_of(head, layout="interleaved"), q, k, pos, pos)
    seen = torch.ones(100, 100, dtype=torch.bool).tril()
    torch.testing.assert_close(ours[..., seen], expected[..., seen], atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("q_pos", "k_pos"),
    [
        (torch.arange(131_000, 131_073), torch.arange(131_000, 131_073)),
        (torch.tensor([131_072]), torch.arange(0, 131_073, 64)),
        (torch.arange(0, 131_073, 1024), torch.arange(0, 131_073, 128)),
    ],
    ids=["late", "decoding", "whole"],
)
def test_no_position_is_too_late(xpos_of, q_pos, k_pos):
    scheme = xpos_of(64)
    q, k = torch.randn(1, 4, len(q_pos), 64), torch.randn(1, 4, len(k_pos), 64)
    q, k = q.requires_grad_(), k.requires_grad_()
    got = logits(scheme, q, k, q_pos, k_pos)
    turned_q, turned_k = scheme.rotate(q, k, q_pos, k_pos)
    torch.testing.assert_close(got.double(), decayed(turned_q, turned_k, q_pos, k_pos), atol=1e-5, rtol=0)
    got.softmax(-1).square().sum().backward()
    assert q.grad.isfinite().all() and k.grad.isfinite().all()


def test_each_row_of_a_batch_has_its_own_positions(xpos_of):
    scheme, q, k = xpos_of(), torch.randn(2, 4, 3, HEAD), torch.randn(2, 4, 3, HEAD)
    pos = torch.tensor([[0, 1, 9000], [20_000, 50_000, 131_072]])
    rows = [logits(scheme, q[i : i + 1], k[i : i + 1], pos[i], pos[i]) for i in range(2)]
    torch.testing.assert_close(logits(scheme, q, k, pos, pos), torch.cat(rows), atol=1e-5, rtol=0)


def test_products_shrink_with_distance_those_of_fast_pairs_most(xpos_of):
    """Not grow: a swap of the signs of q's and k's powers would."""
    scheme, pos = xpos_of(), torch.tensor([0, 512])
    q = torch.zeros(1, 4, 2, HEAD)
    for pair, zeta in enumerate((0.4 / 1.4, (2 + 3.2) / 11.2, (4 + 3.2) / 11.2, (6 + 3.2) / 11.2)):
        one = q.clone()
        one[..., pair] = one[..., pair + HEAD // 2] = 1.0
        zero = torch.zeros(2, dtype=torch.long)
        near = logits(scheme, one, one, zero, zero)[0, 0, 1, 0]
        s = scheme.scores(torch.zeros(1, 4, 2, 2), one, one, None, pos, pos, torch.ones(2, 2, dtype=torch.bool))
        assert (s[0, 0, 1, 0] / near).item() == pytest.approx(zeta, rel=1e-5)


def test_what_is_ahead_has_no_logit(xpos_of):
    pos, x = torch.arange(3), torch.ones(1, 4, 3, HEAD)
    everything = torch.ones(3, 3, dtype=torch.bool)
    s = xpos_of().scores(torch.zeros(1, 4, 3, 3), x, x, None, pos, pos, everything)
    assert torch.equal(s[0, 0].isinf(), ~everything.tril())


def test_the_steepest_decay_of_a_run_is_far_from_float32s_end(xpos_of):
    from lengthlab.schemes.xpos import SPAN

    assert (xpos_of(64).decay().double() * SPAN).exp().min() > 1e-9


@pytest.mark.parametrize("scale_base", [0.0, -1.0, float("inf")])
def test_scale_base_is_above_zero(xpos_of, scale_base):
    with pytest.raises(ValueError, match=r"^scale_base=.*: must be a number above 0$"):
        xpos_of(scale_base=scale_base)
