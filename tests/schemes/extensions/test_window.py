"""The window extension against the model's own window, for every scheme; and a window of everything, which is none."""

from pathlib import Path

import pytest
import torch

from lengthlab.model import Cache
from lengthlab.schemes.extensions.window import Window, Windowed

NAMES = sorted(path.stem for path in (Path(__file__).parents[3] / "conf" / "scheme").glob("*.yaml"))
LENGTH, WINDOW = 23, 7
each_scheme = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def tokens():
    return torch.randint(97, (2, LENGTH))


@each_scheme
def test_it_is_the_models_own_window(name, model_of, tokens):
    own, model, pos = model_of(name, window=WINDOW), model_of(name), torch.arange(LENGTH)
    whole = model(tokens, pos)
    model.scheme = Window(WINDOW).wrap(model.scheme, LENGTH)
    got = model(tokens, pos)
    torch.testing.assert_close(got, own(tokens, pos), atol=1e-5, rtol=0)
    torch.testing.assert_close(got[:, :WINDOW], whole[:, :WINDOW], atol=1e-5, rtol=0)
    assert (got - whole)[:, WINDOW:].abs().max() > 1e-2
    cache, pieces = Cache(2), []
    for at in range(0, LENGTH, 5):
        pieces.append(model(tokens[:, at : at + 5], pos[at : at + 5], cache))
    torch.testing.assert_close(torch.cat(pieces, dim=1), got, atol=1e-5, rtol=0)


@each_scheme
def test_a_window_of_everything_is_none(name, model_of, tokens):
    model, pos = model_of(name), torch.arange(LENGTH)
    assert Window(LENGTH).wrap(model.scheme, LENGTH) is model.scheme
    whole = model(tokens, pos)
    model.scheme = Windowed(model.scheme, LENGTH)
    torch.testing.assert_close(model(tokens, pos), whole, atol=1e-5, rtol=0)


@each_scheme
def test_the_trained_scheme_is_left_as_it_was(name, scheme_of):
    scheme = scheme_of(name)
    assert isinstance(scheme, Window.fits)
    before = {key: value.clone() for key, value in scheme.state_dict().items()}
    wrapped = Window().wrap(scheme, 65)
    assert wrapped.sizes == (64,) and wrapped.horizon == scheme.horizon and wrapped.untrained() == scheme.untrained()
    assert all(torch.equal(scheme.state_dict()[key], value) for key, value in before.items())


def test_layers_of_one_scheme_stay_one(scheme_of):
    shared, apart = (Window(3).wrap(scheme_of(name), 9) for name in ("rope", "fox"))
    assert shared.layer(0) is shared.layer(1) is shared
    assert [apart.layer(index).scheme for index in range(2)] == list(apart.scheme.layers)
    assert all(apart.layer(index).sizes == (3,) for index in range(2))


@pytest.mark.parametrize("window", [0, -1, True])
def test_what_is_not_a_number_of_tokens_is_refused(window):
    with pytest.raises(ValueError, match=f"^window={window}: must be an integer of at least 1, or null$"):
        Window(window)
