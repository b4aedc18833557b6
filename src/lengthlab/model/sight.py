"""Who may look at whom in one forward pass, and with which numbers: the causal mask, padding, windows and sinks."""

from dataclasses import dataclass

import torch
from torch import Tensor

BLOCK = 512
"""Queries whose bias, or whose logits where a scheme transforms them, are held at once, unless memory wants fewer."""


@dataclass(frozen=True)
class Sight:
    """Positions of queries (Q) or (B,Q) and keys (S) or (B,S), and what is visible.

    `visible`: bool (Q,S) or (B,1,Q,S), true where a query may look; None: plain causal. `scale`: a float32 factor on
    the queries, broadcast over (B,H,Q,1); None: none. `block`: how many queries are looked at together.
    """

    q_pos: Tensor
    k_pos: Tensor
    visible: Tensor | None = None
    scale: Tensor | None = None
    block: int = BLOCK

    def rows(self, first: int, stop: int, keys: int) -> Tensor:
        """`visible`, or the plain causal mask, of the queries first … stop-1 over the first `keys` keys."""
        if self.visible is not None:
            return self.visible[..., first:stop, :keys]
        past = self.k_pos.shape[-1] - self.q_pos.shape[-1]
        return torch.ones(stop - first, keys, dtype=torch.bool, device=self.q_pos.device).tril(diagonal=past + first)


def causal(queries: int, keys: int, device: torch.device) -> Tensor:
    """(Q,S) bool. The queries are the last of the keys: aligned bottom-right."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(diagonal=keys - queries)


def visible(
    q_order: Tensor, k_order: Tensor, valid: Tensor | None, causal: bool, window: int | None, sinks: int
) -> Tensor:
    """Bool (Q,S), or (B,1,Q,S) where orders or validity differ in a batch.

    By order of reading, not by slot or position: a query sees keys that are not after it (where causal), fewer than
    `window` tokens away (itself counts), or among the first `sinks` tokens; padding is seen by nobody but itself.
    """
    ahead = k_order.unsqueeze(-2) - q_order.unsqueeze(-1)
    seen = ahead <= 0 if causal else torch.ones_like(ahead, dtype=torch.bool)
    if window is not None:
        seen &= (ahead.abs() < window) | (k_order.unsqueeze(-2) < sinks)
    if valid is not None:
        # A padded query must see something, or its softmax is NaN; nobody reads what comes of it.
        queries, keys = q_order.shape[-1], k_order.shape[-1]
        own = torch.eye(keys, dtype=torch.bool, device=seen.device)[keys - queries :]
        seen = (seen & valid.unsqueeze(-2)) | own
    return seen.unsqueeze(1) if seen.ndim == 3 else seen
