"""Which tokens of a document a bidirectional model must guess: a hash decides, so it is the same for every reader."""

import hashlib
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Masking:
    """A share of all tokens, by a hash of (seed, document, index): the same for all schemes, seeds and lengths."""

    seed: int = 0
    rate: float = 0.15  # Devlin et al. 2018, arXiv:1810.04805, section 3.1

    def chosen(self, document: str, tokens: int) -> np.ndarray:
        """Indices, of 1 … `tokens`, of the document's masked tokens, in order."""
        digest = hashlib.sha256(f"{self.seed}\0{document}".encode()).digest()
        with np.errstate(over="ignore"):  # arithmetic is modulo 2^64
            index = np.arange(1, tokens + 1, dtype=np.uint64)
            mixed = np.uint64(int.from_bytes(digest[:8], "little")) + index * np.uint64(0x9E3779B97F4A7C15)
            # The finaliser of SplitMix64 (Steele, Lea, Flood 2014): neighbouring indices become independent.
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed ^= mixed >> np.uint64(31)
        return np.flatnonzero(mixed < np.uint64(int(self.rate * 2**64))) + 1
