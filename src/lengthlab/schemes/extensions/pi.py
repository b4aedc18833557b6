"""PI: positions divided by s (Chen et al. 2023, arXiv:2306.15595; ALiBi: Al-Khateeb et al. 2023, arXiv:2310.13017)."""

import torch

from lengthlab.schemes.alibi import ALiBi
from lengthlab.schemes.extensions.rescaling import Rescaling
from lengthlab.schemes.rope import RoPE


class PI(Rescaling):
    """theta/s for every frequency of RoPE, slope/s for every head of ALiBi: what p/s for every position p gives."""

    fits = (RoPE, ALiBi)

    def factors(self, scheme, s, length, values):
        """1/s for all."""
        return torch.full_like(values, 1 / s)
