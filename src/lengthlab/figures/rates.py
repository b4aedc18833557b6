"""A ladder of learning rates: the best of each scheme beside the one that is best for all of them together."""

from collections import defaultdict
from statistics import mean


def rates_of(runs: list[dict]) -> list[dict]:
    """One row per scheme and training length that was trained at several rates, from the runs' records.

    Each: scheme, train_length, losses ({rate: validation loss in nats, the mean over seeds; None: diverged}), best (the
    rate of least loss) and common (the rate of least mean loss over the schemes; None where no rate is common to all).
    """
    losses: dict[tuple, dict[float, list]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        config = run.get("config") or {}
        if {"scheme", "train"} <= set(config):  # a run that failed before its record was whole has none
            loss = run.get("val_loss") if run.get("status") == "done" else None
            losses[config["scheme"]["name"], config["train"]["length"]][config["train"]["lr"]].append(loss)
    ladders = {key: {lr: _mean(found[lr]) for lr in sorted(found)} for key, found in losses.items() if len(found) > 1}
    rows = []
    for (scheme, length), ladder in sorted(ladders.items()):
        tried = {lr: loss for lr, loss in ladder.items() if loss is not None}
        best = min(tried, key=tried.get) if tried else None
        row = {"scheme": scheme, "train_length": length, "losses": ladder, "best": best}
        rows.append({**row, "common": _common([other for (_, n), other in ladders.items() if n == length])})
    return rows


def _common(ladders: list[dict]) -> float | None:
    """The rate of least mean loss, of those at which every scheme has one."""
    shared = [lr for lr in ladders[0] if all(ladder.get(lr) is not None for ladder in ladders)]
    return min(shared, key=lambda lr: mean(ladder[lr] for ladder in ladders), default=None)


def _mean(losses: list) -> float | None:
    """None where a seed diverged or was not validated: such a rate is no choice."""
    return None if any(loss is None for loss in losses) else mean(losses)
