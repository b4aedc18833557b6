"""One tidy frame of a study: every run's cells with what was trained and how, and the word for what differs."""

import json
from copy import deepcopy

import pandas as pd
import pytest

from lengthlab.measurement import summarise
from lengthlab.study import Run, RunError, cells_of, collect, run_name
from lengthlab.study.collect import _labels, flat, variants_of

CONFIG = {
    "scheme": {"name": "rope", "_target_": "lengthlab.schemes.rope.RoPE", "base": 10000.0},
    "positions": {"name": "sequential"}, "extension": {"name": "none"}, "model": {"name": "nano", "layers": 4},
    "data": {"name": "tiny", "files": ["embedded:tiny"]}, "train": {"length": 64, "lr": 1e-3, "betas": [0.9, 0.95]},
    "eval": {"lengths": [64, 128]}, "seed": 0, "study": "s", "threads": None,
}  # fmt: skip


def config_of(**changes):
    """CONFIG with dotted keys (train__lr=…) changed."""
    config = deepcopy(CONFIG)
    for key, value in changes.items():
        *groups, last = key.split("__")
        node = config
        for group in groups:
            node = node[group]
        node[last] = value
    return config


def training_of(config):
    return {key: config[key] for key in ("scheme", "positions", "model", "train", "seed")} | {
        "corpus": "c" * 64, "tokenizer": "t" * 64, "dtype": "float32",
    }  # fmt: skip


def ledger_of(protocol=None, length=64, status="done", **changes):
    return {
        "data": {"name": "tiny", "split": "test", "corpus": "c", "tokenizer": "t", "tokens_per_document": None},
        "extension": {"name": "none"}, "protocol": protocol or {"name": "nonoverlapping"}, "length": length,
        "dtype": "float32", "dropped": {"between blocks": 3}, "status": status, "reason": None, "windows": 2,
        "tokens_fed": 99, "targets_scored": 99, "documents_scored": 1, "longest_context": length, "mean_context": 9.5,
        "target_hash": "h", "threads": 2, "seconds": 0.5, "peak_memory_bytes": 7,
    } | changes  # fmt: skip


def rows_of(nll=2.0):
    return pd.DataFrame(
        {"document": ["a", "b"], "part": [0, 0], "position": [1, 1], "context": [1, 1], "targets": [10, 30],
         "nll": [10 * nll, 30 * nll], "bytes": [40, 120]}
    )  # fmt: skip


@pytest.fixture
def make(tmp_path):
    """Makes a run of a changed CONFIG in the study s, with the given cells: {name: (rows, ledger)}."""

    def make(cells=None, status="done", **changes):
        config = config_of(**changes)
        run = Run(tmp_path / "s" / run_name(training_of(config)))
        run.write_record(status=status, config=config, training=training_of(config))
        for cell, (rows, ledger) in (cells or {}).items():
            run.write_cell(cell, rows, ledger)
        return run

    return make


def test_a_row_is_a_run_a_cell_a_document_and_a_part(make, tmp_path):
    cells = {"one": (rows_of(), ledger_of()), "two": (rows_of(3.0), ledger_of(length=128))}
    runs = [make(cells, seed=seed) for seed in (0, 1)]
    frame = collect("s", tmp_path)
    assert len(frame) == 2 * 2 * 2
    assert not frame.duplicated(["run", "cell", "document", "part"]).any()
    assert set(frame.run) == {run.name for run in runs}
    assert frame.targets.sum() == 4 * 40
    assert frame.groupby("length").nll.sum().tolist() == [2 * 80.0, 2 * 120.0]


def test_columns_are_the_identity_the_ledger_and_the_dotted_config(make, tmp_path):
    protocol = {"name": "same_target", "reach": 128, "block": 16}
    make({"one": (rows_of(), ledger_of(protocol))})
    row = collect("s", tmp_path).iloc[0]
    assert row[["scheme", "train_length", "seed", "positions", "variant"]].tolist() == ["rope", 64, 0, "sequential", ""]
    assert row[["protocol", "reach", "block", "length", "extension"]].tolist() == ["same_target", 128, 16, 64, "none"]
    assert row[["data", "split", "eval_dtype", "status"]].tolist() == ["tiny", "test", "float32", "done"]
    assert pd.isna(row.stride) and pd.isna(row.tokens_per_document)
    assert row[["windows", "tokens_fed", "longest_context", "target_hash", "seconds"]].tolist() == [2, 99, 64, "h", 0.5]
    assert row[["train.lr", "model.layers", "scheme.base"]].tolist() == [1e-3, 4, 10000.0]
    assert row["train.betas"] == "[0.9, 0.95]"
    assert row.threads == 2  # the ledger's, not the config's


def test_a_cell_without_numbers_is_one_row_of_zeros(make, tmp_path):
    gap = ledger_of(length=128, status="undefined", reason="positions end at 63")
    make({"one": (rows_of(), ledger_of()), "gap": (rows_of().iloc[:0], gap)})
    frame = collect("s", tmp_path)
    (row,) = frame[frame.cell == "gap"].to_dict("records")
    assert (row["status"], row["reason"], row["targets"], row["nll"], row["bytes"]) == (
        "undefined", "positions end at 63", 0, 0.0, 0,
    )  # fmt: skip
    summary = summarise(frame).set_index("length")
    assert summary.status.to_dict() == {64: "done", 128: "undefined"}
    assert summary.ppl.isna().to_dict() == {64: False, 128: True}


