"""RoPE: queries and keys turned by their position (Su et al. 2021, arXiv:2104.09864, eq. 34)."""

import torch

from lengthlab.schemes.base import Dims, Scheme


class RoPE(Scheme):
    """Pair k of a head turns by p·base^(-2k/K). Pairs are (k, k + K/2), the half-split layout. Learned: nothing."""

    def __init__(self, dims: Dims, base: float = 10000.0):
        super().__init__(dims)
        if dims.head_size % 2:
            raise ValueError(f"rope needs an even head size (width / heads), got {dims.head_size}")
        self.base = base

    def rotate(self, q, k, q_pos, k_pos):
        """Turn q and k, each by its own positions."""
        return self._turn(q, q_pos), self._turn(k, k_pos)

    def frequencies(self, device: torch.device | None = None) -> torch.Tensor:
        """(K/2) radians per token, float32, made anew at each use: a buffer would be cast with the model."""
        size = self.dims.head_size
        even = torch.arange(0, size, 2, dtype=torch.float32, device=device)
        return self.base ** (-even / size)

    def _turn(self, x, pos):
        angles = pos.to(torch.float32).unsqueeze(-1) * self.frequencies(x.device)
        if angles.ndim == 3:  # batched positions: (B,Q,K/2) meets (B,heads,Q,K)
            angles = angles.unsqueeze(1)
        cos, sin = angles.cos(), angles.sin()
        first, second = x.to(torch.float32).chunk(2, dim=-1)
        turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
        return turned.to(x.dtype)
