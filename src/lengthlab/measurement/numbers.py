"""A curve in a few numbers: how far it holds, how it slopes, what twice the length gives. No torch."""

import numpy as np
import pandas as pd

from lengthlab.measurement.decomposition import Thresholds, change
from lengthlab.measurement.intervals import NOTHING, Interval, interval
from lengthlab.measurement.points import CURVE, Points, points_of

COLUMNS = [
    *CURVE, "effective_length", "effective_at_least", "effective_confidence", "slope", "slope_low", "slope_high",
    "twice", "twice_low", "twice_high", "area", "area_low", "area_high", "longest", "bits_per_byte",
]  # fmt: skip


def numbers(
    frame: "pd.DataFrame | Points",
    summary: pd.DataFrame,
    thresholds: Thresholds = Thresholds(),  # noqa: B008
) -> pd.DataFrame:
    """One row per curve with a number at its training length.

    effective_length: the greatest length up to which the ratio to the training length stays under 1 + tau;
    effective_at_least: whether that is the longest length read (it may be greater); effective_confidence: the least
    one-sided confidence, 0 to 1, that the ratio is under 1 + tau, of the lengths past training up to it. slope: nats
    per doubling, least squares over log2 of the lengths from training on. twice: paired change of `same_target` from
    the training length to twice it, nats. area: mean nll, nats, over log2 of the length (trapezoids) from training on.
    bits_per_byte: at `longest`, the longest length with a number; it compares tokenizers. _low and _high: intervals.
    """
    points = points_of(frame)
    bits = _bits(summary)
    rows = []
    for number, curve in points.curves.iterrows():
        trained = int(curve.train_length)
        lengths = [n for n in points.lengths(number) if n >= trained]
        if not lengths or lengths[0] != trained:
            continue
        row = _effective(points, number, lengths, thresholds)
        found = {"slope": NOTHING, "twice": NOTHING, "area": NOTHING}
        if len(lengths) > 1:
            octaves = np.log2(lengths)
            found["slope"] = _combined(points, number, lengths, _slope(octaves), thresholds.confidence)
            found["area"] = _combined(points, number, lengths, _trapezoids(octaves), thresholds.confidence)
        if curve.protocol == "same_target":
            found["twice"] = change(points, number, 2 * trained, thresholds.confidence)
        for key, one in found.items():
            row |= {key: one.value, f"{key}_low": one.low, f"{key}_high": one.high}
        longest = lengths[-1]
        row |= {"longest": longest, "bits_per_byte": bits.get((*map(_key, curve), longest), np.nan)}
        rows.append({**curve, **row})
    return pd.DataFrame(rows, columns=COLUMNS)


def _effective(points: Points, curve: int, lengths: list[int], thresholds: Thresholds) -> dict:
    bound, reached, confidence = np.log1p(thresholds.tau), lengths[0], np.nan
    for length in lengths[1:]:
        found = change(points, curve, length, thresholds.confidence)
        if not found.value < bound:
            break
        reached, confidence = length, float(np.fmin(confidence, found.confidence_below(bound)))
    return {
        "effective_length": reached,
        "effective_at_least": reached == lengths[-1],
        "effective_confidence": confidence,
    }


def _combined(points: Points, curve: int, lengths: list[int], weights: np.ndarray, confidence: float) -> Interval:
    return interval([(w, points.units(curve, n)) for w, n in zip(weights, lengths, strict=True)], confidence)


def _slope(octaves: np.ndarray) -> np.ndarray:
    """The weights with which a least-squares slope sums its values."""
    centred = octaves - octaves.mean()
    return centred / (centred**2).sum()


def _trapezoids(octaves: np.ndarray) -> np.ndarray:
    """The weights with which a mean over the axis sums its values."""
    steps = np.diff(octaves)
    return (np.append(steps, 0) + np.insert(steps, 0, 0)) / 2 / steps.sum()


def _bits(summary: pd.DataFrame) -> dict[tuple, float]:
    columns = [*(summary[key] if key in summary else [None] * len(summary) for key in CURVE)]
    keys = zip(*columns, summary["length"], strict=True)
    return {tuple(map(_key, key)): bits for key, bits in zip(keys, summary["bits_per_byte"], strict=True)}


def _key(value):
    return None if pd.isna(value) else value
