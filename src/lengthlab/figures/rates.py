"""A ladder of learning rates: the best of each scheme beside the one that is best for all of them together."""

import json
from collections import defaultdict
from statistics import mean


def rates_of(runs: list[dict]) -> list[dict]:
    """One row per ladder, from the runs' records: runs of one scheme that differ in learning rate and seed alone.

    Each: scheme, train_length, losses ({rate: validation loss in nats, the mean over seeds; None: diverged}), best (the
    rate of least loss) and common (the rate of least mean loss over the schemes that are trained alike; None where no
    rate is common to all). Runs that were not validated are left out.
    """
    losses: dict[tuple, dict[float, list]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        config = run.get("config") or {}
        if not {"scheme", "train"} <= set(config):  # a run that failed before its record was whole has none
            continue
        if run.get("status") == "diverged" or run.get("val_loss") is not None:
            scheme, train = config["scheme"], config["train"]
            losses[_rest(run), json.dumps(scheme, sort_keys=True), scheme["name"], train["length"]][train["lr"]].append(
                run.get("val_loss") if run.get("status") == "done" else None
            )
    ladders = {key: {lr: _mean(found[lr]) for lr in sorted(found)} for key, found in losses.items() if len(found) > 1}
    rows = []
    for (rest, _, scheme, length), ladder in sorted(ladders.items(), key=lambda item: (item[0][2:], item[0])):
        tried = {lr: loss for lr, loss in ladder.items() if loss is not None}
        best = min(tried, key=tried.get) if tried else None
        alike = [other for key, other in ladders.items() if key[0] == rest]
        row = {"scheme": scheme, "train_length": length, "losses": ladder, "best": best}
        rows.append({**row, "common": _common(alike)})
    return rows


def _rest(run: dict) -> str:
    """How a run was trained, scheme, learning rate and seed apart."""
    training = run.get("training") or run["config"]
    part = {key: training[key] for key in training if key not in ("scheme", "seed", "code")}
    part["train"] = {key: value for key, value in part["train"].items() if key != "lr"}
    kept = ("train", "positions", "model", "corpus", "tokenizer", "dtype")
    return json.dumps({key: part[key] for key in kept if key in part}, sort_keys=True)


def _common(ladders: list[dict]) -> float | None:
    """The rate of least mean loss, of those at which every scheme has one."""
    shared = [lr for lr in ladders[0] if all(ladder.get(lr) is not None for ladder in ladders)]
    return min(shared, key=lambda lr: mean(ladder[lr] for ladder in ladders), default=None)


def _mean(losses: list) -> float | None:
    """None where a seed diverged: such a rate is no choice."""
    return None if any(loss is None for loss in losses) else mean(losses)
