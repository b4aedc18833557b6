"""`lengthlab train`: what a run leaves, what is not computed twice, what a failing or diverging job does to a sweep."""

import json
from pathlib import Path

import pandas as pd
import pytest
import torch

from lengthlab.study import Run, collect

RAISES = """
from lengthlab.schemes import Scheme

class Raises(Scheme):
    def __init__(self, dims, message: str = "no"):
        super().__init__(dims)
        self.message = message

    def rotate(self, q, k, q_pos, k_pos):
        raise RuntimeError(self.message)
"""
SOFT = """
import torch
from lengthlab.schemes import DistanceBias

class Soft(DistanceBias):
    def of_distance(self, distance):
        return -torch.log1p(distance).expand(self.dims.heads, *distance.shape)
"""


@pytest.fixture
def beside(tmp_path):
    """A folder for --config-dir with two schemes that are not in the package."""
    folder = tmp_path / "mine"
    (folder / "scheme").mkdir(parents=True)
    for name, code in {"raises": RAISES, "soft": SOFT}.items():
        (folder / f"{name}.py").write_text(code)
        (folder / "scheme" / f"{name}.yaml").write_text(f"name: {name}\n_target_: {name}.{name.capitalize()}\n")
    return folder


def test_the_smoke_study_has_every_file(smoke):
    page = {"report.html", "summary.csv", "degradation.png", "degradation.svg"}
    assert {path.name for path in smoke.iterdir()} >= page
    runs = [path.parent for path in smoke.glob("*/run.json")]
    assert [folder.name.split("-")[0] for folder in sorted(runs)] == ["alibi", "learned", "nope", "rope", "sinusoidal"]
    for folder in runs:
        assert {path.name for path in folder.iterdir()} >= {
            "run.json", "tokenizer.json", ".hydra", "train.parquet", "checkpoint.pt", "eval", "cells.parquet",
        }  # fmt: skip
        assert not list(folder.rglob("*.tmp"))
        cells = {path.stem for path in (folder / "eval").glob("*.json")}
        assert len(cells) == 12 and cells == {path.stem for path in (folder / "eval").glob("*.parquet")}


def test_a_record_says_how_the_run_was_made(smoke):
    record = Run(next(smoke.glob("rope-*"))).record
    assert record["status"] == "done" and record["error"] is None
    assert record["tokens"] == 20 * 512 and record["seconds"] > 0
    assert record["params"]["total"] > record["params"]["embedding"] > record["params"]["scheme"] == 0
    assert record["command"].startswith("lengthlab train experiment=smoke")
    assert record["versions"]["torch"].startswith("2.") and record["threads"] >= 1
    rows = pd.read_parquet(next(smoke.glob("rope-*")) / "train.parquet")
    assert list(rows) == ["step", "tokens", "loss", "lr", "grad_norm", "seconds", "val_loss"]
    assert list(rows.step) == list(range(1, 21)) and rows.loss.iloc[-1] < rows.loss.iloc[0]
    assert rows.val_loss.notna().tolist() == [step % 10 == 0 for step in rows.step]


def test_a_learned_table_is_undefined_past_its_end_and_the_others_are_not(smoke):
    frame = collect("smoke", smoke.parent)
    status = frame.drop_duplicates(["run", "cell"]).groupby("scheme").status.value_counts()
    assert status["learned", "undefined"] == 9 and status["learned", "done"] == 3
    assert set(status.drop("learned").index.get_level_values("status")) == {"done"}


def test_same_targets_at_every_length_and_for_every_scheme(smoke):
    frame = collect("smoke", smoke.parent)
    assert frame[frame.protocol == "same_target"].target_hash.nunique() == 1
    whole = frame[frame.protocol != "same_target"]
    assert whole.target_hash.nunique() == 1


def test_a_finished_run_is_skipped_and_a_missing_cell_is_computed_again(lengthlab, tmp_path, toy):
    words = ["train", "scheme=rope", *toy, f"results={tmp_path}", "study=s"]
    assert lengthlab(*words).code == 0
    (folder,) = (path.parent for path in tmp_path.glob("s/*/run.json"))
    cells = sorted((folder / "eval").glob("*.json"))
    numbers = {path.stem: pd.read_parquet(path.with_suffix(".parquet")) for path in cells}
    times = {path: path.stat().st_mtime_ns for path in [folder / "checkpoint.pt", *cells]}
    cells[0].unlink()  # rows without their ledger are no cell
    assert lengthlab(*words).code == 0
    again = {path for path, time in times.items() if path.stat().st_mtime_ns != time}
    assert again == {cells[0]}
    pd.testing.assert_frame_equal(pd.read_parquet(cells[0].with_suffix(".parquet")), numbers[cells[0].stem])


