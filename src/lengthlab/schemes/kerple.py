"""KERPLE: a logarithmic or a power penalty on distance, learned per head (Chi et al. 2022, arXiv:2205.09921)."""

import torch
from torch import Tensor, nn

from lengthlab.schemes.base import Dims, DistanceBias

LEAST = 0.01
"""The authors' code keeps what is learned at or above this; here it bounds the start alone."""


def drawn(heads: int, below: float) -> Tensor:
    """(H) numbers, uniform from 0 to `below` as in the authors' code, at least LEAST."""
    return (torch.rand(heads) * below).clamp(min=LEAST)


def per_head(values: Tensor, distance: Tensor) -> Tensor:
    """(H) values in a shape that meets distances of any shape."""
    return values.view(-1, *(1,) * distance.ndim)


class KERPLELog(DistanceBias):
    """bias = -r1 ln(1 + r2 |distance|), r1 and r2 > 0. Learned: r1 and r2, per head, shared by all layers.

    Their logarithms are learned: positive without a clamp, which would leave a head at its bound with no gradient.
    Start (the authors' code): r1 uniform below 2, r2 below 1.
    """

    def __init__(self, dims: Dims):
        super().__init__(dims)
        self.log_r1 = nn.Parameter(drawn(dims.heads, 2.0).log())
        self.log_r2 = nn.Parameter(drawn(dims.heads, 1.0).log())

    def of_distance(self, distance):
        """The penalty of each head, float32."""
        r1, r2 = (per_head(log.float().exp(), distance) for log in (self.log_r1, self.log_r2))
        return -r1 * torch.log1p(r2 * distance.abs())


class KERPLEPower(DistanceBias):
    """bias = -r1 |distance|^r2, r1 > 0 and 0 < r2 < 2. Learned: r1 and r2, per head, shared by all layers.

    ln r1 is learned, and r2 = 2 sigmoid(logit_r2): inside their bounds without a clamp, which would leave a head at its
    bound with no gradient. Start (the authors' code): r1 uniform below 1, r2 below 2.
    """

    def __init__(self, dims: Dims):
        super().__init__(dims)
        self.log_r1 = nn.Parameter(drawn(dims.heads, 1.0).log())
        self.logit_r2 = nn.Parameter((drawn(dims.heads, 2.0) / 2).logit(eps=LEAST / 2))

    def of_distance(self, distance):
        """The penalty of each head, float32."""
        r1, r2 = self.log_r1.float().exp(), 2 * self.logit_r2.float().sigmoid()
        return -per_head(r1, distance) * distance.abs().pow(per_head(r2, distance))
