"""The interface of schemes that need more than positions: what they keep per token, and how they change the logits."""

from typing import NamedTuple

from jaxtyping import Bool, Float, Num
from torch import Tensor

from lengthlab.schemes.base import Scheme


class Kept(NamedTuple):
    """What a `ContentScheme` kept per token: of the queries (B,Q,…) and of all the keys (B,S,…)."""

    q: Tensor
    k: Tensor


class ContentScheme(Scheme):
    """A scheme that needs more than positions: it transforms the logits, block of queries by block of queries."""

    def keep(
        self, x: Float[Tensor, "B Q D"], last: Float[Tensor, "B 1 *kept"] | None
    ) -> Float[Tensor, "B Q *kept"] | None:
        """What to keep per token of a chunk, from its layer's normed input; `last` is what the token before it kept.

        The cache stores and evicts it with the keys. None where nothing is kept.
        """
        return None

    def scores(
        self,
        s: Float[Tensor, "B H Q S"],
        q: Float[Tensor, "B H Q K"],
        k: Float[Tensor, "B H S K"],
        kept: Kept | None,
        q_pos: Num[Tensor, "*batch Q"],
        k_pos: Num[Tensor, "*batch S"],
        visible: Bool[Tensor, "*sight Q S"],
    ) -> Float[Tensor, "B H Q S"]:
        """The logits of a block of queries: `s` is q·k / sqrt(K) plus the bias, float32, the future included.

        q and k are as `rotate` left them, k repeated to all heads. What is not `visible` is masked afterwards, but must
        not flow into what is.
        """
        return s
