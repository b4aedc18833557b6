"""Figures: degradation curves, their table, and a page that says how far to trust them."""

from lengthlab.figures.colours import colour, marker
from lengthlab.figures.curves import degradation, save
from lengthlab.figures.report import text_table, write_report

__all__ = ["colour", "degradation", "marker", "save", "text_table", "write_report"]
