"""Schemes against one of them, paired: the same targets, the same seeds. No torch."""

import numpy as np
import pandas as pd

from lengthlab.measurement.intervals import interval
from lengthlab.measurement.points import CURVE, Points, Units, points_of

COLUMNS = [*CURVE, "length", "reference", "difference", "low", "high", "interval", "seeds", "texts"]


def contrasts(frame: "pd.DataFrame | Points", reference: str | None = None, confidence: float = 0.95) -> pd.DataFrame:
    """One row per point of a curve that is not the reference's: nll - nll of the reference, nats, with its interval.

    `reference` is a scheme (None: nope where the study has it, else the first by name), without extension, trained
    and read alike; a curve that has no such counterpart, or at whose length the targets are not the same, has no row.
    """
    points = points_of(frame)
    reference = reference or reference_of(points)
    rows = []
    for number, curve in points.curves.iterrows():
        base = _counterpart(points, curve, reference)
        if base is None or base == number:
            continue
        for length in points.lengths(number):
            ours, theirs = points.units(number, length), points.units(base, length)
            if theirs is None or not _same_targets(ours, theirs):
                continue
            found = interval([(1, ours), (-1, theirs)], confidence)
            if found.seeds:
                row = {"difference": found.value, "low": found.low, "high": found.high, "interval": found.method}
                row |= {"seeds": found.seeds, "texts": found.texts}
                rows.append({**curve, "length": length, "reference": reference, **row})
    return pd.DataFrame(rows, columns=COLUMNS)


def reference_of(points: Points) -> str | None:
    """The scheme that others are compared with where none is named."""
    schemes = sorted(points.curves.scheme.unique())
    return "nope" if "nope" in schemes else next(iter(schemes), None)


def _counterpart(points: Points, curve: pd.Series, reference: str) -> int | None:
    for variant in (curve.variant, ""):
        found = points.like(curve, scheme=reference, extension="none", variant=variant, positions=curve.positions)
        if found:
            return found[0]
    return None


def _same_targets(ours: Units, theirs: Units) -> bool:
    return np.array_equal(ours.index, theirs.index) and np.array_equal(ours.targets.max(0), theirs.targets.max(0))
