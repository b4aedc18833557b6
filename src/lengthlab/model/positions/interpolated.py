"""Interpolated: longer windows squeezed into a shorter range of numbers (Chen et al. 2023, arXiv:2306.15595, eq. 4)."""

import math

import torch

from lengthlab.model.positions.base import Positions


class Interpolated(Positions):
    """Token i carries i / scale, float32, in training and in evaluation. Nothing is drawn.

    The paper's scale is L' / L and comes in after training, which is what a test-time extension does; here it is there
    from the first step. Default 4: the paper's 2,048 to 8,192. Raises ValueError for a scale that is not above 0.
    """

    def __init__(self, scale: float = 4.0):
        if not 0 < scale < math.inf:
            raise ValueError(f"scale={scale}: must be above 0")
        self.scale = scale

    def numbers(self, length, generator=None):
        """(length) float32: i / scale."""
        return torch.arange(length, dtype=torch.float32) / self.scale

    def horizon(self, length):
        """The last number rounded up, + 1: a table has a row on either side of every fraction."""
        return math.ceil(self.numbers(length)[-1].item()) + 1
