"""Keys and values already seen, kept un-rotated and with their positions: a slot in the cache is not a position."""

import torch
from torch import Tensor


class Cache:
    """What is remembered of the tokens read so far. New tokens are appended; any may be evicted, and the rest move up.

    Of every slot: its position, its order (how many real tokens were read before it), and whether it is a real token.
    """

    def __init__(self, layers: int):
        self.pos: Tensor | None = None
        self.order: Tensor | None = None
        self.valid: Tensor | None = None
        self._seen: int | Tensor = 0
        self._k: list[Tensor | None] = [None] * layers
        self._v: list[Tensor | None] = [None] * layers
        self._kept: list[Tensor | None] = [None] * layers
        self._last: list[Tensor | None] = [None] * layers

    def __len__(self) -> int:
        """Number of tokens kept."""
        return 0 if self.pos is None else self.pos.shape[-1]

    def arrive(self, pos: Tensor, valid: Tensor | None = None) -> Tensor:
        """Append a chunk's positions (Q) or (B,Q), once for all layers; returns the chunk's order, of that shape.

        `valid` (B,Q) is false for padding; it is given for every chunk or for none.
        """
        if valid is None:
            order = self._seen + torch.arange(pos.shape[-1], device=pos.device)
            self._seen += pos.shape[-1]
        else:
            order = self._seen + valid.long().cumsum(dim=-1) - 1
            self._seen = self._seen + valid.long().sum(dim=-1, keepdim=True)
        self.pos, self.order = _joined(self.pos, pos), _joined(self.order, order)
        self.valid = None if valid is None else _joined(self.valid, valid)
        return order

    def extend(
        self, layer: int, k: Tensor, v: Tensor, kept: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Append a chunk's keys and values (B,G,Q,K), and what its scheme keeps (B,Q,…); returns those of all slots."""
        self._k[layer], self._v[layer] = _joined(self._k[layer], k, dim=2), _joined(self._v[layer], v, dim=2)
        self._kept[layer] = None if kept is None else _joined(self._kept[layer], kept, dim=1)
        self._last[layer] = None if kept is None else kept[:, -1:]
        return self._k[layer], self._v[layer], self._kept[layer]

    def last_kept(self, layer: int) -> Tensor | None:
        """What the token before the next chunk kept (B,1,…), even if it was evicted since; None at the start."""
        return self._last[layer]

    def retain(self, slots: Tensor) -> None:
        """Evict all slots but these (indices, in order); the others keep their positions and move up."""
        self.pos, self.order = self.pos[..., slots], self.order[..., slots]
        self.valid = None if self.valid is None else self.valid[..., slots]
        self._k = [k[:, :, slots] for k in self._k]
        self._v = [v[:, :, slots] for v in self._v]
        self._kept = [None if kept is None else kept[:, slots] for kept in self._kept]


def _joined(old: Tensor | None, new: Tensor, dim: int = -1) -> Tensor:
    return new if old is None else torch.cat((old, new), dim=dim)
