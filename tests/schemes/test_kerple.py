"""KERPLE against a float64 transcription of the paper's two kernels, and against ALiBi where they are the same."""

import math

import pytest
import torch

from lengthlab.schemes.alibi import ALiBi
from lengthlab.schemes.kerple import KERPLELog, KERPLEPower

DISTANCES = [0, 1, 2, 63, 64, 257, 4096, 100_000]
BOTH = pytest.mark.parametrize("cls", [KERPLELog, KERPLEPower])


@pytest.fixture
def dims(scheme_of):
    return scheme_of("nope", width=48, heads=6).dims


def logarithmic(scheme, distance):
    """-r1 log(1 + r2 |m - n|)."""
    r1, r2 = scheme.log_r1.detach().double().exp(), scheme.log_r2.detach().double().exp()
    return [[-a * math.log(1 + b * abs(d)) for d in distance] for a, b in zip(r1.tolist(), r2.tolist(), strict=True)]


def power(scheme, distance):
    """-r1 |m - n|^r2 with 0 < r2 < 2."""
    r1, r2 = scheme.log_r1.detach().double().exp(), 2 / (1 + (-scheme.logit_r2.detach().double()).exp())
    return [[-a * abs(d) ** b for d in distance] for a, b in zip(r1.tolist(), r2.tolist(), strict=True)]


FORMULAS = pytest.mark.parametrize(("cls", "formula"), [(KERPLELog, logarithmic), (KERPLEPower, power)])


@FORMULAS
def test_bias_is_the_papers(dims, cls, formula):
    scheme, both = cls(dims), [*DISTANCES, *(-d for d in DISTANCES)]
    expected = torch.tensor(formula(scheme, both), dtype=torch.float64)
    torch.testing.assert_close(scheme.of_distance(torch.tensor(both).float()).double(), expected, atol=0, rtol=5e-6)


def test_power_with_exponent_1_is_alibi(dims):
    scheme, alibi = KERPLEPower(dims), ALiBi(dims)
    scheme.logit_r2.data.zero_()
    scheme.log_r1.data = torch.tensor(alibi.slopes).log()
    distance = torch.tensor(DISTANCES).float()
    torch.testing.assert_close(scheme.of_distance(distance), alibi.of_distance(distance), atol=0, rtol=1e-6)


def test_starts_are_the_authors_draws(scheme_of):
    dims = scheme_of("nope", width=4096, heads=4096).dims
    log, kernel = KERPLELog(dims), KERPLEPower(dims)
    for drawn, below in (
        (log.log_r1.exp(), 2),
        (log.log_r2.exp(), 1),
        (kernel.log_r1.exp(), 1),
        (2 * kernel.logit_r2.sigmoid(), 2),
    ):
        assert 0.0099 < drawn.min() and drawn.max() < below
        assert drawn.mean().item() == pytest.approx(below / 2, rel=0.05)
        assert drawn.std().item() == pytest.approx(below / 12**0.5, rel=0.05)


@BOTH
def test_two_numbers_per_head_are_learned(dims, cls):
    assert [tuple(p.shape) for p in cls(dims).parameters()] == [(6,), (6,)]


@BOTH
@pytest.mark.parametrize("at", [0.0, -3.0, 2.0, 100_000.0])
@pytest.mark.parametrize("pushed", [-5.0, 0.0, 5.0])
def test_bias_and_gradient_are_finite_and_the_bias_never_rewards(dims, cls, at, pushed):
    scheme = cls(dims)
    for parameter in scheme.parameters():
        parameter.data += pushed
    bias = scheme.of_distance(torch.tensor(at))
    bias.sum().backward()
    assert bias.isfinite().all() and (bias <= 0).all()
    for parameter in scheme.parameters():
        assert parameter.grad.isfinite().all()
        assert (parameter.grad == 0).all() if at == 0 else parameter.grad.abs().max() > 0


@FORMULAS
def test_gradients_are_those_of_the_formula(dims, cls, formula):
    """Central differences of the transcription, at every parameter."""
    scheme, distance = cls(dims), [1, 5, 63]
    scheme.of_distance(torch.tensor(distance).float()).sum().backward()
    step = 2**-10
    for parameter in scheme.parameters():
        sums = []
        start = parameter.data.clone()
        for sign in (1, -1):
            parameter.data = start + sign * step
            sums.append(torch.tensor(formula(scheme, distance), dtype=torch.float64).sum(1))
        parameter.data = start
        expected = (sums[0] - sums[1]) / (2 * step)
        torch.testing.assert_close(parameter.grad.double(), expected, atol=1e-5, rtol=2e-4)


@BOTH
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 1, 3)])
def test_distances_of_any_shape(dims, cls, shape):
    scheme, distance = cls(dims), torch.randint(-9, 300, shape).float()
    bias = scheme.of_distance(distance)
    assert bias.shape == (6, *shape) and bias.dtype == torch.float32
    torch.testing.assert_close(bias.reshape(6, -1), scheme.of_distance(distance.flatten()), atol=0, rtol=1e-6)


@BOTH
def test_neighbours_are_told_apart_in_a_bfloat16_model(dims, cls):
    """257 tokens away and 256 are one number in bfloat16 (fault F6)."""
    bias = cls(dims).bfloat16().bias(torch.tensor([100_257]), torch.tensor([100_000, 100_001]))
    assert bias.dtype == torch.float32 and (bias[..., 0] < bias[..., 1]).all()
