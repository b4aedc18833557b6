"""The decomposition gives back what a study was made of, and says so in a sentence."""

import numpy as np
import pytest

from lengthlab.measurement import Thresholds, decompose, verdicts

DOCUMENTS = np.repeat([f"d{i}" for i in range(6)], 4)
PARTS = np.tile(range(4), 6)


def cell(mean, noise=0.0, **columns):
    """24 parts of 6 documents; noise is a spread between parts that no two cells share."""
    rng = np.random.default_rng(sum(map(ord, str(sorted(columns.items())))))
    means = mean + np.linspace(0, 2, 24) + rng.normal(0, noise, 24) if noise else mean + np.linspace(0, 2, 24)
    return {"mean": means, "targets": [100] * 24, "document": DOCUMENTS, "part": PARTS, **columns}


def curve(windows, early, context, noise=0.0, lengths=(64, 128, 256), **columns):
    """The three protocols of a scheme whose losses change by `windows` and `context` per doubling."""
    cells = [cell(4 + early, protocol="sliding", stride=32, **columns)]
    for octave, length in enumerate(lengths):
        cells.append(cell(4 + windows * octave, length=length, **columns))
        same = {"protocol": "same_target", "reach": 256, "block": 16, "length": length, **columns}
        cells.append(cell(3.9 + context * octave, noise, **same))
    return cells


def at(table, length, **where):
    rows = table[table.length == length]
    for key, value in where.items():
        rows = rows[rows[key] == value]
    assert len(rows) == 1
    return rows.iloc[0]


def test_the_three_parts_are_what_the_study_was_made_of(frame):
    row = at(decompose(frame(*curve(-0.03, -0.07, 0.002))), 256)
    assert row.windows == pytest.approx(-0.06)
    assert row.early == pytest.approx(-0.07)
    assert row.context == pytest.approx(0.004)
    assert (row.early_stride, row.texts, row.interval) == (32, 6, "parts")
    for part in ("windows", "early", "context"):  # the cells differ by a constant, so the interval is a point
        assert (row[f"{part}_low"], row[f"{part}_high"]) == pytest.approx((row[part], row[part]))


def test_at_the_training_length_nothing_changes_and_there_is_no_verdict(frame):
    row = at(decompose(frame(*curve(-0.03, -0.07, 0.2))), 64)
    assert (row.windows, row.context, row.verdict) == (0, 0, "")


@pytest.mark.parametrize(("context", "noise", "verdict"), [
    (-0.02, 0, "uses"), (-0.004, 0, "ignores"), (0.004, 0, "ignores"), (0.02, 0, "ignores"), (0.03, 0, "breaks"),
    (-0.02, 0.5, "undecided"), (0.04, 1.0, "undecided"), (-0.5, 0.1, "uses"), (0.5, 0.1, "breaks"),
])  # fmt: skip
def test_verdicts(frame, context, noise, verdict):
    assert at(decompose(frame(*curve(-0.03, -0.07, context, noise))), 256).verdict == verdict


def test_thresholds_are_options(frame):
    study = frame(*curve(-0.03, -0.07, -0.02))
    assert at(decompose(study, Thresholds(uses=0.05)), 256).verdict == "ignores"
    risen = frame(*curve(-0.03, -0.07, 0.02))
    assert at(decompose(risen, Thresholds(breaks=0.01)), 256).verdict == "breaks"


@pytest.mark.parametrize("wrong", [
    {"uses": -1}, {"breaks": float("nan")}, {"tau": float("inf")}, {"confidence": 95}, {"confidence": 1.0},
])  # fmt: skip
def test_thresholds_that_mean_nothing_are_refused_by_name(wrong):
    (key, value), *_ = wrong.items()
    with pytest.raises(ValueError, match=f"{key}={value}"):
        Thresholds(**wrong)


