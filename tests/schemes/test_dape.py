"""DAPE against a float64 transcription of the paper's equation 4: an MLP over the heads' logits and biases, by pair."""

import pytest
import torch

from lengthlab.schemes.dape import BASES, DAPE

B, H, S, K, HIDDEN = 2, 4, 11, 8, 32


@pytest.fixture
def dape_of(scheme_of):
    return lambda **options: DAPE(scheme_of("nope").dims, **options)


def inputs():
    q, k, pos = torch.randn(B, H, S, K), torch.randn(B, H, S, K), torch.arange(S)
    return q @ k.mT / K**0.5, q, k, None, pos, pos, torch.ones(S, S, dtype=torch.bool).tril()


@pytest.mark.parametrize("base", BASES)
@torch.no_grad()
def test_logits_are_the_papers(dape_of, base):
    layer, arguments = dape_of(base=base).layer(1), inputs()
    s, got = arguments[0].double(), layer.scores(*arguments)
    bias = layer.base.bias(torch.arange(S), torch.arange(S)).double()
    first, second = layer.up.weight.double(), layer.out.weight.double()
    for b in range(B):
        for i in range(S):
            for j in range(i + 1):
                both = torch.cat((s[b, :, i, j], bias[:, i, j]))
                hidden = first @ both + layer.up.bias.double()
                hidden = torch.tensor([x if x >= 0 else 0.01 * x for x in hidden.tolist()], dtype=torch.float64)
                expected = s[b, :, i, j] + bias[:, i, j] + second @ hidden + layer.out.bias.double()
                torch.testing.assert_close(got[b, :, i, j].double(), expected, atol=1e-5, rtol=0)


def test_the_future_reaches_neither_logits_nor_gradients(dape_of, monkeypatch):
    """Even where logits or the base are not finite there."""
    layer, (s, *rest, visible) = dape_of().layer(0), inputs()

    def gradients(logits):
        layer.zero_grad()
        out = layer.scores(logits, *rest, visible).masked_fill(~visible, 0.0)
        out.square().sum().backward()
        return out, [parameter.grad.clone() for parameter in (*layer.up.parameters(), *layer.out.parameters())]

    one, expected = gradients(s)
    base = layer.base.bias(torch.arange(S), torch.arange(S)).detach()
    monkeypatch.setattr(layer.base, "bias", lambda q_pos, k_pos: base.masked_fill(~visible, float("nan")))
    two, got = gradients(s.masked_fill(~visible, float("inf")))
    assert torch.equal(one, two)
    assert all(map(torch.equal, got, expected)) and all(gradient.any() for gradient in got)


def test_a_silent_mlp_leaves_the_base(dape_of, model_of, scheme_of):
    """With zeros in its last layer DAPE is its base: here, whole models of DAPE-ALiBi and of ALiBi."""
    model, tokens, pos = model_of("alibi"), torch.randint(97, (2, 23)), torch.arange(23)
    expected = model(tokens, pos)
    model.scheme = dape_of(base="alibi")
    assert (model(tokens, pos) - expected).abs().max() > 1e-2
    for layer in model.scheme.layers:
        torch.nn.init.zeros_(layer.out.weight), torch.nn.init.zeros_(layer.out.bias)
    torch.testing.assert_close(model(tokens, pos), expected, atol=1e-5, rtol=0)


def test_sizes_and_what_the_base_leaves_untrained(dape_of, scheme_of):
    layer = dape_of().layer(0)
    assert layer.up.weight.shape == (HIDDEN, 2 * H) and layer.out.weight.shape == (H, HIDDEN)
    assert dape_of().untrained() == []
    dims = scheme_of("nope", length=16).dims
    assert DAPE(dims, base="fire").untrained() == BASES["fire"](dims).untrained()


def test_options_are_checked(dape_of):
    with pytest.raises(ValueError, match="^base=t5: must be one of alibi, fire, kerple_log$"):
        dape_of(base="t5")
    with pytest.raises(ValueError, match="^hidden=0: must be at least 1$"):
        dape_of(hidden=0)