def test_every_cell_has_one_ledger_row(make, tmp_path):
    make({"one": (rows_of(), ledger_of()), "two": (rows_of(), ledger_of(length=128))})
    cells = cells_of(collect("s", tmp_path))
    assert cells.cell.tolist() == ["one", "two"]
    assert cells.dropped.tolist() == ['{"between blocks": 3}'] * 2
    assert "train.lr" not in cells.columns


def test_runs_without_cells_are_no_rows_and_no_obstacle(make, tmp_path):
    make(status="failed")
    frame = collect("s", tmp_path)
    assert frame.empty and summarise(frame).empty and cells_of(frame).empty
    done = make({"one": (rows_of(), ledger_of())}, seed=1)
    make(status="running", seed=2)
    assert set(collect("s", tmp_path).run) == {done.name}


def test_seeds_of_one_config_are_one_curve(make, tmp_path):
    for seed, nll in ((0, 2.0), (1, 4.0)):
        make({"one": (rows_of(nll), ledger_of())}, seed=seed)
    make({"one": (rows_of(9.0), ledger_of())}, train__lr=1e-2)
    summary = summarise(collect("s", tmp_path)).set_index("variant")
    assert summary.seeds.to_dict() == {"train.lr=0.001": 2, "train.lr=0.01": 1}
    assert summary.nll.to_dict() == {"train.lr=0.001": pytest.approx(3), "train.lr=0.01": pytest.approx(9)}


def test_foreign_folders_are_skipped_and_no_run_is_one_line(make, tmp_path):
    make({"one": (rows_of(), ledger_of())})
    (tmp_path / "s" / "wandb" / "offline-run").mkdir(parents=True)
    (tmp_path / "s" / "report.html").write_text("x")
    assert collect("s", tmp_path).run.nunique() == 1
    (tmp_path / "empty" / "wandb").mkdir(parents=True)
    for study in ("empty", "nowhere"):
        with pytest.raises(RunError, match=f"study={study}: no run in") as refusal:
            collect(study, tmp_path)
        assert "\n" not in str(refusal.value)


def test_a_damaged_run_is_named(make, tmp_path):
    run = make({"one": (rows_of(), ledger_of())})
    (run.folder / "run.json").write_text('{"status": "done", "config": {"scheme": {"name": "rope"}}}')
    with pytest.raises(RunError, match=f"{run.name}: its run.json is damaged"):
        collect("s", tmp_path)


def variants(*changes):
    """The variants of runs whose configs differ from CONFIG by the given changes."""
    found = variants_of({index: flat(training_of(config_of(**change))) for index, change in enumerate(changes)})
    return [found[index] for index in range(len(changes))]


def test_a_variant_names_what_differs_within_one_scheme():
    assert variants({}, {"train__lr": 2e-3}) == ["train.lr=0.001", "train.lr=0.002"]
    assert variants({}, {"scheme__base": 500.0}) == ["scheme.base=10000.0", "scheme.base=500.0"]
    assert variants({}, {"train__lr": 1.0, "model__layers": 2}) == [
        "model.layers=4, train.lr=0.001", "model.layers=2, train.lr=1.0",
    ]  # fmt: skip


def test_seed_length_and_the_scheme_itself_are_no_variant():
    assert variants({}) == [""]
    assert variants({}, {"seed": 1}, {"seed": 2}) == ["", "", ""]
    assert variants({}, {"train__length": 128}) == ["", ""]
    alibi = {"scheme": {"name": "alibi", "_target_": "lengthlab.schemes.alibi.ALiBi"}}
    assert variants({}, alibi) == ["", ""]  # a base that ALiBi has not makes no variant of RoPE
    assert variants({}, alibi, {"train__lr": 1.0}) == ["train.lr=0.001", "", "train.lr=1.0"]


def test_a_key_that_one_run_lacks_is_a_difference():
    trainings = {name: flat(training_of(CONFIG)) for name in "ab"}
    trainings["b"]["train.new"] = 5
    assert variants_of(trainings) == {"a": "train.new=None", "b": "train.new=5"}


def test_fingerprints_are_shortened():
    trainings = {name: flat(training_of(CONFIG)) | {"corpus": name * 64} for name in "ab"}
    assert variants_of(trainings) == {"a": "corpus=aaaaaa", "b": "corpus=bbbbbb"}


def test_flat_is_dotted_and_lists_are_json():
    assert flat({"a": {"b": {"c": 1}}, "d": [1, "x"], "e": None}) == {"a.b.c": 1, "d": '[1, "x"]', "e": None}


def test_namesakes_are_told_apart_and_others_keep_their_name():
    """Two corpora called local, or one extension with two factors, are never joined to one curve."""
    identities = [
        {"name": "local", "corpus": "a" * 64},
        {"name": "local", "corpus": "b" * 64},
        {"name": "sotu", "corpus": "c" * 64},
        {"name": "pi", "factor": 2},
        {"name": "pi", "factor": "auto"},
        {"name": "none"},
    ]
    labels = _labels([json.dumps(identity) for identity in identities])
    assert list(labels.values()) == [
        "local (corpus=aaaaaa)", "local (corpus=bbbbbb)", "sotu", "pi (factor=2)", "pi (factor=auto)", "none",
    ]  # fmt: skip
