"""p-RoPE against transformers' proportional RoPE, and its ends: p = 1 is RoPE, and what does not turn is NoPE."""

import pytest
import torch

from lengthlab.schemes.p_rope import PRoPE
from lengthlab.schemes.rope import RoPE


@pytest.fixture
def dims_of(scheme_of):
    return lambda head: scheme_of("nope", width=2 * head, heads=2).dims


@pytest.mark.parametrize("head", [8, 64, 128])
@pytest.mark.parametrize("p", [0.25, 0.5, 0.75, 0.9, 1.0])
def test_frequencies_are_transformers_proportional_ones(dims_of, head, p):
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rotary = {"rope_type": "proportional", "rope_theta": 10000.0, "partial_rotary_factor": p}
    config = LlamaConfig(hidden_size=2 * head, num_attention_heads=2, head_dim=head, rope_parameters=rotary)
    expected, _ = ROPE_INIT_FUNCTIONS["proportional"](config, torch.device("cpu"))
    ours = PRoPE(dims_of(head), p=p).frequencies()
    assert (ours > 0).sum() == int(p * head / 2)
    torch.testing.assert_close(ours, expected, atol=0, rtol=1e-6)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_p_of_one_is_rope(dims_of, layout):
    q, pos = torch.randn(2, 2, 9, 8), torch.arange(9) * 1000
    ours, theirs = PRoPE(dims_of(8), p=1.0, layout=layout), RoPE(dims_of(8), layout=layout)
    assert all(map(torch.equal, ours.rotate(q, q, pos, pos), theirs.rotate(q, q, pos, pos)))


def test_slow_pairs_do_not_turn_and_fast_ones_turn_as_ropes(scheme_of):
    q, pos = torch.randn(2, 4, 5, 8), torch.arange(5) + 100
    ours, _ = scheme_of("p_rope").rotate(q, q, pos, pos)
    theirs, _ = scheme_of("rope").rotate(q, q, pos, pos)
    slow = torch.tensor([3, 7])  # pair 3 of 4, half layout; p = 0.75
    fast = torch.tensor([0, 1, 2, 4, 5, 6])
    assert torch.equal(ours[..., slow], q[..., slow])
    assert torch.equal(ours[..., fast], theirs[..., fast])


def test_a_pair_that_does_not_turn_is_not_named_untrained(scheme_of):
    (sentence,) = scheme_of("p_rope", length=64).untrained()  # head size 8: turns of 6, 63, 628 tokens, and none
    assert sentence.startswith("PRoPE: 1 of 4 pairs (pair 2)")


@pytest.mark.parametrize("p", [0.0, -0.5, 1.1, float("nan")])
def test_p_is_a_fraction(dims_of, p):
    with pytest.raises(ValueError, match=r"^p=.*: must be above 0 and at most 1$"):
        PRoPE(dims_of(8), p=p)


def test_at_least_one_pair_turns(dims_of):
    with pytest.raises(ValueError, match=r"^p=0.2: turns none of a head's 4 pairs; use scheme=nope$"):
        PRoPE(dims_of(8), p=0.2)
