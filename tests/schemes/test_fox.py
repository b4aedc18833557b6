"""FoX against x-transformers' forget gates with the same weights, and ALiBi as its fixed gate; Cable as its mirror."""

import math
import warnings

import pytest
import torch

from lengthlab.schemes import Kept
from lengthlab.schemes.alibi import reference_slopes
from lengthlab.schemes.cable import Cable
from lengthlab.schemes.fox import FoX

B, H, S, D = 2, 4, 23, 32


@pytest.fixture
def dims(scheme_of):
    return scheme_of("nope").dims


def bias_of(layer, x: torch.Tensor, queries: int = S) -> torch.Tensor:
    """(B,H,queries,S): what is added to logits of zero; the last queries of x."""
    total, pos = layer.keep(x, None), torch.arange(x.shape[1])
    none, visible = torch.zeros(B, H, queries, 8), torch.ones(queries, x.shape[1], dtype=torch.bool)
    kept = Kept(total[:, -queries:], total)
    s = torch.zeros(B, H, queries, x.shape[1])
    return layer.scores(s, none, torch.zeros(B, H, x.shape[1], 8), kept, pos[-queries:], pos, visible)


@torch.no_grad()
def test_bias_is_that_of_x_transformers(dims):
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # x-transformers scripts at its import
        from x_transformers.x_transformers import DataDependentAlibi

    layer, x = FoX(dims, bias=1.0, std=0.5).layer(1), torch.randn(B, S, D)
    theirs = DataDependentAlibi(D, H)
    theirs.to_forget_gates[0].load_state_dict(layer.gate.state_dict())
    past = torch.ones(S, S, dtype=torch.bool).tril()
    torch.testing.assert_close(bias_of(layer, x)[..., past], theirs(x)[..., past], atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", [FoX, Cable])
@torch.no_grad()
def test_bias_is_the_papers(dims, kind):
    """The gates of the tokens after the key, up to the query, added one by one in float64."""
    layer, x = kind(dims).layer(0), torch.randn(B, S, D)
    z = x.double() @ layer.gate.weight.double().T + layer.gate.bias.double()
    log_gate = torch.sigmoid(z).log() if kind is FoX else -(1 + z.exp()).log()
    got = bias_of(layer, x)
    for i in range(S):
        for j in range(i + 1):
            expected = log_gate[:, j + 1 : i + 1].sum(dim=1)
            torch.testing.assert_close(got[:, :, i, j].double(), expected, atol=1e-5, rtol=0)


def test_a_fixed_gate_is_alibi(model_of, dims):
    """log f = -m at every token is -m x distance: a whole model, against ALiBi's of the same weights."""
    model, tokens, pos = model_of("alibi"), torch.randint(97, (2, S)), torch.arange(S)
    expected = model(tokens, pos)
    model.scheme = FoX(dims, std=0.0)
    with torch.no_grad():
        for layer in model.scheme.layers:
            layer.gate.bias.copy_(torch.tensor([-math.log(math.expm1(m)) for m in reference_slopes(H)]))
    torch.testing.assert_close(model(tokens, pos), expected, atol=1e-5, rtol=0)


@torch.no_grad()
def test_cable_is_fox_with_the_gates_sign_turned(dims):
    cable, fox, x = Cable(dims).layer(0), FoX(dims).layer(0), torch.randn(B, S, D)
    fox.gate.weight.copy_(-cable.gate.weight), fox.gate.bias.copy_(-cable.gate.bias)
    assert torch.equal(bias_of(cable, x), bias_of(fox, x))


@torch.no_grad()
def test_sums_go_on_from_the_last_token_and_stay_float32(dims):
    layer, x = FoX(dims, std=0.5).layer(0), torch.randn(B, S, D)
    whole, first = layer.keep(x, None), layer.keep(x[:, :9], None)
    pieces = torch.cat((first, layer.keep(x[:, 9:], first[:, -1:])), dim=1)
    torch.testing.assert_close(pieces, whole, atol=1e-5, rtol=0)
    assert whole.shape == (B, S, H)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(layer.keep(x, None), whole)
    assert layer.bfloat16().keep(x.bfloat16(), None).dtype == torch.float32


def test_the_start_is_what_the_yaml_says(dims):
    fox = FoX(dims, bias=5.0)
    for layer in fox.layers:
        assert (layer.gate.bias == 5).all()
        assert layer.gate.weight.std().item() == pytest.approx(0.02, rel=0.25)
    assert not torch.equal(fox.layer(0).gate.weight, fox.layer(1).gate.weight)
    assert not any(layer.gate.bias.any() for layer in FoX(dims).layers)
    assert sum(p.numel() for p in Cable(dims).parameters()) == 2 * (D + 1) * H
