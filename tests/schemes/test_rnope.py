"""RNoPE: which layers have RoPE, as in transformers' SmolLM3; a NoPE layer hears no position, the others RoPE's."""

import pytest
import torch

from lengthlab.commands import build
from lengthlab.schemes.nope import NoPE
from lengthlab.schemes.rnope import RNoPE
from lengthlab.schemes.rope import RoPE


@pytest.fixture
def rnope_of(scheme_of):
    return lambda layers=8, **options: RNoPE(scheme_of("nope", layers=layers).dims, **options)


@pytest.mark.parametrize("every", [2, 3, 4])
def test_layers_are_smollm3s(rnope_of, every):
    from transformers import SmolLM3Config

    expected = SmolLM3Config(num_hidden_layers=8, no_rope_layer_interval=every).no_rope_layers  # 1 where there is RoPE
    scheme = rnope_of(every=every)
    assert [int(type(scheme.layer(index)) is not NoPE) for index in range(8)] == expected


def test_a_layer_turns_as_rope_or_not_at_all(rnope_of, scheme_of):
    scheme, q, pos = rnope_of(), torch.randn(2, 4, 5, 8), torch.arange(5)
    expected = scheme_of("rope").rotate(q, q, pos, pos)
    for index in (0, 1, 2, 4):
        assert all(map(torch.equal, scheme.layer(index).rotate(q, q, pos, pos), expected))
    assert all(out is q for out in scheme.layer(3).rotate(q, q, pos, pos))


@pytest.mark.parametrize("layers", [2, 4])
def test_a_model_is_ropes_with_nope_in_every_second_layer(config_of, layers):
    """The same weights: a model whose scheme is put together by hand, layer by layer."""
    config = config_of("rnope", layers=layers)
    config["scheme"]["every"] = 2
    model = build.model_of(config, vocab=97).eval()

    class ByHand(RoPE):
        def layer(self, index):
            return self if index in (0, 2) else NoPE(self.dims)

    twin = build.model_of(config, vocab=97).eval()
    twin.scheme = ByHand(twin.scheme.dims)
    tokens, pos = torch.randint(97, (2, 23)), torch.arange(23)
    logits = model(tokens, pos)
    assert torch.equal(logits, twin(tokens, pos))
    twin.scheme = RoPE(twin.scheme.dims)
    assert not torch.equal(logits, twin(tokens, pos))


def test_a_model_too_shallow_for_a_nope_layer_is_told(rnope_of):
    assert rnope_of(layers=3).untrained()[-1].startswith("rnope: every=4 of 3 layers is none, so this is rope")
    of_rope = RoPE(rnope_of(layers=4).dims).untrained()
    assert rnope_of(layers=4).untrained() == [line.replace("RoPE:", "RNoPE:", 1) for line in of_rope]


@pytest.mark.parametrize("every", [1, 0, -1])
def test_every_is_two_at_least(rnope_of, every):
    with pytest.raises(ValueError, match=rf"^every={every}: must be an integer of at least 2; .*nope$"):
        rnope_of(every=every)
