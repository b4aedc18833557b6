"""ALiBi: a linear penalty on distance, one fixed slope per head (Press et al. 2022, arXiv:2108.12409, section 3)."""

import math

import torch

from lengthlab.schemes.base import Dims, DistanceBias


def reference_slopes(heads: int) -> list[float]:
    """Slopes of the authors' code for any number of heads.

    2^(-8h/H), h = 1..H, where H is a power of two; otherwise the list of the power of two below, followed by every
    second slope, from the first, of the power of two above.
    """
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2.0 ** (-8 * h / power) for h in range(1, power + 1)]
    between = [2.0 ** (-8 * h / (2 * power)) for h in range(1, 2 * power + 1, 2)]
    return slopes + between[: heads - power]


class ALiBi(DistanceBias):
    """bias = -slope x distance. Learned: nothing."""

    def __init__(self, dims: Dims):
        super().__init__(dims)
        self.slopes = tuple(reference_slopes(dims.heads))

    def of_distance(self, distance):
        """-slope of each head times the distance, float32."""
        slopes = torch.tensor(self.slopes, dtype=torch.float32, device=distance.device)
        return -slopes.view(-1, *(1,) * distance.ndim) * distance
