"""The laws of every scheme: each conf/scheme/*.yaml is tested from the moment that it exists."""

import inspect
import re
import sys
from copy import deepcopy
from pathlib import Path

import jaxtyping
import pytest
import torch
from omegaconf import OmegaConf

from lengthlab.model import Cache
from lengthlab.schemes import ContentScheme, DistanceBias, Scheme
from lengthlab.schemes.nope import NoPE

FILES = sorted((Path(__file__).parents[1] / "conf" / "scheme").glob("*.yaml"))
MODELS = {"mha": {}, "gqa": {"kv_heads": 2, "qk_norm": True}}
LENGTH = 23
each_model = pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def name(request):
    return request.param.stem


@pytest.fixture
def tokens():
    return torch.randint(97, (2, LENGTH))


def parts(scheme: Scheme) -> list[Scheme]:
    """The scheme and those of its layers that are others."""
    return list(dict.fromkeys([scheme, *map(scheme.layer, range(scheme.dims.layers))]))


def changes(scheme: Scheme, hook: str) -> bool:
    return any(getattr(type(part), hook, None) is not getattr(Scheme, hook, None) for part in parts(scheme))


def twin_without_positions(model):
    twin = deepcopy(model)
    twin.scheme = NoPE(model.scheme.dims)
    return twin


def spread(length: int, below: int) -> torch.Tensor:
    """(2, length): increasing numbers with random gaps, others in each row."""
    return torch.stack([torch.randperm(below)[:length].sort().values for _ in range(2)])


def far(left: torch.Tensor, right: torch.Tensor) -> float:
    return (left - right).abs().max().item()


def test_name_and_source(name):
    config = OmegaConf.load(next(path for path in FILES if path.stem == name))
    assert config.name == name
    module, _, _ = config._target_.rpartition(".")
    __import__(module)
    first_line = sys.modules[module].__doc__.split("\n")[0]
    assert re.search(r"arXiv:\d{4}\.\d{4,5}|[A-Z][a-z]+ (et al\. )?\d{4}", first_line), "name the paper"


@each_model
def test_reading_in_pieces_equals_reading_whole(name, model_of, tokens, options):
    model = model_of(name, **options)
    for pos in (torch.arange(LENGTH), spread(LENGTH, below=64)):
        model.scheme.extend(LENGTH)
        whole = model(tokens, pos)
        for size in (1, 5):
            read, cache = range(0, LENGTH, size), Cache(model.config.layers)
            pieces = [model(tokens[:, at : at + size], pos[..., at : at + size], cache) for at in read]
            assert len(cache) == LENGTH
            torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-5, rtol=0)


@each_model
def test_a_token_changes_nothing_before_it(name, model_of, tokens, options):
    model, pos = model_of(name, **options), torch.arange(LENGTH)
    before = model(tokens, pos)
    for at in (1, 9, 22):
        changed = tokens.clone()
        changed[:, at] = (changed[:, at] + 1) % 97
        after = model(changed, pos)
        assert torch.equal(before[:, :at], after[:, :at]), at
        assert far(before[:, at:], after[:, at:]) > 1e-2, at


@each_model
def test_one_row_of_positions_serves_the_batch(name, model_of, tokens, options):
    model, pos = model_of(name, **options), torch.arange(LENGTH)
    torch.testing.assert_close(model(tokens, pos), model(tokens, pos.repeat(2, 1)), atol=1e-5, rtol=0)


def test_a_scheme_acts_unless_it_is_nope(name, model_of, tokens):
    model, pos = model_of(name), torch.arange(LENGTH)
    difference = far(model(tokens, pos), twin_without_positions(model)(tokens, pos))
    assert difference == 0 if type(model.scheme) is NoPE else difference > 1e-2


def test_order_of_earlier_tokens_is_seen_unless_it_is_nope(name, model_of, tokens):
    model, pos = model_of(name, layers=1), torch.arange(LENGTH)  # with more layers the mask alone tells the order
    mixed = tokens.clone()
    mixed[:, :-1] = mixed[:, :-1].flip(1)
    difference = far(model(tokens, pos)[:, -1], model(mixed, pos)[:, -1])
    assert difference < 1e-5 if type(model.scheme) is NoPE else difference > 1e-2


def test_nothing_but_the_scheme_is_positional(name, model_of, tokens):
    model, plain = model_of(name), model_of("nope")
    own = {key: weight for key, weight in model.state_dict().items() if not key.startswith("scheme.")}
    assert own.keys() == plain.state_dict().keys()
    twin, pos = twin_without_positions(model), torch.arange(LENGTH)
    assert torch.equal(twin(tokens, pos), twin(tokens, 7 * pos + 1000))
    acting = {hook for hook in ("embed", "rotate", "bias", "scores") if changes(model.scheme, hook)}
    assert bool(acting) == (type(model.scheme) is not NoPE)
    assert "embed" not in acting or len(acting) == 1, "two schemes at once"


