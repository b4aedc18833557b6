"""Training blocks are consecutive pieces of the joined text, each token once an epoch, in an order of their own."""

from collections import Counter
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lengthlab.training import Batches

quick = settings(max_examples=100, derandomize=True, deadline=None)
BOS = 0


def documents_of(sizes):
    """Documents whose tokens are all different, so that a token says where it is from."""
    ends = np.cumsum([0, *sizes]) + 1
    return [np.arange(start, stop, dtype=np.uint16) for start, stop in zip(ends, ends[1:], strict=False)]


@st.composite
def corpora(draw):
    """(sizes of documents, length): at least one block, with empty documents and ones shorter than a block."""
    sizes = draw(st.lists(st.integers(0, 40), min_size=1, max_size=8))
    total = sum(size + 1 for size in sizes)
    if total < 2:
        sizes, total = [*sizes, 1], total + 2
    return sizes, draw(st.integers(1, min(total - 1, 30)))


def epoch_of(batches, epoch=0):
    """The blocks of one epoch, one by one."""
    count = batches.blocks_per_epoch
    return [block[0] for block in islice(batches.batches(1), epoch * count, (epoch + 1) * count)]


@quick
@given(corpora(), st.integers(0, 3), st.integers(0, 2))
def test_blocks_are_consecutive_tokens_of_the_joined_stream(corpus, seed, epoch):
    sizes, length = corpus
    documents = documents_of(sizes)
    batches = Batches(documents, BOS, length, seed)
    _, order = batches._epoch(epoch)
    stream = np.concatenate([np.concatenate(([BOS], documents[index])) for index in order])
    blocks = epoch_of(batches, epoch)
    assert sorted(order) == list(range(len(documents)))
    assert len(blocks) == (len(stream) - 1) // length
    cuts = {tuple(stream[first : first + length + 1]) for first in range(0, len(stream) - length, length)}
    assert {tuple(block) for block in blocks} == cuts


@quick
@given(corpora(), st.integers(0, 3))
def test_an_epoch_feeds_every_token_at_most_once_and_all_but_the_tail(corpus, seed):
    sizes, length = corpus
    documents = documents_of(sizes)
    blocks = epoch_of(Batches(documents, BOS, length, seed))
    fed = Counter(token for block in blocks for token in block[:-1].tolist() if token != BOS)
    targets = Counter(token for block in blocks for token in block[1:].tolist() if token != BOS)
    assert max([*fed.values(), *targets.values(), 1]) == 1
    total = sum(sizes) + len(sizes)
    fed_bos = sum(int((block[:-1] == BOS).sum()) for block in blocks)
    assert total - 1 - (len(fed) + fed_bos) < length  # the tail is shorter than a block


@quick
@given(corpora(), st.integers(0, 3))
def test_bos_stands_before_each_document_and_nowhere_else(corpus, seed):
    sizes, length = corpus
    documents = documents_of(sizes)
    firsts = {int(document[0]) for document in documents if len(document)}
    lasts = {int(document[-1]) for document in documents if len(document)}
    for block in epoch_of(Batches(documents, BOS, length, seed)):
        for token, following in zip(block[:-1].tolist(), block[1:].tolist(), strict=True):
            if token == BOS:
                assert following in firsts or following == BOS  # an empty document is its BOS alone
            elif following == BOS:
                assert token in lasts
            else:
                assert following == token + 1 and following not in firsts


@quick
@given(corpora(), st.integers(0, 3))
def test_crossing_is_the_share_of_blocks_that_feed_two_documents(corpus, seed):
    sizes, length = corpus
    batches = Batches(documents_of(sizes), BOS, length, seed)
    _, order = batches._epoch(0)
    owner = np.concatenate([np.full(sizes[index] + 1, index) for index in order])
    firsts = [block * length for block in range(batches.blocks_per_epoch)]
    crossing = [len(set(owner[first : first + length])) > 1 for first in firsts]
    assert batches.crossing() == pytest.approx(np.mean(crossing))


def head(seed, size=3, count=20, sizes=(30, 0, 25, 7, 3), length=6):
    return np.stack(list(islice(Batches(documents_of(sizes), BOS, length, seed).batches(size), count)))


def test_a_seed_is_an_order():
    assert (head(1) == head(1)).all()
    assert (head(1) != head(2)).any()


def test_the_order_is_nobody_elses_draw():
    """A scheme that draws numbers, before or while the data is read, moves nothing."""
    expected = head(5)
    torch.manual_seed(9)
    np.random.seed(9)
    batches = Batches(documents_of((30, 0, 25, 7, 3)), BOS, 6, 5).batches(3)
    found = []
    for _ in range(20):
        found.append(next(batches))
        torch.rand(3)
        np.random.rand(3)
    assert (np.stack(found) == expected).all()


def test_epochs_differ_and_batches_span_them():
    batches = Batches(documents_of((30, 25, 7)), BOS, 6, 0)
    assert not np.array_equal(epoch_of(batches, 0), epoch_of(batches, 1))
    one_by_one = np.concatenate([*epoch_of(batches, 0), *epoch_of(batches, 1), *epoch_of(batches, 2)])
    together = np.concatenate([*islice(batches.batches(4), 6)]).ravel()
    shorter = min(len(one_by_one), len(together))
    assert (together[:shorter] == one_by_one[:shorter]).all()


def test_blocks_are_int64_and_the_text_is_not_changed():
    documents = documents_of((9, 9))
    (batch,) = islice(Batches(documents, BOS, 4, 0).batches(2), 1)
    assert (batch.shape, batch.dtype) == ((2, 5), np.int64)
    batch[:] = 77
    assert all((document == original).all() for document, original in zip(documents, documents_of((9, 9)), strict=True))


@pytest.mark.parametrize("sizes", [[], [0], [3, 0], [5]])
def test_too_little_text_is_one_line_that_names_the_length(sizes):
    with pytest.raises(ValueError, match=r"train\.length=6: .*only \d+ tokens") as refusal:
        Batches(documents_of(sizes), BOS, 6, 0)
    assert "\n" not in str(refusal.value)


def test_the_least_text_is_one_block_and_its_last_target():
    assert epoch_of(Batches(documents_of([6]), BOS, 6, 0))[0].tolist() == [BOS, 1, 2, 3, 4, 5, 6]
