"""The cache: keys in the order of reading, un-rotated, each with its position; a slot is not a position."""

import torch

from lengthlab.model import Cache


def test_slots_are_in_the_order_of_reading_and_layers_are_apart():
    cache, chunks = Cache(2), [torch.randn(1, 2, size, 4) for size in (3, 1, 5)]
    for chunk in chunks:
        k, v, _ = cache.extend(0, chunk, -chunk)
    assert torch.equal(k, torch.cat(chunks, dim=2)) and torch.equal(v, -k)
    k, *_ = cache.extend(1, chunks[0], chunks[0])
    assert torch.equal(k, chunks[0])


def test_positions_are_kept_as_they_came():
    cache = Cache(1)
    assert len(cache) == 0
    cache.arrive(torch.tensor([[4, 9], [0, 1]]))
    cache.arrive(torch.tensor([[11], [70]]))
    assert cache.pos.tolist() == [[4, 9, 11], [0, 1, 70]]
    assert len(cache) == 3


def test_keys_are_kept_unrotated(model_of):
    """The same tokens at other positions leave the same keys in the first layer."""
    model, tokens = model_of("rope", layers=1), torch.randint(97, (2, 6))
    kept = []
    for pos in (torch.arange(6), torch.arange(6) * 7 + 100):
        cache = Cache(1)
        model(tokens, pos, cache)
        kept.append(cache.extend(0, *2 * [torch.empty(2, 4, 0, 8)])[:2])
    assert all(map(torch.equal, *kept))


def test_positions_may_jump_between_chunks(model_of):
    """The second chunk's numbers say how far it is from the first; the count of slots does not."""
    model, tokens = model_of("alibi"), torch.randint(97, (2, 8))

    def read(gap: int) -> torch.Tensor:
        pos, cache = torch.cat((torch.arange(5), torch.arange(5, 8) + gap)), Cache(2)
        model(tokens[:, :5], pos[:5], cache)
        pieces = model(tokens[:, 5:], pos[5:], cache)
        torch.testing.assert_close(pieces, model(tokens, pos)[:, 5:], atol=1e-5, rtol=0)
        return pieces

    assert (read(0) - read(20)).abs().max() > 1e-2


def test_evicted_slots_are_gone_and_the_others_move_up():
    cache, k, kept = Cache(1), torch.randn(2, 2, 5, 4), torch.randn(2, 5, 3)
    cache.arrive(torch.tensor([0, 7, 8, 20, 21]), torch.ones(2, 5, dtype=torch.bool))
    cache.extend(0, k, -k, kept)
    cache.retain(torch.tensor([0, 3]))
    assert len(cache) == 2 and cache.pos.tolist() == [0, 20] and cache.order.tolist() == [[0, 3]] * 2
    left = cache.extend(0, *2 * [torch.empty(2, 2, 0, 4)], torch.empty(2, 0, 3))
    assert all(map(torch.equal, left, (k[:, :, [0, 3]], -k[:, :, [0, 3]], kept[:, [0, 3]])))


def test_what_the_last_token_kept_outlives_its_eviction():
    """A cumulated gate goes on from the token read last, whether or not its key is still there."""
    cache, k, kept = Cache(1), torch.randn(2, 2, 5, 4), torch.randn(2, 5, 3)
    assert cache.last_kept(0) is None
    cache.arrive(torch.arange(5))
    cache.extend(0, k, k, kept)
    cache.retain(torch.tensor([0, 1]))
    assert torch.equal(cache.last_kept(0), kept[:, -1:])
