"""Summary numbers, contrasts and oracles of studies whose answers are known."""

import numpy as np
import pytest

from lengthlab.measurement import Thresholds, contrasts, line, matrix, numbers, summarise

LENGTHS = (64, 128, 256, 512)


def curve(changes, base=4.0, noise=0.0, documents=40, **columns):
    """Cells of one curve: its loss at the training length and the change at each further length; one part each."""
    rng, names = np.random.default_rng(5), [f"d{i}" for i in range(documents)]
    spread = np.linspace(-1, 1, documents)
    return [
        {"mean": base + spread + change + (rng.normal(0, noise, documents) if change else 0), "document": names,
         "targets": [100] * documents, "part": [0] * documents, "length": length, **columns}
        for length, change in zip(LENGTHS, (0, *changes), strict=False)
    ]  # fmt: skip


def one(table, **where):
    for key, value in where.items():
        table = table[table[key] == value]
    assert len(table) == 1
    return table.iloc[0]


def numbers_of(study, **thresholds):
    return numbers(study, summarise(study), Thresholds(**thresholds))


def test_effective_length_is_where_the_ratio_first_leaves(frame):
    study = frame(*curve((0.01, 0.03, 0.2)))
    row = numbers_of(study).iloc[0]
    assert (row.effective_length, row.effective_at_least, row.effective_confidence) == (256, False, 1)
    assert numbers_of(study, tau=0.02).effective_length.item() == 128
    assert numbers_of(study, tau=0.3).effective_at_least.item()
    back = numbers_of(frame(*curve((0.2, 0.01, 0.01)))).iloc[0]
    assert back.effective_length == 64  # what comes back later does not count
    assert np.isnan(back.effective_confidence)


def test_effective_length_has_the_confidence_of_its_least_sure_length(frame):
    near = numbers_of(frame(*curve((0.045, 0.2, 0.2), noise=0.02))).iloc[0]
    far = numbers_of(frame(*curve((0.02, 0.2, 0.2), noise=0.02))).iloc[0]
    assert near.effective_length == far.effective_length == 128
    assert 0.5 < near.effective_confidence < far.effective_confidence <= 1


def test_slope_and_area_of_a_straight_line(frame):
    row = numbers_of(frame(*curve((0.1, 0.2, 0.3)))).iloc[0]
    assert (row.slope, row.slope_low, row.slope_high) == pytest.approx((0.1,) * 3)
    assert row.area == pytest.approx(4.15)
    assert row.area_low < 4.15 < row.area_high
    assert row.longest == 512
    assert row.bits_per_byte == pytest.approx(4.3 / 4 / np.log(2))


def test_twice_the_length_is_of_the_same_targets(frame):
    same = curve((-0.02, 0, 0), protocol="same_target", reach=512, block=16)
    table = numbers_of(frame(*curve((0.1, 0.2, 0.3)), *same))
    row = one(table, protocol="same_target")
    assert (row.twice, row.twice_low, row.twice_high) == pytest.approx((-0.02,) * 3)
    assert np.isnan(one(table, protocol="nonoverlapping").twice)


def test_a_curve_without_its_training_length_has_no_numbers(frame):
    assert numbers_of(frame(*curve((0.1, 0.2), train_length=32))).empty


def test_contrasts_are_paired_with_the_reference(frame):
    study = frame(*curve((0, 0, 0), base=4.0, scheme="nope"), *curve((0.1, 0.2, 0.3), base=3.9))
    table = contrasts(study)
    assert set(table.reference) == {"nope"} and set(table.scheme) == {"alibi"}
    row = one(table, length=512)
    assert (row.difference, row.low, row.high) == pytest.approx((0.2,) * 3)  # the texts' spread has fallen out
    assert (row.interval, row.texts, row.seeds) == ("bootstrap", 40, 1)
    turned = contrasts(study, "alibi")
    np.testing.assert_allclose(turned.difference, -table.difference)
    first = contrasts(frame(*curve((0, 0, 0), scheme="rope"), *curve((0, 0, 0), scheme="alibi")))
    assert set(first.reference) == {"alibi"}


def test_other_targets_are_not_contrasted(frame):
    ours, theirs = curve((0.1, 0.2, 0.3)), curve((0.1, 0.2, 0.3), documents=39, scheme="nope")
    assert contrasts(frame(*ours, *theirs)).empty


def test_contrasts_with_a_scheme_that_is_not_there_are_none(frame):
    assert contrasts(frame(*curve((0.1,))), "rope").empty


def test_an_extension_is_compared_with_the_bare_reference(frame):
    study = frame(*curve((1.0, 2.0, 3.0), scheme="rope"), *curve((0.1, 0.2, 0.3), scheme="rope", extension="yarn"))
    table = contrasts(study, "rope")
    assert one(table, length=512, extension="yarn").difference == pytest.approx(-2.7)
    assert set(table.extension) == {"yarn"}


def test_the_matrix_and_its_line(frame):
    ladder = [c for n, base in ((64, 4.0), (256, 3.8)) for c in curve((-0.1, -0.2, -0.3), base=base, train_length=n)]
    summary = summarise(frame(*ladder, *curve((0, 0, 0), scheme="rope")))
    table = matrix(summary)
    assert set(table.scheme) == {"alibi"}
    assert table.pivot(index="train_length", columns="length", values="nll").to_numpy() == pytest.approx(
        np.array([[4.0, 3.9, 3.8, 3.7], [3.8, 3.7, 3.6, 3.5]])
    )
    oracle = line(summary)
    assert oracle.length.tolist() == [64, 256]
    assert oracle.nll.tolist() == pytest.approx([4.0, 3.6])


def test_one_training_length_has_no_matrix(frame):
    summary = summarise(frame(*curve((0, 0, 0))))
    assert matrix(summary).empty and line(summary).empty
