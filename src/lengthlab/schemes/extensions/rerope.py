"""ReRoPE: RoPE whose distances end at a window (Su 2023, https://kexue.fm/archives/9708)."""

import torch
from torch import Tensor

from lengthlab.schemes.base import Scheme
from lengthlab.schemes.extensions.base import Extension
from lengthlab.schemes.extensions.window import Wrapped, checked
from lengthlab.schemes.rope import RoPE


class Remapped(Wrapped):
    """RoPE where keys at `window` tokens and more are turned by other numbers than their positions."""

    def far(self, q_pos: Tensor, k_pos: Tensor) -> tuple[Tensor, Tensor]:
        """The numbers of queries and keys, for pairs outside the window."""
        raise TypeError(f"{type(self).__name__} must say what is far: define far")

    def scores(self, s, q, k, kept, q_pos, k_pos, visible):
        """Two products, q and k turned by their positions and by `far`, each pair taking its own."""
        near = self.logits(q, k, kept, q_pos, k_pos, visible)
        far = self.logits(q, k, kept, *self.far(q_pos, k_pos), visible)
        inside = q_pos.unsqueeze(-1) - k_pos.unsqueeze(-2) < self.sizes[0]
        return torch.where(inside if inside.ndim == 2 else inside.unsqueeze(1), near, far)


class Rectified(Remapped):
    """RoPE at distance min(i - j, window)."""

    def far(self, q_pos, k_pos):
        """Every query `window` after every key."""
        return torch.full_like(q_pos, self.sizes[0]), torch.zeros_like(k_pos)


class ReRoPE(Extension):
    """RoPE at distance min(i - j, window). Fits RoPE.

    `window` null: a quarter of the training length (the author's 1024 of 4096). Raises ValueError below 1.
    """

    causal_only = True

    fits = (RoPE,)

    def __init__(self, window: int | None = None):
        self.window = checked("window", window)

    def wrap(self, scheme: Scheme, length: int) -> Scheme:
        """The rectified scheme, the same for every length."""
        return Rectified(scheme, self.window or max(1, scheme.dims.train_length // 4))
