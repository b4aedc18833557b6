"""Self-Extend: RoPE exact nearby and in groups of tokens beyond (Jin et al. 2024, arXiv:2401.01325, section 3)."""

from lengthlab.schemes.base import Scheme
from lengthlab.schemes.extensions.base import Extension
from lengthlab.schemes.extensions.rerope import Remapped
from lengthlab.schemes.extensions.window import checked
from lengthlab.schemes.rope import RoPE


class Grouped(Remapped):
    """RoPE at distance i - j below `window`, else ⌊i/G⌋ - ⌊j/G⌋ + window - ⌊window/G⌋."""

    def far(self, q_pos, k_pos):
        """Numbers of groups, the queries' moved so that the two ranges of distances meet."""
        window, group = self.sizes
        return q_pos // group + (window - window // group), k_pos // group


class SelfExtend(Extension):
    """RoPE at distance i - j below `window`, else ⌊i/G⌋ - ⌊j/G⌋ + window - ⌊window/G⌋, G = `group`. Fits RoPE.

    `window` null: a quarter of the training length L (the paper's 1024 of 4096 for Llama-2). `group` null: the least G
    with window + (length - window) / G <= 2/3 L, the looser end of the paper's rule. Raises ValueError below 1.
    """

    causal_only = True

    fits = (RoPE,)

    def __init__(self, window: int | None = None, group: int | None = None):
        self.window, self.group = checked("window", window), checked("group", group)

    def wrap(self, scheme: Scheme, length: int) -> Scheme:
        """The scheme in groups that suit `length` tokens."""
        trained = scheme.dims.train_length
        window = self.window or max(1, trained // 4)
        room = max(1, 2 * trained // 3 - window)
        return Grouped(scheme, window, self.group or max(1, -(-(length - window) // room)))
