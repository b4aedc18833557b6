"""A scheme that is configured and does not act is found out (fault F17), and none that acts is accused."""

from pathlib import Path

import pytest
import torch

from lengthlab.commands import build
from lengthlab.commands.schemes import hooks_of
from lengthlab.schemes import ContentScheme, DistanceBias, Scheme
from lengthlab.schemes.alibi import ALiBi
from lengthlab.schemes.rope import RoPE
from lengthlab.training.sentinel import complaint

NAMES = sorted(path.stem for path in (Path(__file__).parents[2] / "conf" / "scheme").glob("*.yaml"))
NOTHING = "it is configured and changes nothing"
BLIND = "it changes logits, but no layer sees the order"


class Flat(DistanceBias):
    """ALiBi with all slopes 0."""

    def of_distance(self, distance):
        return torch.zeros(self.dims.heads, *distance.shape)


class Unplugged(ALiBi):
    """Every layer gets a scheme that does nothing."""

    def layer(self, index):
        return self.plain

    def __init__(self, dims):
        super().__init__(dims)
        self.plain = Scheme(dims)


class Late(Unplugged):
    """ALiBi in the last layer alone."""

    def layer(self, index):
        return self if index == self.dims.layers - 1 else self.plain


class EveryWhereTheSame(Scheme):
    """A learned vector that is the same at every position."""

    def embed(self, x, pos):
        return x + torch.linspace(-1, 1, x.shape[-1])


class Swallowed(ContentScheme):
    """Transforms the logits by a constant, which the softmax swallows."""

    def scores(self, s, q, k, kept, q_pos, k_pos, visible):
        return s + 3.0


class Smuggled(Scheme):
    """Defines no hook in its class, and has one nonetheless."""

    def __init__(self, dims):
        super().__init__(dims)
        self.bias = ALiBi(dims).bias


class Zero(DistanceBias):
    """Learned, and zero at the start, as many are: what it will do is what counts."""

    def __init__(self, dims):
        super().__init__(dims)
        self.slope = torch.nn.Parameter(torch.zeros(dims.heads))

    def of_distance(self, distance):
        return -self.slope.float().view(-1, *(1,) * distance.ndim) * distance


@pytest.fixture
def verdict(config_of, scheme_of):
    """`verdict(scheme class or name, **sizes)`: the complaint, under a model of two layers."""

    def judge(scheme, length=64, **sizes):
        config = config_of("nope", length=length, **sizes)
        made = scheme_of(scheme, length=length, **sizes) if isinstance(scheme, str) else scheme(
            build.scheme_of(config).dims
        )  # fmt: skip
        return complaint(made, build.gpt_config_of(config), positional=hooks_of(made) != "none")

    return judge


@pytest.mark.parametrize("length", [3, 16, 64])
@pytest.mark.parametrize("name", NAMES)
def test_no_scheme_of_ours_is_accused(name, verdict, length):
    assert verdict(name, length=length) is None


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [(Flat, NOTHING), (Unplugged, NOTHING), (Swallowed, NOTHING), (EveryWhereTheSame, BLIND),
     (Smuggled, "it has no hook, and yet logits depend on positions"), (Late, None), (Zero, None), (Scheme, None)],
)  # fmt: skip
def test_a_scheme_that_does_not_act_is_found_out(scheme, expected, verdict):
    found = verdict(scheme)
    assert found is None if expected is None else found.startswith(expected)
    assert "\n" not in (found or "")


@pytest.mark.parametrize(
    "sizes",
    [{"heads": 1}, {"heads": 1, "width": 512}, {"dropout": 0.5}, {"window": 1}, {"logit_scale": "ssmax"},
     {"qk_norm": True, "kv_heads": 1, "norm": "layernorm", "activation": "swiglu", "tied_head": True}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("scheme", [ALiBi, RoPE, Scheme, Flat])
def test_the_model_around_it_changes_no_verdict(scheme, sizes, verdict):
    """ALiBi's one slope is 2^-8; a window of one token would hide every order."""
    assert (verdict(scheme, **sizes) is None) == (scheme is not Flat)


def test_a_training_length_without_order_is_let_pass(verdict):
    assert verdict(Flat, length=2) is None and verdict(Flat, length=3) is not None


def test_random_state_is_left_as_it_was(verdict):
    before = torch.get_rng_state()
    verdict(Zero)
    assert torch.equal(torch.get_rng_state(), before)
