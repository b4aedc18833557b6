"""The decoder: what its options mean, how its weights are drawn and counted, and what it refuses."""

import math
import re

import pytest
import torch
import torch.nn.functional as F

from lengthlab.commands import build
from lengthlab.model import GPTConfig

POS = torch.arange(9)


@pytest.fixture
def tokens():
    return torch.randint(97, (2, 9))


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_shared_key_value_heads_are_repeated_ones(model_of, tokens, kv_heads):
    """GQA, and MQA, is MHA whose neighbouring heads have equal keys and values."""
    shared, full = model_of("alibi", kv_heads=kv_heads), model_of("alibi")
    weights = full.state_dict() | shared.state_dict()
    for key in weights:
        if key.endswith(("attention.key.weight", "attention.value.weight")):
            weights[key] = weights[key].view(kv_heads, 8, 32).repeat_interleave(4 // kv_heads, dim=0).flatten(0, 1)
    full.load_state_dict(weights)
    torch.testing.assert_close(full(tokens, POS), shared(tokens, POS), atol=1e-5, rtol=0)


@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
def test_the_mlp_is_the_formula(model_of, activation):
    mlp, x = model_of("nope", activation=activation).blocks[0].mlp, torch.randn(3, 32)
    up = x @ mlp.up.weight.T
    if activation == "gelu":
        inner = 0.5 * up * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (up + 0.044715 * up**3)))
    else:
        gate = x @ mlp.gate.weight.T
        inner = gate * torch.sigmoid(gate) * up
    torch.testing.assert_close(mlp(x), inner @ mlp.out.weight.T, atol=1e-5, rtol=0)


@pytest.mark.parametrize("norm", ["rmsnorm", "layernorm"])
def test_the_last_norm_is_the_one_asked_for(model_of, tokens, norm):
    model = model_of("nope", norm=norm)
    for key, parameter in model.norm.named_parameters():
        torch.nn.init.constant_(parameter, float(key == "weight"))
    hidden = model.hidden(tokens, POS)
    size = hidden.square().mean(-1).sqrt()
    torch.testing.assert_close(size, torch.ones_like(size), atol=1e-3, rtol=0)
    assert (hidden.mean(-1).abs().max() < 1e-5) == (norm == "layernorm")


def test_qk_norm_makes_attention_deaf_to_the_size_of_its_queries(model_of, tokens):
    for qk_norm in (True, False):
        model = model_of("nope", qk_norm=qk_norm)
        before = model(tokens, POS)
        for block in model.blocks:
            block.attention.query.weight.data *= 3
        assert ((model(tokens, POS) - before).abs().max() < 1e-4) == qk_norm


def test_a_tied_head_is_the_token_table(model_of, tokens):
    tied, untied = model_of("nope", tied_head=True), model_of("nope", tied_head=False)
    states = tied.hidden(tokens, POS)
    assert torch.equal(tied(tokens, POS), F.linear(states, tied.embedding.weight))
    assert torch.equal(untied.logits(states), F.linear(states, untied.head.weight))
    sizes = [sum(parameter.numel() for parameter in model.parameters()) for model in (tied, untied)]
    assert sizes[1] - sizes[0] == 97 * 32


@pytest.mark.parametrize("tied_head", [True, False])
def test_parameter_counts_add_up(model_of, tied_head):
    counts = model_of("learned", tied_head=tied_head, kv_heads=2).parameter_counts()
    block = 32 * 32 * 2 + 32 * 16 * 2 + 2 * 32 * 128 + 2 * 32  # q and out, k and v, MLP, two norms
    assert counts["embedding"] == 97 * 32 * (1 if tied_head else 2)
    assert counts["scheme"] == 64 * 32
    assert counts["total"] == counts["embedding"] + counts["scheme"] + 2 * block + 32


def test_dropout_is_for_training_alone(model_of, tokens):
    model = model_of("rope", dropout=0.5)
    assert torch.equal(model(tokens, POS), model_of("rope")(tokens, POS))
    model.train()
    assert not torch.equal(model(tokens, POS), model(tokens, POS))


@pytest.mark.parametrize("layers", [1, 12])
def test_an_untrained_model_knows_nothing(config_of, tokens, layers):
    """Its loss is that of a uniform guess, whatever its depth."""
    model = build.model_of(config_of("nope", layers=layers), vocab=97)
    loss = F.cross_entropy(model(tokens, POS)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    assert loss.item() == pytest.approx(math.log(97), abs=0.1)


def test_weights_depend_on_the_seed_alone(config_of):
    torch.manual_seed(1)
    first = build.model_of(config_of("nope", seed=5), 97).state_dict()
    torch.manual_seed(2)
    again = build.model_of(config_of("nope", seed=5), 97).state_dict()
    other = build.model_of(config_of("nope", seed=6), 97).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert all(not torch.equal(first[key], other[key]) for key in first if "norm" not in key)


SIZES = {"layers": 2, "width": 32, "heads": 4}


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"layers": 0}, "layers=0"),
        ({"heads": 0}, "heads=0"),
        ({"width": -8}, "width=-8"),
        ({"heads": 5}, "width=32"),
        ({"kv_heads": 3}, "kv_heads=3"),
        ({"kv_heads": 8}, "kv_heads=8"),
        ({"kv_heads": 0}, "kv_heads=0"),
        ({"norm": "batchnorm"}, "norm=batchnorm"),
        ({"activation": "relu"}, "activation=relu"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"dropout": -0.1}, "dropout=-0.1"),
        ({"mlp_ratio": 0.0}, "mlp_ratio=0.0"),
        ({"norm_eps": -1e-6}, "norm_eps=-1e-06"),
        ({"layers": 2.5}, "layers=2.5"),
        ({"heads": True}, "heads=True"),
        ({"width": "32"}, "width=32"),
        ({"kv_heads": 2.0}, "kv_heads=2.0"),
        ({"dropout": "0.1"}, "dropout=0.1"),
        ({"mlp_ratio": float("nan")}, "mlp_ratio=nan"),
        ({"tied_head": "no"}, "tied_head=no"),
        ({"qk_norm": 1}, "qk_norm=1"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_in_one_line(wrong, key):
    with pytest.raises(ValueError, match=rf"^{re.escape(key)}\b.+") as raised:
        GPTConfig(**{**SIZES, **wrong})
    assert "\n" not in str(raised.value)


def test_hidden_keys_are_not_seen(model_of, tokens):
    """Hiding a token from all later ones is as if it had never been there, but for the others' positions."""
    model, hidden = model_of("alibi"), torch.zeros(9, 9, dtype=torch.bool)
    hidden[4:, 3] = True
    left = [at for at in range(9) if at != 3]
    seen = model(tokens, POS, hidden_keys=hidden)[:, left]
    torch.testing.assert_close(seen, model(tokens[:, left], POS[left]), atol=1e-5, rtol=0)


def test_the_scale_is_the_models_and_drawn_from_no_seed(config_of):
    plain, scaled = (build.model_of(config_of("rope", logit_scale=s), vocab=97) for s in (None, "ssmax"))
    weights = scaled.state_dict()
    assert weights.keys() - plain.state_dict().keys() == {"scale.s"} and weights["scale.s"].shape == (4,)
    assert all(torch.equal(weights[key], weight) for key, weight in plain.state_dict().items())
    counts = [model.parameter_counts() for model in (plain, scaled)]
    assert counts[1]["total"] - counts[0]["total"] == 4 and counts[0]["scheme"] == counts[1]["scheme"] == 0
