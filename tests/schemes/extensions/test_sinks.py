"""Sinks against StreamingLLM done query by query: a cache of sinks and window, its slots as the only positions."""

from pathlib import Path

import pytest
import torch

from lengthlab.model import Cache
from lengthlab.schemes import ContentScheme, Kept
from lengthlab.schemes.extensions.sinks import Sinks, Streaming

NAMES = sorted(path.stem for path in (Path(__file__).parents[3] / "conf" / "scheme").glob("*.yaml"))
LENGTH, SINKS, WINDOW, H, K = 23, 2, 6, 4, 8
each_scheme = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def tokens():
    return torch.randint(97, (2, LENGTH))


def in_a_cache(scheme, q, k, kept, i: int) -> torch.Tensor:
    """(2,H,LENGTH) logits of query i, -inf for what the cache no longer holds: the scheme alone, on slots 0, 1, 2, …"""
    held = [j for j in range(i + 1) if j < SINKS or j > i - WINDOW]
    slots = torch.arange(len(held))
    query, keys = scheme.rotate(q[:, :, i : i + 1], k[:, :, held], slots[-1:], slots)
    s = query @ keys.mT / K**0.5
    bias = scheme.bias(slots[-1:], slots)
    s = s if bias is None else s + bias
    if isinstance(scheme, ContentScheme):
        both = None if kept is None else Kept(kept[:, i : i + 1], kept[:, held])
        s = scheme.scores(s, query, keys, both, slots[-1:], slots, torch.ones(1, len(held), dtype=torch.bool))
    out = torch.full((2, H, LENGTH), float("-inf"))
    out[..., held] = s[:, :, 0]
    return out


@each_scheme
@pytest.mark.parametrize("shared", [True, False], ids=["one row of positions", "a row each"])
@torch.no_grad()
def test_positions_are_slots_of_the_cache(name, model_of, shared):
    scheme = model_of(name).scheme.layer(0)
    q, k, x = torch.randn(2, H, LENGTH, K), torch.randn(2, H, LENGTH, K), torch.randn(2, LENGTH, 32)
    kept = scheme.keep(x, None) if isinstance(scheme, ContentScheme) else None
    wrapped, pos = Sinks(SINKS, WINDOW).wrap(scheme, LENGTH), torch.arange(LENGTH)
    visible = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    if not shared:
        pos, visible = pos.repeat(2, 1), visible.repeat(2, 1, 1, 1)
    both = None if kept is None else Kept(kept, kept)
    got = wrapped.scores(q @ k.mT / K**0.5, q, k, both, pos, pos, visible)
    for i in range(LENGTH):
        torch.testing.assert_close(got[:, :, i], in_a_cache(scheme, q, k, kept, i), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["nope", "rope", "alibi", "fire", "cope", "fox", "transformer_xl", "xpos"])
def test_a_cache_that_evicts_is_the_whole(name, model_of, tokens):
    """Token by token, the cache cut to its sinks and its last WINDOW - 1 slots before each."""
    model, pos, cache, pieces = model_of(name), torch.arange(LENGTH), Cache(2), []
    model.scheme = Sinks(SINKS, WINDOW).wrap(model.scheme, LENGTH)
    for at in range(LENGTH):
        pieces.append(model(tokens[:, at : at + 1], pos[at : at + 1], cache))
        slots = torch.arange(len(cache))
        cache.retain(slots[(slots < SINKS) | (slots > len(cache) - WINDOW)])
    assert len(cache) == SINKS + WINDOW - 1
    torch.testing.assert_close(torch.cat(pieces, dim=1), model(tokens, pos), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["rope", "fire", "cope", "fox", "xpos"])
def test_padding_on_the_left_is_nothing(name, model_of, tokens):
    model, pads = model_of(name), torch.tensor([[5], [0]])
    model.scheme = Sinks(SINKS, WINDOW).wrap(model.scheme, LENGTH)
    pos = (torch.arange(LENGTH) - pads).clamp(min=0)
    got = model(tokens, pos, valid=torch.arange(LENGTH) >= pads)
    for row, pad in enumerate(pads.flatten().tolist()):
        alone = model(tokens[row : row + 1, pad:], torch.arange(LENGTH - pad))
        torch.testing.assert_close(got[row : row + 1, pad:], alone, atol=1e-5, rtol=0)


@each_scheme
def test_room_for_everything_changes_nothing(name, model_of, tokens):
    model, pos = model_of(name), torch.arange(LENGTH)
    assert Sinks(SINKS, LENGTH - SINKS).wrap(model.scheme, LENGTH) is model.scheme
    whole = model(tokens, pos)
    for sinks, window in ((0, LENGTH), (3, LENGTH - 3), (SINKS, LENGTH)):
        model.scheme = Streaming(model_of(name).scheme, sinks, window)
        torch.testing.assert_close(model(tokens, pos), whole, atol=1e-5, rtol=0)


@torch.no_grad()
def test_gaps_in_the_numbers_close_to_one(scheme_of):
    """Distances in the window stay, and the last sink is 1 before it: ALiBi's first slope, 1/4, read off zeros."""
    wrapped = Sinks(2, 3).wrap(scheme_of("alibi"), 6)
    pos, zeros = torch.tensor([3, 7, 20, 30, 41, 60]), torch.zeros(1, H, 6, K)
    visible = torch.ones(6, 6, dtype=torch.bool).tril()
    got = wrapped.scores(torch.zeros(1, H, 6, 6), zeros, zeros, None, pos, pos, visible)[0, 0]
    assert (got[5] * -4).tolist() == [30 + 1 + 4, 30 + 1, float("inf"), 30, 19, 0]
    assert (got[3] * -4).tolist() == [23 + 1, 23, 10, 0, float("inf"), float("inf")]


def test_defaults_keep_every_distance_trained(scheme_of):
    assert Sinks().wrap(scheme_of("rope"), 65).sizes == (4, 60)
    rope = scheme_of("rope")
    assert Sinks().wrap(rope, 64) is rope


def test_options_are_checked():
    with pytest.raises(ValueError, match="^sinks=-1: must be an integer of at least 0, or null$"):
        Sinks(-1)
    with pytest.raises(ValueError, match="^window=0: must be an integer of at least 1, or null$"):
        Sinks(4, 0)
