"""Sinks: the first tokens and a window, at their places in the cache (Xiao et al. 2023, arXiv:2309.17453)."""

import torch
from torch import Tensor

from lengthlab.schemes.base import Scheme
from lengthlab.schemes.extensions.base import Extension
from lengthlab.schemes.extensions.window import Wrapped, checked, from_the_end


class Streaming(Wrapped):
    """The scheme where the first `sinks` and last `window` visible keys are left, and the gap between them closed."""

    def scores(self, s, q, k, kept, q_pos, k_pos, visible):
        """The scheme's logits: of the window as they are, of the sinks with the query moved up by the gap."""
        sinks, window = self.sizes
        near = visible & (from_the_end(visible) <= window)
        far = visible & ~near & (visible.long().cumsum(dim=-1) <= sinks)
        k_pos, gap = closed(k_pos, near, far)
        moved = q_pos - gap
        bias, seen = self._bias(moved, k_pos, near, gap), near | far
        of_far, of_near = (self.logits(q, k, kept, at, k_pos, seen, bias) for at in (moved, q_pos.expand(moved.shape)))
        return torch.where(far, of_far, of_near).masked_fill(~seen, float("-inf"))

    def _bias(self, moved: Tensor, k_pos: Tensor, near: Tensor, gap: Tensor) -> Tensor | None:
        """The scheme's bias at places in the cache. They differ from query to query, so each is asked for alone."""
        places = k_pos.unsqueeze(-2) - gap.unsqueeze(-1) * unheaded(near)
        bias = self.scheme.bias(moved.reshape(-1, 1), places.reshape(-1, places.shape[-1]))
        return None if bias is None else bias.squeeze(-2).unflatten(0, moved.shape).movedim(-2, -3)


def unheaded(mask: Tensor) -> Tensor:
    """(Q,S), or (B,1,Q,S) without the axis of the heads."""
    return mask.squeeze(1) if mask.ndim == 4 else mask


def closed(k_pos: Tensor, near: Tensor, far: Tensor) -> tuple[Tensor, Tensor]:
    """Positions of the keys, and for each query the positions left out between its last sink and its window (…,Q)."""
    near, far, pos = unheaded(near), unheaded(far), k_pos.unsqueeze(-2)
    first, last = torch.where(near, pos, pos.amax()).amin(dim=-1), torch.where(far, pos, pos.amin()).amax(dim=-1)
    gap = (first - last - 1).clamp(min=0) * far.any(dim=-1)
    return k_pos.expand(*gap.shape[:-1], -1), gap


class Sinks(Extension):
    """A query sees the first `sinks` tokens and the last `window`, its own counted. Fits every scheme.

    Positions are places in a cache that holds nothing else: to sink j the distance is at most window + sinks - 1 - j.
    Where tokens are not numbered one by one, the window keeps its distances and the last sink outside it lies 1 before
    it: a cache that has evicted the others cannot know their numbers.
    What a scheme adds to embeddings stays as it was read. Defaults: 4 sinks (the paper's), and for `window` null the
    training length less the sinks, so that no distance is new. Raises ValueError where sinks < 0 or window < 1.
    """

    causal_only = True

    def __init__(self, sinks: int = 4, window: int | None = None):
        self.sinks, self.window = checked("sinks", sinks, least=0), checked("window", window)

    def wrap(self, scheme: Scheme, length: int) -> Scheme:
        """The scheme itself where sinks and window hold all `length` tokens."""
        window = self.window or max(1, scheme.dims.train_length - self.sinks)
        return scheme if length <= self.sinks + window else Streaming(scheme, self.sinks, window)