def test_only_a_table_with_a_horizon_is_sized_by_length(name, scheme_of):
    short, long = (scheme_of(name, length=length) for length in (16, 64))
    sizes = [[tensor.shape for tensor in scheme.state_dict().values()] for scheme in (short, long)]
    counts = any(isinstance(part, ContentScheme) for part in parts(short))  # a table of counts may end, clamped
    assert (sizes[0] == sizes[1]) == (short.horizon is None) or (counts and short.horizon is None)
    assert not list(short.buffers()), "a buffer would be cast with the model"


def test_shifting_all_positions(name, model_of, tokens):
    model, pos = model_of(name), torch.arange(LENGTH)
    before = model(tokens, pos)
    absolute = any(changes(part, "bias") and not isinstance(part, DistanceBias) for part in parts(model.scheme))
    if not changes(model.scheme, "embed") and not absolute:
        torch.testing.assert_close(model(tokens, pos + 1000), before, atol=1e-4, rtol=0)
    elif model.scheme.horizon is None:
        assert far(model(tokens, pos + 1000), before) > 1e-2


def test_past_the_horizon_is_an_error_never_a_clamp(name, model_of, tokens):
    model = model_of(name)
    horizon = model.scheme.horizon
    if horizon is None:
        assert model(tokens, torch.arange(LENGTH) + 100_000).isfinite().all()
        return
    model(tokens, torch.arange(LENGTH) + horizon - LENGTH)
    with pytest.raises(ValueError, match=rf"^.*\b{horizon}\b.*$"):
        model(tokens, torch.arange(LENGTH) + horizon - LENGTH + 1)


def test_state_goes_round(name, model_of, tokens):
    model, other = model_of(name), model_of(name, seed=1)
    pos = torch.arange(LENGTH)
    before = model(tokens, pos)
    assert far(before, other(tokens, pos)) > 1e-2
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(tokens, pos), before)


def test_a_long_input_leaves_no_trace(name, model_of, tokens):
    model, pos = model_of(name), torch.arange(64)
    read = lambda length: (model.scheme.extend(length), model(tokens[:, :length], pos[:length]))[1]  # noqa: E731
    first = read(9)
    model.scheme.extend(64)
    model(tokens.repeat(1, 3)[:, :64], pos)
    model.scheme.extend(100_000)
    assert torch.equal(read(9), first)


def test_extending_to_the_training_length_changes_nothing(name, model_of, tokens):
    model, pos = model_of(name, length=LENGTH), torch.arange(LENGTH)
    before = model(tokens, pos)
    model.scheme.extend(LENGTH)
    assert torch.equal(model(tokens, pos), before)


def test_positions_stay_float32_in_a_bfloat16_model(name, model_of):
    model = model_of(name, length=512)
    exact = deepcopy(model.scheme)
    for parameter in exact.parameters():
        parameter.data = parameter.data.bfloat16().float()
    whole = model.bfloat16().scheme
    last = (whole.horizon or 100_000) - 1
    pos = torch.tensor([256, 257, last - 1, last])
    for cast, same in zip(parts(whole), parts(exact), strict=True):
        _is_cast_after_not_before(cast, same, pos)


def _is_cast_after_not_before(cast: Scheme, exact: Scheme, pos: torch.Tensor) -> None:
    x, q, k = torch.zeros(2, 4, 32), torch.ones(2, 4, 4, 8), torch.ones(2, 2, 4, 8)
    half = cast.embed(x.bfloat16(), pos), *cast.rotate(q.bfloat16(), k.bfloat16(), pos, pos)
    full = exact.embed(x, pos), *exact.rotate(q, k, pos, pos)
    for cast_out, exact_out, given in zip(half, full, (x, q, k), strict=True):
        assert torch.equal(cast_out, exact_out.bfloat16())
        if far(exact_out, given) > 0:
            assert far(cast_out[..., 0, :], cast_out[..., 1, :]) > 0 < far(cast_out[..., 2, :], cast_out[..., 3, :])
    if (bias := cast.bias(pos, pos)) is not None:
        seen = pos.unsqueeze(-1) >= pos  # of later keys a bias may say nothing: log(1 + distance) is no number there
        assert bias.dtype == torch.float32
        assert torch.equal(bias[..., seen], exact.bias(pos, pos)[..., seen])


def test_shapes_of_the_hooks_are_checked(name, scheme_of):
    scheme, pos = scheme_of(name), torch.arange(4)
    q, k = torch.ones(2, 4, 4, 8), torch.ones(2, 2, 4, 8)
    scheme.embed(torch.ones(2, 4, 32), pos), scheme.rotate(q, k, pos, pos), scheme.bias(pos, pos)
    for call in (
        lambda: scheme.embed(torch.ones(4, 32), pos),
        lambda: scheme.rotate(q, k, torch.arange(5), pos),
        lambda: scheme.rotate(q, k[0], pos, pos),
        lambda: scheme.bias("0 1 2 3", pos),
    ):
        with pytest.raises(jaxtyping.TypeCheckError):
            call()
    for hook in ("embed", "rotate", "bias", "extend", "layer"):  # other names would escape the check
        names = [list(inspect.signature(getattr(cls, hook)).parameters) for cls in (type(scheme), Scheme)]
        assert names[0] == names[1], hook
