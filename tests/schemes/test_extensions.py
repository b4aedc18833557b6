"""The laws of every extension, with every scheme that it fits: each conf/extension/*.yaml from the moment it exists."""

import math
import re
from copy import deepcopy
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from lengthlab.commands import build
from lengthlab.commands.compose import Refusal
from lengthlab.model import Cache
from lengthlab.schemes.extensions import Extension
from lengthlab.schemes.extensions.none import Unchanged
from lengthlab.schemes.extensions.scaled import Scaled

CONF = Path(__file__).parents[2] / "conf"
TRAIN, LONG = 16, 40


def configs(group: str) -> dict[str, dict]:
    return {path.stem: OmegaConf.to_container(OmegaConf.load(path)) for path in sorted((CONF / group).glob("*.yaml"))}


def class_of(config: dict) -> type:
    module, _, name = config["_target_"].rpartition(".")
    return getattr(import_module(module), name)


SCHEMES, EXTENSIONS = configs("scheme"), configs("extension")
PAIRS = [
    (extension, scheme)
    for extension in EXTENSIONS
    for scheme in SCHEMES
    if issubclass(class_of(SCHEMES[scheme]), class_of(EXTENSIONS[extension]).fits)
]
# What a factor of 1 leaves: everything. DroPE has no factor, and none has nothing to change.
ALL = pytest.mark.parametrize("pair", PAIRS, ids="-".join)
SCALED = pytest.mark.parametrize(
    "pair", [pair for pair in PAIRS if issubclass(class_of(EXTENSIONS[pair[0]]), Scaled)], ids="-".join
)


def extension_of(name: str, scheme, **options) -> Extension:
    config = {"extension": {**EXTENSIONS[name], **options}, "scheme": {"name": "its scheme"}}
    return build.extension_of(config, scheme)


@pytest.fixture
def read_by(model_of):
    """`read_by(pair, length, **options)`: a model trained at 16, its scheme, and the scheme wrapped for a cell."""

    def make(pair: tuple[str, str], length: int, **options):
        model = model_of(pair[1], length=TRAIN)
        return model, model.scheme, extension_of(pair[0], model.scheme, **options).wrap(model.scheme, length)

    return make


def read(model, scheme, length: int) -> torch.Tensor:
    """Logits of the first `length` of the same tokens, by `scheme`."""
    model.scheme = scheme
    scheme.extend(length)
    tokens = (torch.arange(2 * LONG).view(2, LONG) * 31) % 97
    return model(tokens[:, :length], torch.arange(length))


def test_extensions_are_named_as_their_files_and_name_a_source():
    for name, config in EXTENSIONS.items():
        assert config["name"] == name
        first_line = import_module(class_of(config).__module__).__doc__.split("\n")[0]
        source = r"arXiv:\d{4}\.\d{5}|[A-Z][a-z]+ (et al. )?\d{4}"
        assert name == "none" or re.search(source, first_line), name


@pytest.mark.parametrize("name", SCHEMES)
def test_none_fits_every_scheme_and_hands_it_back(name, scheme_of):
    scheme = scheme_of(name)
    assert isinstance(scheme, Unchanged.fits)
    assert Unchanged().wrap(scheme, 4096) is scheme


@ALL
def test_the_trained_scheme_is_left_as_it_was_and_lends_its_parameters(pair, read_by):
    model, trained, _ = read_by(pair, TRAIN)
    before, state = read(model, trained, TRAIN), deepcopy(trained.state_dict())
    wrapped = extension_of(pair[0], trained).wrap(trained, LONG)
    read(model, wrapped, LONG if wrapped.horizon is None or wrapped.horizon >= LONG else TRAIN)
    assert torch.equal(read(model, trained, TRAIN), before)
    assert trained.state_dict().keys() == state.keys()
    assert all(torch.equal(trained.state_dict()[key], state[key]) for key in state)
    if pair[0] != "drope":
        assert set(wrapped.parameters()) == set(trained.parameters())


@ALL
def test_a_long_input_leaves_no_trace(pair, read_by):
    for factor in ("auto", "dynamic", 4.0) if "factor" in EXTENSIONS[pair[0]] else (None,):
        model, trained, wrapped = read_by(pair, LONG, **{"factor": factor} if factor else {})
        first = read(model, wrapped, 9)
        read(model, wrapped, LONG if wrapped.horizon is None or wrapped.horizon >= LONG else TRAIN)
        wrapped.extend(100_000)
        assert torch.equal(read(model, wrapped, 9), first), factor


