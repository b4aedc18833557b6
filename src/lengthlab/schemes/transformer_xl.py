"""Transformer-XL: a sinusoid of the distance, projected to keys (Dai et al. 2019, arXiv:1901.02860, section 3.3)."""

import torch
from torch import Tensor, nn

from lengthlab.schemes.base import Dims
from lengthlab.schemes.content import ContentScheme


class TransformerXLLayer(ContentScheme):
    """One layer of `TransformerXL`, with u, v and W of its own."""

    def __init__(self, dims: Dims, base: float, std: float):
        super().__init__(dims)
        self.base = base
        drawn = lambda *shape: nn.Parameter(torch.empty(shape).normal_(std=std))  # noqa: E731
        self.u, self.v = drawn(dims.heads, dims.head_size), drawn(dims.heads, dims.head_size)
        self.project = drawn(dims.heads, dims.head_size, dims.width)

    def scores(self, s, q, k, kept, q_pos, k_pos, visible):
        """Add (u·k + (q + v)·W R[distance]) / sqrt(K).

        W leaves the key's side: (q + v)W is a vector (D) per query, met by R. R's waves of i - j are products of waves
        of i and of j, so what is summed is (B,H,Q,D) by (S,D), and nothing is Q x S x D.
        """
        # Counted from the block's first query (exact for integers): rounding grows with the distance, not the position.
        start = q_pos[..., :1]
        (q_sin, q_cos), (k_sin, k_cos) = self.waves(q_pos - start), self.waves(k_pos - start)
        on_waves = (q + self.v.float().unsqueeze(1)) @ self.project.float()
        on_sin, on_cos = on_waves.chunk(2, dim=-1)
        turned = torch.cat((on_sin * q_sin + on_cos * q_cos, on_cos * q_sin - on_sin * q_cos), dim=-1)
        position = turned @ torch.cat((k_cos, k_sin), dim=-1).mT
        content = torch.einsum("hk,bhsk->bhs", self.u.float(), k).unsqueeze(2)
        return s + (content + position) / q.shape[-1] ** 0.5

    def waves(self, pos: Tensor) -> tuple[Tensor, Tensor]:
        """Sines and cosines of p / base^(2k/D), float32: (N,D/2), or (B,1,N,D/2) for batched positions."""
        even = torch.arange(0, self.dims.width, 2, dtype=torch.float32, device=pos.device)
        angles = pos.to(torch.float32).unsqueeze(-1) * self.base ** (-even / self.dims.width)
        angles = angles if angles.ndim == 2 else angles.unsqueeze(1)
        return angles.sin(), angles.cos()


class TransformerXL(ContentScheme):
    """logit = ((q_i + u)·k_j + (q_i + v)·W R[i - j]) / sqrt(K), R the D sines, then cosines, of the distance.

    R[d] = (sin(d / base^(2k/D)), cos(d / base^(2k/D))), k = 0 … D/2 - 1. Learned: u and v (K per head) and W
    (D x K per head), each layer its own (`untie_r`, as in the authors' large models), N(0, 0.02²) as in their code.
    The memory of earlier segments is not here: a cache is. Raises ValueError where D is odd or the base is not above 0.
    """

    def __init__(self, dims: Dims, base: float = 10000.0, std: float = 0.02):
        super().__init__(dims)
        if dims.width % 2:
            raise ValueError(f"width={dims.width}: must be even for transformer_xl")
        if not 0 < base < float("inf"):
            raise ValueError(f"base={base}: must be a number above 0")
        self.layers = nn.ModuleList(TransformerXLLayer(dims, base, std) for _ in range(dims.layers))

    def layer(self, index):
        """u, v and W of layer `index`."""
        return self.layers[index]
