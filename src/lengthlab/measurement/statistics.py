"""From sums to the numbers people quote: nll, perplexity, bits per byte and the ratio, with intervals. No torch."""

import numpy as np
import pandas as pd

from lengthlab.measurement.intervals import interval
from lengthlab.measurement.points import CURVE, Points, by_stride_rule

POINT = [
    "status", "seeds", "texts", "targets", "nll", "nll_low", "nll_high", "ppl", "ppl_low", "ppl_high", "ratio",
    "ratio_low", "ratio_high", "interval", "bits_per_byte",
]  # fmt: skip


def per_run(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per run and cell from `collect`'s frame: its sums over documents and parts, and its mean nll in nats."""
    keys = [*CURVE, "length", "run", "cell", "seed", "status", "reason", "target_hash"]
    frame = frame.reindex(columns=[*frame, *(key for key in CURVE if key not in frame)])
    cells = frame.groupby(keys, as_index=False, sort=True, dropna=False)[["targets", "nll", "bytes"]].sum()
    done = cells.status == "done"
    cells["mean_nll"] = (cells.nll / cells.targets).where(done & (cells.targets > 0))
    cells["bits_per_byte"] = (cells.nll / cells.bytes / np.log(2)).where(done & (cells.bytes > 0))
    return cells


def summarise(frame: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """One row per point of a curve, seeds averaged in nll.

    Columns: CURVE, length, status (`partial`: done for some of the curve's runs only), seeds (that are averaged),
    texts (documents scored), targets (per seed), nll (mean nats per target), ppl = exp(nll), ratio (to the same runs'
    ppl at train_length), each with _low and _high (`intervals`; the ratio's is paired), interval (how the documents'
    part of it was found: bootstrap, parts, none), bits_per_byte.
    """
    columns = [*CURVE, "length", *POINT]
    if frame.empty:
        return pd.DataFrame(columns=columns)
    points, cells = Points(frame), by_stride_rule(per_run(frame))
    of_curve = cells.groupby(CURVE, dropna=False).run.transform("nunique")
    groups = cells.assign(of_curve=of_curve).groupby([*CURVE, "length"], sort=True, dropna=False)
    rows = []
    for key, group in groups:
        curve = dict(zip([*CURVE, "length"], key, strict=True))
        rows.append({**curve, **_counts(group), **_estimates(points, pd.Series(curve), confidence)})
    return pd.DataFrame(rows, columns=columns)


def _counts(cells: pd.DataFrame) -> dict:
    done = cells[cells.status == "done"]
    if done.empty:
        status = "diverged" if (cells.status == "diverged").any() else cells.status.iloc[0]
    else:
        status = "done" if len(done) == cells.of_curve.iloc[0] else "partial"
    return {
        "status": status,
        "seeds": (cells if done.empty else done).seed.nunique(),
        "targets": int(cells.targets.max()),
        "bits_per_byte": done.bits_per_byte.mean(),
    }


def _estimates(points: Points, point: pd.Series, confidence: float) -> dict:
    numbers = points.like(point[CURVE])
    units, trained = (points.units(numbers[0], n) if numbers else None for n in (point.length, point.train_length))
    mean = interval([(1, units)], confidence)
    change = interval([(1, units), (-1, trained)], confidence)
    values = dict(zip(("nll", "nll_low", "nll_high"), mean[:3], strict=True))
    with np.errstate(over="ignore"):
        values |= dict(zip(("ppl", "ppl_low", "ppl_high"), np.exp(mean[:3]), strict=True))
        values |= dict(zip(("ratio", "ratio_low", "ratio_high"), np.exp(change[:3]), strict=True))
    return {**values, "texts": mean.texts, "interval": mean.method}
