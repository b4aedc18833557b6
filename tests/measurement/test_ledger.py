"""Every target is accounted for, and the hash says which ones were scored."""

import hashlib
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lengthlab.measurement import NonOverlapping, Plan, SameTarget, Sliding, Text
from lengthlab.measurement.ledger import PART, edges, lower_edge

quick = settings(max_examples=100, derandomize=True, deadline=None)
protocols = st.one_of(
    st.integers(1, 60).map(NonOverlapping),
    st.integers(1, 60).flatmap(lambda length: st.builds(Sliding, st.just(length), st.integers(1, length))),
    st.integers(4, 60).flatmap(lambda reach: st.builds(SameTarget, st.integers(4, reach), st.just(reach), st.just(1))),
)
sizes = st.lists(st.integers(0, 150), min_size=1, max_size=5)
cuts = st.one_of(st.none(), st.integers(1, 160))


def texts_of(sizes, seed=0):
    draw = np.random.default_rng(seed)
    return [Text(f"d{i}", draw.integers(1, 500, size).astype(np.uint16)) for i, size in enumerate(sizes)]


def scored(plan):
    """(document id, target, token) of every scored target, from the windows one by one."""
    return sorted(
        (plan.texts[index].id, target, int(plan.texts[index].tokens[target - 1]))
        for index, window in plan.windows
        for target in range(window.first, window.stop + 1)
    )


@quick
@given(protocols, sizes, cuts)
def test_scored_and_dropped_are_all_targets_of_the_split(protocol, sizes, cut):
    plan = Plan(protocol, texts_of(sizes), cut)
    account = plan.account()
    assert account["targets_scored"] + sum(account["dropped"].values()) == sum(sizes)
    assert account["targets_scored"] == len(scored(plan)) == len(set(scored(plan)))
    assert account["dropped"].get("past tokens_per_document", 0) == sum(max(0, n - (cut or n)) for n in sizes)
    assert all(target <= (cut or target) for _, target, _ in scored(plan))
    assert account["documents_scored"] == len({document for document, _, _ in scored(plan)})
    if protocol.name != "same_target":
        assert set(account["dropped"]) <= {"past tokens_per_document"}


@quick
@given(protocols, sizes, cuts)
def test_windows_tokens_and_contexts_are_what_the_windows_say(protocol, sizes, cut):
    plan = Plan(protocol, texts_of(sizes), cut)
    windows = [window for _, window in plan.windows]
    account = plan.account()
    assert account["windows"] == len(windows)
    assert account["tokens_fed"] == sum(len(range(w.start, w.stop)) for w in windows)
    assert account["longest_context"] == max((w.stop - w.start for w in windows), default=0)
    contexts = [target - w.start for w in windows for target in range(w.first, w.stop + 1)]
    assert account["mean_context"] == (pytest.approx(np.mean(contexts)) if contexts else None)


def test_why_same_target_drops_targets():
    plan = Plan(SameTarget(8, 16, 2), texts_of([15, 40]), None)
    # blocks end at 16, 20, 24, …, 40
    assert plan.account()["dropped"] == {"document shorter than reach": 15, "between blocks": 40 - 7 * 2}
    assert Plan(SameTarget(8, 16, 2), texts_of([15, 40]), 15).account()["targets_scored"] == 0


def test_a_requested_length_that_is_never_reached_shows():
    """F13: no document has 64 tokens, so the row of length 64 says 40."""
    assert Plan(NonOverlapping(64), texts_of([40, 12]), None).account()["longest_context"] == 40


@quick
@given(protocols, sizes, cuts)
def test_the_hash_is_the_documented_one(protocol, sizes, cut):
    plan = Plan(protocol, texts_of(sizes), cut)
    digest, targets = hashlib.sha256(), scored(plan)
    for document in sorted({row[0] for row in targets}):
        own = [(target, token) for name, target, token in targets if name == document]
        digest.update(document.encode() + b"\0" + struct.pack("<q", len(own)))
        digest.update(b"".join(struct.pack("<qq", *pair) for pair in own))
    assert plan.account()["target_hash"] == digest.hexdigest()


def hash_of(protocol, texts, cut=None):
    return Plan(protocol, texts, cut).account()["target_hash"]


@quick
@given(sizes, cuts, st.lists(st.integers(4, 32), min_size=2, max_size=4))
def test_same_target_has_one_hash_at_every_length(sizes, cut, lengths):
    texts = texts_of(sizes)
    assert len({hash_of(SameTarget(length, 32, 1), texts, cut) for length in lengths}) == 1


def test_protocols_that_score_the_same_targets_share_a_hash():
    texts = texts_of([50, 0, 33])
    assert len({hash_of(p, texts) for p in (NonOverlapping(7), NonOverlapping(64), Sliding(9, 2))}) == 1


@quick
@given(protocols, st.permutations(range(5)))
def test_the_hash_does_not_depend_on_the_order_of_documents(protocol, order):
    texts = texts_of([70, 0, 31, 5, 64])
    assert hash_of(protocol, texts) == hash_of(protocol, [texts[i] for i in order])


@pytest.mark.parametrize("protocol", [NonOverlapping(16), Sliding(16, 5), SameTarget(16, 32, 4)])
def test_the_hash_changes_with_one_token_one_id_or_one_target(protocol):
    texts = texts_of([64, 40])
    base = hash_of(protocol, texts)
    other = texts[0].tokens.copy()
    other[31] += 1
    assert hash_of(protocol, [Text("d0", other), texts[1]]) != base
    assert hash_of(protocol, [Text("e0", texts[0].tokens), texts[1]]) != base
    assert hash_of(protocol, texts, 63) != base
    assert hash_of(protocol, [Text("d0", texts[1].tokens), Text("d1", texts[0].tokens)]) != base  # swapped


@quick
@given(st.integers(1, 5000), st.integers(1, 3000))
def test_bins_are_exact_to_64_then_16_per_octave(longest, train_length):
    bins = edges(longest, train_length)
    assert (np.diff(bins) > 0).all()
    values = np.arange(1, longest + 1)
    low = lower_edge(values, bins)
    assert ((low <= values) & np.isin(low, bins)).all()
    assert (low[:64] == values[:64]).all()
    own = np.flatnonzero(low == train_length) + 1
    assert own.tolist() == ([train_length] if train_length <= longest else [])  # a bin of its own
    assert (values - low <= low * (2 ** (1 / 16) - 1) + 1).all()


def test_there_are_16_bins_in_every_octave():
    bins = edges(4096, 1)
    for low in (64, 128, 256, 512, 1024, 2048):
        assert ((bins >= low) & (bins < 2 * low)).sum() == 16
    assert PART in bins
