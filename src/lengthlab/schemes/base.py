"""The one interface of every scheme: three places where position can enter attention, one moment when it can change.

Shape letters, here and in `model`: B batch, Q queries, S keys seen, D width, H heads, G key/value heads, K head size.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn


@dataclass(frozen=True)
class Dims:
    """What a scheme may know of the model it serves; it is the first argument of every scheme."""

    width: int
    heads: int
    head_size: int
    layers: int
    train_length: int
    horizon: int
    """Largest number that a training position can carry, + 1 (equal to train_length for sequential positions)."""


class Scheme(nn.Module):
    """A way of telling attention where tokens are. Every hook defaults to doing nothing, so `Scheme` itself is NoPE.

    Positions arrive as arguments, (Q) or (B,Q), and are never kept. Angles, distances and slopes are float32
    whatever the model's dtype.
    """

    horizon: int | None = None
    """Position numbers from here on are undefined (a learned table's size); None where every number is defined."""
    length_dependent: bool = False
    """The output at i depends on the total length, so windows of different lengths may not share a batch."""

    causal_only: bool = False
    """It makes sense under a causal mask alone: of keys that come after the query it says nothing sensible."""

    def __init__(self, dims: Dims):
        super().__init__()
        self.dims = dims

    def embed(self, x: Float[Tensor, "B Q D"], pos: Num[Tensor, "*batch Q"]) -> Float[Tensor, "B Q D"]:
        """Change the token embeddings (already times sqrt(D)) before the first layer."""
        return x

    def rotate(
        self,
        q: Float[Tensor, "B H Q K"],
        k: Float[Tensor, "B G S K"],
        q_pos: Num[Tensor, "*batch Q"],
        k_pos: Num[Tensor, "*batch S"],
    ) -> tuple[Float[Tensor, "B H Q K"], Float[Tensor, "B G S K"]]:
        """Change queries and keys before their product."""
        return q, k

    def bias(
        self, q_pos: Num[Tensor, "*batch Q"], k_pos: Num[Tensor, "*batch S"]
    ) -> Float[Tensor, "*batch H Q S"] | None:
        """What is added to the scaled logits; None where nothing is. The causal mask is the model's."""
        return None

    def extend(self, length: int) -> None:
        """Hear that `length` tokens are about to be read: called before every window and every prefill."""

    def layer(self, index: int) -> "Scheme":
        """The scheme of layer `index`; the same for all layers unless overridden."""
        return self

    def untrained(self) -> list[str]:
        """What training at `dims.train_length` leaves untrained, a sentence each with the remedy."""
        return []


class DistanceBias(Scheme):
    """A scheme whose bias is a function of the distance between query and key alone, one function per head."""

    def of_distance(self, distance: Float[Tensor, "*shape"]) -> Float[Tensor, "H *shape"]:
        """The bias of every head at the given distances (query position minus key position, in tokens, float32)."""
        raise TypeError(f"{type(self).__name__} must say what its bias is: define of_distance")

    def bias(self, q_pos: Num[Tensor, "*batch Q"], k_pos: Num[Tensor, "*batch S"]) -> Float[Tensor, "*batch H Q S"]:
        # The difference is taken before the cast: exact for integers of any size.
        distance = (q_pos.unsqueeze(-1) - k_pos.unsqueeze(-2)).to(torch.float32)
        with torch.autocast(distance.device.type, enabled=False):
            return self.of_distance(distance).movedim(0, -3)
