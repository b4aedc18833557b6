"""Extensions that multiply each frequency of RoPE, or each slope of ALiBi, by a factor of its own."""

from collections.abc import Callable
from copy import copy
from functools import partial

import torch
from torch import Tensor

from lengthlab.schemes.alibi import ALiBi
from lengthlab.schemes.base import DistanceBias, Scheme
from lengthlab.schemes.extensions.scaled import Scaled
from lengthlab.schemes.rope import RoPE


class Rescaling(Scaled):
    """theta_k becomes theta_k times a factor; cosines and sines, times a magnitude. Both are exactly 1 at s = 1."""

    fits = (RoPE,)

    def factors(self, scheme: Scheme, s: float, length: int, values: Tensor) -> Tensor:
        """One factor for each of the values (frequencies or slopes, per token), float32."""
        raise TypeError(f"{type(self).__name__} must say how it rescales: define factors")

    def magnitude(self, scheme: Scheme, s: float) -> float:
        """The factor on cosines and sines."""
        return 1.0

    def at(self, scheme, s, length):
        """RoPE with other frequencies, or ALiBi with other slopes."""
        factors = partial(self.factors, scheme, s, length)
        if isinstance(scheme, ALiBi):
            return Resloped(scheme, factors)
        changed = copy(scheme)
        changed.factors, changed.magnitude = factors, self.magnitude(scheme, s)
        return changed


class Resloped(DistanceBias):
    """ALiBi, of any kind, with each head's bias times a factor; a head without a slope stays without one."""

    def __init__(self, trained: ALiBi, factors: Callable[[Tensor], Tensor]):
        super().__init__(trained.dims)
        self.trained, self.factors = trained, factors

    def of_distance(self, distance):
        """The trained bias times the head's factor."""
        slopes = -self.trained.of_distance(distance.new_ones(()))
        factors, biased = torch.ones_like(slopes), slopes > 0
        factors[biased] = self.factors(slopes[biased])
        return factors.view(-1, *(1,) * distance.ndim) * self.trained.of_distance(distance)
