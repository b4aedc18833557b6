"""Clamp: late positions take the last row (as Transformer-XL's clamp_len does with distances, arXiv:1901.02860)."""

from lengthlab.schemes.extensions.renumbering import Renumbering


class Clamp(Renumbering):
    """Row min(p, rows - 1): tokens past the training length can no longer be told apart by position."""

    def row(self, pos, rows):
        """The position's own row, or the last."""
        return pos.clamp(max=rows - 1)
