"""Who sees whom, against masks drawn by hand; orders and validity, never slots or positions, decide."""

import torch

from lengthlab.model import Cache
from lengthlab.model.sight import causal, visible


def drawn(*rows: str) -> torch.Tensor:
    return torch.tensor([[mark == "x" for mark in row] for row in rows])


def seen_of(queries, keys, valid=None, causal=True, window=None, sinks=0) -> torch.Tensor:
    return visible(torch.tensor(queries), torch.tensor(keys), valid, causal, window, sinks)


def test_without_options_it_is_the_causal_mask():
    assert torch.equal(seen_of(range(5), range(5)), causal(5, 5, torch.device("cpu")))
    assert torch.equal(seen_of([3, 4], range(5)), causal(2, 5, torch.device("cpu")))


def test_a_window_counts_the_query_itself():
    assert torch.equal(seen_of(range(5), range(5), window=2), drawn("x....", "xx...", ".xx..", "..xx.", "...xx"))
    assert torch.equal(seen_of(range(3), range(3), window=1), drawn("x..", ".x.", "..x"))


def test_sinks_are_added_to_the_window_and_never_the_future():
    expected = drawn("x.....", "xx....", "xxx...", "xxxx..", "xx.xx.", "xx..xx")
    assert torch.equal(seen_of(range(6), range(6), window=2, sinks=2), expected)
    assert torch.equal(seen_of([0], range(3), window=1, sinks=3), drawn("x.."))


def test_both_directions():
    assert seen_of(range(4), range(4), causal=False).all()
    expected = drawn("xx...", "xxx..", ".xxx.", "..xxx", "...xx")
    assert torch.equal(seen_of(range(5), range(5), causal=False, window=2), expected)
    sinks = seen_of(range(5), range(5), causal=False, window=2, sinks=1)
    assert torch.equal(sinks, expected | drawn(*["x...."] * 5))


def test_evicted_keys_leave_no_hole():
    """The window is counted in tokens read: what is left of the cache is no nearer for standing closer."""
    assert torch.equal(seen_of([7, 8], [0, 3, 6, 7, 8], window=3), drawn("..xx.", "..xxx"))
    assert torch.equal(seen_of([7, 8], [0, 3, 6, 7, 8], window=2, sinks=1), drawn("x.xx.", "x..xx"))


def test_padding_is_seen_by_nobody_but_itself():
    valid = torch.tensor([[False, False, True, True], [True, True, True, True]])
    order = valid.long().cumsum(-1) - 1
    seen = visible(order, order, valid, True, None, 0)
    assert seen.shape == (2, 1, 4, 4)
    assert torch.equal(seen[0, 0], drawn("x...", ".x..", "..x.", "..xx"))
    assert torch.equal(seen[1, 0], causal(4, 4, torch.device("cpu")))
    both = visible(order, order, valid, False, None, 0)
    assert torch.equal(both[0, 0], drawn("x.xx", ".xxx", "..xx", "..xx"))


def test_sinks_are_the_first_real_tokens_not_the_padding():
    valid = torch.tensor([[False, False, True, True, True, True]])
    order = valid.long().cumsum(-1) - 1
    seen = visible(order, order, valid, True, 1, 1)[0, 0, 2:]
    assert torch.equal(seen, drawn("..x...", "..xx..", "..x.x.", "..x..x"))


def test_the_order_of_a_cache_counts_real_tokens_read():
    cache, valid = Cache(1), torch.tensor([[False, True, True], [True, True, True]])
    assert cache.arrive(torch.arange(3).expand(2, 3), valid).tolist() == [[-1, 0, 1], [0, 1, 2]]
    later = cache.arrive(torch.arange(3, 5).expand(2, 2), torch.ones(2, 2, dtype=torch.bool))
    assert later.tolist() == [[2, 3], [3, 4]]
    cache = Cache(0)
    cache.arrive(torch.arange(6))
    cache.retain(torch.tensor([0, 4]))
    assert cache.arrive(torch.arange(6, 8)).tolist() == [6, 7]
    assert cache.order.tolist() == [0, 4, 6, 7] and cache.pos.tolist() == [0, 4, 6, 7]
