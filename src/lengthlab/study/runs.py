"""A run is a folder. Every file in it is written whole or not at all; a cell is done when its ledger is there."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from lengthlab import UserError


class RunError(UserError):
    """A folder that is not a run, or one whose files cannot be read. One clear line."""


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then rename it: readers see the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: dict) -> None:
    """JSON, indented, written whole."""
    write_whole(path, lambda temporary: temporary.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8"))


class Run:
    """One folder `results/<study>/<run>/`: its record, its training rows and its cells."""

    def __init__(self, folder: Path | str):
        self.folder = Path(folder)

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name

    @property
    def checkpoint(self) -> Path:
        """Where the weights are."""
        return self.folder / "checkpoint.pt"

    @property
    def tokenizer(self) -> Path:
        """The run's own tokenizer: evaluation never trains another."""
        return self.folder / "tokenizer.json"

    @cached_property
    def record(self) -> dict:
        """run.json. Raises RunError where there is none or it is damaged."""
        path = self.folder / "run.json"
        if not path.is_file():
            raise RunError(
                f"run={self.folder}: not a run's folder, it has no run.json; see `lengthlab report` for a study's runs"
            )
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            config = record["config"]
            record["status"], config["seed"], config["train"]["length"]  # noqa: B018
            config["scheme"]["name"], config["positions"]["name"]  # noqa: B018
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"run={self.folder}: its run.json is damaged; delete the folder and train it again"
            ) from error
        return record

    def write_record(self, **changes) -> None:
        """Change keys of run.json (all of it where there is none)."""
        old = self.record if (self.folder / "run.json").is_file() else {}
        self.__dict__["record"] = {"run": self.name, **old, **changes}
        write_json(self.folder / "run.json", self.record)

    def is_finished(self) -> bool:
        """Whether training has come to its end, good or bad: `done` with its weights, or `diverged`."""
        if not (self.folder / "run.json").is_file():
            return False
        try:
            status = self.record["status"]
        except RunError:
            return False
        return status == "diverged" or (status == "done" and self.checkpoint.exists())

    def start_afresh(self) -> None:
        """Remove what an unfinished run left; Hydra's record and log stay."""
        self.__dict__.pop("record", None)
        for name in ("run.json", "train.parquet", "checkpoint.pt", "tokenizer.json", "cells.parquet"):
            (self.folder / name).unlink(missing_ok=True)
        for half in self.folder.glob("*.tmp"):  # of a process that was killed while it wrote
            half.unlink(missing_ok=True)
        shutil.rmtree(self.folder / "eval", ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)

    def write_training(self, rows: list[dict]) -> None:
        """train.parquet: step, tokens, loss, lr, grad_norm, seconds, val_loss."""
        frame = pd.DataFrame(rows).astype({"val_loss": "float64"}) if rows else pd.DataFrame()
        write_whole(self.folder / "train.parquet", lambda temporary: frame.to_parquet(temporary, index=False))

    def has_cell(self, cell: str) -> bool:
        """Whether the cell is done: its ledger, written last, is there."""
        return (self.folder / "eval" / f"{cell}.json").is_file()

    def write_cell(self, cell: str, rows: pd.DataFrame, ledger: dict) -> None:
        """The rows first, then the ledger."""
        folder = self.folder / "eval"
        write_whole(folder / f"{cell}.parquet", lambda temporary: rows.to_parquet(temporary, index=False))
        write_json(folder / f"{cell}.json", {"cell": cell, **ledger})

    def ledgers(self) -> list[dict]:
        """All ledgers, by cell name. Raises RunError for one that cannot be read."""
        return [
            self._read_cell(path, lambda path: json.loads(path.read_text(encoding="utf-8")))
            for path in self._ledger_paths()
        ]

    def cells(self) -> pd.DataFrame:
        """Sums per cell, document and part, with the ledgers as JSON; a cell without rows has one row of zeros.

        Kept in cells.parquet, and made anew where the ledgers' names or times differ from those it was made of.
        """
        made_of = json.dumps({path.stem: path.stat().st_mtime_ns for path in self._ledger_paths()})
        path = self.folder / "cells.parquet"
        try:
            table = pq.read_table(path)
            if (table.schema.metadata or {}).get(b"made_of") == made_of.encode():
                return table.to_pandas()
        except (OSError, ValueError, pa.ArrowException):
            pass
        table = pa.Table.from_pandas(self._gather(), preserve_index=False)
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), b"made_of": made_of.encode()})
        try:
            write_whole(path, lambda temporary: pq.write_table(table, temporary))
        except OSError:
            pass  # a derived file: somebody else's results may be read-only
        return table.to_pandas()

    def _read_cell(self, path: Path, read: Callable[[Path], Any]) -> Any:
        try:
            return read(path)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise RunError(
                f"run={self.folder}: {path.name} is missing or damaged; delete eval/{path.stem}.json and evaluate again"
            ) from error

    def _ledger_paths(self) -> list[Path]:
        return sorted((self.folder / "eval").glob("*.json"))

    def _gather(self) -> pd.DataFrame:
        columns = {
            "cell": "str",
            "document": "str",
            "part": "int64",
            "targets": "int64",
            "nll": "float64",
            "bytes": "int64",
        }
        pieces = [
            pd.DataFrame(
                {key: pd.Series(dtype=kind) for key, kind in columns.items()} | {"ledger": pd.Series(dtype="str")}
            )
        ]
        for ledger in self.ledgers():
            rows = self._read_cell(self.folder / "eval" / f"{ledger['cell']}.parquet", pd.read_parquet)
            sums = rows.groupby(["document", "part"], as_index=False)[["targets", "nll", "bytes"]].sum()
            if sums.empty:
                sums = pd.DataFrame({"document": [""], "part": [-1], "targets": [0], "nll": [0.0], "bytes": [0]})
            pieces.append(sums.assign(cell=ledger["cell"], ledger=json.dumps(ledger)))
        return pd.concat(pieces, ignore_index=True).astype(columns)


def runs_of(study: Path | str) -> Iterator[Run]:
    """The runs of a study's folder, by name: every folder with a run.json."""
    for path in sorted(Path(study).glob("*/run.json")):
        yield Run(path.parent)
