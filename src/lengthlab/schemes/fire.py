"""FIRE: a small MLP of the distance over the query's position (Li et al. 2024, arXiv:2310.04418)."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from lengthlab.schemes.base import Dims, Scheme

EPS = 1e-6
"""Keeps the normaliser from 0, as in the paper's listing."""


class FIRE(Scheme):
    """bias = f(ψ(i - j) / ψ(max(i, T))), ψ(x) = ln(1 + |c| x), T = |multiplier| x threshold; f an MLP 1 -> hidden -> H.

    i and j are the positions of query and key. Learned: c, multiplier and f, shared by all layers: 2 + 2 hidden +
    (hidden + 1) H numbers. |c| and |multiplier| are inside the graph, as in the paper.
    `hidden` 32, `c` 0.1 and a threshold of 512 tokens are the paper's. `threshold` null is min(512, training length): a
    longer one would keep training's inputs to f below 1, which longer texts then reach. A bias holds Q x S x hidden
    numbers for a moment. Raises ValueError where an option is not above 0.
    """

    def __init__(self, dims: Dims, hidden: int = 32, c: float = 0.1, threshold: float | None = None):
        super().__init__(dims)
        self.threshold = min(512, dims.train_length) if threshold is None else threshold
        for key, value in {"hidden": hidden, "c": c, "threshold": self.threshold}.items():
            if not 0 < value < math.inf:
                raise ValueError(f"{key}={value}: must be above 0")
        self.c = nn.Parameter(torch.tensor(float(c)))
        self.multiplier = nn.Parameter(torch.tensor(1.0))
        self.up, self.out = nn.Linear(1, hidden), nn.Linear(hidden, dims.heads)

    def bias(self, q_pos, k_pos):
        """f of every pair's normalised distance, float32."""
        distance = (q_pos.unsqueeze(-1) - k_pos.unsqueeze(-2)).to(torch.float32).abs()
        with torch.autocast(distance.device.type, enabled=False):
            c, threshold = self.c.float().abs(), self.multiplier.float().abs() * self.threshold
            normaliser = torch.log1p(c * q_pos.to(torch.float32).maximum(threshold)) + EPS
            x = torch.log1p(c * distance) / normaliser.unsqueeze(-1)
            hidden = F.linear(x.unsqueeze(-1), self.up.weight.float(), self.up.bias.float())
            out = F.linear(F.relu(hidden, inplace=True), self.out.weight.float(), self.out.bias.float())
        return out.movedim(-1, -3)

    def untrained(self):
        """What f is never given in training because the threshold is above every training position."""
        end = self.dims.horizon
        if self.threshold <= end:
            return []
        c = self.c.abs().item()
        reached = math.log1p(c * (end - 1)) / math.log1p(c * self.threshold)
        return [
            f"fire: training positions end at {end - 1}, below scheme.threshold={self.threshold}, so the MLP is given "
            f"{reached:.2f} at most and up to 1 in longer texts; set scheme.threshold={end}, or null"
        ]
