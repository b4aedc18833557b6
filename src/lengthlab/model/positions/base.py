"""The one interface of every way of numbering tokens, in training and in evaluation."""

import numpy as np
import torch
from torch import Tensor


class Positions:
    """Numbers the tokens of a window, or of a training block, from its start; all rows of a batch carry the same."""

    random: bool = False
    """Evaluation draws, too: a cell is then read with several draws, and its nll is the mean over them."""

    def numbers(self, length: int, generator: torch.Generator | None = None) -> Tensor:
        """(length) increasing numbers of an evaluated window, integers or float32, on the CPU.

        Raises ValueError, `key=value: …`, where a window of `length` tokens cannot be numbered.
        """
        raise TypeError(f"{type(self).__name__} must say which numbers tokens carry: define numbers")

    def training(self, length: int, generator: torch.Generator | None = None) -> Tensor:
        """The same of a training block; a draw from `generator` (None: torch's own) where training draws."""
        return self.numbers(length, generator)

    def horizon(self, length: int) -> int:
        """Largest number that training on blocks of `length` tokens can give, rounded up, + 1."""
        raise TypeError(f"{type(self).__name__} must say where its numbers end: define horizon")


def generator_of(*seeds: int) -> torch.Generator:
    """A generator whose draws depend on these numbers (of at least 0), every one of them, and on nothing else."""
    # torch's CPU generator looks at 32 bits of its seed, so several numbers are hashed into that.
    return torch.Generator().manual_seed(int(np.random.SeedSequence(seeds).generate_state(1)[0]))
