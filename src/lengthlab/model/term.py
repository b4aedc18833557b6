"""The positional term of attention, given a block of queries at a time: a view where only distance counts, else built.

A bias that is a function of distance needs no matrix. With the queries flipped, i' = Q-1-i, the distance of query i' to
key j is Q-1-(i'+j): along i'+j it is one row of numbers per head, and a matrix of any block is a view of that row with
strides (1, 1). The causal mask is in it: where the distance is negative, the row holds -inf.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from lengthlab.model.sight import Sight
from lengthlab.schemes import DistanceBias, Scheme


@dataclass(frozen=True)
class Distances:
    """f(distance) for Q queries over the same Q equally spaced keys: `row` (H, Q + block - 1), farthest first."""

    row: Tensor
    queries: int

    def flipped(self, first: int, stop: int) -> Tensor:
        """(1, H, stop - first, stop) bias and causal mask, float32: queries stop-1 … first over the first keys."""
        row = self.row
        shape, strides = (row.shape[0], stop - first, stop), (row.stride(0), 1, 1)
        return row.as_strided(shape, strides, row.storage_offset() + self.queries - stop).unsqueeze(0)


@dataclass(frozen=True)
class Built:
    """Any other bias, (H,Q,S) or (B,H,Q,S): what the scheme says of each block of queries.

    `whole` is there where all the queries fit into one block: layers then share it.
    """

    scheme: Scheme
    sight: Sight
    whole: Tensor | None = None

    def rows(self, first: int, stop: int, keys: int) -> Tensor:
        """The bias of the queries first … stop-1 over the first `keys` keys."""
        if self.whole is not None:
            return self.whole[..., first:stop, :keys]
        return self.scheme.bias(self.sight.q_pos[..., first:stop], self.sight.k_pos[..., :keys])


def term_of(scheme: Scheme, sight: Sight) -> Distances | Built | None:
    """The term of one scheme for one forward pass, by what the scheme is; None where it adds nothing to the logits."""
    queries, pos, block = sight.q_pos.shape[-1], sight.q_pos, sight.block
    if isinstance(scheme, DistanceBias) and sight.visible is None and _equally_spaced(pos):
        block = min(block, queries)
        distance = (pos[-1:] - pos).to(torch.float32)  # before the cast: exact for integers of any size
        with torch.autocast(pos.device.type, enabled=False):
            ahead = distance.new_full((scheme.dims.heads, block - 1), float("-inf"))
            return Distances(torch.cat((scheme.of_distance(distance).float(), ahead), dim=1), queries)
    if queries > block:
        return None if scheme.bias(pos[..., :1], sight.k_pos) is None else Built(scheme, sight)
    whole = scheme.bias(pos, sight.k_pos)
    return None if whole is None else Built(scheme, sight, whole)


def _equally_spaced(pos: Tensor) -> bool:
    """Whether the distance between two of the positions (Q) depends on that of their places alone."""
    if pos.ndim != 1:
        return False
    if len(pos) < 2:
        return True
    step = pos[1] - pos[0]
    return bool((pos == pos[0] + step * torch.arange(len(pos), device=pos.device)).all())