@pytest.mark.parametrize(("gain", "verdict"), [(-0.002, "nothing to gain"), (-0.1, "ignores")])
def test_where_a_model_trained_longer_gains_nothing_either_there_is_nothing_to_gain(frame, gain, verdict):
    oracle = curve(0, 0, gain, train_length=256)
    row = at(decompose(frame(*curve(-0.03, -0.07, 0.001), *oracle)), 256, train_length=64)
    assert row.verdict == verdict
    assert (row.oracle_scheme, row.oracle_length, row.oracle_gain) == ("alibi", 256, pytest.approx(2 * gain))


def test_the_oracle_of_a_scheme_is_its_own_before_another(frame):
    others = curve(0, 0, -0.2, train_length=256, scheme="rope")
    row = at(decompose(frame(*curve(0, 0, 0.001), *others)), 256, train_length=64)
    assert (row.oracle_scheme, row.verdict) == ("rope", "ignores")
    own = curve(0, 0, -0.001, train_length=256)
    row = at(decompose(frame(*curve(0, 0, 0.001), *others, *own)), 256, train_length=64, scheme="alibi")
    assert (row.oracle_scheme, row.verdict) == ("alibi", "nothing to gain")


def test_no_oracle_from_beyond_the_length(frame):
    oracle = curve(0, 0, -0.2, train_length=256)
    row = at(decompose(frame(*curve(0, 0, 0.001), *oracle)), 128, train_length=64)
    assert np.isnan(row.oracle_gain) and row.verdict == "ignores"


def test_a_length_without_a_number_keeps_its_status(frame):
    cells = curve(0, 0, 0.001, scheme="learned")
    gone = [{**c, "status": "undefined", "mean": 0.0, "targets": [0], "document": "", "part": [-1]}
            if c.get("length", 64) > 64 else c for c in cells]  # fmt: skip
    table = decompose(frame(*gone))
    assert at(table, 256)[["status", "verdict"]].tolist() == ["undefined", "undefined"]
    sentence = verdicts(table, Thresholds()).sentence.item()
    assert sentence == "learned has no verdict: past its training length of 64 tokens it is undefined."


def test_without_same_target_there_is_no_verdict(frame):
    table = decompose(frame(*(c for c in curve(-0.03, 0, 0) if c.get("protocol") != "same_target")))
    assert at(table, 256).windows == pytest.approx(-0.06)
    assert at(table, 256).verdict == ""
    assert "same_target was not read" in verdicts(table, Thresholds()).sentence.item()


def test_without_sliding_the_early_part_is_not_known(frame):
    row = at(decompose(frame(*(c for c in curve(-0.03, 0, 0) if c.get("protocol") != "sliding"))), 256)
    assert np.isnan(row.early) and np.isfinite(row.windows) and np.isfinite(row.context)


def test_seeds_are_averaged(frame):
    study = frame(*curve(-0.02, -0.07, 0.1), *curve(-0.04, -0.05, 0.3, seed=1))
    row = at(decompose(study), 256)
    assert (row.windows, row.early, row.context) == pytest.approx((-0.06, -0.06, 0.4))
    assert row.seeds == 2
    assert row.context_low < 0.2 and row.verdict == "undecided"  # two seeds that far apart


def test_a_sentence_per_curve_says_the_verdict_and_the_numbers(frame):
    table = decompose(frame(*curve(-0.03, -0.07, 0.002), *curve(0.2, -0.05, 0.4, scheme="rope")))
    said = verdicts(table, Thresholds()).set_index("scheme").sentence
    assert said["alibi"].startswith(
        "alibi ignores the longer context: from 64 to 256 tokens the loss on the same targets changes by +0.004 nats "
        "(95 % interval +0.004 to +0.004), the non-overlapping loss by −0.060; fewer early tokens alone, sliding by 32"
    )
    assert said["rope"].startswith("rope breaks: ") and "+0.800 nats" in said["rope"]


def test_curves_of_one_length_have_no_sentence(frame):
    assert verdicts(decompose(frame(*curve(0, 0, 0, lengths=(64,)))), Thresholds()).empty
