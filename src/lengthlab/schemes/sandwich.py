"""Sandwich: the inner product of two sinusoidal positions as a bias (Chi et al. 2023, arXiv:2212.10356)."""

import torch

from lengthlab.schemes.base import Dims, DistanceBias


class Sandwich(DistanceBias):
    """bias_h = H/(8h) Σ_k (cos(distance / 10000^(2k/d)) - 1), h = 1..H, k = 1..d/2. Learned: nothing.

    `dim` is d, the width of the sinusoids, 128 in the paper whatever the model's. The -1 makes the bias 0 at distance 0
    (softmax does not see it). Raises ValueError where `dim` is odd or below 2.
    """

    def __init__(self, dims: Dims, dim: int = 128):
        super().__init__(dims)
        if dim < 2 or dim % 2:
            raise ValueError(f"dim={dim}: must be an even number of at least 2")
        self.dim = dim

    def of_distance(self, distance):
        """The sum over all frequencies, then each head's factor, float32."""
        waves = torch.zeros_like(distance)
        for k in range(1, self.dim // 2 + 1):  # one at a time: all at once would hold dim/2 copies of the distances
            waves += (distance * 10000.0 ** (-2 * k / self.dim)).cos() - 1
        heads = torch.arange(1, self.dims.heads + 1, dtype=torch.float32, device=distance.device)
        return (self.dims.heads / (8 * heads)).view(-1, *(1,) * distance.ndim) * waves
