"""Randomized: a random increasing subset of a long range (Ruoss et al. 2023, arXiv:2305.16843, section 3)."""

import torch

from lengthlab.model.positions.base import Positions


class Randomized(Positions):
    """`length` of the numbers 0 … max - 1, each subset as likely as any other, sorted; drawn anew for every batch.

    Training and evaluation draw alike: read in order from 0, a model would meet gaps it was not trained on. `max` must
    be at least the longest length; null: 2048, the authors' default (conf/positions/randomized.yaml gives the longest
    length that the job reads). Raises ValueError for a `max` below 1 or below a length.
    """

    random = True

    def __init__(self, max: int | None = None):
        if max is not None and max < 1:
            raise ValueError(f"max={max}: must be at least 1, or null")
        self.max = 2048 if max is None else max

    def numbers(self, length, generator=None):
        """(length) int64, increasing, below `max`."""
        if length > self.max:
            raise ValueError(
                f"max={self.max}: too few numbers for {length} tokens; use at least {length}, or shorter lengths"
            )
        return torch.randperm(self.max, generator=generator)[:length].sort().values

    def horizon(self, length):
        """`max`, whatever the length."""
        return self.max
