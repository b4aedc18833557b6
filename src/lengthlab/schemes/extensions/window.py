"""Window: a query sees the last w tokens alone (Beltagy et al. 2020, arXiv:2004.05150, section 3.1), at test time."""

from torch import Tensor

from lengthlab.schemes.base import Scheme
from lengthlab.schemes.content import ContentScheme, Kept
from lengthlab.schemes.extensions.base import Extension


class Wrapped(ContentScheme):
    """A scheme read in another way. What is added to embeddings stays; `sizes` are the numbers of the change."""

    def __init__(self, scheme: Scheme, *sizes: int):
        super().__init__(scheme.dims)
        self.scheme, self.sizes = scheme, sizes
        self.horizon, self.length_dependent = scheme.horizon, scheme.length_dependent

    def embed(self, x, pos):
        """As the scheme does."""
        return self.scheme.embed(x, pos)

    def keep(self, x, last):
        """What the scheme keeps, if anything."""
        return self.scheme.keep(x, last) if isinstance(self.scheme, ContentScheme) else None

    def extend(self, length):
        """Tell the scheme."""
        self.scheme.extend(length)

    def layer(self, index):
        """The same change to the scheme of layer `index`."""
        inner = self.scheme.layer(index)
        return self if inner is self.scheme else type(self)(inner, *self.sizes)

    def untrained(self):
        """What the scheme says."""
        return self.scheme.untrained()

    def logits(
        self,
        q: Tensor,
        k: Tensor,
        kept: Kept | None,
        q_pos: Tensor,
        k_pos: Tensor,
        visible: Tensor,
        bias: Tensor | None = None,
    ) -> Tensor:
        """The scheme's logits (B,H,Q,S) of q and k that are not yet rotated, at any positions, and with any bias."""
        q, k = self.scheme.rotate(q, k, q_pos, k_pos)
        s = q @ k.mT / q.shape[-1] ** 0.5
        s = s if bias is None else s + bias
        return self.scored(s, q, k, kept, q_pos, k_pos, visible)

    def scored(self, s: Tensor, *rest: Tensor | Kept | None) -> Tensor:
        """The logits as the scheme transforms them, if it does."""
        return self.scheme.scores(s, *rest) if isinstance(self.scheme, ContentScheme) else s


class Windowed(Wrapped):
    """The scheme where only the last `window` visible keys are left, the query's own counted."""

    def rotate(self, q, k, q_pos, k_pos):
        """As the scheme does."""
        return self.scheme.rotate(q, k, q_pos, k_pos)

    def bias(self, q_pos, k_pos):
        """As the scheme does."""
        return self.scheme.bias(q_pos, k_pos)

    def scores(self, s, q, k, kept, q_pos, k_pos, visible):
        """The scheme's logits, -inf outside the window."""
        (window,) = self.sizes
        seen = visible & (from_the_end(visible) <= window)
        return self.scored(s, q, k, kept, q_pos, k_pos, seen).masked_fill(~seen, float("-inf"))


class Window(Extension):
    """Fits every scheme. `window` null: the training length, so that no distance is new. Raises ValueError below 1.

    Tokens are counted, whatever their positions; CoPE counts those of the window.
    """

    causal_only = True

    def __init__(self, window: int | None = None):
        self.window = checked("window", window)

    def wrap(self, scheme: Scheme, length: int) -> Scheme:
        """The scheme itself where the window holds all `length` tokens."""
        window = self.window or scheme.dims.train_length
        return scheme if length <= window else Windowed(scheme, window)


def from_the_end(visible: Tensor) -> Tensor:
    """How many visible keys there are from each key on, itself counted; integers in the shape of `visible`."""
    return visible.long().flip(-1).cumsum(dim=-1).flip(-1)


def checked(key: str, value: int | None, least: int = 1) -> int | None:
    """The value of an option that is a number of tokens, or null. Raises ValueError where it is not."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise ValueError(f"{key}={value}: must be an integer of at least {least}, or null")
    return value
