"""CoPE: positions that count the keys that matter (Golovneva et al. 2024, arXiv:2405.18719, section 4, appendix B)."""

import torch
from torch import nn

from lengthlab.schemes.base import Dims
from lengthlab.schemes.content import ContentScheme


class CoPELayer(ContentScheme):
    """One layer of `CoPE`, with a table of its own."""

    def __init__(self, dims: Dims, npos: int):
        super().__init__(dims)
        self.table = nn.Parameter(torch.zeros(npos, dims.head_size))

    def scores(self, s, q, k, kept, q_pos, k_pos, visible):
        """Add q·e[count], between two rows of the table where the count is not whole."""
        # What is not visible is not counted, and must be out before the sum: afterwards the future is in every count.
        gates = s.sigmoid().masked_fill(~visible, 0.0)
        count = gates.flip(-1).cumsum(dim=-1).flip(-1).clamp(max=len(self.table) - 1)
        per_row = q @ self.table.float().mT
        below, above = count.floor(), count.ceil()
        share = count - below
        return s + per_row.gather(-1, below.long()) * (1 - share) + per_row.gather(-1, above.long()) * share


class CoPE(ContentScheme):
    """logit = s_ij + q_i·e[p_ij], s = q·k / sqrt(K), p_ij = min(sum over visible t = j … i of sigmoid(s_it), npos - 1).

    e at a count that is not whole lies on the line between its two neighbours. Learned: npos x K per layer, shared by
    the heads, zeros at the start: the official code's defaults, as is `npos` null = training length + 1. q·e is not
    divided by sqrt(K), as in the paper's listing (the official code divides it unless told otherwise). Positions are
    not used. Only visible keys are counted: one that is evicted, or outside a window, changes the logits of all before
    it, as if it had not been read. Raises ValueError where npos < 2.
    """

    causal_only = True

    def __init__(self, dims: Dims, npos: int | None = None):
        super().__init__(dims)
        self.npos = dims.train_length + 1 if npos is None else npos
        if self.npos < 2:
            raise ValueError(f"npos={npos}: must be at least 2, or null for the training length + 1")
        self.layers = nn.ModuleList(CoPELayer(dims, self.npos) for _ in range(dims.layers))

    def layer(self, index):
        """The table of layer `index`."""
        return self.layers[index]

    def untrained(self):
        """Rows of counts that a window of the training length cannot reach."""
        last = self.dims.train_length
        if self.npos <= last + 1:
            return []
        return [
            f"cope: training windows count to {last} at most, so rows {last + 1} to {self.npos - 1} stay zero; "
            f"lower scheme.npos={self.npos} to {last + 1}, or null"
        ]
