"""RoPE: queries and keys turned by their position (Su et al. 2021, arXiv:2104.09864, eq. 34)."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from lengthlab.schemes.base import Dims, Scheme

LAYOUTS = {"half": -2, "interleaved": -1}
"""The axis of the pair when a head's rotary numbers are folded in two: k with k + d_r/2, or 2k with 2k + 1."""


class RoPE(Scheme):
    """Pair k of a head, k = 0 … d_r/2 - 1, turns by p·base^(-2k/d_r) radians at position p. Learned: nothing.

    `base`: 10,000 in the paper. `fraction`: the first d_r = int(fraction·K) of a head's K numbers are turned and the
    others left (GPT-NeoX, which has 0.25); null is all. `layout`: half (Llama, GPT-NeoX; null is the same) or
    interleaved (the paper, GPT-J). Raises ValueError, one line, for a bad option and where d_r is not even.
    """

    factors: Callable[[Tensor], Tensor] | None = None
    """From the frequencies to a factor for each of them; an extension sets it, on a copy."""
    magnitude: float = 1.0
    """Factor on cosines and sines: the rotary part of the logits grows by its square. Set as `factors` is."""

    def __init__(self, dims: Dims, base: float = 10000.0, fraction: float | None = None, layout: str | None = None):
        super().__init__(dims)
        if dims.head_size % 2:
            raise ValueError(f"rope needs an even head size (width / heads), got {dims.head_size}")
        if not 1 < base < math.inf:
            raise ValueError(f"base={base}: must be a number above 1")
        if fraction is not None and not 0 < fraction <= 1:
            raise ValueError(f"fraction={fraction}: must be above 0 and at most 1, or null for all")
        if layout not in (None, *LAYOUTS):
            raise ValueError(f"layout={layout}: must be one of {', '.join(LAYOUTS)}")
        self.base, self.axis = base, LAYOUTS[layout or "half"]
        self.rotary_size = dims.head_size if fraction is None else int(fraction * dims.head_size)
        if self.rotary_size % 2 or not self.rotary_size:
            raise ValueError(
                f"fraction={fraction}: turns {self.rotary_size} of a head's {dims.head_size} numbers; must be pairs"
            )

    def rotate(self, q, k, q_pos, k_pos):
        """Turn q and k, each by its own positions."""
        return self._turn(q, q_pos), self._turn(k, k_pos)

    def frequencies(self, device: torch.device | None = None) -> Tensor:
        """(d_r/2) radians per token, as trained; float32, made anew at each use: a buffer would be cast."""
        even = torch.arange(0, self.rotary_size, 2, dtype=torch.float32, device=device)
        return self.base ** (-even / self.rotary_size)

    def used_frequencies(self, device: torch.device | None = None) -> Tensor:
        """(d_r/2) radians per token, as an extension left them."""
        frequencies = self.frequencies(device)
        return frequencies if self.factors is None else frequencies * self.factors(frequencies)

    def untrained(self):
        """The pairs that turn, but never once around within the training length."""
        turns = self.frequencies() * self.dims.train_length / (2 * math.pi)
        short = ((turns > 0) & (turns < 1)).nonzero().flatten().tolist()
        if not short:
            return []
        pairs = f"pair {short[0]}" if len(short) == 1 else f"pairs {short[0]} to {short[-1]}"
        return [
            f"{type(self).__name__}: {len(short)} of {len(turns)} pairs ({pairs}) never finish a turn within "
            f"{self.dims.train_length} tokens, and meet new angles in longer texts; use a smaller scheme.base, turn "
            "fewer pairs (p_rope), or an extension"
        ]

    def _turn(self, x: Tensor, pos: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            angles = pos.to(torch.float32).unsqueeze(-1) * self.used_frequencies(x.device)
            if angles.ndim == 3:  # batched positions: (B,Q,d_r/2) meets (B,heads,Q,d_r/2)
                angles = angles.unsqueeze(1)
            cos, sin = angles.cos() * self.magnitude, angles.sin() * self.magnitude
            rotary, rest = x[..., : self.rotary_size].to(torch.float32), x[..., self.rotary_size :]
            first, second = rotary.unflatten(-1, (2, -1) if self.axis == -2 else (-1, 2)).unbind(self.axis)
            turned = torch.stack((first * cos - second * sin, second * cos + first * sin), dim=self.axis).flatten(-2)
        return torch.cat((turned.to(x.dtype), rest), dim=-1)
