"""LongRoPE: each frequency divided by a searched factor of its own (Ding et al. 2024, arXiv:2402.13753)."""

import math

from lengthlab.schemes.extensions.rescaling import Rescaling

Factors = tuple[float, ...] | None


class LongRoPE(Rescaling):
    """theta_k / long_k when n > L tokens are read, theta_k / short_k when n <= L; cosines and sines times a magnitude.

    L is the training length, n what `extend` heard; the magnitude is sqrt(1 + ln s / ln L), whatever n (as in Phi-3,
    whose weights were trained on with it). `long`: one number per pair, found by a search that is not done here; null
    is s for all, where the paper's search begins (PI). `short`: the same for n <= L; null is 1 for all.
    Raises ValueError for other numbers, and when it wraps a scheme with another number of pairs.
    """

    length_dependent = True

    def __init__(self, factor: float | str = "auto", long: Factors = None, short: Factors = None):
        super().__init__(factor)
        for key, factors in (("long", long), ("short", short)):
            numbers = [] if factors is None else [isinstance(f, int | float) and 0 < f < math.inf for f in factors]
            if not all(numbers):
                raise ValueError(f"{key}={list(factors)}: must be numbers above 0, one per pair, or null")
        self.long, self.short = long, short

    def at(self, scheme, s, length):
        """RoPE with the long or the short factors."""
        pairs = scheme.rotary_size // 2
        for key, factors in (("long", self.long), ("short", self.short)):
            if factors is not None and len(factors) != pairs:
                raise ValueError(f"{key}={list(factors)}: must be {pairs} numbers, one per pair, or null")
        return super().at(scheme, s, length)

    def factors(self, scheme, s, length, values):
        """1 / long, or 1 / short."""
        is_long = length > scheme.dims.train_length
        chosen, default = (self.long, s) if is_long else (self.short, 1.0)
        return 1 / values.new_tensor([default] * len(values) if chosen is None else list(chosen))

    def magnitude(self, scheme, s):
        """sqrt(1 + ln s / ln L)."""
        # ln 1 = 0: at one token nothing turns, and any magnitude would do.
        return math.sqrt(1 + math.log(s) / math.log(max(2, scheme.dims.train_length)))
