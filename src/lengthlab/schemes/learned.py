"""Learned: one vector per position, added to the embeddings (Gehring et al. 2017, arXiv:1705.03122; GPT-2)."""

import torch
from torch import nn

from lengthlab.schemes.base import Dims, Scheme


class Learned(Scheme):
    """A table of `horizon` rows, N(0, std²). Learned: horizon x D.

    A position at or past the horizon has no row. It is undefined, and asking for it is an error, never a clamp.
    """

    def __init__(self, dims: Dims, std: float = 0.02):
        super().__init__(dims)
        self.horizon = dims.horizon
        self.table = nn.Parameter(torch.empty(dims.horizon, dims.width).normal_(std=std))

    def embed(self, x, pos):
        """Add the row of each position; of a fraction, the mean of the rows around it, weighted by nearness.

        Raises ValueError past the horizon, and below 0.
        """
        below, above = pos.floor().long(), pos.ceil().long()
        for end in (int(below.min()), int(above.max())):
            if not 0 <= end < self.horizon:
                raise ValueError(f"learned positions are 0 to {self.horizon - 1}, got {end}: undefined")
        rows = self.table[below]
        if pos.is_floating_point():
            with torch.autocast(x.device.type, enabled=False):
                rows = torch.lerp(rows.float(), self.table[above].float(), (pos - below).float().unsqueeze(-1))
        return x + rows.to(x.dtype)
