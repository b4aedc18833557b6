"""What a model is asked: the next token, or the masked ones; the draw of the masks is the run's, not the scheme's."""

import pytest
import torch

from lengthlab.training.objective import IGNORED, MaskedToken, NextToken

TOKENS = torch.randint(1, 90, (64, 65), generator=torch.Generator().manual_seed(0))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_next_token_is_the_one_after():
    inputs, targets = NextToken().pair(TOKENS, generator())
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    assert torch.equal(inputs, TOKENS[:, :-1]) and torch.equal(targets, TOKENS[:, 1:])


def test_masked_tokens_are_hidden_and_asked_for_and_no_others():
    inputs, targets = MaskedToken(mask=97, bos=0).pair(TOKENS, generator())
    asked = targets != IGNORED
    assert asked.float().mean().item() == pytest.approx(0.15, abs=0.02)
    assert (inputs[asked] == 97).all() and torch.equal(targets[asked], TOKENS[:, :-1][asked])
    assert torch.equal(inputs[~asked], TOKENS[:, :-1][~asked])


def test_bos_is_never_masked_and_one_seed_gives_one_draw():
    tokens = TOKENS.clone()
    tokens[:, 0] = 0
    objective = MaskedToken(mask=97, bos=0, rate=0.9)
    inputs, targets = objective.pair(tokens, generator())
    assert (inputs[:, 0] == 0).all() and (targets[:, 0] == IGNORED).all()
    assert torch.equal(objective.pair(tokens, generator())[0], inputs)
    assert not torch.equal(objective.pair(tokens, generator(1))[0], inputs)
