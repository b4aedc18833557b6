"""The laws of every scheme, with tokens forgotten or not there: eviction, compaction, left padding."""

from itertools import product
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


@pytest.fixture
def ways():
    """(LENGTH) in sequence and, with random gaps, others in each row, (2, LENGTH)."""
    return torch.arange(LENGTH), torch.stack([torch.randperm(64)[:LENGTH].sort().values for _ in range(2)])


def close(found: torch.Tensor, expected: torch.Tensor, *case) -> None:
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0, msg=lambda said: f"{case}: {said}")


@each_model
def test_evicted_is_hidden_from_later_queries(name, model_of, tokens, ways, options):
    """Rows that stay move up in the cache, and go on from their own positions and from all that was read."""
    model = model_of(name, **options)
    for pos, (case, kept) in product(ways, KEPT.items()):
        cache, hidden = Cache(2), torch.zeros(LENGTH, LENGTH, dtype=torch.bool)
        hidden[READ:, [slot for slot in range(READ) if slot not in kept]] = True
        model(tokens[:, :READ], pos[..., :READ], cache)
        cache.retain(torch.tensor(kept))
        assert len(cache) == len(kept) and torch.equal(cache.pos, pos[..., kept])
        pieces = [model(tokens[:, at : at + 5], pos[..., at : at + 5], cache) for at in range(READ, LENGTH, 5)]
        close(torch.cat(pieces, dim=1), model(tokens, pos, hidden_keys=hidden)[:, READ:], case, pos)


def test_a_stream_with_sinks_is_a_mask(name, model_of, tokens, ways):
    """Token by token, the cache held to its first two slots and its last six (Xiao et al. 2023)."""
    model = model_of(name)
    ago = torch.arange(LENGTH).unsqueeze(-1) - torch.arange(LENGTH)
    hidden = (ago > 6) & (torch.arange(LENGTH) >= 2)
    for pos in ways:
        cache, pieces = Cache(2), []
        for at in range(LENGTH):
            pieces.append(model(tokens[:, at : at + 1], pos[..., at : at + 1], cache))
            slots = torch.arange(len(cache))
            cache.retain(slots[(slots < 2) | (slots >= len(cache) - 6)])
        close(torch.cat(pieces, dim=1), model(tokens, pos, hidden_keys=hidden), pos)


@each_model
def test_left_padding_changes_nothing_for_real_tokens(name, model_of, tokens, options):
    """Without a cache, and with one in chunks of all, of five and of one."""
    model, padding = model_of(name, **options), 8
    valid = torch.ones(2, LENGTH, dtype=torch.bool)
    valid[1, :padding] = False
    pos = (valid.long().cumsum(-1) - 1).clamp(min=0)
    alone = model(tokens[1:, padding:], torch.arange(LENGTH - padding))
    unpadded = model(tokens[:1], torch.arange(LENGTH))
    for size, cache in ((LENGTH, None), (LENGTH, Cache(2)), (5, Cache(2)), (1, Cache(2))):
        pieces = [
            model(tokens[:, at : at + size], pos[:, at : at + size], cache, valid=valid[:, at : at + size])
            for at in range(0, LENGTH, size)
        ]
        padded = torch.cat(pieces, dim=1)
        assert padded.isfinite().all()
        close(padded[1:, padding:], alone, size)
        close(padded[:1], unpadded, size)
