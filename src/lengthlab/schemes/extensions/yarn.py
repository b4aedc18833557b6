"""YaRN: slow frequencies divided by s, fast ones kept, logits sharpened (Peng et al. 2023, arXiv:2309.00071)."""

import math

import torch

from lengthlab.schemes.extensions.rescaling import Rescaling
from lengthlab.schemes.rope import RoPE


class YaRN(Rescaling):
    """theta_k (1 - g_k (1 - 1/s)), cosines and sines times m = 0.1 ln(s) + 1, so the rotary logits times m².

    g_k = clip((k - low) / (high - low), 0, 1). A pair that turns r times within the training length has the index
    k(r) = d_r ln(L / (2 pi r)) / (2 ln base); low = ⌊k(beta_fast)⌋ and high = ⌈k(beta_slow)⌉, within 0 and d_r - 1
    (not d_r/2 - 1: so the authors' code). L is the training length, whatever is read.
    `beta_fast` 32 and `beta_slow` 1 turns are the paper's for Llama. `attention_factor`: m itself where s > 1; null is
    the formula. `truncate`: false leaves out floor and ceiling. Raises ValueError for a bad option.
    """

    def __init__(
        self,
        factor: float | str = "auto",
        beta_fast: float = 32.0,
        beta_slow: float = 1.0,
        attention_factor: float | None = None,
        truncate: bool = True,
    ):
        super().__init__(factor)
        if not 0 < beta_slow < math.inf:
            raise ValueError(f"beta_slow={beta_slow}: must be above 0")
        if not beta_slow < beta_fast < math.inf:
            raise ValueError(f"beta_fast={beta_fast}: must be above beta_slow ({beta_slow})")
        if attention_factor is not None and not 0 < attention_factor < math.inf:
            raise ValueError(f"attention_factor={attention_factor}: must be above 0, or null for 0.1 ln(s) + 1")
        self.turns, self.truncate, self.attention_factor = (beta_fast, beta_slow), truncate, attention_factor

    def band(self, scheme: RoPE) -> tuple[float, float]:
        """low and high: the pairs up to low are kept, those from high on divided by s."""
        size, length = scheme.rotary_size, scheme.dims.train_length
        low, high = (size * math.log(length / (2 * math.pi * r)) / (2 * math.log(scheme.base)) for r in self.turns)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = (float(min(max(end, 0), size - 1)) for end in (low, high))
        return low, high if high > low else low + 0.001  # the authors' guard against 0/0

    def factors(self, scheme, s, length, values):
        """1 - g (1 - 1/s), which is exactly 1 at s = 1."""
        low, high = self.band(scheme)
        index = torch.arange(len(values), dtype=values.dtype, device=values.device)
        return 1 - ((index - low) / (high - low)).clamp(0, 1) * (1 - 1 / s)

    def magnitude(self, scheme, s):
        """m."""
        if s == 1:
            return 1.0
        return 0.1 * math.log(s) + 1 if self.attention_factor is None else self.attention_factor
