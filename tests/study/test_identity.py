"""What is the same run, what is the same cell, and what only looks different."""

import hashlib
import random
from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lengthlab.commands.compose import jobs_of, parse, plain
from lengthlab.study import cell_name, fingerprint, run_name, training_part
from lengthlab.study.identity import NAME

quick = settings(max_examples=100, derandomize=True, deadline=None)
CONFIG = plain(jobs_of(parse("config", ["scheme=rope", "data=tiny"]))[0].config)
CELL = {
    "data": {"name": "tiny", "split": "test", "corpus": "c" * 64, "tokenizer": "t" * 64, "tokens_per_document": 512},
    "extension": {"name": "yarn", "_target_": "lengthlab.schemes.extensions.yarn.YaRN", "factor": "auto"},
    "protocol": {"name": "same_target", "reach": 2048, "block": 16, "stride": 32},
    "length": 512, "documents": "separate", "bos": "before each document", "positions": {"name": "sequential"},
    "position_draws": None, "mask_seed": None, "dtype": "float32", "train_length": 64,
}  # fmt: skip

plain_data = st.recursive(
    st.one_of(st.booleans(), st.integers(-(10**9), 10**9), st.text(max_size=5), st.floats(-1e6, 1e6)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=4)),
    max_leaves=12,
)


def leaves(config, path=()):
    """The path of every value of a config."""
    for key, value in config.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key)


def other(value):
    """A value of the same kind that is not equal to it."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, list):
        return [*value, 1]
    return value + 1 if isinstance(value, int | float) else "b" * 64 if value is not None else 7


def changed(config, path):
    config = deepcopy(config)
    node = config
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = other(node[path[-1]])
    return config


def shuffled(value):
    if isinstance(value, dict):
        keys = random.Random(1).sample(sorted(value), len(value))
        return {key: shuffled(value[key]) for key in keys}
    return [shuffled(item) for item in value] if isinstance(value, list) else value


def floated(value):
    """The same with every integer as a float."""
    if isinstance(value, dict):
        return {key: floated(item) for key, item in value.items()}
    if isinstance(value, list):
        return [floated(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def named(config, corpus="c" * 64, tokenizer="t" * 64, dtype="float32"):
    return run_name(training_part(config, corpus, tokenizer, dtype))


@quick
@given(st.dictionaries(st.text(max_size=4), plain_data, max_size=4))
def test_equal_numbers_and_the_order_of_keys_do_not_count(value):
    assert fingerprint(value) == fingerprint(shuffled(value)) == fingerprint(floated(value))


@quick
@given(st.dictionaries(st.text(max_size=4), plain_data, max_size=4), st.lists(st.text(max_size=4), max_size=3))
def test_null_keys_do_not_count(value, keys):
    with_nulls = {**{key: None for key in keys if key not in value}, **value}
    assert fingerprint(with_nulls) == fingerprint(value)
    assert fingerprint({"group": with_nulls}) == fingerprint({"group": value})


def test_what_is_not_equal_does_count():
    assert fingerprint({"base": 10000}) == fingerprint({"base": 10000.0})
    different = [1, 0, 1.5, "1", True, [1], {"a": 1}, 10**400, "", [], [None], None, [1, 2], [2, 1]]
    assert len({fingerprint({"x": value, "y": 1}) for value in different}) == len(different)


def test_a_fingerprint_is_the_hash_of_plain_json():
    """Names of old runs hang on it."""
    text = r'{"a": {"y": "\u00fc"}, "b": [1, 2]}'
    assert fingerprint({"b": [1, 2.0], "a": {"x": None, "y": "ü"}}) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("path", [*leaves(CONFIG)], ids=".".join)
def test_a_runs_name_is_of_what_decides_its_weights_and_nothing_else(path):
    decides = path[0] in ("scheme", "positions", "model", "train", "seed")
    assert (named(changed(CONFIG, path)) != named(CONFIG)) == decides


def test_fingerprints_stand_for_paths():
    moved = {**CONFIG, "data": {**CONFIG["data"], "files": ["elsewhere/a.txt"], "name": "mine"}}
    assert named(moved) == named(CONFIG)
    names = {named(CONFIG), named(CONFIG, corpus="d"), named(CONFIG, tokenizer="d"), named(CONFIG, dtype="bfloat16")}
    assert len(names) == 4


def test_a_new_option_that_is_null_keeps_the_old_names():
    newer = deepcopy(CONFIG)
    newer["train"]["new"] = newer["model"]["new"] = newer["scheme"]["new"] = None
    assert named(newer) == named(CONFIG)
    assert named({**CONFIG, "scheme": {**CONFIG["scheme"], "base": 10000}}) == named(CONFIG)


def test_names_say_what_they_are_of():
    training = training_part({**CONFIG, "seed": 3}, "c", "t", "float32")
    assert run_name(training) == f"rope-L64-s3-{fingerprint(training)[:6]}"
    assert cell_name(CELL).startswith("tiny-test-yarn-same_target-L512-")
    assert NAME.fullmatch(run_name(training)) and NAME.fullmatch(cell_name(CELL))


@pytest.mark.parametrize("path", [*leaves(CELL)], ids=".".join)
def test_a_cells_hash_covers_all_that_can_change_its_sums(path):
    hashes = [cell_name(cell)[-6:] for cell in (CELL, changed(CELL, path))]
    assert (hashes[0] != hashes[1]) == (path != ("data", "name"))


def test_a_cell_is_the_same_whatever_the_order_and_kind_of_its_numbers():
    assert cell_name(shuffled(CELL)) == cell_name(CELL)
    assert cell_name({**CELL, "data": {**CELL["data"], "tokens_per_document": 512.0}}) == cell_name(CELL)
    protocol = {**CELL["protocol"], "tail": None}
    assert cell_name({**CELL, "protocol": protocol}) == cell_name(CELL)


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "/a", "-a", ".a", "a b", "a\n", "a\\b", "ü"])
def test_a_name_does_not_leave_its_folder(name):
    assert not NAME.fullmatch(name)
