"""p-RoPE: RoPE that turns only the highest fraction p of its frequencies (Barbero et al. 2024, arXiv:2410.06205)."""

import torch

from lengthlab.schemes.base import Dims
from lengthlab.schemes.rope import RoPE


class PRoPE(RoPE):
    """theta_k = base^(-2k/K) for the first ⌊p·K/2⌋ pairs and 0 for the slow rest: p = 1 is RoPE. Learned: nothing.

    Not `fraction` of RoPE: there the turned pairs span all frequencies, here they keep those of the whole head.
    `p`: 0.75 was best in the paper. `base` and `layout` as RoPE's. Raises ValueError where no pair would turn.
    """

    def __init__(self, dims: Dims, p: float = 0.75, base: float = 10000.0, layout: str | None = None):
        super().__init__(dims, base=base, layout=layout)
        if not 0 < p <= 1:
            raise ValueError(f"p={p}: must be above 0 and at most 1")
        self.turned = int(p * dims.head_size / 2)
        if not self.turned:
            raise ValueError(f"p={p}: turns none of a head's {dims.head_size // 2} pairs; use scheme=nope")

    def frequencies(self, device: torch.device | None = None) -> torch.Tensor:
        """(K/2) radians per token, 0 for the pairs that do not turn."""
        frequencies = super().frequencies(device)
        frequencies[self.turned :] = 0.0
        return frequencies
