"""The sinusoidal waves against a float64 transcription of the formula in section 3.5 of the paper."""

import math

import pytest
import torch

WIDTH = 32


def waves(scheme, pos: list[int]) -> torch.Tensor:
    return scheme.embed(torch.zeros(1, len(pos), WIDTH), torch.tensor(pos))[0]


def test_waves_are_the_papers(scheme_of):
    pos = [0, 1, 2, 63, 64, 257, 1000]
    expected = [
        [(math.cos if i % 2 else math.sin)(p / 10000 ** ((i - i % 2) / WIDTH)) for i in range(WIDTH)] for p in pos
    ]
    got = waves(scheme_of("sinusoidal"), pos)
    torch.testing.assert_close(got.double(), torch.tensor(expected, dtype=torch.float64), atol=2e-4, rtol=0)
    torch.testing.assert_close(got[:5].double(), torch.tensor(expected[:5]).double(), atol=1e-5, rtol=0)


def test_position_zero_is_zeros_and_ones(scheme_of):
    assert waves(scheme_of("sinusoidal"), [0]).tolist() == [[0.0, 1.0] * (WIDTH // 2)]


def test_a_step_is_a_turn_that_does_not_depend_on_where(scheme_of):
    """Section 3.5: PE(p + k) is a linear function of PE(p); here, of each (sin, cos) pair for k = 5."""
    near, far = (waves(scheme_of("sinusoidal"), [p, p + 5]).view(2, -1, 2) for p in (3, 40))
    turn = lambda pair: torch.complex(pair[1, :, 1], pair[1, :, 0]) / torch.complex(pair[0, :, 1], pair[0, :, 0])  # noqa: E731
    torch.testing.assert_close(turn(near), turn(far), atol=1e-4, rtol=0)


def test_waves_are_added_to_the_embeddings_of_each_row(scheme_of):
    scheme, x, pos = scheme_of("sinusoidal"), torch.randn(2, 3, WIDTH), torch.tensor([[0, 1, 5], [2, 3, 4]])
    expected = x + torch.stack([waves(scheme, row) for row in pos.tolist()])
    assert torch.equal(scheme.embed(x, pos), expected)


def test_an_odd_width_is_refused(scheme_of):
    with pytest.raises(ValueError, match=r"even width, got 33$"):
        scheme_of("sinusoidal", width=33, heads=3)
