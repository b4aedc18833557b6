"""The laws of every scheme in training: gradients, weight decay, the same start for all."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from lengthlab.commands import build
from lengthlab.model import Sequential
from lengthlab.training import TrainSettings, fit

NAMES = sorted(path.stem for path in (Path(__file__).parents[1] / "conf" / "scheme").glob("*.yaml"))
LENGTH = 23
pytestmark = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def tokens():
    return torch.randint(97, (2, LENGTH))


def far(left: torch.Tensor, right: torch.Tensor) -> float:
    return (left - right).abs().max().item()


def test_gradients_reach_every_learned_parameter(name, model_of, tokens):
    model = model_of(name, length=LENGTH)
    model(tokens, torch.arange(LENGTH)).log_softmax(-1)[..., 0].sum().backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, key


def test_gradients_are_those_of_a_softmax_written_out(name, model_of, tokens, monkeypatch):
    """Dense attention in plain operations, all keys of all queries at once, against whatever path the model takes."""

    def gradients(block: int, **sight) -> list[torch.Tensor]:
        model = model_of(name, length=LENGTH)
        model.query_block = block
        model(tokens, torch.arange(LENGTH), **sight).log_softmax(-1)[..., 0].sum().backward()
        return [parameter.grad for parameter in model.parameters()]

    def written_out(q, k, v, attn_mask, dropout_p, is_causal):
        s = (q @ k.mT / q.shape[-1] ** 0.5).float()
        s = s.masked_fill(~attn_mask, float("-inf")) if attn_mask.dtype == torch.bool else s + attn_mask
        return s.softmax(-1).to(v.dtype) @ v

    taken = gradients(block=5)
    monkeypatch.setattr(F, "scaled_dot_product_attention", written_out)
    dense = gradients(LENGTH, hidden_keys=torch.zeros(LENGTH, LENGTH, dtype=torch.bool))
    for one, other in zip(taken, dense, strict=True):
        assert far(one, other) <= 1e-5 * max(1.0, other.abs().max().item())


def test_parameters_of_a_scheme_do_not_decay(name, config_of, tokens):
    def trained(weight_decay: float):
        model = build.model_of(config_of(name, length=LENGTH - 1), vocab=97)
        settings = TrainSettings(
            length=LENGTH - 1, steps=2, tokens_per_step=2 * LENGTH - 2, lr=0.1, warmup=0.0, floor=0.1,
            weight_decay=weight_decay, betas=(0.9, 0.95), clip=1.0, validate_every=0, validation_tokens=1,
        )  # fmt: skip
        # The gradient of the first step does not yet know of the decay, so one step is compared.
        next(fit(model, Sequential(), iter([tokens.numpy()] * 2), [], settings, 0, torch.float32))
        return model

    with_decay, without = trained(0.5), trained(0.0)
    assert not torch.equal(with_decay.embedding.weight, without.embedding.weight)
    for decayed, free in zip(with_decay.scheme.parameters(), without.scheme.parameters(), strict=True):
        assert torch.equal(decayed, free)


def test_all_schemes_start_from_the_same_model(name, config_of):
    model, plain = (build.model_of(config_of(scheme, seed=3), vocab=97) for scheme in (name, "nope"))
    for key, weight in plain.state_dict().items():
        assert torch.equal(model.state_dict()[key], weight), key
