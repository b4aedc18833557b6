"""xPos: RoPE whose products decay with distance, fast pairs most (Sun et al. 2022, arXiv:2212.10554, section 3)."""

import math

import torch
from torch import Tensor

from lengthlab.schemes.base import Dims
from lengthlab.schemes.content import ContentScheme
from lengthlab.schemes.rope import RoPE

SPAN = 8192
"""Tokens that queries scaled around one centre may span: the steepest decay over them is 0.29^16, 2e-9."""


class XPos(RoPE, ContentScheme):
    """Pair k of the product of q at i and k at j is RoPE's times zeta_k^((i - j)/512). Learned: nothing.

    zeta_k = (2k + 0.4 K) / (1.4 K). As the product of zeta^(i/512) and zeta^(-j/512) this leaves float32 after some
    70,000 tokens; here both powers are taken from the last query of a run, where no past key's grows, so the logits
    are those of the formula at any position. A key later than its query has no logit (-inf), causal model or not.
    `scale_base`: 512 and `base`: 10,000 are the paper's. `layout` as RoPE's. Raises ValueError for a bad option.
    """

    causal_only = True

    def __init__(self, dims: Dims, scale_base: float = 512.0, base: float = 10000.0, layout: str | None = None):
        super().__init__(dims, base=base, layout=layout)
        if not 0 < scale_base < math.inf:
            raise ValueError(f"scale_base={scale_base}: must be a number above 0")
        self.scale_base = scale_base

    def decay(self, device: torch.device | None = None) -> Tensor:
        """(K) ln(zeta) / scale_base, below 0: how the logarithm of each number's product falls per token; float32."""
        size = self.dims.head_size
        zeta = (torch.arange(0, size, 2, dtype=torch.float32, device=device) + 0.4 * size) / (1.4 * size)
        return torch.stack((zeta, zeta), dim=self.axis).flatten().log() / self.scale_base

    def scores(self, s, q, k, kept, q_pos, k_pos, visible):
        """The logits anew, from q and k as turned, with the decay; float32, and -inf for what is ahead."""
        moved = (q_pos // SPAN).diff(dim=-1) != 0
        cuts = (moved.nonzero()[:, -1].unique() + 1).tolist()
        runs = zip(q.tensor_split(cuts, dim=2), q_pos.tensor_split(cuts, dim=-1), strict=True)
        decayed = torch.cat([self._decayed(near, near_pos, k, k_pos) for near, near_pos in runs], dim=2)
        ahead = k_pos.unsqueeze(-2) > q_pos.unsqueeze(-1)
        return decayed.masked_fill(ahead.unsqueeze(1) if ahead.ndim == 3 else ahead, float("-inf"))

    def _decayed(self, q: Tensor, q_pos: Tensor, k: Tensor, k_pos: Tensor) -> Tensor:
        centre, decay = q_pos.amax(dim=-1, keepdim=True), self.decay(q.device)
        up = (((q_pos - centre).to(torch.float32)).unsqueeze(-1) * decay).exp()
        # Keys after the last query are masked; unclamped they would overflow, and a gradient of 0 x inf is NaN.
        down = (((centre - k_pos).clamp(min=0).to(torch.float32)).unsqueeze(-1) * decay).exp()
        if up.ndim == 3:
            up, down = up.unsqueeze(1), down.unsqueeze(1)
        return (q * up) @ (k * down).mT / q.shape[-1] ** 0.5
