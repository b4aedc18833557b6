"""Where things go: the range of an axis, its ticks, and labels that do not overlap."""

import numpy as np
import pandas as pd

from lengthlab.figures.labels import Curve


def spread(wanted: list[float], sizes: list[float], low: float, high: float) -> list[float]:
    """Centres nearest to `wanted` (least squares) whose intervals of `sizes` touch at most, in low..high."""
    order = np.argsort(wanted, kind="stable")
    size = np.array(sizes)[order]
    start = np.cumsum(size) - size
    pools: list[list[float]] = []  # pool adjacent violators: the slack before each interval never falls
    for slack in np.array(wanted)[order] - size / 2 - start:
        pools.append([slack])
        while len(pools) > 1 and np.mean(pools[-2]) >= np.mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    slack = np.array([np.mean(pool) for pool in pools for _ in pool])
    centres = np.empty(len(wanted))
    centres[order] = np.clip(slack, low, max(low, high - size.sum())) + start + size / 2
    return centres.tolist()


def limits(curves: list[Curve], measure: str) -> tuple[float, float]:
    """The y range: all points, but at most three times the worst of the best curve that goes to the end."""
    columns = ["length", measure, "ppl_low"]
    points = pd.concat([c.points[columns].assign(curve=i) for i, c in enumerate(curves)])
    points = points[np.isfinite(points[measure])]
    whole = points["curve"][points["length"] == points["length"].max()]
    cap = 3 * points.groupby("curve")[measure].max()[whole].min()
    low, high = (points["ppl_low"].min(), 0) if measure == "ppl" else (1.0, 1.0)
    low, high = min(low, points[measure].min()), max(high, points[measure].max())
    high = cap if high > 1.5 * cap else high
    room = max(0.04 * np.log(high / low), 0.02)
    return low * np.exp(-room), high * np.exp(room)


def plain_ticks(low: float, high: float) -> list[float]:
    """About five round numbers on a log axis from `low` to `high`."""
    from matplotlib.ticker import MaxNLocator

    for digits in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)):
        decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
        ticks = [d * 10.0**k for k in decades for d in digits if low <= d * 10.0**k <= high]
        if len(ticks) >= 4:
            return ticks
    return [t for t in MaxNLocator(5).tick_values(low, high) if low <= t <= high]


def crowded(lengths: list[int], inches: float) -> bool:
    """Whether the lengths, written beside each other below a panel, would touch."""
    steps = np.diff(np.log2(lengths)) * inches / (np.log2(lengths[-1] / lengths[0]) + 0.4)
    return min(steps, default=inches) < 0.06 * len(str(lengths[-1])) + 0.04
