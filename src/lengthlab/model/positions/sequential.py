"""Sequential: tokens are counted from 0, as in nearly every transformer."""

import torch

from lengthlab.model.positions.base import Positions


class Sequential(Positions):
    """0, 1, 2, … from the start of every window and of every training block. Nothing is drawn."""

    def numbers(self, length, generator=None):
        """(length) int64: 0 to length - 1."""
        return torch.arange(length)

    def horizon(self, length):
        """The length."""
        return length
