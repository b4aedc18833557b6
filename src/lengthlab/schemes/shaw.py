"""Shaw: a learned vector per clipped distance, added to the keys (Shaw et al. 2018, arXiv:1803.02155, eq. 4)."""

import torch
from torch import nn

from lengthlab.schemes.base import Dims
from lengthlab.schemes.content import ContentScheme


class ShawLayer(ContentScheme):
    """One layer of `Shaw`, with a table of its own."""

    def __init__(self, dims: Dims, clip: int, std: float):
        super().__init__(dims)
        self.clip = clip
        self.table = nn.Parameter(torch.empty(dims.heads, clip + 1, dims.head_size).normal_(std=std))

    def scores(self, s, q, k, kept, q_pos, k_pos, visible):
        """Add q·a[distance] / sqrt(K): a product per row of the table, then the row that each pair needs."""
        distance = q_pos.unsqueeze(-1) - k_pos.unsqueeze(-2)
        row = distance.round().clamp(0, self.clip).long()
        row = row if row.ndim == 2 else row.unsqueeze(1)
        per_row = q @ self.table.float().mT / q.shape[-1] ** 0.5
        return s + per_row.gather(-1, row.expand_as(s))


class Shaw(ContentScheme):
    """logit = q_i·(k_j + a[clip(i - j)]) / sqrt(K), distances past `clip` tokens sharing the last vector.

    Learned: (clip + 1) x K per head and layer, N(0, std²), as in the paper's base model, whose `clip` is 16 and whose
    std is not told (0.02: GPT-2's). Only the keys' term: the values' gained nothing (the paper's table 3). Keys after
    the query share row 0, and fractions of a token are rounded. Raises ValueError where clip < 1.
    """

    def __init__(self, dims: Dims, clip: int = 16, std: float = 0.02):
        super().__init__(dims)
        if clip < 1:
            raise ValueError(f"clip={clip}: must be at least 1")
        self.clip = clip
        self.layers = nn.ModuleList(ShawLayer(dims, clip, std) for _ in range(dims.layers))

    def layer(self, index):
        """The table of layer `index`."""
        return self.layers[index]

    def untrained(self):
        """Rows of distances that no two training positions have."""
        last = self.dims.horizon - 1
        if self.clip <= last:
            return []
        return [
            f"shaw: training distances end at {last}, so rows {last + 1} to {self.clip} keep their random start; "
            f"lower scheme.clip={self.clip} to {last}"
        ]
