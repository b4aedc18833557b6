"""Offset: training blocks begin at a random number (SHAPE: Kiyono et al. 2021, arXiv:2109.05644)."""

import torch

from lengthlab.model.positions.sequential import Sequential


class Offset(Sequential):
    """In training i + k, k drawn from 0 … max_offset; in evaluation i, counted from 0.

    Numbers up to max_offset + length - 1 are then trained, though not distances past the length. The paper draws per
    sequence, here one draw serves the batch; the authors' code begins at max_offset in evaluation, where a longer
    window would at once leave what was trained. Default 2048: the longest length of conf/eval/default.yaml.
    Raises ValueError below 0.
    """

    def __init__(self, max_offset: int = 2048):
        if max_offset < 0:
            raise ValueError(f"max_offset={max_offset}: must be at least 0")
        self.max_offset = max_offset

    def training(self, length, generator=None):
        """(length) int64: consecutive, from a random start."""
        return torch.arange(length) + torch.randint(self.max_offset + 1, (), generator=generator)

    def horizon(self, length):
        """max_offset + length."""
        return self.max_offset + length
