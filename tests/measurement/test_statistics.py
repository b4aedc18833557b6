"""From sums to perplexities: weighted by tokens, seeds averaged in nll, and only like joined with like."""

import numpy as np
import pandas as pd
import pytest

from lengthlab.measurement import summarise
from lengthlab.measurement.points import CURVE
from lengthlab.measurement.statistics import per_run


def undefined(**cell):
    return {**cell, "status": "undefined", "mean": 0.0, "targets": [0]}


def only(summary, **where):
    chosen = summary[np.logical_and.reduce([summary[key] == value for key, value in where.items()])]
    assert len(chosen) == 1
    return chosen.iloc[0]


def test_perplexity_is_of_the_sums(frame):
    """F1: 300 tokens at 2 nats and 100 at 6 are 3 nats a token, not 4."""
    point = summarise(frame({"mean": [2.0, 6.0], "targets": [300, 100]})).iloc[0]
    assert point.nll == pytest.approx(3)
    assert point.ppl == pytest.approx(np.exp(3))
    assert point.bits_per_byte == pytest.approx(1200 / 1600 / np.log(2))
    assert (point.targets, point.status, point.seeds) == (400, "done", 1)


def test_ratio_is_to_the_training_length(frame):
    summary = summarise(frame({"mean": 3.0}, {"length": 128, "mean": 3.5}, {"length": 32, "mean": 2.0}))
    np.testing.assert_allclose(summary.ratio, np.exp([-1.0, 0.0, 0.5]))
    assert summary.length.tolist() == [32, 64, 128]
    alone = summarise(frame({"length": 128}))
    assert alone.ratio.isna().all()  # no cell at the training length, no ratio


def test_ratio_is_within_one_curve(frame):
    summary = summarise(frame({}, {"length": 128}, *(
        {"scheme": "rope", "length": length, "mean": mean} for length, mean in ((64, 5.0), (128, 7.0))
    )))  # fmt: skip
    assert only(summary, scheme="rope", length=128).ratio == pytest.approx(np.exp(2))
    assert only(summary, scheme="alibi", length=128).ratio == pytest.approx(1)


def test_seeds_are_averaged_in_nll(frame):
    point = summarise(frame({"seed": 0, "mean": 2.0}, {"seed": 1, "mean": 3.0}, {"seed": 2, "mean": 7.0})).iloc[0]
    assert (point.nll, point.seeds, point.targets) == (pytest.approx(4), 3, 100)
    assert point.ppl == pytest.approx(np.exp(4))
    assert point.ppl_low < point.ppl < point.ppl_high or point.interval == "none"


def test_seeds_weigh_the_same_whatever_they_scored(frame):
    point = summarise(frame({"mean": 2.0, "targets": [900]}, {"seed": 1, "mean": 4.0, "targets": [100]})).iloc[0]
    assert point.nll == pytest.approx(3)


def test_a_point_that_only_some_seeds_have_is_partial(frame):
    point = summarise(frame({"mean": 2.0}, undefined(seed=1))).iloc[0]
    assert (point.status, point.seeds, point.nll) == ("partial", 1, pytest.approx(2))


@pytest.mark.parametrize(("statuses", "says"), [
    (["undefined", "undefined"], "undefined"), (["out_of_memory"], "out_of_memory"),
    (["undefined", "diverged"], "diverged"), (["diverged", "done"], "partial"),
])  # fmt: skip
def test_a_point_without_numbers_keeps_its_word(frame, statuses, says):
    cells = [{**undefined(seed=s), "status": status} for s, status in enumerate(statuses)]
    cells = [{"seed": cell["seed"]} if cell["status"] == "done" else cell for cell in cells]
    point = summarise(frame(*cells)).iloc[0]
    assert point.status == says
    assert np.isnan(point.ppl) == ("done" not in statuses)


def test_an_undefined_length_is_a_gap_not_a_zero(frame):
    summary = summarise(frame({}, undefined(length=128)))
    point = only(summary, length=128)
    assert point.status == "undefined"
    assert point[["nll", "ppl", "ppl_low", "ppl_high", "ratio", "bits_per_byte"]].isna().all()


@pytest.mark.parametrize("key", sorted({*CURVE} - {"stride", "protocol", "train_length"}))
def test_curves_that_differ_in_anything_but_seed_and_length_are_not_joined(frame, key):
    other = {"reach": 512, "block": 4, "tokens_per_document": 100}.get(key, "other")
    summary = summarise(frame({"mean": 2.0}, {key: other, "seed": 1, "mean": 4.0}))
    assert sorted(summary.nll) == [pytest.approx(2), pytest.approx(4)]
    assert (summary.seeds == 1).all()
    np.testing.assert_allclose(summary.ratio, 1)  # each to its own training length


def strides(summary):
    """{stride of the curve (None: half of each length): its lengths}."""
    curves = summary.assign(stride=summary.stride.fillna(0)).groupby("stride").length.apply(sorted)
    return {int(stride) or None: lengths for stride, lengths in curves.items()}


def sliding(length, stride, **cell):
    return {"protocol": "sliding", "length": length, "stride": stride, **cell}


def test_half_of_each_length_is_one_curve(frame):
    summary = summarise(frame(*(sliding(n, n // 2, mean=n / 64) for n in (64, 128, 256))))
    assert strides(summary) == {None: [64, 128, 256]}
    np.testing.assert_allclose(summary.ratio, np.exp([0, 1, 3]))


def test_a_fixed_stride_is_another_curve_and_shares_the_length_where_it_is_half(frame):
    cells = [sliding(n, n // 2) for n in (64, 128)] + [sliding(n, 32) for n in (128, 256)]
    summary = summarise(frame(*cells))
    assert strides(summary) == {None: [64, 128], 32: [64, 128, 256]}
    assert summary.ratio.notna().all()
    assert len(summary) == 5


def test_a_stride_that_another_run_uses_makes_no_curve_of_one_point(frame):
    fixed = [sliding(n, 32, scheme="rope") for n in (64, 128)]
    half = [sliding(n, n // 2) for n in (64, 128)]
    summary = summarise(frame(*fixed, *half))
    assert strides(summary[summary.scheme == "alibi"]) == {None: [64, 128]}
    assert strides(summary[summary.scheme == "rope"])[32] == [64, 128]


def test_stride_one_is_half_of_one(frame):
    assert strides(summarise(frame(sliding(1, 1, train_length=1), sliding(2, 1, train_length=1)))) == {None: [1, 2]}


def test_per_run_has_one_row_per_run_and_cell(frame):
    cells = frame({"mean": [2.0, 4.0], "targets": [10, 30]}, {"seed": 1}, undefined(length=128))
    rows = per_run(cells)
    assert len(rows) == 3
    assert rows.mean_nll.dropna().tolist() == [pytest.approx(3.5), pytest.approx(3.0)]
    assert rows[["targets", "nll", "bytes"]].sum().tolist() == cells[["targets", "nll", "bytes"]].sum().tolist()


def test_nothing_measured_is_a_table_without_rows(frame):
    whole = summarise(frame({}))
    empty = summarise(frame({}).iloc[:0])
    assert empty.empty
    assert summarise(pd.DataFrame()).columns.tolist() == empty.columns.tolist()
    assert set(empty.columns) == set(whole.columns)