@SCALED
def test_at_the_training_length_nothing_changes(pair, read_by):
    for factor in ("auto", "dynamic"):
        model, trained, wrapped = read_by(pair, TRAIN, factor=factor)
        for length in (TRAIN, TRAIN // 2):
            assert torch.equal(read(model, wrapped, length), read(model, trained, length)), factor
    model, trained, wrapped = read_by(pair, LONG, factor="dynamic")
    for length in (LONG, TRAIN, 3):
        extended = read(model, wrapped, length)
        assert length > TRAIN or torch.equal(extended, read(model, trained, length))


@SCALED
def test_a_factor_of_one_is_no_extension(pair, read_by):
    model, trained, wrapped = read_by(pair, LONG, factor=1.0)
    length = LONG if trained.horizon is None else TRAIN
    assert torch.equal(read(model, wrapped, length), read(model, trained, length))


@pytest.mark.parametrize("name", ["clamp", "tile"])
def test_rows_that_there_are_stay(name, read_by):
    model, trained, wrapped = read_by((name, "learned"), LONG)
    assert torch.equal(read(model, wrapped, TRAIN), read(model, trained, TRAIN))


@SCALED
def test_auto_and_dynamic_and_a_number_agree_on_a_full_window(pair, read_by):
    logits = []
    for factor in ("auto", "dynamic", LONG / TRAIN):
        model, _, wrapped = read_by(pair, LONG, factor=factor)
        logits.append(read(model, wrapped, LONG))
    assert torch.equal(logits[0], logits[1]) and torch.equal(logits[0], logits[2])


@SCALED
def test_auto_is_the_cells_factor_also_for_its_short_windows(pair, read_by):
    model, trained, wrapped = read_by(pair, LONG, factor="auto")
    _, _, fixed = read_by(pair, 1, factor=LONG / TRAIN)
    same = read(model, wrapped, TRAIN)
    assert torch.equal(same, read(model, fixed, TRAIN)) and not torch.equal(same, read(model, trained, TRAIN))


@SCALED
def test_what_looks_at_the_length_says_so(pair, read_by):
    by_length = pair[0] == "longrope"
    for factor, expected in {"auto": by_length, 4.0: by_length, "dynamic": True}.items():
        _, trained, wrapped = read_by(pair, LONG, factor=factor)
        assert wrapped.length_dependent == (expected or trained.length_dependent)


@ALL
def test_an_extension_acts(pair, read_by):
    if "none" in pair or pair == ("drope", "nope"):
        return
    model, trained, wrapped = read_by(pair, LONG)
    if wrapped.horizon is None or wrapped.horizon >= LONG:
        extended = read(model, wrapped, LONG)
        assert extended.isfinite().all()
        assert trained.horizon or not torch.equal(extended, read(model, trained, LONG))


@ALL
def test_reading_in_pieces_equals_reading_whole(pair, read_by):
    model, trained, wrapped = read_by(pair, LONG, **{"factor": 3.0} if "factor" in EXTENSIONS[pair[0]] else {})
    length = LONG if wrapped.horizon is None or wrapped.horizon >= LONG else TRAIN
    whole = read(model, wrapped, length)
    tokens = ((torch.arange(2 * LONG).view(2, LONG) * 31) % 97)[:, :length]
    pos = torch.arange(length)
    cuts, cache = [0, 1, 2, 9, 10, 11, *range(15, length, 8), length], Cache(model.config.layers)
    pieces = [model(tokens[:, start:stop], pos[start:stop], cache) for start, stop in pairwise(cuts)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-5, rtol=0)


@ALL
def test_positions_stay_float32_in_a_bfloat16_model(pair, scheme_of):
    scheme = scheme_of(pair[1], length=TRAIN)
    for parameter in scheme.parameters():
        parameter.data = parameter.data.bfloat16().float()
    exact = extension_of(pair[0], scheme).wrap(scheme, LONG)
    half = deepcopy(scheme).bfloat16()
    cast = extension_of(pair[0], half).wrap(half, LONG)
    pos = torch.tensor([0, 1, min(exact.horizon or LONG, LONG) - 1])
    x, q, k = torch.randn(1, 3, 32).bfloat16(), torch.ones(1, 4, 3, 8), torch.ones(1, 2, 3, 8)
    layer = exact.layer(0)
    for ours, theirs in zip(
        cast.layer(0).rotate(q.bfloat16(), k.bfloat16(), pos, pos), layer.rotate(q, k, pos, pos), strict=True
    ):
        assert torch.equal(ours, theirs.bfloat16())
    added = exact.embed(torch.zeros(1, 3, 32), pos).bfloat16()
    assert torch.equal(cast.embed(x, pos), x + added)
    if (bias := layer.bias(pos, pos)) is not None:
        seen = pos.unsqueeze(-1) >= pos  # of later keys a bias may say nothing: log(1 + distance) is no number there
        assert bias.dtype == torch.float32
        assert torch.equal(cast.layer(0).bias(pos, pos)[..., seen], bias[..., seen])


@pytest.mark.parametrize("factor", [0.5, 0.0, -2.0, 0.999, math.nan, math.inf, "twice", "2"])
def test_a_factor_below_one_or_no_number_is_refused(factor):
    for config in EXTENSIONS.values():
        if "factor" in config:
            with pytest.raises(ValueError, match=r"^factor=.*: must be auto, dynamic, or a number of at least 1$"):
                class_of(config)(factor=factor)


@pytest.mark.parametrize("factor", [True, None, [2.0]])
def test_a_factor_of_another_kind_is_refused(factor, scheme_of):
    with pytest.raises(Refusal, match=r"^extension.factor=.*: must be a number or a name$"):
        extension_of("pi", scheme_of("rope"), factor=factor)


@pytest.mark.parametrize(
    ("extension", "scheme"), [("yarn", "alibi"), ("pi", "sinusoidal"), ("tile", "rope"), ("ntk", "nope")]
)
def test_an_extension_that_does_not_fit_is_refused_by_name(extension, scheme, scheme_of):
    config = {"extension": EXTENSIONS[extension], "scheme": SCHEMES[scheme]}
    with pytest.raises(Refusal, match=f"^extension={extension} does not fit scheme={scheme}: it is for "):
        build.extension_of(config, scheme_of(scheme))


def test_a_scaled_extension_must_say_what_it_changes(scheme_of):
    with pytest.raises(TypeError, match="^Scaled must say what it changes: define at$"):
        Scaled().wrap(scheme_of("nope"), LONG)
