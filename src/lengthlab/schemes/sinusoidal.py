"""Sinusoidal: fixed sines and cosines added to the embeddings (Vaswani et al. 2017, arXiv:1706.03762, section 3.5)."""

import math

import torch

from lengthlab.schemes.base import Dims, Scheme


class Sinusoidal(Scheme):
    """PE[p, 2k] = sin(p / base^(2k/D)), PE[p, 2k+1] = cos(p / base^(2k/D)). Learned: nothing.

    The factor sqrt(D) on the token embeddings (section 3.4) is the model's, for all schemes alike.
    """

    def __init__(self, dims: Dims, base: float = 10000.0):
        super().__init__(dims)
        if dims.width % 2:
            raise ValueError(f"sinusoidal needs an even width, got {dims.width}")
        if not 0 < base < math.inf:
            raise ValueError(f"base={base}: must be a number above 0")
        self.base = base

    def embed(self, x, pos):
        """Add the waves of each position, at any position."""
        width = self.dims.width
        even = torch.arange(0, width, 2, dtype=torch.float32, device=x.device)
        angles = pos.to(torch.float32).unsqueeze(-1) * self.base ** (-even / width)
        waves = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)
        return x + waves.to(x.dtype)
