"""The interface: hooks of the wrong shape are caught in tests, and distances are exact at any position and dtype."""

import jaxtyping
import pytest
import torch

from lengthlab.schemes import DistanceBias, Scheme


class Distance(DistanceBias):
    """The distance itself, for two heads."""

    def of_distance(self, distance):
        return torch.stack((distance, -distance))


def test_a_hook_of_wrong_shape_is_caught(scheme_of):
    class Wrong(Scheme):
        def embed(self, x, pos):
            return x[:, 1:]

        def bias(self, q_pos, k_pos):
            return (q_pos[:, None] - k_pos).float()

    wrong, pos = Wrong(scheme_of("nope").dims), torch.arange(4)
    with pytest.raises(jaxtyping.TypeCheckError):
        wrong.embed(torch.ones(2, 4, 32), pos)
    with pytest.raises(jaxtyping.TypeCheckError):
        wrong.bias(pos, pos)


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("start", [0, 8192, 2**24 + 1])  # past 2^24 a float32 position is no longer exact
def test_distances_are_exact_anywhere(scheme_of, start, autocast):
    scheme = Distance(scheme_of("nope").dims).bfloat16()
    q_pos, k_pos = torch.tensor([257, 4095]) + start, torch.tensor([0, 1, 2]) + start
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        bias = scheme.bias(q_pos, k_pos)
    assert bias.dtype == torch.float32
    assert bias.tolist()[0] == [[257, 256, 255], [4095, 4094, 4093]]
    assert torch.equal(bias[1], -bias[0])


def test_a_distance_bias_must_say_what_it_is(scheme_of):
    with pytest.raises(TypeError, match="^DistanceBias must say what its bias is: define of_distance$"):
        DistanceBias(scheme_of("nope").dims).bias(torch.arange(2), torch.arange(2))
