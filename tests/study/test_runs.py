"""A run's folder: whole files or none, cells that are done when their ledger is, and a cache that is never stale."""

import json
import os

import pandas as pd
import pyarrow.parquet as pq
import pytest

from lengthlab import UserError
from lengthlab.study import Run, RunError, runs, runs_of
from lengthlab.study.runs import write_json, write_whole

CONFIG = {
    "scheme": {"name": "rope"}, "positions": {"name": "sequential"}, "train": {"length": 64}, "seed": 0,
}  # fmt: skip


def rows_of(nll=2.0, documents=("a", "b")):
    """Three rows per document in two parts: 30 targets."""
    places = [(0, 1, 1), (0, 2, 2), (1, 1025, 1)]
    return pd.DataFrame(
        [
            {"document": name, "part": part, "position": position, "context": context, "targets": 10,
             "nll": 10 * nll, "bytes": 40}
            for name in documents for part, position, context in places
        ]
    )  # fmt: skip


def ledger_of(**changes):
    return {"status": "done", "reason": None, "length": 64, "dropped": {}} | changes


def sums(run):
    """{cell: (targets, nll)}."""
    cells = run.cells().groupby("cell")[["targets", "nll"]].sum()
    return {cell: (int(row.targets), float(row.nll)) for cell, row in cells.iterrows()}


def older(path):
    """Two writes within one tick of the file system's clock cannot be told apart."""
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - 10**9))


@pytest.fixture
def run(tmp_path):
    run = Run(tmp_path / "study" / "rope-L64-s0-abc")
    run.start_afresh()
    run.write_record(status="done", config=CONFIG)
    run.write_cell("one", rows_of(), ledger_of())
    for path in (run.folder / "eval").iterdir():
        older(path)
    return run


@pytest.fixture
def gathers(monkeypatch):
    """Counts how often cells.parquet is made anew."""
    made, gather = [], Run._gather

    def counted(self):
        made.append(self.name)
        return gather(self)

    monkeypatch.setattr(Run, "_gather", counted)
    return made


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "deep" / "file.json"
    write_json(path, {"a": 1})

    def fails(temporary):
        temporary.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_whole(path, fails)
    assert json.loads(path.read_text()) == {"a": 1}
    assert os.listdir(path.parent) == ["file.json"]


def test_a_cell_is_done_when_its_ledger_is_there(run):
    assert run.has_cell("one") and not run.has_cell("two")
    rows_of().to_parquet(run.folder / "eval" / "two.parquet")  # killed between rows and ledger
    assert not run.has_cell("two")
    assert sums(run) == {"one": (60, 120.0)}
    run.write_cell("two", rows_of(3.0), ledger_of())
    assert run.has_cell("two")
    assert sums(run) == {"one": (60, 120.0), "two": (60, 180.0)}


def test_the_ledger_is_written_last(run, monkeypatch):
    def fails(path, value):
        assert (run.folder / "eval" / "two.parquet").exists()
        raise OSError("killed")

    monkeypatch.setattr(runs, "write_json", fails)
    with pytest.raises(OSError, match="killed"):
        run.write_cell("two", rows_of(), ledger_of())
    assert not run.has_cell("two")


def test_cells_are_summed_by_document_and_part(run):
    cells = run.cells()
    assert [*zip(cells.document, cells.part, cells.targets, cells.nll, cells.bytes, strict=True)] == [
        ("a", 0, 20, 40.0, 80), ("a", 1, 10, 20.0, 40), ("b", 0, 20, 40.0, 80), ("b", 1, 10, 20.0, 40),
    ]  # fmt: skip
    assert {json.loads(text)["cell"] for text in cells.ledger} == {"one"}


def test_a_cell_without_rows_is_one_row_of_zeros(run):
    run.write_cell("gap", rows_of().iloc[:0], ledger_of(status="undefined", reason="no row"))
    gap = run.cells().query("cell == 'gap'")
    assert gap[["document", "part", "targets", "nll", "bytes"]].values.tolist() == [["", -1, 0, 0.0, 0]]
    assert json.loads(gap.ledger.iloc[0])["status"] == "undefined"


def test_cells_are_read_from_their_cache(run, gathers):
    first = run.cells()
    assert gathers == [run.name]
    pd.testing.assert_frame_equal(Run(run.folder).cells(), first)
    assert gathers == [run.name]  # not again


