"""`lengthlab evaluate`: the same weights, only what the command line says changed, and cells only added."""

import json

import pandas as pd
import pytest

from lengthlab.study import collect


@pytest.fixture
def run(lengthlab, tmp_path, toy):
    """A finished toy run of its own."""
    assert lengthlab("train", "scheme=rope", *toy, f"results={tmp_path / 'r'}", "study=s").code == 0
    return next((tmp_path / "r/s").glob("rope-*"))


def cells(run):
    """{cell: ledger}."""
    return {path.stem: json.loads(path.read_text()) for path in (run / "eval").glob("*.json")}


def test_a_longer_length_is_added_and_nothing_else_touched(lengthlab, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before, record = cells(run), (run / "run.json").read_text()
    code, out, _ = lengthlab("evaluate", f"run={run}", "eval.lengths=[16,64]", "eval.protocols=[nonoverlapping]")
    assert code == 0 and "64" in out
    after = cells(run)
    assert {name: after[name] for name in before} == before
    assert [ledger["length"] for name, ledger in after.items() if name not in before] == [64]
    assert (run / "run.json").read_text() == record
    assert not (run / ".hydra" / "evaluate").exists() and {path.name for path in tmp_path.iterdir()} == {"r"}


def test_what_the_command_line_does_not_say_stays_as_the_run_was(lengthlab, run):
    assert lengthlab("evaluate", f"run={run}", "eval.split=train").code == 0
    ledgers = [ledger for ledger in cells(run).values() if ledger["data"]["split"] == "train"]
    assert {ledger["length"] for ledger in ledgers} == {16, 32}  # the toy's, not the default lengths
    assert {ledger["data"]["tokens_per_document"] for ledger in ledgers} == {64}
    assert {ledger["data"]["name"] for ledger in ledgers} == {"tiny"}


def test_another_corpus_is_read_with_the_runs_own_tokenizer(lengthlab, run):
    assert lengthlab("evaluate", f"run={run}", "data=novels7").code == 0
    own = json.loads((run / "run.json").read_text())["training"]
    ledgers = [ledger for ledger in cells(run).values() if ledger["data"]["name"] == "novels7"]
    assert len(ledgers) == 6
    for ledger in ledgers:
        assert ledger["data"]["tokenizer"] == own["tokenizer"]
        assert ledger["data"]["corpus"] != own["corpus"]


def test_evaluating_again_gives_the_same_numbers(lengthlab, run):
    first = {path.name: pd.read_parquet(path) for path in (run / "eval").glob("*.parquet")}
    for path in (run / "eval").iterdir():
        path.unlink()
    assert lengthlab("evaluate", f"run={run}").code == 0
    for name, rows in first.items():
        pd.testing.assert_frame_equal(pd.read_parquet(run / "eval" / name), rows)


def test_batches_change_nothing_beyond_rounding(lengthlab, run):
    first = collect("s", run.parents[1])
    for path in (run / "eval").iterdir():
        path.unlink()
    assert lengthlab("evaluate", f"run={run}", "eval.tokens_per_batch=1").code == 0
    again = collect("s", run.parents[1])
    assert (again.cell == first.cell).all()
    assert ((again.nll - first.nll).abs() <= 1e-6 * first.nll.abs()).all()


def test_a_sweep_over_runs_and_splits_leaves_nothing_beside(lengthlab, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert lengthlab("evaluate", "-m", f"run={run}", "eval.split=train,val").code == 0
    assert {ledger["data"]["split"] for ledger in cells(run).values()} == {"train", "val", "test"}
    assert {path.name for path in tmp_path.iterdir()} == {"r"}
    assert {path.name for path in run.iterdir() if path.name.startswith(".")} == {".hydra"}


def test_the_page_says_how_every_cell_was_made(lengthlab, run):
    words = ["evaluate", f"run={run}", "eval.lengths=[16,64]"]
    assert lengthlab(*words).code == 0
    added = [ledger for ledger in cells(run).values() if ledger["length"] == 64]
    assert {ledger["command"] for ledger in added} == {f"lengthlab evaluate run={run} 'eval.lengths=[16,64]'"}
    assert "lengthlab train" in next(led["command"] for led in cells(run).values() if led["length"] == 32)


def test_a_length_that_only_one_seed_has_is_partial(lengthlab, toy, tmp_path):
    words = ["-m", "seed=0,1", "scheme=rope", *toy, f"results={tmp_path / 'two'}", "study=s"]
    assert lengthlab("train", *words).code == 0
    one = next((tmp_path / "two/s").glob("rope-L16-s1-*"))
    assert lengthlab("evaluate", f"run={one}", "eval.lengths=[16,64]", "eval.protocols=[nonoverlapping]").code == 0
    summary = pd.read_csv(tmp_path / "two/s/summary.csv").query("protocol == 'nonoverlapping'").set_index("length")
    assert summary.status.to_dict() == {16: "done", 32: "done", 64: "partial"}
    assert summary.seeds.to_dict() == {16: 2, 32: 2, 64: 1}
    assert "Some seeds are missing" in (tmp_path / "two/s/report.html").read_text()
