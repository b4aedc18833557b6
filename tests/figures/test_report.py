"""The page and the terminal's table: caveats appear exactly when true, and no run is trusted."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from lengthlab.figures import text_table, write_report
from lengthlab.figures.caveats import caveats

EVIL = "<script>alert(1)</script>"


def point(scheme="alibi", protocol="nonoverlapping", length=64, ppl=20.0, **change):
    return {
        "scheme": scheme, "positions": "plain", "extension": "none", "train_length": 64, "data": "novels",
        "split": "val", "protocol": protocol, "length": length, "status": "done", "seeds": 3, "targets": 4096,
        "nll": np.log(ppl), "ppl": ppl, "ppl_low": ppl, "ppl_high": ppl, "ratio": ppl / 20,
        "bits_per_byte": 1.0, "stride": pd.NA, "reach": pd.NA, "block": pd.NA, "tokens_per_document": pd.NA,
    } | change  # fmt: skip


def cell(scheme="alibi", protocol="nonoverlapping", length=64, **change):
    return {
        "run": f"{scheme}-L64-s0-abcdef", "cell": f"{protocol}-L{length}", "scheme": scheme, "seed": 0,
        "extension": "none", "protocol": protocol, "length": length, "status": "done", "reason": None,
        "windows": 9, "tokens_fed": 999, "targets_scored": 999, "longest_context": length,
        "mean_context": length / 2, "dropped": "{}", "target_hash": "aa", "documents_scored": 40,
        "dtype": "float32", "threads": 1, "seconds": 1.0, "peak_memory_bytes": 1,
    } | change  # fmt: skip


def run(scheme="alibi", **change):
    return {
        "run": f"{scheme}-L64-s0-abcdef", "status": "done", "error": None, "config": {},
        "command": f"lengthlab train scheme={scheme}", "git": {"commit": "0123456789abcdef", "dirty": False},
        "versions": {"python": "3.11.2", "torch": "2.13.0"}, "device": "cpu", "dtype": "bfloat16",
        "threads": 1, "params": {"total": 3212544, "embedding": 524288, "scheme": 0}, "tokens": 4096000,
        "seconds": 181.0, "final_loss": 3.0, "val_loss": 3.05, "train_blocks_crossing": 0.0,
    } | change  # fmt: skip


def frame(*points):
    nullable = ["stride", "reach", "block", "tokens_per_document"]
    return pd.DataFrame(points).astype(dict.fromkeys(nullable, "Int64"))


GAP = {"ppl": np.nan, "ratio": np.nan, "status": "undefined", "ppl_low": np.nan, "ppl_high": np.nan}
SUMMARY = frame(point(), point(length=128, ppl=21.0), point("learned"), point("learned", length=128, **GAP))
CELLS = pd.DataFrame([cell(), cell(length=128), cell(protocol="same_target"), cell("rope", "same_target", 128)])


def page(tmp_path, summary=SUMMARY, cells=CELLS, runs=None, study="demo"):
    runs = [run()] if runs is None else runs
    return write_report(tmp_path, study, summary, cells, runs).read_text(encoding="utf-8")


def test_nothing_to_warn_of_is_no_caveat(tmp_path):
    assert caveats(frame(point()), CELLS, [run(), run("rope")]) == []
    assert "What limits" not in page(tmp_path, frame(point()))


SHORT = [cell(protocol="same_target", length=n, dropped=json.dumps({"short": 1136 + n, "x": 0})) for n in (64, 164)]
PAIRED = [cell(scheme, "same_target", length) for scheme in ("alibi", "rope") for length in (64, 128)]
CAVEATS = {
    "Fewer than 30 documents.*nonoverlapping 29.*these texts only": ([cell(documents_scored=29)], []),
    r"same_target leaves.*1,200 to 1,300 \(short\)": (SHORT, []),
    "rope is undefined at 128, 256": ([cell("rope", length=n, status="undefined") for n in (256, 128)], []),
    "alibi is out of memory at 64.*alibi-L64.*: 8 GB": ([cell(status="out_of_memory", reason="8 GB")], []),
    r"rope \+ yarn is diverged at 64": ([cell("rope", extension="yarn", status="diverged")], []),
    "never reaches length 2048: the longest.*1,800": ([cell(length=2048, longest_context=1800)], []),
    r"Not to be compared: rope at 128 \(same_target\)": (
        [*PAIRED[:3], PAIRED[3] | {"target_hash": "bb"}],
        [],
    ),
    "Measurement differs in dtype.*bfloat16, float32": ([cell(), cell(dtype="bfloat16")], []),
    "Measurement differs in threads.*1, 2": ([cell(), cell(threads=2)], []),
    "Training differs in threads.*1, 2": ([], [run(), run("rope", threads=2)]),
    "Run alibi-L64-s0-abcdef failed: Error: no": ([], [run(status="failed", error="Trace\nError: no\n")]),
    "Training diverged: alibi": ([], [run(status="diverged")]),
    "Not finished: alibi": ([], [run(status="running")]),
    "31 % of the training blocks": ([], [run(train_blocks_crossing=0.311)]),
    "uncommitted changes: alibi": ([], [run(git={"commit": "a", "dirty": True})]),
}


UNDEFINED = {"status": "undefined", "reason": "positions are learned up to 15, a window needs 63"}
LONGER = UNDEFINED | {"reason": "positions are learned up to 15, a window needs 99"}
WIDER = UNDEFINED | {"reason": "positions are learned up to 31, a window needs 63", "run": "learned-L32-s0-bbbbbb"}
FULL = {"status": "out_of_memory", "reason": "tried to allocate 8 GiB"}


def test_gaps_of_different_reasons_are_told_apart_and_what_holds_at_one_length_is_left_out():
    cells = [cell("learned", length=64, **UNDEFINED), cell("learned", length=100, **LONGER)]
    told = caveats(frame(point()), pd.DataFrame([*cells, cell("learned", length=64, **WIDER)]), [])
    assert told == [
        "learned is undefined at 64 (nonoverlapping; learned-L32-s0-bbbbbb): "
        "positions are learned up to 31, a window needs 63.",
        "learned is undefined at 64, 100 (nonoverlapping; learned-L64-s0-abcdef): positions are learned up to 15.",
    ]
    full = [cell(length=64, **FULL), cell(length=128, **FULL | {"reason": "tried to allocate 32 GiB"})]
    (told,) = caveats(frame(point()), pd.DataFrame(full), [])
    assert told.startswith("alibi is out of memory at 64, 128") and told.endswith(": tried to allocate 8 GiB.")


@pytest.mark.parametrize("words", CAVEATS)
def test_each_caveat_when_true_and_alone(words):
    cells, runs = CAVEATS[words]
    (sentence,) = caveats(frame(point()), pd.DataFrame(cells), runs)
    assert re.search(words, sentence)


def test_seeds_are_told():
    assert re.search(r"One seed only \(alibi\)", caveats(frame(point(seeds=1)), pd.DataFrame(), [])[0])
    partial = caveats(frame(point(status="partial")), pd.DataFrame(), [])
    assert partial == ["Some seeds are missing: alibi at 64 (nonoverlapping)."]
    shorter = frame(point(), point(length=128, status="partial", seeds=1))  # two of three runs have no cell there
    assert caveats(shorter, pd.DataFrame(), []) == ["Some seeds are missing: alibi at 128 (nonoverlapping)."]


def test_other_reach_is_no_hash_mismatch():
    cells = [
        cell(protocol="same_target", reach=128),
        cell(protocol="same_target", reach=256, target_hash="bb"),
    ]
    assert caveats(frame(point()), pd.DataFrame(cells), []) == []


def test_everything_from_a_run_is_escaped(tmp_path):
    evil = run(EVIL, error=f"{EVIL}\n{EVIL}", command=EVIL, status=EVIL, device=EVIL, dtype=EVIL, threads=EVIL)
    evil |= {
        "versions": {EVIL: EVIL},
        "git": {"commit": EVIL, "dirty": True},
        "tokens": EVIL,
        "val_loss": EVIL,
    }
    failed = run("b", status="failed", error=EVIL)
    words = {"positions": EVIL, "extension": EVIL, "data": EVIL, "split": EVIL}
    summary = frame(point(EVIL, **words), point(EVIL), point(protocol=EVIL, status=EVIL, ppl=np.nan))
    cells = pd.DataFrame([cell(EVIL, EVIL, status=EVIL, reason=EVIL, dropped=json.dumps({EVIL: 3}))])
    html = page(tmp_path, summary, cells, [evil, failed], study=EVIL)
    assert "<script" not in html and "<script" not in (tmp_path / "degradation.svg").read_text()
    assert html.count("&lt;script&gt;") > 10


def test_page_asks_no_host_for_anything(tmp_path):
    html = page(tmp_path)
    assert set(re.findall(r'(\S+)="https?:', html)) == {"xmlns", "xmlns:xlink"} and html.count("http") == 2
    assert not re.search(r"<(script|link|img|iframe)\b|@import|url\((?!#)|src=", html)


def test_page_shows_tables_runs_commands_and_environment(tmp_path):
    html = page(tmp_path, runs=[run(), run("rope"), run("rope", run="rope-L64-s1-abcdef")])
    for words in (
        "20.00",
        "×1.05",
        ">undefined<",
        "3,212,544",
        "3.0500",
        "torch 2.13.0",
        "0123456789ab",
        "<svg",
    ):
        assert words in html
    assert html.count("lengthlab train scheme=rope") == 1  # a command once, however many runs it made


def test_commands_are_those_of_runs_and_of_cells_each_once(tmp_path):
    later, known = "lengthlab evaluate run=a eval.lengths=[4096]", run()["command"]
    cells = CELLS.assign(command=[known, later, later, np.nan])
    shown = re.search("<h2>Commands</h2>\n<pre>\n(.*?)</pre>", page(tmp_path, cells=cells), re.DOTALL)
    assert shown[1].splitlines() == [later, known]
    assert "<h2>Commands</h2>" not in page(tmp_path, runs=[run(command=None)])


@pytest.mark.parametrize("summary", [pd.DataFrame(), SUMMARY.iloc[:0], frame(point("learned", **GAP))])
def test_a_study_without_numbers_says_so(tmp_path, summary):
    assert "Nothing to draw" in page(tmp_path, summary, pd.DataFrame(), [])


def test_a_run_that_failed_early_has_a_row(tmp_path):
    bare = {"run": "r", "status": "failed", "error": None, "config": None, "params": None, "git": None}
    assert "Run r failed" in page(tmp_path, pd.DataFrame(), pd.DataFrame(), [bare | {"versions": None}])


def test_same_input_same_files_in_any_order(tmp_path):
    runs = [run(), run("rope")]
    page(tmp_path / "a", runs=runs)
    shuffled = SUMMARY.sample(frac=1, random_state=3)[sorted(SUMMARY.columns)]
    page(tmp_path / "b", shuffled, CELLS.iloc[::-1], runs[::-1])
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == ["degradation.png", "degradation.svg", "report.html", "summary.csv"]
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert "nan" not in (tmp_path / "a" / "summary.csv").read_text()


def test_text_table_is_aligned_and_names_gaps():
    lines = text_table(SUMMARY, "nonoverlapping").splitlines()
    assert lines[0].split() == ["nonoverlapping", "64*", "128"]
    assert [line.split() for line in lines[1:3]] == [
        ["alibi", "20.00", "21.00"],
        ["learned", "20.00", "undefined"],
    ]
    assert len({len(line) for line in lines[:3]}) == 1
    gaps = frame(point(status="out_of_memory", ppl=np.nan), point(length=128, status="diverged", ppl=np.nan))
    assert re.search("out of memory +diverged", text_table(gaps, "nonoverlapping"))
    assert "\x1b" not in text_table(frame(point("\x1b[31mred")), "nonoverlapping")
    assert text_table(pd.DataFrame(), "sliding") == "protocol sliding: no cells\n"
