"""The laws of every extension, as configured, on every scheme that it fits: what it makes is still a scheme."""

from importlib import import_module
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from lengthlab.commands import build
from lengthlab.model import Cache

CONF = Path(__file__).parents[1] / "conf"
LENGTH, TRAINED = 46, 23


def classes(group: str) -> dict[str, type]:
    found = {}
    for path in sorted((CONF / group).glob("*.yaml")):
        module, _, name = OmegaConf.load(path)._target_.rpartition(".")
        found[path.stem] = getattr(import_module(module), name)
    return found


PAIRS = [
    (extension, scheme)
    for extension, one in classes("extension").items()
    for scheme, other in classes("scheme").items()
    if issubclass(other, one.fits)
]
pytestmark = pytest.mark.parametrize(("extension", "name"), PAIRS, ids=" on ".join)


@pytest.fixture
def tokens():
    return torch.randint(97, (2, LENGTH))


@pytest.fixture
def extended(model_of):
    """`extended(extension, name)`: a model trained at TRAINED, wrapped to read LENGTH tokens; and its scheme."""

    def make(extension: str, name: str):
        model = model_of(name, length=TRAINED)
        options = OmegaConf.to_container(OmegaConf.load(CONF / "extension" / f"{extension}.yaml"))
        made = build.extension_of({"extension": options, "scheme": {"name": name}}, model.scheme)
        trained, model.scheme = model.scheme, made.wrap(model.scheme, LENGTH)
        return model, trained

    return make


def reading(model) -> int:
    """As many tokens as the wrapped scheme has positions for."""
    return LENGTH if model.scheme.horizon is None else min(LENGTH, model.scheme.horizon)


def test_reading_in_pieces_equals_reading_whole(extension, name, extended, tokens):
    model, _ = extended(extension, name)
    length, cache = reading(model), Cache(2)
    pos = torch.arange(length)
    model.scheme.extend(length)
    whole = model(tokens[:, :length], pos)
    assert whole.isfinite().all()
    pieces = [model(tokens[:, at : min(at + 7, length)], pos[at : at + 7], cache) for at in range(0, length, 7)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-5, rtol=0)


def test_a_token_changes_nothing_before_it(extension, name, extended, tokens):
    model, _ = extended(extension, name)
    length, changed = reading(model), tokens.clone()
    model.scheme.extend(length)
    changed[:, length - 5] = (changed[:, length - 5] + 1) % 97
    before, after = (model(read[:, :length], torch.arange(length)) for read in (tokens, changed))
    assert torch.equal(before[:, : length - 5], after[:, : length - 5])
    assert (before - after).abs().max() > 1e-2
