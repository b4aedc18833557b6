"""ReRoPE against a float64 transcription: RoPE's product, in complex numbers, at distance min(i - j, w), by pair."""

import pytest
import torch

from lengthlab.model import Cache
from lengthlab.schemes.extensions.rerope import ReRoPE
from lengthlab.schemes.rope import RoPE

H, K, LENGTH = 4, 8, 23


def product(q, k, distance: int) -> float:
    """Re sum over pairs of q conj(k) exp(i distance base^(-2n/K)) / sqrt(K), float64; pairs are (n, n + K/2)."""
    q, k = (torch.complex(*x.double().chunk(2)) for x in (q, k))
    angle = distance * torch.tensor([10000.0 ** (-2 * n / K) for n in range(K // 2)], dtype=torch.float64)
    return (q * k.conj() * torch.exp(1j * angle)).real.sum().item() / K**0.5


def scores(scheme, q, k, q_pos, k_pos):
    visible = (q_pos.unsqueeze(-1) >= k_pos).unsqueeze(-3) if q_pos.ndim == 2 else q_pos[:, None] >= k_pos
    return scheme.scores(q @ k.mT / K**0.5, q, k, None, q_pos, k_pos, visible)


@pytest.mark.parametrize("window", [1, 5, 100])
@pytest.mark.parametrize("start", [0, 1000])
def test_logits_are_ropes_at_the_lesser_distance(scheme_of, window, start):
    wrapped = ReRoPE(window).wrap(scheme_of("rope"), LENGTH)
    q, k, pos = torch.randn(1, H, LENGTH, K), torch.randn(1, H, LENGTH, K), torch.arange(LENGTH) + start
    got = scores(wrapped, q, k, pos, pos)
    for h in range(H):
        for i in range(LENGTH):
            for j in range(i + 1):
                expected = product(q[0, h, i], k[0, h, j], min(i - j, window))
                assert got[0, h, i, j].item() == pytest.approx(expected, abs=2e-5)


def test_a_window_of_everything_is_rope(scheme_of, model_of):
    rope, q, k, pos = (
        scheme_of("rope"),
        torch.randn(2, H, LENGTH, K),
        torch.randn(2, H, LENGTH, K),
        torch.arange(LENGTH),
    )
    turned_q, turned_k = rope.rotate(q, k, pos, pos)
    assert torch.equal(scores(ReRoPE(LENGTH).wrap(rope, LENGTH), q, k, pos, pos), turned_q @ turned_k.mT / K**0.5)
    model, tokens = model_of("rope"), torch.randint(97, (2, LENGTH))
    whole = model(tokens, pos)
    model.scheme = ReRoPE(LENGTH).wrap(rope, LENGTH)
    torch.testing.assert_close(model(tokens, pos), whole, atol=1e-5, rtol=0)
    model.scheme = ReRoPE(3).wrap(rope, LENGTH)
    assert (model(tokens, pos) - whole).abs().max() > 1e-2


@pytest.mark.parametrize("name", ["rope", "p_rope", "rnope", "xpos"])
def test_a_key_farther_than_the_window_is_as_at_the_window(name, model_of):
    """Far keys are read as the scheme itself reads them at distance w, and near ones at their own."""
    model, window = model_of(name), 5
    wrapped = ReRoPE(window).wrap(model.scheme, LENGTH).layer(0)
    q, k = torch.randn(1, H, 1, K), torch.randn(1, H, 1, K)
    at = lambda scheme, distance: scores(scheme, q, k, torch.tensor([distance]), torch.tensor([0]))  # noqa: E731
    everything = ReRoPE(10**6).wrap(model.scheme, LENGTH).layer(0)
    for distance in (0, 3, 5, 6, 20, 90):
        torch.testing.assert_close(at(wrapped, distance), at(everything, min(distance, window)), atol=1e-6, rtol=0)
    tokens, pos, cache = torch.randint(97, (2, LENGTH)), torch.arange(LENGTH), Cache(2)
    model.scheme = ReRoPE(window).wrap(model.scheme, LENGTH)
    pieces = [model(tokens[:, i : i + 5], pos[i : i + 5], cache) for i in range(0, LENGTH, 5)]
    whole = model(tokens, pos)
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-5, rtol=0)
    torch.testing.assert_close(model(tokens, pos.repeat(2, 1)), whole, atol=1e-5, rtol=0)


def test_it_fits_rope_and_has_a_quarter_of_the_training_length(scheme_of):
    assert ReRoPE.fits == (RoPE,) and not isinstance(scheme_of("alibi"), ReRoPE.fits)
    assert ReRoPE().wrap(scheme_of("rope", length=64), 512).sizes == (16,)
    with pytest.raises(ValueError, match="^window=0: must be an integer of at least 1, or null$"):
        ReRoPE(0)
