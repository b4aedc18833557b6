"""Masked targets of bidirectional models: the same at every length, each scored once in a window that holds it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lengthlab.measurement import Plan, Text
from lengthlab.measurement.masking import Masking
from lengthlab.measurement.protocols import MaskedNonOverlapping, Sweep


def text(identity: str, tokens: int) -> Text:
    return Text(identity, np.arange(1, tokens + 1, dtype=np.uint16) % 97 + 1)


def test_about_the_share_is_chosen_and_neighbours_are_independent():
    chosen = np.zeros(200_001, dtype=bool)
    chosen[Masking().chosen("a", 200_000)] = True
    share = chosen[1:].mean()
    assert share == pytest.approx(0.15, abs=4 * (0.15 * 0.85 / 200_000) ** 0.5)
    for gap in (1, 2, 7, 64):
        both = (chosen[1:-gap] & chosen[1 + gap :]).mean()
        assert both == pytest.approx(0.15**2, abs=4 * (0.0225 / 200_000) ** 0.5)


def test_the_choice_depends_on_seed_and_document_and_not_on_what_follows():
    first = Masking().chosen("a", 1000)
    assert np.array_equal(first[first <= 400], Masking().chosen("a", 400))
    assert not np.array_equal(first, Masking().chosen("b", 1000))
    assert not np.array_equal(first, Masking(seed=1).chosen("a", 1000))
    assert Masking(rate=0.0).chosen("a", 100).size == 0


@given(st.integers(1, 50), st.lists(st.integers(0, 120), min_size=1, max_size=4), st.sampled_from([0.0, 0.15, 0.9]))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_every_masked_token_is_scored_once_in_a_window_that_holds_it(length, sizes, rate):
    masking = Masking(rate=rate)
    texts = [text(str(index), size) for index, size in enumerate(sizes)]
    plan = Plan(MaskedNonOverlapping(length, masking), texts, None)
    for index, size in enumerate(sizes):
        windows = [placed for placed in plan.windows if placed.document == index]
        scored = np.concatenate([plan.targets(placed) for placed in windows] or [np.array([], dtype=int)])
        assert np.array_equal(scored, masking.chosen(str(index), size))
        for placed in windows:
            assert placed.window.fed <= length
            targets = plan.targets(placed)
            assert ((placed.window.start <= targets) & (targets < placed.window.stop)).all()
    account = plan.account()
    assert account["targets_scored"] + sum(account["dropped"].values()) == sum(sizes)


def test_one_hash_for_all_lengths():
    texts = [text("a", 300), text("b", 17), text("c", 0)]
    plans = [Plan(MaskedNonOverlapping(length, Masking()), texts, 200) for length in (1, 16, 64, 512)]
    accounts = [plan.account() for plan in plans]
    assert len({account["target_hash"] for account in accounts}) == 1
    assert [account["longest_context"] for account in accounts] == [1, 16, 64, 201]  # 200 tokens and BOS


def test_a_bidirectional_sweep_takes_nonoverlapping_alone():
    sweep = Sweep((16, 64), ("nonoverlapping",), masking=Masking())
    assert [type(cell) for cell in sweep.cells()] == [MaskedNonOverlapping] * 2
    with pytest.raises(ValueError, match=r"protocols=.*eval.protocols=\[nonoverlapping\]"):
        Sweep((16, 64), ("nonoverlapping", "sliding"), masking=Masking())
