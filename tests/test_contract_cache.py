"""The laws of every scheme, with tokens forgotten or not there: eviction, compaction, left padding."""

from pathlib import Path

import pytest
import torch

from lengthlab.model import Cache

NAMES = sorted(path.stem for path in (Path(__file__).parents[1] / "conf" / "scheme").glob("*.yaml"))
MODELS = {
    "mha": {},
    "gqa": {"kv_heads": 2, "qk_norm": True},
    "window": {"window": 7, "sinks": 2},
    "log_n": {"logit_scale": "log_n"},
    "ssmax": {"logit_scale": "ssmax"},
}
KEPT = {
    "sinks and recent": [0, 1, 8, 9, 10, 11, 12],
    "scattered": [0, 2, 3, 7, 9, 12],
    "not the newest": [0, 1, 2, 3, 4, 5, 9],
}
LENGTH, READ = 23, 13
pytestmark = pytest.mark.parametrize("name", NAMES)
each_model = pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)


@pytest.fixture
def tokens():
    return torch.randint(97, (2, LENGTH))


@pytest.fixture(params=["sequential", "gapped"])
def pos(request):
    """(LENGTH) or, with random gaps, others in each row, (2, LENGTH)."""
    if request.param == "sequential":
        return torch.arange(LENGTH)
    return torch.stack([torch.randperm(64)[:LENGTH].sort().values for _ in range(2)])


@each_model
@pytest.mark.parametrize("kept", KEPT.values(), ids=KEPT)
def test_evicted_is_hidden_from_later_queries(name, model_of, tokens, pos, options, kept):
    """Rows that stay move up in the cache, and go on from their own positions and from all that was read."""
    model, cache = model_of(name, **options), Cache(2)
    hidden = torch.zeros(LENGTH, LENGTH, dtype=torch.bool)
    hidden[READ:, [slot for slot in range(READ) if slot not in kept]] = True
    model(tokens[:, :READ], pos[..., :READ], cache)
    cache.retain(torch.tensor(kept))
    assert len(cache) == len(kept) and torch.equal(cache.pos, pos[..., kept])
    pieces = [model(tokens[:, at : at + 5], pos[..., at : at + 5], cache) for at in range(READ, LENGTH, 5)]
    whole = model(tokens, pos, hidden_keys=hidden)[:, READ:]
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-5, rtol=0)


def test_a_stream_with_sinks_is_a_mask(name, model_of, tokens, pos):
    """Token by token, the cache held to its first two slots and its last six (Xiao et al. 2023)."""
    model, cache, pieces = model_of(name), Cache(2), []
    for at in range(LENGTH):
        pieces.append(model(tokens[:, at : at + 1], pos[..., at : at + 1], cache))
        slots = torch.arange(len(cache))
        cache.retain(slots[(slots < 2) | (slots >= len(cache) - 6)])
    ago = torch.arange(LENGTH).unsqueeze(-1) - torch.arange(LENGTH)
    hidden = (ago > 6) & (torch.arange(LENGTH) >= 2)
    whole = model(tokens, pos, hidden_keys=hidden)
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-5, rtol=0)


@each_model
@pytest.mark.parametrize("size", [None, LENGTH, 5, 1], ids=lambda size: f"chunks of {size}" if size else "no cache")
def test_left_padding_changes_nothing_for_real_tokens(name, model_of, tokens, options, size):
    model, padding = model_of(name, **options), 8
    valid = torch.ones(2, LENGTH, dtype=torch.bool)
    valid[1, :padding] = False
    pos = (valid.long().cumsum(-1) - 1).clamp(min=0)
    cache, size = (Cache(2), size) if size else (None, LENGTH)
    pieces = [
        model(tokens[:, at : at + size], pos[:, at : at + size], cache, valid=valid[:, at : at + size])
        for at in range(0, LENGTH, size)
    ]
    padded = torch.cat(pieces, dim=1)
    assert padded.isfinite().all()
    alone = model(tokens[1:, padding:], torch.arange(LENGTH - padding))
    torch.testing.assert_close(padded[1:, padding:], alone, atol=1e-5, rtol=0)
    torch.testing.assert_close(padded[:1], model(tokens[:1], torch.arange(LENGTH)), atol=1e-5, rtol=0)
