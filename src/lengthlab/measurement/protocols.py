"""Which tokens are fed and which are scored: index arithmetic over one document, no torch.

A document of N tokens is the stream x_0 = BOS, x_1 … x_N. A window at `start` feeds x_start … x_(stop-1) and predicts
x_(start+1) … x_stop; it scores x_first … x_stop. Target t has context t - start: the number of tokens seen before it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from lengthlab.measurement.masking import Masking


class Window(NamedTuple):
    """One forward pass over a stretch of one document."""

    start: int
    stop: int
    first: int

    @property
    def fed(self) -> int:
        """Number of tokens fed."""
        return self.stop - self.start

    @property
    def scored(self) -> int:
        """Number of targets scored."""
        return self.stop - self.first + 1


@dataclass(frozen=True)
class NonOverlapping:
    """Disjoint windows, the last one shorter; every target once. Mixes early tokens' loss with the use of context."""

    length: int
    name: ClassVar[str] = "nonoverlapping"

    @property
    def options(self) -> dict[str, int]:
        """What besides the length is part of a cell's identity."""
        return {}

    def windows(self, tokens: int) -> Iterator[Window]:
        """The windows of a document of `tokens` tokens."""
        for start in range(0, tokens, self.length):
            yield Window(start, min(start + self.length, tokens), start + 1)


@dataclass(frozen=True)
class Sliding:
    """Windows moved by `stride`, the last one less; the first scores all, later ones what is not yet scored.

    After the first window every target has a context of at least length - stride + 1.
    """

    length: int
    stride: int
    name: ClassVar[str] = "sliding"

    def __post_init__(self):
        if not 1 <= self.stride <= self.length:
            raise ValueError(
                f"stride={self.stride} at length {self.length}: must be at least 1 and at most the length, "
                "or text would be skipped; leave it null for half of each length"
            )

    @property
    def options(self) -> dict[str, int]:
        """The stride, in tokens."""
        return {"stride": self.stride}

    def windows(self, tokens: int) -> Iterator[Window]:
        """The windows of a document of `tokens` tokens."""
        scored = start = 0
        while scored < tokens:
            start = max(0, min(start, tokens - self.length))
            stop = min(start + self.length, tokens)
            yield Window(start, stop, scored + 1)
            scored, start = stop, start + self.stride


@dataclass(frozen=True)
class SameTarget:
    """The same blocks of targets at every length, each after the `length` tokens that precede its end.

    Blocks of `block` targets end at reach + k max(1, reach // 4), k = 0, 1, …, so every one has a full window at any
    length up to `reach`, and differences between lengths are paired. Contexts are length - block + 1 … length.
    """

    length: int
    reach: int
    block: int
    name: ClassVar[str] = "same_target"

    def __post_init__(self):
        if self.reach < self.length:
            raise ValueError(
                f"reach={self.reach} is shorter than the length {self.length}; use at least the longest length"
            )
        if not 1 <= self.block <= max(1, self.length // 4):
            raise ValueError(
                f"block={self.block}: must be at least 1 and at most a quarter of the shortest length "
                f"({max(1, self.length // 4)}), or contexts would not be of nearly one size; leave it null"
            )

    @property
    def options(self) -> dict[str, int]:
        """Reach and block, in tokens."""
        return {"reach": self.reach, "block": self.block}

    def windows(self, tokens: int) -> Iterator[Window]:
        """The windows of a document of `tokens` tokens; none where it is shorter than the reach."""
        for stop in range(self.reach, tokens + 1, max(1, self.reach // 4)):
            yield Window(stop - self.length, stop, stop - self.block + 1)


@dataclass(frozen=True)
class MaskedNonOverlapping:
    """For bidirectional models: disjoint windows of the stream x_0 … x_N, of which the masked tokens are scored.

    The exponential of their mean nll is a pseudo-perplexity, not to be compared with a causal model's. A target's
    context is the whole window.
    """

    length: int
    masking: Masking
    name: ClassVar[str] = "masked_nonoverlapping"

    @property
    def options(self) -> dict[str, float]:
        """The share of masked tokens; their seed is the cell's `mask_seed`."""
        return {"rate": self.masking.rate}

    def windows(self, tokens: int) -> Iterator[Window]:
        """The windows of a document of `tokens` tokens; `stop` is the first token that is not fed."""
        for start in range(0, tokens + 1 if tokens else 0, self.length):
            yield Window(start, min(start + self.length, tokens + 1), max(1, start))


Protocol = NonOverlapping | Sliding | SameTarget | MaskedNonOverlapping
NAMES = tuple(protocol.name for protocol in (NonOverlapping, Sliding, SameTarget))


@dataclass(frozen=True)
class Sweep:
    """Which protocols at which lengths, their options resolved. Raises ValueError, one line, for what cannot be."""

    lengths: tuple[int, ...]  # increasing; the training length among them
    protocols: tuple[str, ...]
    stride: int | None = None  # None: half of each length
    reach: int | None = None  # None: the longest length
    block: int | None = None  # None: 16, or a quarter of the shortest length where that is less
    masking: Masking | None = None  # of a bidirectional model; None: causal

    def __post_init__(self):
        for name in self.protocols:
            if name not in NAMES:
                raise ValueError(
                    f"protocols={list(self.protocols)}: no protocol {name!r}; there are {', '.join(NAMES)}"
                )
        if len(set(self.protocols)) != len(self.protocols):
            raise ValueError(f"protocols={list(self.protocols)}: each is read once; name none twice")
        if self.reach is not None and self.reach < self.lengths[-1]:
            raise ValueError(
                f"reach={self.reach} is shorter than the longest length {self.lengths[-1]}; use at least that"
            )
        if self.masking is not None and set(self.protocols) != {NonOverlapping.name}:
            raise ValueError(
                f"protocols={list(self.protocols)}: a bidirectional model (model.causal=false) is read by one alone; "
                "use 'eval.protocols=[nonoverlapping]'"
            )
        self.cells()

    @property
    def longest(self) -> int:
        """Tokens that a document needs, so that every protocol can score something at every length."""
        return max(self.lengths[-1], self.reach or 0)

    def cells(self) -> list[Protocol]:
        """One protocol object per length and protocol."""
        return [self._cell(name, length) for name in self.protocols for length in self.lengths]

    def _cell(self, name: str, length: int) -> Protocol:
        if name == NonOverlapping.name:
            return NonOverlapping(length) if self.masking is None else MaskedNonOverlapping(length, self.masking)
        if name == Sliding.name:
            return Sliding(length, max(1, length // 2) if self.stride is None else self.stride)
        reach = self.lengths[-1] if self.reach is None else self.reach
        block = max(1, min(16, self.lengths[0] // 4)) if self.block is None else self.block
        return SameTarget(length, reach, block)


def with_train_length(lengths: Sequence[int], train_length: int) -> tuple[int, ...]:
    """The lengths of a sweep: the training length is always evaluated, for every ratio is to it."""
    return tuple(sorted({*lengths, train_length}))
