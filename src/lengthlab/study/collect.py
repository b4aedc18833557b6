"""All cells of a study's runs, with what was trained and how, in one tidy frame."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from lengthlab.study.identity import normalised
from lengthlab.study.runs import Run, RunError, runs_of

LEDGER = [
    "status", "reason", "windows", "tokens_fed", "targets_scored", "documents_scored", "longest_context",
    "mean_context", "target_hash", "command", "sd_over_draws", "threads", "seconds", "peak_memory_bytes",
]  # fmt: skip
NOT_A_VARIANT = {"seed", "train.length", "scheme.name", "scheme._target_", "positions.name", "positions._target_"}


def collect(study: str, results: Path | str = "results") -> pd.DataFrame:
    """One row per run, cell, document and part: sums (targets, nll, bytes), the cell's ledger, the run's config.

    The config's columns have dotted names (train.lr); `variant` names what else than scheme, length and seed differs
    between runs of one scheme. A cell without numbers (undefined, diverged, …) is one row of zeros. Raises RunError
    where there is no such study.
    """
    folder = Path(results) / study
    runs = list(runs_of(folder))
    if not runs:
        raise RunError(f"study={study}: no run in {folder}")
    return frame_of(runs)


def frame_of(runs: Sequence[Run]) -> pd.DataFrame:
    """`collect`'s frame, of these runs alone: what they are called tells them from each other, not from other runs."""
    configs = {run.name: flat(run.record["config"]) for run in runs}
    variants = variants_of({run.name: flat(normalised(run.record.get("training", {}))) for run in runs})
    pieces = [_of_run(run, configs[run.name], variants[run.name]) for run in runs]
    frame = pd.concat([piece for piece in pieces if len(piece)] or pieces[:1], ignore_index=True)
    for column in {"extension", "data"} & set(frame):
        frame[column] = frame[column].map(_labels(frame[column].unique()))
    return frame


def cells_of(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per run and cell of `collect`'s frame: its ledger alone."""
    keys = [
        "run", "cell", "scheme", "variant", "seed", "train_length", "extension", "protocol", "length", "reach", "block",
        "stride", "data", "split", "tokens_per_document", "eval_dtype", "dropped", *LEDGER,
    ]  # fmt: skip
    # Where no run has a cell yet, the frame has no columns of a ledger.
    return frame.reindex(columns=keys).drop_duplicates(["run", "cell"]).reset_index(drop=True)


def _of_run(run: Run, config: dict, variant: str) -> pd.DataFrame:
    cells = run.cells()
    ledgers = {
        cell: _ledger_columns(json.loads(text))
        for cell, text in cells.drop_duplicates("cell")[["cell", "ledger"]].values
    }
    cells = cells.drop(columns="ledger").assign(
        run=run.name, scheme=config["scheme.name"], variant=variant, positions=config["positions.name"],
        train_length=config["train.length"], seed=config["seed"],
    )  # fmt: skip
    columns = pd.DataFrame.from_dict(ledgers, orient="index").rename_axis("cell").reset_index() if ledgers else None
    frame = cells if columns is None else cells.merge(columns, on="cell", how="left")
    rest = {key: value for key, value in config.items() if key not in frame.columns}
    return pd.concat([frame, pd.DataFrame([rest] * len(frame), index=frame.index)], axis=1)


def _ledger_columns(ledger: dict) -> dict:
    protocol, data = ledger["protocol"], ledger["data"]
    return {
        "data": json.dumps({key: data[key] for key in ("name", "corpus")}), "split": data["split"],
        "tokens_per_document": data["tokens_per_document"],
        "extension": json.dumps({key: value for key, value in ledger["extension"].items() if key != "_target_"}),
        "protocol": protocol["name"], "length": ledger["length"],
        **{key: protocol.get(key) for key in ("stride", "reach", "block")},
        "draws": (ledger.get("position_draws") or {}).get("count"), "mask_seed": ledger.get("mask_seed"),
        "eval_dtype": ledger["dtype"], "dropped": json.dumps(ledger["dropped"]),
        **{key: ledger.get(key) for key in LEDGER},
    }  # fmt: skip


def flat(config: dict, prefix: str = "") -> dict:
    """{"train": {"lr": 1}} to {"train.lr": 1}; lists become their JSON."""
    result = {}
    for key, value in config.items():
        if isinstance(value, dict):
            result |= flat(value, f"{prefix}{key}.")
        else:
            result[f"{prefix}{key}"] = json.dumps(value) if isinstance(value, list) else value
    return result


def variants_of(trainings: dict[str, dict]) -> dict[str, str]:
    """Per run, "key=value, …" of the keys in which runs of its scheme and training length differ, seed apart."""
    groups: dict[tuple, list[str]] = {}
    for run, training in trainings.items():
        groups.setdefault((training.get("scheme.name"), training.get("train.length")), []).append(run)
    variants = {}
    for runs in groups.values():
        keys = differing([trainings[run] for run in runs])
        for run in runs:
            variants[run] = _said(trainings[run], _telling(keys))
    return variants


def differing(options: list[dict]) -> list[str]:
    """The keys, sorted, whose values are not the same in all of them."""
    keys = sorted({key for one in options for key in one})
    return [key for key in keys if len({str(one.get(key)) for one in options}) > 1]


def _telling(keys: list[str]) -> list[str]:
    """Of the keys that differ, those that say it: a model's name stands for its sizes, a corpus for its tokenizer."""
    implied = {key for key in keys if key.startswith("model.") and "model.name" in keys} - {"model.name"}
    implied |= {key for key in keys if key.startswith("positions.") and "positions.name" in keys}
    implied |= {"tokenizer"} if "corpus" in keys else set()
    return [key for key in keys if key not in NOT_A_VARIANT | implied]


def _labels(identities: Iterable[str]) -> dict[str, str]:
    """What to call each identity (JSON with a name): its name and, in brackets, how it differs from its namesakes."""
    identities = {text: flat(json.loads(text)) for text in identities if isinstance(text, str)}
    labels = {}
    for text, one in identities.items():
        keys = differing([other for other in identities.values() if other["name"] == one["name"]])
        labels[text] = f"{one['name']} ({_said(one, keys)})" if keys else one["name"]
    return labels


def _said(options: dict, keys: list[str]) -> str:
    return ", ".join(f"{key}={_short(options.get(key))}" for key in keys)


def _short(value) -> str:
    if isinstance(value, int | float) and abs(value) >= 1e6:
        return f"{value:g}"
    return value[:6] if isinstance(value, str) and len(value) == 64 else str(value)
