"""Curves as sums: for every curve and length, the targets and nll of each seed, document and part. No torch."""

from typing import NamedTuple

import numpy as np
import pandas as pd

CURVE = [
    "scheme", "variant", "positions", "extension", "train_length", "data", "split", "tokens_per_document", "documents",
    "protocol", "stride", "reach", "block", "last", "eval_dtype", "draws", "mask_seed",
]  # fmt: skip
"""What must agree for cells to be points of one curve, seeds and lengths apart. `variant` names every other difference
in how runs were trained; a null `stride` means half of each length."""

PARTS = 1 << 24
"""More than the parts of any document: a unit is numbered document x PARTS + part."""


class Units(NamedTuple):
    """One point: what S seeds lost on U parts of documents."""

    seeds: tuple[int, ...]
    index: np.ndarray  # (U), increasing: document x PARTS + part, the documents numbered alike in one frame
    targets: np.ndarray  # (S, U) counts
    nll: np.ndarray  # (S, U) nats, summed

    @property
    def texts(self) -> int:
        """Number of documents with a target."""
        return len(np.unique(self.index // PARTS))


class Points:
    """The points of all curves of `collect`'s frame.

    `curves` has the columns of CURVE, a row per curve; a point is a curve's number in it and a length.
    """

    def __init__(self, frame: pd.DataFrame):
        frame = by_stride_rule(frame.reindex(columns=[*frame, *(key for key in CURVE if key not in frame)]))
        curve = frame.groupby(CURVE, dropna=False, sort=True).ngroup().rename("curve")
        self.curves = frame[CURVE].set_axis(curve).loc[~curve.duplicated().to_numpy()].sort_index()
        self._status = dict(frame.groupby([curve, "length"]).status.agg(_status))
        unit = pd.factorize(frame.document)[0].astype(np.int64) * PARTS + frame.part.to_numpy(np.int64)
        table = frame[["length", "seed", "targets", "nll"]].assign(curve=curve, unit=unit)
        table = table[(frame.status == "done") & (frame.targets > 0)]
        self._units = {key: _units(group) for key, group in table.groupby(["curve", "length"])}

    def lengths(self, curve: int) -> list[int]:
        """The lengths at which the curve has a number, increasing."""
        return sorted(int(length) for number, length in self._units if number == curve)

    def read(self, curve: int | None) -> dict[int, str]:
        """The status of the curve's cells by length: `done` where any seed's is."""
        return {int(length): status for (number, length), status in self._status.items() if number == curve}

    def units(self, curve: int | None, length: int) -> Units | None:
        """The point's sums; None where it has none."""
        return self._units.get((curve, length))

    def like(self, curve: pd.Series, **columns) -> list[int]:
        """The numbers of the curves that agree with `curve` in all its columns but `columns`, which have these values.

        A column given as `...` may be anything.
        """
        wanted = {**curve.to_dict(), **columns}
        agree = np.ones(len(self.curves), bool)
        for key, value in wanted.items():
            if value is not ... and key in self.curves:
                column = self.curves[key]
                agree &= (column.isna() if pd.isna(value) else column == value).to_numpy(bool)
        return [int(number) for number in self.curves.index[agree]]


def points_of(frame: "pd.DataFrame | Points") -> Points:
    """The points of a frame; given points, those."""
    return frame if isinstance(frame, Points) else Points(frame)


def by_stride_rule(cells: pd.DataFrame) -> pd.DataFrame:
    """Sliding cells by the rule that makes them one curve: half of each length (null), or one stride for all."""
    half = cells.stride == np.maximum(1, cells.length // 2)
    curves = pd.MultiIndex.from_frame(cells[["run", *CURVE]].astype(str))
    fixed = curves.isin(curves[cells.stride.notna() & ~half])
    return pd.concat([cells.assign(stride=cells.stride.mask(half)), cells[half & fixed]], ignore_index=True)


def _status(statuses: pd.Series) -> str:
    return "done" if (statuses == "done").any() else statuses.iloc[0]


def _units(rows: pd.DataFrame) -> Units:
    seeds, seed = np.unique(rows.seed, return_inverse=True)
    index, unit = np.unique(rows.unit, return_inverse=True)
    sums = [np.zeros((len(seeds), len(index))) for _ in range(2)]
    for total, key in zip(sums, ("targets", "nll"), strict=True):
        np.add.at(total, (seed, unit), rows[key].to_numpy(float))
    return Units(tuple(int(s) for s in seeds), index, *sums)
