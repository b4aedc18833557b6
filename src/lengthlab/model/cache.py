"""Keys and values already seen, kept un-rotated and with their positions: a slot in the cache is not a position."""

import torch
from torch import Tensor


class Cache:
    """One list entry per layer. Grows by concatenation; the order of the slots is the order of reading."""

    def __init__(self, layers: int):
        self.pos: Tensor | None = None
        self._k: list[Tensor | None] = [None] * layers
        self._v: list[Tensor | None] = [None] * layers

    def __len__(self) -> int:
        """Number of tokens kept."""
        return 0 if self.pos is None else self.pos.shape[-1]

    def extend_positions(self, pos: Tensor) -> Tensor:
        """Append the positions (Q) or (B,Q) of a new chunk, once for all layers; returns those of all S slots."""
        self.pos = pos if self.pos is None else torch.cat((self.pos, pos), dim=-1)
        return self.pos

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append a chunk's keys and values (B,G,Q,K) of one layer; returns those of all S slots."""
        if self._k[layer] is not None:
            k = torch.cat((self._k[layer], k), dim=2)
            v = torch.cat((self._v[layer], v), dim=2)
        self._k[layer], self._v[layer] = k, v
        return k, v
