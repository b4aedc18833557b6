"""DAPE: a small MLP over the heads adapts a bias to the logits (Zheng et al. 2024, arXiv:2405.14722, section 3.2)."""

import torch
import torch.nn.functional as F
from torch import nn

from lengthlab.schemes.alibi import ALiBi
from lengthlab.schemes.base import Dims
from lengthlab.schemes.content import ContentScheme
from lengthlab.schemes.fire import FIRE
from lengthlab.schemes.kerple import KERPLELog

BASES = {"alibi": ALiBi, "fire": FIRE, "kerple_log": KERPLELog}
"""The biases that the paper adapts."""


class DAPELayer(ContentScheme):
    """One layer of `DAPE`, with an MLP and a base of its own."""

    def __init__(self, dims: Dims, base: str, hidden: int):
        super().__init__(dims)
        self.base = BASES[base](dims)
        self.up, self.out = nn.Linear(2 * dims.heads, hidden), nn.Linear(hidden, dims.heads)

    def scores(self, s, q, k, kept, q_pos, k_pos, visible):
        """s + B + MLP([s, B]), the MLP at every pair of query and key apart."""
        base = self.base.bias(q_pos, k_pos)
        # A base need not be finite at keys after the query: zero there, it cannot reach the weights' gradients.
        both = torch.cat((s, base.expand_as(s)), dim=1).masked_fill(~visible, 0.0)
        hidden = F.leaky_relu(F.linear(both.movedim(1, -1), self.up.weight.float(), self.up.bias.float()))
        adapted = F.linear(hidden, self.out.weight.float(), self.out.bias.float())
        return s + base + adapted.movedim(-1, 1)


class DAPE(ContentScheme):
    """logit = s + B + MLP([s, B]), s = q·k / sqrt(K), B a base bias; MLP 2H -> hidden -> H with LeakyReLU (0.01).

    `base` kerple_log is the paper's strongest (DAPE-Kerple); alibi and fire are its others. `hidden` 32 is the paper's.
    Learned, by each layer for itself as in the authors' code: the MLP (torch's start) and what the base learns.
    Every pair is adapted alone (DAPE-V2's convolution over keys is another scheme). A block of Q queries holds
    B x Q x S x (2H + hidden) numbers. Raises ValueError where an option is not one of these.
    """

    def __init__(self, dims: Dims, base: str = "kerple_log", hidden: int = 32):
        super().__init__(dims)
        if base not in BASES:
            raise ValueError(f"base={base}: must be one of {', '.join(BASES)}")
        if hidden < 1:
            raise ValueError(f"hidden={hidden}: must be at least 1")
        self.layers = nn.ModuleList(DAPELayer(dims, base, hidden) for _ in range(dims.layers))

    def layer(self, index):
        """MLP and base of layer `index`."""
        return self.layers[index]

    def untrained(self):
        """What the base says."""
        return self.layers[0].base.untrained()
