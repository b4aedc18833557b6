"""Growing logits, against the formulas in float64: log_n of Su and Chiang, s · log n of Nakanishi."""

import math

import pytest
import torch

from lengthlab.model import GPTConfig
from lengthlab.model.scale import LogN, SSMax

N = torch.tensor([1, 2, 63, 64, 65, 128, 4096])


def test_log_n_is_one_up_to_the_training_length():
    factors = LogN(4, 64)(N).flatten()
    assert factors.dtype == torch.float32 and torch.equal(factors[:4], torch.ones(4))
    expected = torch.tensor([math.log(n) / math.log(64) for n in N.tolist()[4:]], dtype=torch.float64)
    torch.testing.assert_close(factors[4:].double(), expected, atol=1e-6, rtol=0)
    assert factors[-1] == pytest.approx(2.0) and not list(LogN(4, 64).parameters())


def test_ssmax_is_s_times_log_n_of_each_head():
    scale = SSMax(3, 64)
    assert torch.allclose(scale(torch.tensor([64])).flatten(), torch.ones(3), atol=1e-6, rtol=0)
    with torch.no_grad():
        scale.s.copy_(torch.tensor([0.2, -1.0, 3.0]))
    expected = torch.tensor([[s * math.log(n) for n in N.tolist()] for s in (0.2, -1.0, 3.0)], dtype=torch.float64)
    torch.testing.assert_close(scale(N).squeeze(-1).double(), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("scale", [LogN(4, 64), SSMax(4, 64)], ids=["log_n", "ssmax"])
def test_factors_have_room_for_heads_and_batch(scale):
    heads = 1 if isinstance(scale, LogN) else 4
    assert scale(N).shape == (heads, 7, 1) and scale(N.expand(2, 7)).shape == (2, heads, 7, 1)
    assert scale(torch.tensor([0, 1])).isfinite().all(), "padding has read nothing"


@pytest.mark.parametrize("scale", [LogN, SSMax])
@pytest.mark.parametrize("length", [1, 2])
def test_the_shortest_training_lengths_divide_by_no_zero(scale, length):
    assert scale(4, length)(N).isfinite().all()


def test_factors_are_float32_in_a_bfloat16_model():
    """bfloat16 cannot tell 4,096 tokens from 4,097."""
    factors = SSMax(1, 64).bfloat16()(torch.tensor([4096, 4097])).flatten()
    assert factors.dtype == torch.float32 and factors[0] < factors[1]


def test_factors_multiply_the_products_and_not_the_bias(model_of):
    """Equal to a model whose queries are larger by that much; ALiBi's penalty stays what it was."""
    tokens, pos = torch.randint(97, (2, 9)), torch.arange(9)
    model, plain = model_of("alibi", layers=1, length=2, logit_scale="log_n"), model_of("alibi", layers=1, length=2)
    factor = math.log(9) / math.log(2)
    with torch.no_grad():
        plain.blocks[0].attention.query.weight.mul_(factor)
    torch.testing.assert_close(model(tokens, pos)[:, -1], plain(tokens, pos)[:, -1], atol=1e-5, rtol=0)


SIZES = {"layers": 2, "width": 32, "heads": 4}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"logit_scale": "logn"}, "logit_scale=logn: .*log_n, ssmax"),
        ({"window": 0}, "window=0: .*at least 1"),
        ({"window": True}, "window=True: .*integer"),
        ({"window": 4, "sinks": -1}, "sinks=-1: .*at least 1"),
        ({"sinks": 4}, "sinks=4: .*window"),
    ],
)
def test_options_that_mean_nothing_are_refused_in_one_line(wrong, message):
    with pytest.raises(ValueError, match=rf"^{message}.*$"):
        GPTConfig(**SIZES, **wrong)
