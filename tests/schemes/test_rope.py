"""RoPE against a float64 transcription of the paper's equation 34 (complex turns of pairs) and Llama's rotary."""

import pytest
import torch

HEAD = 8


def turned(x: torch.Tensor, pos: torch.Tensor, base: float) -> torch.Tensor:
    """The paper's rotation in complex numbers, float64: pair k, here (k, k + K/2), times exp(i p base^(-2k/K))."""
    first, second = x.double().chunk(2, dim=-1)
    angle = pos.double()[:, None] * torch.tensor([base ** (-2 * k / HEAD) for k in range(HEAD // 2)]).double()
    pairs = torch.complex(first, second) * torch.exp(1j * angle)
    return torch.cat((pairs.real, pairs.imag), dim=-1)


def test_turns_are_the_papers(scheme_of):
    rope, q, k = scheme_of("rope"), torch.randn(2, 4, 5, HEAD), torch.randn(2, 2, 9, HEAD)
    q_pos, k_pos = torch.arange(4, 9), torch.arange(9)
    out_q, out_k = rope.rotate(q, k, q_pos, k_pos)
    torch.testing.assert_close(out_q.double(), turned(q, q_pos, 10000.0), atol=1e-6, rtol=0)
    torch.testing.assert_close(out_k.double(), turned(k, k_pos, 10000.0), atol=1e-6, rtol=0)


def test_layout_is_llamas(scheme_of):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    q, k, pos = torch.randn(2, 4, 6, HEAD), torch.randn(2, 2, 6, HEAD), torch.tensor([0, 1, 2, 50, 257, 4095])
    rotary = {"rope_type": "default", "rope_theta": 10000.0}
    config = LlamaConfig(hidden_size=32, num_attention_heads=4, rope_parameters=rotary)
    cos, sin = LlamaRotaryEmbedding(config)(q, pos[None])
    for ours, theirs in zip(
        scheme_of("rope").rotate(q, k, pos, pos), apply_rotary_pos_emb(q, k, cos, sin), strict=True
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


def test_products_see_the_distance_alone_and_lengths_stay(scheme_of):
    rope, q, k = scheme_of("rope"), torch.randn(1, 1, 1, HEAD), torch.randn(1, 1, 1, HEAD)

    def product(q_pos, k_pos):
        out_q, out_k = rope.rotate(q, k, torch.tensor([q_pos]), torch.tensor([k_pos]))
        return (out_q * out_k).sum().item()

    assert product(9, 4) == pytest.approx(product(105, 100), abs=1e-5)
    assert product(9, 4) != pytest.approx(product(9, 5), abs=1e-2)
    out_q, _ = rope.rotate(q, k, torch.tensor([77]), torch.tensor([0]))
    assert out_q.norm().item() == pytest.approx(q.norm().item(), rel=1e-6)


def test_position_zero_is_not_turned(scheme_of):
    q, k, zero = torch.randn(1, 4, 1, HEAD), torch.randn(1, 2, 1, HEAD), torch.tensor([0])
    assert all(map(torch.equal, scheme_of("rope").rotate(q, k, zero, zero), (q, k)))


def test_each_row_of_a_batch_turns_by_its_own_positions(scheme_of):
    rope, q, k = scheme_of("rope"), torch.randn(2, 4, 3, HEAD), torch.randn(2, 2, 3, HEAD)
    pos = torch.tensor([[0, 1, 5], [2, 3, 4]])
    rows = [rope.rotate(q[i : i + 1], k[i : i + 1], pos[i], pos[i]) for i in range(2)]
    for whole, pieces in zip(rope.rotate(q, k, pos, pos), zip(*rows, strict=True), strict=True):
        assert torch.equal(whole, torch.cat(pieces))


def test_an_odd_head_size_is_refused(scheme_of):
    with pytest.raises(ValueError, match=r"even head size .*got 7$"):
        scheme_of("rope", width=28)
