"""Where things go: labels as near as the others allow, ticks that are round and few."""

import pytest

from lengthlab.figures.places import plain_ticks, spread


def test_spread_is_nearest_and_keeps_order():
    assert spread([1.0, 5.0], [1, 1], 0, 10) == [1.0, 5.0]
    assert spread([5.0, 5.0, 5.0], [1, 1, 1], 0, 10) == [4.0, 5.0, 6.0]
    assert spread([9.9, 0.0], [2, 2], 0, 10) == [9.0, 1.0]


@pytest.mark.parametrize(("low", "high"), [(15, 220), (0.7, 11), (0.98, 1.03), (20, 1e5), (900, 1100)])
def test_ticks_are_several_and_inside(low, high):
    ticks = plain_ticks(low, high)
    assert 3 <= len(ticks) <= 9 and low <= min(ticks) and max(ticks) <= high
