"""NTK-aware: the fastest stays, the slowest is divided by s (bloc97 2023; arXiv:2309.00071, section 3.1)."""

from torch import Tensor

from lengthlab.schemes.alibi import ALiBi
from lengthlab.schemes.base import Scheme
from lengthlab.schemes.extensions.rescaling import Rescaling
from lengthlab.schemes.rope import RoPE


class NTK(Rescaling):
    """The value of rank r among n, from the largest, r = 0 … n - 1, is multiplied by s^(-r/(n-1)).

    On RoPE's d_r/2 frequencies that is the base b·s^(d_r/(d_r-2)), and `factor=dynamic` is dynamic NTK (emozilla). On
    the slopes of ALiBi's biased heads it is NTK-ALiBi (keezen 2023), by rank for any number of heads; an only head is
    the fastest, and stays. Raises ValueError for an only pair (d_r = 2).
    """

    fits = (RoPE, ALiBi)

    def at(self, scheme, s, length):
        """RoPE with a larger base, or ALiBi with slopes further apart."""
        if isinstance(scheme, RoPE) and scheme.rotary_size == 2:
            raise ValueError("ntk needs two rotary pairs per head at least, got one (d_r = 2); use extension=pi")
        return super().at(scheme, s, length)

    def factors(self, scheme: Scheme, s: float, length: int, values: Tensor) -> Tensor:
        """s^(-r/(n-1))."""
        rank = values.argsort(descending=True, stable=True).argsort()
        return s ** (-rank.to(values.dtype) / max(1, len(values) - 1))
