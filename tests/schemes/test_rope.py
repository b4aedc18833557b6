"""RoPE against a float64 transcription of the paper's equation 34, and Llama's, GPT-NeoX's and GPT-J's rotary."""

import math

import pytest
import torch

from lengthlab.schemes.rope import RoPE

HEAD = 8


@pytest.fixture
def rope_of(scheme_of):
    """`rope_of(head=8, heads=4, length=64, **options)`: RoPE with these options."""

    def make(head: int = HEAD, heads: int = 4, length: int = 64, **options) -> RoPE:
        return RoPE(scheme_of("nope", width=head * heads, heads=heads, length=length).dims, **options)

    return make


def turned(x: torch.Tensor, pos: torch.Tensor, base: float = 10000.0, layout: str = "half") -> torch.Tensor:
    """The paper's rotation in complex numbers, float64: pair k times exp(i p base^(-2k/d))."""
    size = x.shape[-1]
    x = x.double()
    first, second = x.chunk(2, dim=-1) if layout == "half" else (x[..., 0::2], x[..., 1::2])
    angle = pos.double()[:, None] * torch.tensor([base ** (-2 * k / size) for k in range(size // 2)]).double()
    pairs = torch.complex(first, second) * torch.exp(1j * angle)
    if layout == "half":
        return torch.cat((pairs.real, pairs.imag), dim=-1)
    return torch.view_as_real(pairs).flatten(-2)


@pytest.mark.parametrize("base", [10000.0, 500.0])
@pytest.mark.parametrize("layout", [None, "half", "interleaved"])
def test_turns_are_the_papers(rope_of, layout, base):
    rope, q, k = rope_of(layout=layout, base=base), torch.randn(2, 4, 5, HEAD), torch.randn(2, 2, 9, HEAD)
    q_pos, k_pos = torch.arange(4, 9), torch.arange(9)
    out_q, out_k = rope.rotate(q, k, q_pos, k_pos)
    torch.testing.assert_close(out_q.double(), turned(q, q_pos, base, layout or "half"), atol=1e-6, rtol=0)
    torch.testing.assert_close(out_k.double(), turned(k, k_pos, base, layout or "half"), atol=1e-6, rtol=0)


def test_the_first_numbers_of_a_head_are_turned(rope_of):
    rope, q, pos = rope_of(head=16, fraction=0.25), torch.randn(2, 4, 5, 16), torch.arange(5)
    out, _ = rope.rotate(q, q, pos, pos)
    torch.testing.assert_close(out[..., :4].double(), turned(q[..., :4], pos), atol=1e-6, rtol=0)
    assert torch.equal(out[..., 4:], q[..., 4:])


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


@pytest.mark.parametrize(("head", "fraction"), [(16, 0.25), (64, 0.25), (32, 0.5), (20, 0.7)])
def test_partial_rotary_is_gpt_neoxs(rope_of, head, fraction):
    from transformers import GPTNeoXConfig
    from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXRotaryEmbedding, apply_rotary_pos_emb

    # Not further: the last bit of a frequency, b^-x here and 1/b^x there, is 1e-5 radians at position 2,000.
    q, k, pos = torch.randn(2, 4, 6, head), torch.randn(2, 4, 6, head), torch.tensor([0, 1, 2, 50, 256, 257])
    rotary = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": fraction}
    config = GPTNeoXConfig(hidden_size=4 * head, num_attention_heads=4, rope_parameters=rotary)
    theirs = apply_rotary_pos_emb(q, k, *GPTNeoXRotaryEmbedding(config)(q, pos[None]))
    for one, other in zip(rope_of(head=head, fraction=fraction).rotate(q, k, pos, pos), theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


def test_interleaved_is_gpt_js(rope_of):
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb, create_sinusoidal_positions

    q, pos = torch.randn(2, 4, 6, HEAD), torch.tensor([0, 1, 2, 50, 257, 2047])
    sin, cos = create_sinusoidal_positions(2048, HEAD)[pos][None].chunk(2, dim=-1)
    theirs = apply_rotary_pos_emb(q.transpose(1, 2), sin, cos).transpose(1, 2)
    ours, _ = rope_of(layout="interleaved").rotate(q, q, pos, pos)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


def test_layouts_are_one_function_of_reordered_numbers(rope_of):
    q, pos = torch.randn(2, 4, 5, HEAD), torch.arange(5)
    order = torch.arange(HEAD).view(2, -1).T.flatten()  # 0 4 1 5 2 6 3 7
    half, _ = rope_of(layout="half").rotate(q, q, pos, pos)
    interleaved, _ = rope_of(layout="interleaved").rotate(q[..., order], q, pos, pos)
    assert torch.equal(interleaved, half[..., order])


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


def test_angles_are_float32_under_autocast(scheme_of):
    rope, q, pos = scheme_of("rope"), torch.randn(1, 4, 2, HEAD), torch.tensor([256, 257])
    plain = rope.rotate(q, q, pos, pos)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert all(map(torch.equal, rope.rotate(q, q, pos, pos), plain))


def test_pairs_that_never_finish_a_turn_are_named(rope_of):
    (sentence,) = rope_of(head=64, length=64).untrained()
    assert sentence.startswith("RoPE: 23 of 32 pairs (pairs 9 to 31) never finish a turn within 64 tokens")
    finished = [k for k in range(32) if 10000 ** (-2 * k / 64) * 64 >= 2 * math.pi]
    assert finished == list(range(9))
    assert rope_of(head=2, length=7).untrained() == []
    assert "1 of 1 pairs (pair 0)" in rope_of(head=2, length=6).untrained()[0]


def test_an_odd_head_size_is_refused(scheme_of):
    with pytest.raises(ValueError, match=r"even head size .*got 7$"):
        scheme_of("rope", width=28)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"base": 1.0}, r"^base=1.0: must be a number above 1$"),
        ({"base": math.inf}, r"^base=inf: must be a number above 1$"),
        ({"fraction": 0.0}, r"^fraction=0.0: must be above 0 and at most 1, or null for all$"),
        ({"fraction": 1.5}, r"^fraction=1.5: must be"),
        ({"fraction": 0.4}, r"^fraction=0.4: turns 3 of a head's 8 numbers; must be pairs$"),
        ({"fraction": 0.1}, r"^fraction=0.1: turns 0 of"),
        ({"layout": "neox"}, r"^layout=neox: must be one of half, interleaved$"),
    ],
)
def test_bad_options_are_refused(rope_of, option, message):
    with pytest.raises(ValueError, match=message):
        rope_of(**option)
