"""One sentence per scheme: what its curve says at the longest length. No torch."""

import numpy as np
import pandas as pd

from lengthlab.measurement.decomposition import BASE, Thresholds

SAYS = {
    "uses": "uses the longer context",
    "breaks": "breaks",
    "ignores": "ignores the longer context",
    "nothing to gain": "has nothing to gain at this scale",
    "undecided": "is undecided",
}


def verdicts(decomposition: pd.DataFrame, thresholds: Thresholds) -> pd.DataFrame:
    """One row per curve: BASE, length (its longest), verdict and sentence. Empty where no length is past training."""
    rows = []
    for key, curve in decomposition.groupby(BASE, dropna=False, sort=False):
        longer = curve[curve.length > curve.train_length].sort_values("length")
        if longer.empty:
            continue
        known = longer[longer.verdict.isin(SAYS)]
        last = (known if len(known) else longer).iloc[-1]
        after = longer[longer.length > last.length]
        sentence = _sentence(last, thresholds) if len(known) else _without(longer)
        if len(after):
            sentence += f" Past {last.length:,} tokens it is {_word(after.status.iloc[0])}."
        curve = dict(zip(BASE, key, strict=True))
        rows.append({**curve, "length": last.length, "verdict": last.verdict or last.status, "sentence": sentence})
    return pd.DataFrame(rows, columns=[*BASE, "length", "verdict", "sentence"])


def name_of(row: pd.Series) -> str:
    """Scheme, and what else tells its curve."""
    extension = "" if row.extension == "none" else f" + {row.extension}"
    return row.scheme + extension + (f" ({row.variant})" if row.variant else "")


def _sentence(row: pd.Series, thresholds: Thresholds) -> str:
    sure = f"{100 * thresholds.confidence:g} %"
    change = f"{nats(row.context)} nats ({sure} interval {nats(row.context_low)} to {nats(row.context_high)})"
    if np.isnan(row.context_low):
        change = f"{nats(row.context)} nats (no interval: too few parts of documents)"
    said = (
        f"{name_of(row)} {SAYS[row.verdict]}: from {row.train_length:,} to {row.length:,} tokens "
        f"the loss on the same targets changes by {change}"
    )
    if np.isfinite(row.windows):
        said += f", the non-overlapping loss by {nats(row.windows)}"
        if np.isfinite(row.early):
            said += f"; fewer early tokens alone, sliding by {row.early_stride:,.0f}, are worth {nats(row.early)}"
    if row.verdict == "nothing to gain" or (row.verdict == "ignores" and np.isfinite(row.oracle_gain)):
        said += (
            f"; {row.oracle_scheme} trained at {row.oracle_length:,.0f} itself changes by {nats(row.oracle_gain)} "
            f"from {row.train_length:,} to {row.oracle_length:,.0f}"
        )
    return said + "."


def _without(longer: pd.DataFrame) -> str:
    first, last = longer.iloc[0], longer.iloc[-1]
    said = f"{name_of(last)} has no verdict: "
    if last.status != "missing":
        return said + f"past its training length of {last.train_length:,} tokens it is {_word(first.status)}."
    said += "same_target was not read"
    if np.isfinite(last.windows):
        span = f"from {last.train_length:,} to {last.length:,} tokens"
        said += f" ({span} the non-overlapping loss changes by {nats(last.windows)} nats)"
    return said + "; add it to eval.protocols."


def _word(status: str) -> str:
    return {"out_of_memory": "out of memory", "missing": "not read"}.get(status, status)


def nats(change: float) -> str:
    """A change of nll with its sign: −0.003; +1.24."""
    if abs(change) >= 1e4:
        return f"{change:+.1e}".replace("-", "−")
    digits = 3 if abs(change) < 1 else 2
    text = f"{change:+.{digits}f}"
    return text.replace("-", "−") if float(text) else "0." + "0" * digits
