"""Tile: the rows of a table over and over (Longformer's start from RoBERTa; Beltagy et al. 2020, arXiv:2004.05150)."""

from lengthlab.schemes.extensions.renumbering import Renumbering


class Tile(Renumbering):
    """Row p mod rows: neighbours stay neighbours, but at the seams."""

    def row(self, pos, rows):
        """The remainder, which keeps the sign."""
        return pos.fmod(rows)
