"""Interpolate: a learned table stretched, linear between rows (as ViT's for larger images, arXiv:2010.11929, 3.2)."""

import math

import torch

from lengthlab.schemes.base import Scheme
from lengthlab.schemes.extensions.scaled import Scaled
from lengthlab.schemes.learned import Learned


class Interpolate(Scaled):
    """Position p takes the place p/s between the rows around it. The horizon becomes s times the table's.

    The last places, above rows - 1, have a row on one side only, and take that. Row p is exactly itself at s = 1.
    """

    fits = (Learned,)

    def at(self, scheme, s, length):
        """The table, s times longer."""
        return Stretched(scheme, s)


class Stretched(Scheme):
    """A learned table read at p/s."""

    def __init__(self, trained: Learned, s: float):
        super().__init__(trained.dims)
        self.trained, self.s = trained, s
        self.horizon = math.ceil(round(s * trained.horizon, 6))  # L / train_length x train_length may miss L

    def embed(self, x, pos):
        """Add the mean of two rows, weighted by nearness. Raises ValueError past the horizon, and below 0."""
        last = math.ceil(pos.max().item())
        if last >= self.horizon:
            raise ValueError(f"interpolated positions are 0 to {self.horizon - 1}, got {last}: undefined")
        return self.trained.embed(x, (pos.to(torch.float32) / self.s).clamp(max=self.trained.horizon - 1))