def test_an_unfinished_run_starts_afresh(lengthlab, tmp_path, toy):
    words = ["train", "scheme=rope", *toy, f"results={tmp_path}", "study=s"]
    lengthlab(*words)
    run = Run(next(tmp_path.glob("s/rope-*")))
    rows = pd.read_parquet(run.folder / "train.parquet").drop(columns="seconds")
    run.write_record(status="running")
    (run.folder / "eval" / "stale.json").write_text("{}")
    assert lengthlab(*words).code == 0
    assert Run(run.folder).record["status"] == "done"
    assert not (run.folder / "eval" / "stale.json").exists()
    pd.testing.assert_frame_equal(pd.read_parquet(run.folder / "train.parquet").drop(columns="seconds"), rows)


def test_a_failing_job_leaves_the_others_and_the_report(lengthlab, tmp_path, beside, toy):
    words = ["-m", "scheme=alibi,raises,rope", *toy, f"results={tmp_path / 'r'}", "study=s"]
    code, out, _ = lengthlab("train", *words, "--config-dir", str(beside))
    assert code == 1
    status = {path.parent.name.split("-")[0]: json.loads(path.read_text()) for path in tmp_path.glob("r/s/*/run.json")}
    assert {name: record["status"] for name, record in status.items()} == {
        "alibi": "done", "raises": "failed", "rope": "done",
    }  # fmt: skip
    assert status["raises"]["error"] == "RuntimeError: no"
    assert "alibi" in out and (tmp_path / "r/s/report.html").exists()
    assert "raises" in (tmp_path / "r/s/report.html").read_text()


def test_a_scheme_beside_the_config_dir_is_one_file_and_one_yaml(lengthlab, tmp_path, beside, toy):
    words = ["scheme=soft", *toy, f"results={tmp_path / 'r'}", "study=s"]
    assert lengthlab("train", *words, "--config-dir", str(beside)).code == 0
    (folder,) = (path.parent for path in tmp_path.glob("r/s/soft-*/run.json"))
    assert len(list((folder / "eval").glob("*.json"))) == 6
    assert "soft" in lengthlab("schemes", "--config-dir", str(beside)).out
    code, _, err = lengthlab("evaluate", f"run={folder}", "eval.lengths=[16,64]")  # without it, nothing is imported
    assert code == 2 and "scheme=soft" in err and "--config-dir" in err
    assert lengthlab("evaluate", f"run={folder}", "eval.lengths=[16,64]", "--config-dir", str(beside)).code == 0


def test_a_diverging_run_is_kept_and_does_not_stop_the_sweep(lengthlab, tmp_path, toy):
    words = ["-m", "train.lr=1e-3,1e30", "train.clip=1e30", "scheme=nope", *toy, f"results={tmp_path}", "study=s"]
    code, out, _ = lengthlab("train", *words)
    assert code == 0
    status = sorted(json.loads(path.read_text())["status"] for path in tmp_path.glob("s/*/run.json"))
    assert status == ["diverged", "done"]
    frame = collect("s", tmp_path)
    diverged = frame[frame.status == "diverged"]
    assert len(diverged) == 6 and (diverged.targets == 0).all()
    assert "diverged" in out and "train.lr=" in out
    (folder,) = (path.parent for path in tmp_path.glob("s/*/run.json") if "diverged" in path.read_text())
    assert 1 <= len(pd.read_parquet(folder / "train.parquet")) < 3
    assert lengthlab("train", *words).code == 0  # finished, if badly: not tried again


def test_threads_are_set_and_recorded(lengthlab, tmp_path, toy):
    before = torch.get_num_threads()
    try:
        assert lengthlab("train", *toy, "threads=2", f"results={tmp_path}", "study=s").code == 0
    finally:
        torch.set_num_threads(before)
    assert json.loads(next(tmp_path.glob("s/*/run.json")).read_text())["threads"] == 2
    ledger = json.loads(next(tmp_path.glob("s/*/eval/*.json")).read_text())
    assert ledger["threads"] == 2 and ledger["peak_memory_bytes"] > 1 << 20


