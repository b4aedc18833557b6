"""Training blocks: documents shuffled, BOS before each, joined, cut to one length; by index, without a copy."""

from collections.abc import Iterator, Sequence

import numpy as np


class Batches:
    """An endless, seeded order of blocks over documents given as token arrays (without BOS).

    The order depends on the seed, the epoch and the length alone, so every scheme sees the same data in the same order.
    Each epoch shuffles the documents, joins them anew and shuffles the blocks.
    """

    def __init__(self, documents: Sequence[np.ndarray], bos: int, length: int, seed: int):
        self.documents, self.bos, self.length, self.seed = documents, bos, length, seed
        self.sizes = np.array([len(tokens) + 1 for tokens in documents], dtype=np.int64)  # + BOS
        self.blocks_per_epoch = max(0, int(self.sizes.sum()) - 1) // length
        if self.blocks_per_epoch < 1:
            raise ValueError(
                f"train.length={length}: the training split has only {int(self.sizes.sum())} tokens, BOS included; "
                "give more text, or a shorter length"
            )

    def batches(self, size: int) -> Iterator[np.ndarray]:
        """Batches (size, length + 1) int64: inputs and, shifted by one, targets. May span epochs."""
        rows = self._blocks()
        while True:
            yield np.stack([next(rows) for _ in range(size)])

    def crossing(self) -> float:
        """Fraction of the first epoch's blocks whose fed tokens come from more than one document."""
        starts, _ = self._epoch(0)
        firsts = np.arange(self.blocks_per_epoch) * self.length
        # A document that starts strictly inside the fed tokens puts another document into the same context.
        inside = np.searchsorted(starts, firsts + self.length, "left") - np.searchsorted(starts, firsts, "right")
        return float((inside > 0).mean())

    def _epoch(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Start of each document in this epoch's stream, and the documents in their order."""
        order = np.random.default_rng([self.seed, epoch, 0]).permutation(len(self.documents))
        return np.concatenate(([0], np.cumsum(self.sizes[order])[:-1])), order

    def _blocks(self) -> Iterator[np.ndarray]:
        epoch = 0
        while True:
            starts, order = self._epoch(epoch)
            shuffled = np.random.default_rng([self.seed, epoch, 1]).permutation(self.blocks_per_epoch)
            for block in shuffled:
                yield self._read(int(block) * self.length, starts, order)
            epoch += 1

    def _read(self, first: int, starts: np.ndarray, order: np.ndarray) -> np.ndarray:
        """The length + 1 tokens of the joined stream from `first` on."""
        block = np.empty(self.length + 1, dtype=np.int64)
        filled, index = 0, int(np.searchsorted(starts, first, "right")) - 1
        while filled < len(block):
            offset = first + filled - int(starts[index])  # 0 is the BOS
            tokens = self.documents[order[index]]
            if offset == 0:
                block[filled] = self.bos
                filled, offset = filled + 1, 1
            piece = tokens[offset - 1 : offset - 1 + len(block) - filled]
            block[filled : filled + len(piece)] = piece
            filled, index = filled + len(piece), index + 1
        return block
