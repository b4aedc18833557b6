"""A model's perplexity at a length, of which targets, and how sure. Only `sweep` needs torch: import it by name."""

from lengthlab.measurement.contrasts import contrasts
from lengthlab.measurement.decomposition import Thresholds, decompose
from lengthlab.measurement.ledger import Plan, Text
from lengthlab.measurement.numbers import numbers
from lengthlab.measurement.oracle import line, matrix
from lengthlab.measurement.points import points_of
from lengthlab.measurement.protocols import (
    NonOverlapping,
    SameTarget,
    Sliding,
    Sweep,
    Window,
    with_train_length,
)
from lengthlab.measurement.statistics import summarise
from lengthlab.measurement.verdicts import verdicts

__all__ = [
    "NonOverlapping",
    "Plan",
    "SameTarget",
    "Sliding",
    "Sweep",
    "Text",
    "Thresholds",
    "Window",
    "contrasts",
    "decompose",
    "line",
    "matrix",
    "numbers",
    "points_of",
    "summarise",
    "verdicts",
    "with_train_length",
]
