"""Sandwich against a float64 transcription of the paper's sum, and against products of sinusoids written out."""

import math

import pytest
import torch

from lengthlab.schemes.sandwich import Sandwich

DISTANCES = [0, 1, 2, 63, 64, 257, 1000, 4096]


@pytest.fixture
def dims(scheme_of):
    return scheme_of("nope", width=48, heads=6).dims


@pytest.mark.parametrize("dim", [128, 2, 64])
def test_bias_is_the_papers(dims, dim):
    """The compression ratio 8h/H divides the sum over k = 1 to d/2; here less its value at distance 0."""
    expected = [
        [
            (sum(math.cos(d / 10000 ** (2 * k / dim)) for k in range(1, dim // 2 + 1)) - dim / 2) / (8 * h / 6)
            for d in DISTANCES
        ]
        for h in range(1, 7)
    ]
    got = Sandwich(dims, dim).of_distance(torch.tensor(DISTANCES).float()).double()
    expected = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(got[:, :5], expected[:, :5], atol=2e-5, rtol=0)
    torch.testing.assert_close(got, expected, atol=1e-3, rtol=0)  # an angle of 4096 in float32 is good to 2e-4


def test_differences_are_those_of_products_of_sinusoids(dims):
    """p_m · p_n of the vectors (sin, cos)(m / 10000^(2k/d)), k from 1, at places that are m - n apart."""
    frequency = 10000 ** (-torch.arange(2, 130, 2, dtype=torch.float64) / 128)
    vector = lambda m: torch.cat(((m * frequency).sin(), (m * frequency).cos()))  # noqa: E731
    bias = Sandwich(dims).bias(torch.tensor([50]), torch.tensor([50, 43, 0])).double()[:, 0]
    products = torch.stack([vector(50) @ vector(n) for n in (50, 43, 0)])
    for h in range(1, 7):
        expected = (products - products[0]) * 6 / (8 * h)
        torch.testing.assert_close(bias[h - 1], expected, atol=2e-5, rtol=0)


def test_it_is_0_at_distance_0_even_and_nothing_is_learned(dims):
    scheme, distance = Sandwich(dims), torch.tensor(DISTANCES).float()
    assert torch.equal(scheme.of_distance(torch.tensor(0.0)), torch.zeros(6))
    assert torch.equal(scheme.of_distance(-distance), scheme.of_distance(distance))
    assert not scheme.state_dict()


def test_its_width_is_not_the_heads(scheme_of):
    small, large = (scheme_of("sandwich", width=width) for width in (32, 256))
    assert torch.equal(small.of_distance(torch.arange(9.0)), large.of_distance(torch.arange(9.0)))


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 1, 3)])
def test_distances_of_any_shape(dims, shape):
    scheme, distance = Sandwich(dims), torch.randint(-9, 300, shape).float()
    before = distance.clone()
    bias = scheme.of_distance(distance)
    assert bias.shape == (6, *shape) and bias.dtype == torch.float32
    assert torch.equal(distance, before), "the distances are not the scheme's to change"
    torch.testing.assert_close(bias.reshape(6, -1), scheme.of_distance(distance.flatten()), atol=1e-5, rtol=0)


@pytest.mark.parametrize("dim", [0, -2, 7])
def test_an_odd_width_is_refused(dims, dim):
    with pytest.raises(ValueError, match=f"^dim={dim}: must be an even number of at least 2$"):
        Sandwich(dims, dim)
