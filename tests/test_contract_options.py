"""The laws of every scheme, under the model's own options: windows, sinks, growing logits, both directions."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from lengthlab.model import Cache
from lengthlab.schemes import ContentScheme

NAMES = sorted(path.stem for path in (Path(__file__).parents[1] / "conf" / "scheme").glob("*.yaml"))
OPTIONS = {
    "window": {"window": 6},
    "sinks": {"window": 6, "sinks": 2},
    "log_n": {"logit_scale": "log_n"},
    "ssmax": {"logit_scale": "ssmax", "window": 6, "sinks": 2, "kv_heads": 2},
}
LENGTH, TRAINED, WINDOW = 23, 11, 6
POS = torch.arange(LENGTH)
pytestmark = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def tokens():
    return torch.randint(97, (2, LENGTH))


@pytest.fixture
def model_trained_at(model_of, scheme_of):
    """A model of a training length that may be shorter than the text, where its scheme knows positions past it."""

    def make(name: str, length: int, **options):
        return model_of(name, length=length if scheme_of(name, length=length).horizon is None else 64, **options)

    return make


def other_token(tokens: torch.Tensor, at: int) -> torch.Tensor:
    changed = tokens.clone()
    changed[:, at] = (changed[:, at] + 1) % 97
    return changed


def far(left: torch.Tensor, right: torch.Tensor) -> float:
    return (left - right).abs().max().item()


def touched(model, tokens: torch.Tensor, at: int) -> list[int]:
    """The queries whose logits change by more than rounding with the token at `at`."""
    change = (model(tokens, POS) - model(other_token(tokens, at), POS)).abs().amax(dim=(0, 2))
    assert change.isfinite().all()
    return (change > 1e-4).nonzero().flatten().tolist()


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_reading_in_pieces_equals_reading_whole(name, model_trained_at, tokens, options):
    model = model_trained_at(name, TRAINED, **options)
    whole = model(tokens, POS)
    for size in (1, 5):
        read, cache = range(0, LENGTH, size), Cache(2)
        pieces = [model(tokens[:, at : at + size], POS[at : at + size], cache) for at in read]
        torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-5, rtol=0)


def test_a_window_of_all_tokens_is_full_attention(name, model_of, tokens):
    whole = model_of(name)(tokens, POS)
    for options in ({"window": LENGTH}, {"window": 99}, {"window": LENGTH, "sinks": 4}):
        assert torch.equal(model_of(name, **options)(tokens, POS), whole), options


def test_a_window_hides_what_is_behind_it(name, model_of, tokens):
    """In one layer: with more, what lies behind is passed on from layer to layer."""
    model = model_of(name, layers=1, window=WINDOW)
    for at in (0, 9):
        assert touched(model, tokens, at) == list(range(at, at + WINDOW))
    assert len(touched(model_of(name, window=WINDOW), tokens, 0)) > WINDOW


def test_sinks_are_always_seen(name, model_of, tokens):
    model = model_of(name, layers=1, window=WINDOW, sinks=2)
    assert set(touched(model, tokens, 1)) >= set(range(1, WINDOW + 6))  # a gate may forget it in time
    if not isinstance(model.scheme.layer(0), ContentScheme):  # gates between sink and query count, hidden or not
        assert touched(model, tokens, 2) == list(range(2, 2 + WINDOW))


def test_log_n_begins_past_the_training_length(name, model_trained_at, tokens):
    model, plain = (model_trained_at(name, TRAINED, logit_scale=scale) for scale in ("log_n", None))
    trained = model.scheme.dims.train_length
    scaled, unscaled = model(tokens, POS), plain(tokens, POS)
    assert torch.equal(scaled[:, :trained], unscaled[:, :trained])
    if trained < LENGTH:
        assert far(scaled[:, trained:], unscaled[:, trained:]) > 1e-3


def test_ssmax_begins_as_nothing_at_the_training_length(name, model_of, tokens):
    """At initialisation, in one layer, for the query that has read just so many tokens; those before it differ."""
    model, plain = (model_of(name, layers=1, length=LENGTH, logit_scale=scale) for scale in ("ssmax", None))
    start = type(model.scale)(model.config.heads, LENGTH)
    plain.load_state_dict({key: weight for key, weight in model.state_dict().items() if not key.startswith("scale.")})
    model.scale = start
    scaled, unscaled = model(tokens, POS), plain(tokens, POS)
    torch.testing.assert_close(scaled[:, -1], unscaled[:, -1], atol=1e-5, rtol=0)
    assert far(scaled[:, 1:-1], unscaled[:, 1:-1]) > 1e-3


def test_without_causality_every_token_sees_every_other(name, model_of, tokens):
    """Of a scheme for decoders alone, which commands refuse here, only that its logits are finite."""
    model = model_of(name, causal=False)
    assert touched(model, tokens, LENGTH - 1) == list(range(LENGTH)) or model.scheme.causal_only
    assert touched(model, tokens, 0) == list(range(LENGTH)) or model.scheme.causal_only


def test_a_window_without_causality_is_as_wide_ahead_as_behind(name, model_of, tokens):
    model = model_of(name, layers=1, causal=False, window=WINDOW)
    if isinstance(model.scheme.layer(0), ContentScheme):  # may count what lies between two tokens on either side
        assert touched(model, tokens, 11)
        return
    assert touched(model, tokens, 11) == list(range(11 - WINDOW + 1, 11 + WINDOW))


def test_padding_without_causality_is_seen_by_nobody(name, model_of, tokens):
    model = model_of(name, causal=False)
    valid = torch.ones(2, LENGTH, dtype=torch.bool)
    valid[:, :8] = False
    padded = model(tokens, (POS - 8).clamp(min=0), valid=valid)[:, 8:]
    torch.testing.assert_close(padded, model(tokens[:, 8:], POS[:-8]), atol=1e-5, rtol=0)


def test_a_causal_model_is_the_mask_on_the_other(name, model_of, tokens):
    """What a scheme says of later tokens never reaches a causal model: a causal mask given by hand does the same."""
    causal, both = model_of(name), model_of(name)
    both.config = replace(both.config, causal=False)
    future = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    masked = both(tokens, POS, hidden_keys=future)
    torch.testing.assert_close(masked, causal(tokens, POS), atol=1e-5, rtol=0)
