"""What a model's perplexity is at a length, and of which targets. Only `sweep` needs torch: import it by name."""

from lengthlab.measurement.ledger import Plan, Text
from lengthlab.measurement.protocols import (
    NonOverlapping,
    SameTarget,
    Sliding,
    Sweep,
    Window,
    with_train_length,
)
from lengthlab.measurement.statistics import summarise

__all__ = [
    "NonOverlapping",
    "Plan",
    "SameTarget",
    "Sliding",
    "Sweep",
    "Text",
    "Window",
    "summarise",
    "with_train_length",
]
