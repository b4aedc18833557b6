"""The two MLPs: GELU between two matrices, and the gated SwiGLU of three."""

import torch.nn.functional as F
from torch import Tensor, nn


class GELU(nn.Module):
    """Two matrices around GELU (tanh form, as GPT-2's)."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.up = nn.Linear(width, hidden, bias=False)
        self.out = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(…,D) to (…,D)."""
        return self.out(F.gelu(self.up(x), approximate="tanh"))


class SwiGLU(nn.Module):
    """A gated MLP of three matrices (Shazeer 2020, arXiv:2002.05202)."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.out = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(…,D) to (…,D)."""
        return self.out(F.silu(self.gate(x)) * self.up(x))
