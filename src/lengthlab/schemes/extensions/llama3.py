"""Llama 3's scaling: long waves divided by s, short kept (Llama 3.1; Grattafiori et al. 2024, arXiv:2407.21783)."""

import math

from lengthlab.schemes.extensions.rescaling import Rescaling


class Llama3(Rescaling):
    """theta for wavelengths below L/high, theta/s for those above L/low; between, linear in the turns within L.

    With r = L theta / (2 pi) turns, theta (1 - g (1 - 1/s)), g = clip((high - r) / (high - low), 0, 1). L is the
    training length. `low` 1 and `high` 4 are Llama 3.1's, whose factor is 8. Raises ValueError for a bad option.
    """

    def __init__(self, factor: float | str = "auto", low: float = 1.0, high: float = 4.0):
        super().__init__(factor)
        if not 0 < low < math.inf:
            raise ValueError(f"low={low}: must be above 0")
        if not low < high < math.inf:
            raise ValueError(f"high={high}: must be above low ({low})")
        self.low, self.high = low, high

    def factors(self, scheme, s, length, values):
        """1 - g (1 - 1/s), which is exactly 1 at s = 1."""
        turns = values * scheme.dims.train_length / (2 * math.pi)
        return 1 - ((self.high - turns) / (self.high - self.low)).clamp(0, 1) * (1 - 1 / s)
