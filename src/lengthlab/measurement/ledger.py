"""Every target accounted for: what a cell fed, scored and dropped, and a hash of its targets. No torch."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lengthlab.measurement.protocols import MaskedNonOverlapping, Protocol, SameTarget, Window

PART = 1024
"""Tokens of a segment of a document: rows are never summed across two of them."""


class Text(NamedTuple):
    """A document as it is scored: its id and all its N tokens, without BOS."""

    id: str
    tokens: np.ndarray


class Placed(NamedTuple):
    """A window of the document with index `document` in the plan."""

    document: int
    window: Window


@dataclass(frozen=True)
class Plan:
    """All windows of one cell over all documents, each cut first to `tokens_per_document` tokens (None: whole)."""

    protocol: Protocol
    texts: Sequence[Text]
    tokens_per_document: int | None

    def kept(self, text: Text) -> int:
        """Number of tokens of the document that are looked at."""
        return min(len(text.tokens), self.tokens_per_document or len(text.tokens))

    @cached_property
    def windows(self) -> list[Placed]:
        """Every window, in the order of the documents."""
        return [
            Placed(index, window)
            for index, text in enumerate(self.texts)
            for window in self.protocol.windows(self.kept(text))
            if not self._is_masked or self.targets(Placed(index, window)).size
        ]

    def targets(self, placed: Placed) -> np.ndarray:
        """Indices t, in order, of the targets x_t that a window scores."""
        window = placed.window
        if not self._is_masked:
            return np.arange(window.first, window.stop + 1)
        chosen = self._chosen[placed.document]
        return chosen[slice(*np.searchsorted(chosen, [window.first, window.stop]))]

    def contexts(self, placed: Placed) -> np.ndarray:
        """The context of each of them: how many tokens the model sees to predict it."""
        targets = self.targets(placed)
        return np.full_like(targets, placed.window.fed) if self._is_masked else targets - placed.window.start

    @property
    def tokens_to_feed(self) -> int:
        """Tokens in all windows."""
        return sum(placed.window.fed for placed in self.windows)

    def account(self, status: str = "done") -> dict:
        """The ledger's counts: windows, tokens fed, targets scored, contexts, dropped ({reason: targets}), hash.

        Of a cell that is not `done` nothing counts as scored: its targets are dropped, and the status is the reason.
        """
        read = self.windows if status == "done" else []
        scored = sum(self.targets(placed).size for placed in read)
        contexts = sum(int(self.contexts(placed).sum()) for placed in read)
        return {
            "windows": len(read),
            "tokens_fed": sum(placed.window.fed for placed in read),
            "targets_scored": scored,
            "documents_scored": len({placed.document for placed in read}),
            "longest_context": max((placed.window.fed for placed in read), default=0),
            "mean_context": contexts / scored if scored else None,
            "dropped": self._dropped(status),
            "target_hash": self._target_hash(),
        }

    def _dropped(self, status: str) -> dict[str, int]:
        scored = Counter()
        for placed in self.windows:
            scored[placed.document] += self.targets(placed).size
        dropped = Counter({} if status == "done" else {status: scored.total()})
        for index, text in enumerate(self.texts):
            kept = self.kept(text)
            dropped["past tokens_per_document"] += len(text.tokens) - kept
            too_short = isinstance(self.protocol, SameTarget) and kept < self.protocol.reach
            rest = "not masked" if self._is_masked else "between blocks"
            dropped["document shorter than reach" if too_short else rest] += kept - scored[index]
        return {reason: count for reason, count in dropped.items() if count}

    def _target_hash(self) -> str:
        """sha256 over the sorted (document id, target index, token id) of the targets that the protocol scores."""
        digest = hashlib.sha256()
        for index in sorted(range(len(self.texts)), key=lambda i: self.texts[i].id):
            windows = self._of_document.get(index, ())
            if not windows:
                continue
            targets = np.sort(np.concatenate([self.targets(placed) for placed in windows]))
            digest.update(self.texts[index].id.encode() + b"\0" + len(targets).to_bytes(8, "little"))
            pairs = np.stack((targets, self.texts[index].tokens[targets - 1].astype(np.int64)), axis=1)
            digest.update(np.ascontiguousarray(pairs, dtype="<i8").tobytes())
        return digest.hexdigest()

    @cached_property
    def _of_document(self) -> dict[int, list[Placed]]:
        groups: dict[int, list[Placed]] = {}
        for placed in self.windows:
            groups.setdefault(placed.document, []).append(placed)
        return groups

    @property
    def _is_masked(self) -> bool:
        return isinstance(self.protocol, MaskedNonOverlapping)

    @cached_property
    def _chosen(self) -> list[np.ndarray]:
        """The masked tokens of every document."""
        return [self.protocol.masking.chosen(text.id, self.kept(text)) for text in self.texts]


def edges(longest: int, train_length: int) -> np.ndarray:
    """Lower edges of the bins of position and context: exact to 64, then 16 per octave; train_length alone."""
    exact = np.arange(1, 65)
    octaves = np.arange(0, 16 * max(1, int(np.ceil(np.log2(max(65, longest) / 64)))) + 1)
    geometric = np.floor(64 * 2 ** (octaves / 16)).astype(np.int64)
    return np.unique(np.concatenate((exact, geometric, [train_length, train_length + 1])))


def lower_edge(values: np.ndarray, bins: np.ndarray) -> np.ndarray:
    """The lower edge of the bin of each value (of at least 1)."""
    return bins[np.searchsorted(bins, values, "right") - 1]
