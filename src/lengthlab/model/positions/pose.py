"""PoSE: a training block as two chunks, with a skip between their numbers (Zhu et al. 2023, arXiv:2309.10400)."""

import torch

from lengthlab.model.positions.sequential import Sequential


class PoSE(Sequential):
    """In training the first n tokens carry 0 … n - 1 and the others i + skip; in evaluation all carry i.

    n is drawn from 1 … (length + 1) // 2 and the skip from 0 … max - length, as in the authors' code, so that every
    distance below `max` can occur. The text itself stays whole. `max` is the longest length to be read; null: 2048
    (conf/positions/pose.yaml gives the longest length that the job reads). Raises ValueError for a `max` below 1 or
    below the training length.
    """

    def __init__(self, max: int | None = None):
        if max is not None and max < 1:
            raise ValueError(f"max={max}: must be at least 1, or null")
        self.max = 2048 if max is None else max

    def training(self, length, generator=None):
        """(length) int64: increasing by 1 but for one place, below `max`."""
        if length > self.max:
            raise ValueError(f"max={self.max}: below the training length; use at least {length}")
        first = torch.randint(1, (length + 1) // 2 + 1, (), generator=generator)
        skip = torch.randint(self.max - length + 1, (), generator=generator)
        numbers = torch.arange(length)
        return numbers + skip * (numbers >= first)

    def horizon(self, length):
        """`max`, whatever the length."""
        return self.max
