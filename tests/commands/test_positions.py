"""Positions through the command line: trained, swept and recorded; what cannot be numbered is refused before work."""

import json

import pytest

from lengthlab.commands.compose import CONF
from lengthlab.study import collect

WAYS = sorted(path.stem for path in (CONF / "positions").glob("*.yaml"))
DRAWS = {"count": 4, "seed": 0}


def trained(lengthlab, tmp_path, toy, *words):
    """The folders of a toy study, its jobs given by further words."""
    words = [*toy, "eval.protocols=[nonoverlapping,same_target]", *words, f"results={tmp_path}", "study=s"]
    code, out, err = lengthlab("train", *words)
    assert code == 0, out + err
    return sorted(path.parent for path in tmp_path.glob("s/*/run.json"))


def ledgers(run):
    return {path.stem: json.loads(path.read_text()) for path in (run / "eval").glob("*.json")}


@pytest.mark.parametrize("positions", WAYS)
def test_every_way_of_counting_trains_and_is_swept(lengthlab, tmp_path, toy, positions):
    runs = trained(lengthlab, tmp_path, toy, "-m", f"positions={positions}", "scheme=alibi,learned")
    assert len(runs) == 2
    for run in runs:
        record = json.loads((run / "run.json").read_text())
        assert record["status"] == "done" and record["config"]["positions"]["name"] == positions
        for ledger in ledgers(run).values():
            longer = ledger["length"] == 32
            past_the_table = run.name.startswith("learned") and longer and positions in ("sequential", "interpolated")
            assert ledger["status"] == ("undefined" if past_the_table else "done")
            assert ledger["position_draws"] == (DRAWS if positions == "randomized" else None)
            assert ledger["positions"] == record["config"]["positions"]
            if positions == "randomized":  # of 32 numbers, 32 are drawn: always the same
                assert ledger["sd_over_draws"] == 0 if longer else ledger["sd_over_draws"] > 0
            else:
                assert ledger["sd_over_draws"] is None
    frame = collect("s", tmp_path)
    assert set(frame.positions) == {positions}
    assert frame[frame.protocol == "same_target"].target_hash.nunique() == 1


def test_the_range_is_the_longest_length_read_and_part_of_the_name(lengthlab, tmp_path, toy):
    words = ["positions=randomized", "eval.protocols=[nonoverlapping]"]
    (first,) = trained(lengthlab, tmp_path, toy, *words)
    assert json.loads((first / "run.json").read_text())["training"]["positions"]["max"] == 32
    assert trained(lengthlab, tmp_path, toy, *words, "eval.lengths=[16]", "positions.max=32") == [first]
    longer = set(trained(lengthlab, tmp_path, toy, *words, "eval.lengths=[16,64]")) - {first}
    assert [json.loads((run / "run.json").read_text())["config"]["positions"]["max"] for run in longer] == [64]


def test_evaluation_with_other_draws_adds_cells(lengthlab, tmp_path, toy):
    (run,) = trained(lengthlab, tmp_path, toy, "positions=randomized", "scheme=rope")
    before = ledgers(run)
    assert lengthlab("evaluate", f"run={run}", "eval.position_draws=2").code == 0
    added = {name: ledger for name, ledger in ledgers(run).items() if name not in before}
    assert len(added) == len(before) == 4
    assert {json.dumps(ledger["position_draws"]) for ledger in added.values()} == {'{"count": 2, "seed": 0}'}


def test_a_run_from_before_there_were_draws_is_read_as_it_was(lengthlab, tmp_path, toy):
    (run,) = trained(lengthlab, tmp_path, toy, "scheme=rope")
    record = json.loads((run / "run.json").read_text())
    del record["config"]["eval"]["position_draws"]
    (run / "run.json").write_text(json.dumps(record))
    before = ledgers(run)
    assert lengthlab("evaluate", f"run={run}", "eval.lengths=[16,32,64]", "eval.protocols=[nonoverlapping]").code == 0
    assert len(ledgers(run)) == len(before) + 1
    assert before.items() <= ledgers(run).items()


REFUSED = {
    "positions=randomised": ["positions=randomised", "did you mean randomized?"],
    "positions=randomized positions.max=31": ["positions.max=31", "32 tokens", "at least 32"],
    "positions=randomized positions.max=8 eval.lengths=[8]": ["positions.max=8", "16 tokens"],
    "positions=randomized positions.max=0": ["positions.max=0", "at least 1"],
    "positions=randomized positions.max=many": ["positions.max=many", "an integer or null"],
    "positions=randomized positions.max=null eval.lengths=[4096] eval.tokens_per_document=8192": ["max=2048", "4096"],
    "positions=randomized eval.lengths=64": ["eval.lengths=64", "a list"],
    "positions=randomized eval.lengths=[many]": ["eval.lengths=['many']", "not an integer"],
    "positions=randomized eval.position_draws=0": ["eval.position_draws=0", "at least 1"],
    "positions=randomized eval.position_draws=null": ["eval.position_draws=None", "at least 1"],
    "eval.position_draws=some": ["eval.position_draws=some", "at least 1"],
    "positions=pose positions.max=15": ["positions.max=15", "training length", "at least 16"],
    "positions=offset positions.max_offset=-1": ["positions.max_offset=-1", "at least 0"],
    "positions=interpolated positions.scale=0": ["positions.scale=0", "above 0"],
    "positions=interpolated positions.scal=2": ["positions.scal", "positions.scale"],
    "positions._target_=lengthlab.model.positions.generator_of": ["positions._target_", "not a Positions"],
}


@pytest.mark.parametrize("words", REFUSED, ids=list(REFUSED))
def test_refused_before_any_folder_is_made(lengthlab, tmp_path, toy, words):
    results = tmp_path / "results"
    code, out, err = lengthlab("train", *toy, *words.split(), f"results={results}")
    assert code == 2 and out == "" and not results.exists()
    assert err.startswith("lengthlab: ") and err.count("\n") == 1, err
    assert all(fragment in err for fragment in REFUSED[words]), err


def test_lengths_past_the_range_of_a_trained_run_are_refused(lengthlab, tmp_path, toy):
    """F24: the range was decided in training; a longer window would need numbers that were never drawn."""
    (run,) = trained(lengthlab, tmp_path, toy, "positions=randomized")
    before = ledgers(run)
    code, _, err = lengthlab("evaluate", f"run={run}", "eval.lengths=[16,64]")
    assert code == 2 and "positions.max=32" in err and "64 tokens" in err and err.count("\n") == 1
    assert ledgers(run) == before