def test_the_name_does_not_depend_on_where_the_text_lies(lengthlab, tmp_path, toy):
    text = "".join(
        json.dumps({"id": f"{split}{i}", "split": split, "text": f"{split} {i} said the fox. " * 40}) + "\n"
        for split in ("train", "val", "test") for i in range(3)
    )  # fmt: skip
    names = []
    for folder in ("here", "there"):
        path = tmp_path / folder / "text.jsonl"
        path.parent.mkdir()
        path.write_text(text)
        toy = [word for word in toy if not word.startswith("data=")]
        words = ["data=local", f"data.files={path}", "data.tokenizer.vocab=300", *toy, f"results={tmp_path / 'r'}"]
        assert lengthlab("train", *words, f"study={folder}").code == 0
        names.append(next((tmp_path / "r" / folder).glob("*/run.json")).parent.name)
    assert names[0] == names[1]
    assert Path(names[0]).name.startswith("alibi-L16-s0-")


def test_changed_code_beside_the_config_dir_is_another_run(lengthlab, toy, tmp_path, beside):
    words = ["scheme=soft", *toy, f"results={tmp_path / 'r'}", "study=s", "--config-dir", str(beside)]
    assert lengthlab("train", *words).code == 0
    (first,) = (path.parent for path in tmp_path.glob("r/s/soft-*/run.json"))
    (beside / "soft.py").write_text(SOFT.replace("-torch", "-5 * torch"))
    code, _, err = lengthlab("evaluate", f"run={first}", "eval.lengths=[16,64]", "--config-dir", str(beside))
    assert code == 2 and "code" in err and "soft" in err
    assert lengthlab("train", *words).code == 0
    assert len(list(tmp_path.glob("r/s/soft-*/run.json"))) == 2


@pytest.mark.parametrize("broken", ["class Soft(", "import nowhere_at_all", "1 / 0"])
def test_a_scheme_file_that_does_not_load_is_one_line(lengthlab, toy, tmp_path, beside, broken):
    (beside / "soft.py").write_text(broken)
    words = ["scheme=soft", *toy, f"results={tmp_path / 'r'}", "--config-dir", str(beside)]
    code, _, err = lengthlab("train", *words)
    assert code == 2 and err.count("\n") == 1 and "soft" in err


def test_a_yaml_without_a_name_or_class_is_one_line(lengthlab, toy, tmp_path, beside):
    for text, missing in (("_target_: soft.Soft\n", "scheme.name"), ("name: soft\n", "_target_")):
        (beside / "scheme" / "soft.yaml").write_text(text)
        words = ["scheme=soft", *toy, f"results={tmp_path / 'r'}", "--config-dir", str(beside)]
        code, _, err = lengthlab("train", *words)
        assert code == 2 and err.count("\n") == 1 and missing in err


def test_text_without_a_validation_split_is_trained_without_validation(lengthlab, toy, tmp_path):
    lines = [{"id": f"{s}{i}", "split": s, "text": f"{s} {i} said. " * 60} for s in ("train", "test") for i in range(3)]
    (tmp_path / "text.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = ["data=local", f"data.files={tmp_path / 'text.jsonl'}", "data.tokenizer.kind=bytes"]
    toy = [word for word in toy if not word.startswith("data=")]
    assert lengthlab("train", *words, *toy, f"results={tmp_path / 'r'}", "study=s").code == 0
    record = json.loads(next(tmp_path.glob("r/s/*/run.json")).read_text())
    assert record["status"] == "done" and record["val_loss"] is None


def test_text_is_found_again_from_another_folder(lengthlab, toy, tmp_path, monkeypatch):
    lines = [{"id": f"{s}{i}", "split": s, "text": f"{s} {i} said. " * 60} for s in ("train", "test") for i in range(3)]
    (tmp_path / "text.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.chdir(tmp_path)
    toy = [word for word in toy if not word.startswith("data=")]
    words = ["data=local", "data.files=text.jsonl", "data.tokenizer.kind=bytes", *toy, "results=r", "study=s"]
    assert lengthlab("train", *words).code == 0
    (folder,) = tmp_path.glob("r/s/*-L16-*")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert lengthlab("evaluate", f"run={folder}", "eval.lengths=[16,48]").code == 0


def test_results_that_cannot_be_a_folder_are_refused(lengthlab, toy, tmp_path):
    (tmp_path / "file").write_text("")
    for words in ((f"results={tmp_path / 'file'}",), (f"results={tmp_path}", "study=file")):
        code, _, err = lengthlab("train", *toy, *words)
        assert code == 2 and err.count("\n") == 1 and "is a file" in err
