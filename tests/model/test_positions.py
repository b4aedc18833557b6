"""Sequential numbers: 0, 1, 2, … and a horizon just past the largest."""

import pytest

from lengthlab.model import Sequential


@pytest.mark.parametrize("length", [1, 64])
def test_numbers_and_horizon(length):
    numbers = Sequential().numbers(length)
    assert numbers.tolist() == list(range(length))
    assert Sequential().horizon(length) == numbers.max() + 1
