"""The index arithmetic of the protocols: which targets are scored, how often, and after how many tokens."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lengthlab.measurement import NonOverlapping, SameTarget, Sliding, Sweep, with_train_length

quick = settings(max_examples=150, derandomize=True, deadline=None)
sizes = st.integers(0, 300)


@st.composite
def slidings(draw):
    length = draw(st.integers(1, 80))
    return Sliding(length, draw(st.integers(1, length)))


@st.composite
def same_targets(draw):
    reach = draw(st.integers(1, 120))
    length = draw(st.integers(1, reach))
    return SameTarget(length, reach, draw(st.integers(1, max(1, length // 4))))


nonoverlappings = st.integers(1, 80).map(NonOverlapping)
everything = st.one_of(nonoverlappings, slidings(), same_targets())


def targets(window):
    return range(window.first, window.stop + 1)


@quick
@given(st.one_of(nonoverlappings, slidings()), sizes)
def test_every_target_is_scored_exactly_once(protocol, tokens):
    counts = Counter(target for window in protocol.windows(tokens) for target in targets(window))
    assert counts == Counter(range(1, tokens + 1))


@quick
@given(everything, sizes)
def test_windows_lie_in_the_stream_and_feed_at_most_the_length(protocol, tokens):
    for window in protocol.windows(tokens):
        assert 0 <= window.start < window.first <= window.stop <= tokens
        assert 1 <= window.fed <= protocol.length
        assert 1 <= window.scored <= window.fed
        assert window.scored == len(targets(window))
        assert window.fed == protocol.length or tokens < protocol.length or protocol.name == "nonoverlapping"


@quick
@given(nonoverlappings, sizes)
def test_nonoverlapping_feeds_every_token_once(protocol, tokens):
    windows = list(protocol.windows(tokens))
    fed = [position for window in windows for position in range(window.start, window.stop)]
    assert fed == list(range(tokens))  # x_0 = BOS … x_(N-1)
    assert all(window.fed == protocol.length for window in windows[:-1])


@quick
@given(slidings(), sizes)
def test_sliding_moves_by_the_stride_and_keeps_a_context(protocol, tokens):
    first, *later = list(protocol.windows(tokens)) or [None]
    for before, window in zip([first, *later], later, strict=False):
        assert 1 <= window.start - before.start <= protocol.stride
        assert window.start - before.start == protocol.stride or window is later[-1]
        assert min(targets(window)) - window.start >= protocol.length - protocol.stride + 1
    if first:
        assert (first.start, first.first) == (0, 1)


@quick
@given(st.integers(1, 40), st.integers(0, 8))
def test_sliding_by_whole_windows_is_nonoverlapping(length, windows):
    tokens = length * windows
    assert list(Sliding(length, length).windows(tokens)) == list(NonOverlapping(length).windows(tokens))


@quick
@given(same_targets(), sizes, st.data())
def test_same_target_has_the_same_targets_at_every_length(protocol, tokens, data):
    other = data.draw(st.integers(protocol.block * 4 if protocol.block > 1 else 1, protocol.reach))
    here = [list(targets(w)) for w in protocol.windows(tokens)]
    there = [list(targets(w)) for w in SameTarget(other, protocol.reach, protocol.block).windows(tokens)]
    assert here == there


@quick
@given(same_targets(), sizes)
def test_same_target_blocks_end_where_the_docstring_says(protocol, tokens):
    windows = list(protocol.windows(tokens))
    step = max(1, protocol.reach // 4)
    ends = [end for k in range(tokens + 1) if (end := protocol.reach + k * step) <= tokens]
    assert [window.stop for window in windows] == ends
    assert all(window.fed == protocol.length and window.scored == protocol.block for window in windows)
    for window in windows:
        contexts = [target - window.start for target in targets(window)]
        assert contexts == list(range(protocol.length - protocol.block + 1, protocol.length + 1))
    scored = [target for window in windows for target in targets(window)]
    assert len(scored) == len(set(scored))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Sliding(128, 256), "stride=256 at length 128"),  # F3: text between the windows would be skipped
        (lambda: Sliding(128, 0), "stride=0"),
        (lambda: SameTarget(64, 63, 1), "reach=63"),
        (lambda: SameTarget(64, 64, 17), "block=17"),
        (lambda: SameTarget(64, 64, 0), "block=0"),
        (lambda: SameTarget(3, 64, 2), "block=2"),
        (lambda: Sweep((64, 128), ("sliding",), stride=65), "stride=65 at length 64"),
        (lambda: Sweep((64, 128), ("same_target",), reach=127), "reach=127"),
        (lambda: Sweep((32, 128), ("same_target",), block=9), "block=9"),
        (lambda: Sweep((64,), ("sliding",), stride=0), "stride=0"),
        (lambda: Sweep((64,), ("same_target",), reach=0), "reach=0"),
        (lambda: Sweep((64,), ("same_target",), block=0), "block=0"),
        (lambda: Sweep((64,), ("slidng",)), "no protocol 'slidng'; there are nonoverlapping, sliding, same_target"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(make, says):
    with pytest.raises(ValueError) as refusal:
        make()
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_defaults_of_a_sweep():
    sweep = Sweep((2, 64, 2048), ("nonoverlapping", "sliding", "same_target"))
    assert sweep.longest == 2048
    assert sweep.cells() == [
        *(NonOverlapping(length) for length in (2, 64, 2048)),
        *(Sliding(length, length // 2) for length in (2, 64, 2048)),
        *(SameTarget(length, reach=2048, block=1) for length in (2, 64, 2048)),
    ]
    assert Sweep((1,), ("sliding",)).cells() == [Sliding(1, 1)]


@quick
@given(st.integers(1, 200))
def test_the_default_block_is_16_or_a_quarter_of_the_shortest_length(shortest):
    sweep = Sweep((shortest, shortest + 100), ("same_target",))
    assert {cell.block for cell in sweep.cells()} == {max(1, min(16, shortest // 4))}


def test_a_longer_reach_is_what_documents_need():
    sweep = Sweep((64, 128), ("same_target",), reach=512)
    assert sweep.longest == 512
    assert {cell.reach for cell in sweep.cells()} == {512}


def test_options_are_what_besides_the_length_changes_the_numbers():
    assert NonOverlapping(8).options == {}
    assert Sliding(8, 3).options == {"stride": 3}
    assert SameTarget(8, 16, 2).options == {"reach": 16, "block": 2}


def test_the_training_length_is_always_evaluated():
    assert with_train_length([128, 256], 64) == (64, 128, 256)
    assert with_train_length([64, 32], 64) == (32, 64)
