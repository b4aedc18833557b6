"""ALiBi: a linear penalty on distance, one fixed slope per head (Press et al. 2022, arXiv:2108.12409, section 3)."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lengthlab.schemes.base import Dims, DistanceBias

Slopes = str | Sequence[float] | None


def reference_slopes(heads: int, bias_max: float = 8.0) -> list[float]:
    """Slopes of the authors' code for any number of heads.

    2^(-bias_max h/H), h = 1..H, where H is a power of two; otherwise the list of the power of two below, followed by
    every second slope, from the first, of the power of two above.
    """
    power = 2 ** math.floor(math.log2(heads))
    return geometric_slopes(power, bias_max) + geometric_slopes(2 * power, bias_max)[::2][: heads - power]


def geometric_slopes(heads: int, bias_max: float = 8.0) -> list[float]:
    """2^(-bias_max h/H), h = 1..H, for any H: the formula in the paper's text."""
    return [2.0 ** (-bias_max * h / heads) for h in range(1, heads + 1)]


FORMULAS = {"reference": reference_slopes, "geometric": geometric_slopes}


def slopes_of(total: int, slopes: Slopes, bias_max: float | None, heads: int | None) -> tuple[float, ...]:
    """One slope for each of `total` heads, 0 where a head has no bias. Raises ValueError."""
    biased = total if heads is None else heads
    if not 1 <= biased <= total:
        raise ValueError(f"heads={heads}: must be 1 to {total}, or null for all")
    if isinstance(slopes, list | tuple):
        numbers = all(type(slope) in (int, float) and 0 < slope < math.inf for slope in slopes)
        if len(slopes) != biased or not numbers:
            raise ValueError(f"slopes={list(slopes)}: must be {biased} numbers above 0, one per biased head")
        if bias_max is not None:
            raise ValueError(f"bias_max={bias_max}: must be null where slopes is a list")
        chosen = list(slopes)
    else:
        name, steepest = "reference" if slopes is None else slopes, 8.0 if bias_max is None else bias_max
        if name not in FORMULAS:
            raise ValueError(f"slopes={slopes}: must be {', '.join(FORMULAS)}, or a list of {biased} numbers")
        if not 0 < steepest < math.inf:
            raise ValueError(f"bias_max={bias_max}: must be above 0")
        chosen = FORMULAS[name](biased, steepest)
    return (*chosen, *(0.0,) * (total - biased))


class ALiBi(DistanceBias):
    """bias = -slope x distance, for causal attention: a key after the query would be rewarded. Learned: nothing.

    `slopes`: reference (the authors' code; null is the same), geometric (the paper's text) or a list. `bias_max`: the
    exponent of the last slope, null is the paper's 8. `heads`: how many of the first heads are biased, null is all;
    their slopes are those of a model with that many heads. Raises ValueError for what is none of these.
    """

    causal_only = True

    def __init__(self, dims: Dims, slopes: Slopes = None, bias_max: float | None = None, heads: int | None = None):
        super().__init__(dims)
        self.slopes = slopes_of(dims.heads, slopes, bias_max, heads)

    def head_slopes(self, device: torch.device) -> Tensor:
        """The slope of every head, per token, (H) float32; 0 where a head has no bias."""
        return torch.tensor(self.slopes, dtype=torch.float32, device=device)

    def of_distance(self, distance):
        """-slope of each head times the distance, float32."""
        return -self.head_slopes(distance.device).view(-1, *(1,) * distance.ndim) * distance


class SymmetricALiBi(ALiBi):
    """bias = -slope x |distance|: ALiBi for causal and bidirectional attention (x-transformers). Learned: nothing."""

    causal_only = False

    def of_distance(self, distance):
        """-slope of each head times the distance to either side, float32."""
        return super().of_distance(distance.abs())


class LearnedALiBi(SymmetricALiBi):
    """bias = -exp(log_slope) x |distance|, starting at the slopes of ALiBi. Learned: one slope per biased head.

    The logarithm is learned: a slope stays positive, and a step changes it by a share of itself, whatever its size.
    """

    def __init__(self, dims: Dims, slopes: Slopes = None, bias_max: float | None = None, heads: int | None = None):
        super().__init__(dims, slopes, bias_max, heads)
        self.log_slopes = nn.Parameter(torch.tensor([math.log(slope) for slope in self.slopes if slope]))

    def head_slopes(self, device):
        """The slope of every head as it is now; in its last dimension one per head, float32."""
        return F.pad(self.log_slopes.float().exp(), (0, self.dims.heads - self.log_slopes.shape[-1]))


class TwoSidedALiBi(LearnedALiBi):
    """bias = -past slope x distance before the query, -future slope x |distance| after it. Learned: 2 x biased heads.

    The authors' "nonsymmetric with no mask" (ofirpress/attention_with_linear_biases, issue 5), where a bidirectional
    model tells left from right; here both slopes start at ALiBi's. A causal model leaves the future's as they start.
    """

    def __init__(self, dims: Dims, slopes: Slopes = None, bias_max: float | None = None, heads: int | None = None):
        super().__init__(dims, slopes, bias_max, heads)
        self.log_slopes = nn.Parameter(self.log_slopes.detach().repeat(2, 1))  # (past and future, biased heads)

    def of_distance(self, distance):
        """Minus the slope of the key's side times the distance, float32."""
        past, future = self.head_slopes(distance.device).view(2, -1, *(1,) * distance.ndim)
        return -torch.where(distance < 0, future, past) * distance.abs()
