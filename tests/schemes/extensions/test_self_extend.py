"""Self-Extend against a float64 transcription: RoPE's product at the paper's grouped distances, pair by pair."""

import pytest
import torch

from lengthlab.model import Cache
from lengthlab.schemes.extensions.self_extend import SelfExtend
from lengthlab.schemes.rope import RoPE

H, K, LENGTH = 4, 8, 23


def distance_of(i: int, j: int, window: int, group: int) -> int:
    """Exact below the window; beyond it the distance of the groups, moved to where the window ends."""
    return i - j if i - j < window else i // group - j // group + window - window // group


def product(q, k, distance: int) -> float:
    """RoPE's logit at that distance by the rotation matrices of its pairs (n, n + K/2), float64."""
    out = 0.0
    for n in range(K // 2):
        angle = torch.tensor(distance * 10000.0 ** (-2 * n / K), dtype=torch.float64)
        turn = torch.stack((torch.stack((angle.cos(), -angle.sin())), torch.stack((angle.sin(), angle.cos()))))
        pair = [n, n + K // 2]
        out += ((turn @ q[pair].double()) @ k[pair].double()).item()
    return out / K**0.5


def scores(scheme, q, k, pos):
    visible = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    return scheme.scores(q @ k.mT / K**0.5, q, k, None, pos, pos, visible)


@pytest.mark.parametrize("window, group", [(4, 3), (6, 2), (1, 5), (8, 1)])
def test_logits_are_ropes_at_grouped_distances(scheme_of, window, group):
    wrapped = SelfExtend(window, group).wrap(scheme_of("rope"), LENGTH)
    q, k = torch.randn(1, H, LENGTH, K), torch.randn(1, H, LENGTH, K)
    got = scores(wrapped, q, k, torch.arange(LENGTH))
    for h in range(H):
        for i in range(LENGTH):
            for j in range(i + 1):
                expected = product(q[0, h, i], k[0, h, j], distance_of(i, j, window, group))
                assert got[0, h, i, j].item() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("window, group", [(LENGTH, 3), (100, 7)])
def test_a_window_of_everything_is_rope(scheme_of, model_of, window, group):
    rope, q, k, pos = (
        scheme_of("rope"),
        torch.randn(2, H, LENGTH, K),
        torch.randn(2, H, LENGTH, K),
        torch.arange(LENGTH),
    )
    turned_q, turned_k = rope.rotate(q, k, pos, pos)
    assert torch.equal(scores(SelfExtend(window, group).wrap(rope, LENGTH), q, k, pos), turned_q @ turned_k.mT / K**0.5)
    model, tokens = model_of("rope"), torch.randint(97, (2, LENGTH))
    whole = model(tokens, pos)
    model.scheme = SelfExtend(window, group).wrap(rope, LENGTH)
    torch.testing.assert_close(model(tokens, pos), whole, atol=1e-5, rtol=0)
    model.scheme = SelfExtend(3, 4).wrap(rope, LENGTH)
    assert (model(tokens, pos) - whole).abs().max() > 1e-2


@pytest.mark.parametrize("name", ["rope", "p_rope", "rnope", "xpos"])
def test_pieces_are_the_whole_and_the_future_is_not_seen(name, model_of):
    model, pos, cache = model_of(name), torch.arange(LENGTH), Cache(2)
    model.scheme = SelfExtend(4, 3).wrap(model.scheme, LENGTH)
    tokens = torch.randint(97, (2, LENGTH))
    whole = model(tokens, pos)
    pieces = [model(tokens[:, i : i + 5], pos[i : i + 5], cache) for i in range(0, LENGTH, 5)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-5, rtol=0)
    changed = torch.cat((tokens[:, :9], (tokens[:, 9:] + 1) % 97), dim=1)
    assert torch.equal(model(changed, pos)[:, :9], whole[:, :9])


@pytest.mark.parametrize("length", [64, 100, 512, 4096])
def test_by_default_no_distance_passes_two_thirds_of_the_training_length(scheme_of, length):
    window, group = SelfExtend().wrap(scheme_of("rope", length=64), length).sizes
    assert window == 16
    assert window + (length - window) / group <= 42 < window + (length - window) / max(0.5, group - 1)


def test_options_are_checked_and_it_fits_rope(scheme_of):
    assert SelfExtend.fits == (RoPE,) and not isinstance(scheme_of("fox"), SelfExtend.fits)
    for key in ("window", "group"):
        with pytest.raises(ValueError, match=f"^{key}=0: must be an integer of at least 1, or null$"):
            SelfExtend(**{key: 0})