def test_a_cell_added_changed_or_removed_is_seen(run, gathers):
    run.cells()
    run.write_cell("two", rows_of(3.0), ledger_of())
    older(run.folder / "eval" / "two.json")
    assert sums(run) == {"one": (60, 120.0), "two": (60, 180.0)}
    run.write_cell("two", rows_of(5.0), ledger_of())
    assert sums(run)["two"] == (60, 300.0)
    (run.folder / "eval" / "one.json").unlink()
    assert sums(run) == {"two": (60, 300.0)}
    assert len(gathers) == 4


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.99])
def test_a_damaged_cache_is_made_anew(run, gathers, kept):
    expected, path = run.cells(), run.folder / "cells.parquet"
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    pd.testing.assert_frame_equal(run.cells(), expected)
    pd.testing.assert_frame_equal(run.cells(), expected)
    assert len(gathers) == 2


def test_somebody_elses_parquet_is_no_cache(run):
    pd.DataFrame({"x": [1]}).to_parquet(run.folder / "cells.parquet")
    assert sums(run) == {"one": (60, 120.0)}


def test_results_that_cannot_be_written_can_be_read(run, monkeypatch):
    def read_only(table, path):
        raise PermissionError("read-only")

    monkeypatch.setattr(pq, "write_table", read_only)
    assert sums(run) == {"one": (60, 120.0)}
    assert not (run.folder / "cells.parquet").exists()
    assert not [*run.folder.glob("*.tmp")]


def test_a_run_without_cells_has_no_rows(tmp_path):
    cells = Run(tmp_path).cells()
    assert cells.empty
    assert {"cell", "document", "part", "targets", "nll", "bytes", "ledger"} == set(cells.columns)


@pytest.mark.parametrize("name", ["one.parquet", "one.json"])
@pytest.mark.parametrize("content", [None, b"", b"{"])
def test_a_damaged_cell_is_one_line_that_says_what_to_delete(run, name, content):
    path = run.folder / "eval" / name
    path.write_bytes(content) if content is not None else path.unlink()
    if content is None and name == "one.json":
        assert sums(run) == {}  # not done: computed again
        return
    with pytest.raises(RunError, match=rf"{name} is missing or damaged; delete eval/one.json") as refusal:
        run.cells()
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"status": "done"}', '{"status": 1, "config": {}}', "\xff"]
)
def test_a_damaged_record_is_one_line(run, text):
    (run.folder / "run.json").write_text(text, encoding="latin-1")
    with pytest.raises(RunError, match="run.json is damaged; delete the folder and train it again") as refusal:
        _ = Run(run.folder).record
    assert isinstance(refusal.value, UserError) and "\n" not in str(refusal.value)
    assert not Run(run.folder).is_finished()


def test_a_folder_that_is_no_run_is_one_line(tmp_path):
    with pytest.raises(RunError, match="not a run's folder, it has no run.json") as refusal:
        _ = Run(tmp_path).record
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("status", "checkpoint", "finished"),
    [
        ("done", True, True),
        ("done", False, False),
        ("diverged", False, True),
        ("running", True, False),
        ("failed", True, False),
    ],
)
def test_a_run_is_finished_with_its_weights_or_diverged(run, status, checkpoint, finished):
    run.write_record(status=status)
    if checkpoint:
        run.checkpoint.write_bytes(b"weights")
    assert Run(run.folder).is_finished() == finished


def test_starting_afresh_leaves_hydras_files_alone(run):
    run.write_training([{"step": 1, "loss": 2.0, "val_loss": None}])
    run.cells()
    for name in ("checkpoint.pt", "tokenizer.json", "checkpoint.pt.123.tmp", ".hydra", "train.log"):
        (run.folder / name).write_text("x")
    run.start_afresh()
    assert sorted(os.listdir(run.folder)) == [".hydra", "train.log"]
    run.write_record(status="running", config=CONFIG)  # nothing of the old record comes back
    assert json.loads((run.folder / "run.json").read_text()) == {"run": run.name, "status": "running", "config": CONFIG}


def test_changes_of_a_record_keep_the_rest(run):
    run.write_record(status="failed", error="x")
    assert Run(run.folder).record == {"run": run.name, "status": "failed", "config": CONFIG, "error": "x"}
    assert run.record == Run(run.folder).record


def test_training_rows_come_back(run):
    rows = [{"step": 1, "loss": 2.0, "val_loss": None}, {"step": 2, "loss": 1.5, "val_loss": 1.75}]
    run.write_training(rows)
    frame = pd.read_parquet(run.folder / "train.parquet")
    assert frame.loss.tolist() == [2.0, 1.5]
    assert frame.val_loss.isna().tolist() == [True, False]
    run.write_training([])  # diverged at the first step
    assert pd.read_parquet(run.folder / "train.parquet").empty


def test_foreign_folders_are_skipped(run):
    study = run.folder.parent
    (study / "wandb" / "run-1").mkdir(parents=True)
    (study / "zzz").mkdir()
    (study / "zzz" / "run.json").write_text("{}")
    assert [found.name for found in runs_of(study)] == [run.name, "zzz"]
    assert [*runs_of(study / "nowhere")] == []
