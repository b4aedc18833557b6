"""Which number each token carries; what the numbers do is the scheme's."""

import torch
from torch import Tensor


class Sequential:
    """Tokens are numbered 0, 1, 2, … from the start of every window and of every training block."""

    def numbers(self, length: int, device: torch.device | None = None) -> Tensor:
        """(length) integers: the positions of one window."""
        return torch.arange(length, device=device)

    def horizon(self, length: int) -> int:
        """Largest number that a window of `length` tokens can carry, + 1."""
        return length
