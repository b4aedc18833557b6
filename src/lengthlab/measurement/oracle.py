"""Models trained *at* each length: what a perfect extrapolator would reach (Press et al. 2022, arXiv:2108.12409)."""

import pandas as pd

from lengthlab.measurement.points import CURVE

LADDER = [key for key in CURVE if key != "train_length"]


def matrix(summary: pd.DataFrame) -> pd.DataFrame:
    """Of the schemes trained at two lengths or more: scheme, protocol, train_length, length, nll, ppl, status."""
    rows = _ladders(summary)
    return rows[["scheme", "protocol", "train_length", "length", "nll", "ppl", "status"]].reset_index(drop=True)


def line(summary: pd.DataFrame) -> pd.DataFrame:
    """Of those, each model at the length it was trained at: scheme, protocol, length, nll, ppl, seeds."""
    rows = _ladders(summary)
    own = rows[(rows["length"] == rows["train_length"]) & rows["ppl"].notna()]
    return own[["scheme", "protocol", "length", "nll", "ppl", "seeds"]].reset_index(drop=True)


def _ladders(summary: pd.DataFrame) -> pd.DataFrame:
    """The points of curves without extension that differ in their training length alone."""
    rows = summary[(summary["extension"] == "none")].reindex(columns=list(dict.fromkeys([*summary, *CURVE])))
    if rows.empty:
        return rows
    trained = rows.groupby(LADDER, dropna=False)["train_length"].transform("nunique")
    return rows[trained > 1].sort_values([*LADDER, "train_length", "length"], kind="stable")
