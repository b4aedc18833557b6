"""What a curve really says: what of it comes from fewer early tokens, and what from longer context.

Longer windows change a `nonoverlapping` loss in two ways: fewer targets have little context (the early-token curse:
Press et al. 2022, arXiv:2108.12409, appendix B), and more of them have more of it than the model was trained on.
`sliding` at the training length shows what the first alone is worth, and `same_target` what the second is.
"""

from dataclasses import dataclass

import pandas as pd

from lengthlab.measurement.intervals import NOTHING, Interval, interval
from lengthlab.measurement.points import CURVE, Points, points_of

BASE = [key for key in CURVE if key not in ("protocol", "stride", "reach", "block", "last", "mask_seed")]
"""What the three protocols of one row share."""
PARTS = ("windows", "early", "context")
COLUMNS = [
    *BASE, "length", *(part + edge for part in PARTS for edge in ("", "_low", "_high")), "early_stride", "status",
    "seeds", "texts", "interval", "verdict", "oracle_scheme", "oracle_length", "oracle_gain",
]  # fmt: skip


@dataclass(frozen=True)
class Thresholds:
    """What a verdict and an effective length mean. ValueError, one line, for what cannot be."""

    uses: float = 0.01  # nats by which the same targets' loss must fall
    breaks: float = 0.05  # nats by which it must rise
    tau: float = 0.05  # the ratio may rise to 1 + tau
    confidence: float = 0.95  # of all intervals

    def __post_init__(self):
        for key in ("uses", "breaks", "tau"):
            if not 0 <= getattr(self, key) < float("inf"):
                raise ValueError(f"{key}={getattr(self, key)}: must be a number of at least 0")
        if not 0.5 <= self.confidence < 1:
            raise ValueError(f"confidence={self.confidence}: must be a share from 0.5 to below 1, as 0.95")

    def verdict(self, context: Interval) -> str:
        """`uses`, `breaks` or `ignores` the longer context; `undecided` where a great change may be none."""
        if not context.low <= context.high:
            return "undecided"
        if context.value < -self.uses:
            return "uses" if context.high < 0 else "undecided"
        if context.value > self.breaks:
            return "breaks" if context.low > 0 else "undecided"
        return "ignores"


def decompose(frame: "pd.DataFrame | Points", thresholds: Thresholds = Thresholds()) -> pd.DataFrame:  # noqa: B008
    """One row per curve (BASE) and length, in nats, each change with its _low and _high.

    windows: change of `nonoverlapping` against the training length. early: the change from `nonoverlapping` to
    `sliding` at the training length, on the same targets; early_stride: that of `sliding`. context: change of
    `same_target` against the training length. status: of the `same_target` cell; `missing` where there is none.
    verdict: on context, past the training length (`Thresholds.verdict`, or the status of a cell without a number);
    where it is `ignores`, and the oracle does not gain more than `uses` either, `nothing to gain`. oracle_scheme,
    oracle_length, oracle_gain: a model of the study that was trained at a longer length, and the change of its own
    same_target loss from this curve's training length to its own.
    """
    points = points_of(frame)
    rows = []
    for _, base in points.curves.drop_duplicates(BASE)[BASE].iterrows():
        rows += _of_curve(points, base, thresholds)
    return pd.DataFrame(rows, columns=COLUMNS)


def _of_curve(points: Points, base: pd.Series, thresholds: Thresholds) -> list[dict]:
    windows, sliding, same = (_curve(points, base, name) for name in ("nonoverlapping", "sliding", "same_target"))
    if windows is None and same is None:
        return []
    trained, sure = int(base.train_length), thresholds.confidence
    early = interval([(1, points.units(sliding, trained)), (-1, points.units(windows, trained))], sure)
    stride = points.curves.stride.get(sliding) if sliding is not None else None
    stride = max(1, trained // 2) if sliding is not None and pd.isna(stride) else stride
    read = points.read(same)
    rows = []
    for length in sorted({*read, *points.read(windows)}):
        changes = {"windows": change(points, windows, length, sure), "early": early}
        changes["context"] = context = change(points, same, length, sure)
        status = read.get(length, "missing")
        verdict = ""
        if length > trained and status != "missing":
            verdict = thresholds.verdict(context) if status == "done" else status
        oracle = _oracle(points, base, same, length, sure) if same is not None else {}
        if verdict == "ignores" and oracle and oracle["oracle_gain"] > -thresholds.uses:
            verdict = "nothing to gain"
        rested = context if status == "done" else changes["windows"]
        row = {**base, "length": length, "early_stride": stride, "status": status}
        row |= {"seeds": rested.seeds, "texts": rested.texts, "interval": rested.method, "verdict": verdict, **oracle}
        for part, found in changes.items():
            row |= {part: found.value, f"{part}_low": found.low, f"{part}_high": found.high}
        rows.append(row)
    return rows


def change(points: Points, curve: int | None, length: int, confidence: float) -> Interval:
    """By how much a curve's mean nll changes from its training length to `length`, paired."""
    if curve is None:
        return NOTHING
    trained = int(points.curves.train_length[curve])
    return interval([(1, points.units(curve, length)), (-1, points.units(curve, trained))], confidence)


def _curve(points: Points, base: pd.Series, protocol: str) -> int | None:
    """The curve of a protocol; of several, of the halving stride, the longest reach, the largest block."""
    found = points.like(base[BASE], protocol=protocol)
    kept = points.curves.loc[found, ["stride", "reach", "block"]].astype(float)
    return next(iter(kept.sort_values(["stride", "reach", "block"], ascending=False, na_position="first").index), None)


def _oracle(points: Points, base: pd.Series, same: int, length: int, confidence: float) -> dict:
    """The model that was trained at the greatest length up to `length`: of the same scheme, else what gains most."""
    free = {"scheme": ..., "train_length": ..., "variant": ..., "positions": ..., "extension": "none"}
    candidates = []
    for curve in points.like(points.curves.loc[same], **free):
        longer = int(points.curves.train_length[curve])
        if base.train_length < longer <= length:
            short, own = points.units(curve, int(base.train_length)), points.units(curve, longer)
            gain = interval([(1, own), (-1, short)], confidence).value
            if not pd.isna(gain):
                scheme = points.curves.scheme[curve]
                candidates.append((-longer, scheme != base.scheme, gain, scheme))
    if not candidates:
        return {}
    longer, _, gain, scheme = min(candidates)
    return {"oracle_scheme": scheme, "oracle_length": -longer, "oracle_gain": gain}
