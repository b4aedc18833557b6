"""What a model is asked of a block: the next of every token, or the tokens that were masked."""

from dataclasses import dataclass

import torch
from torch import Tensor

IGNORED = -100
"""A target that is not asked for (`cross_entropy`'s own default)."""


class NextToken:
    """Causal language modelling: L inputs, and the token after each."""

    def pair(self, tokens: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Inputs and targets, both (B,L), of blocks (B,L+1)."""
        return tokens[:, :-1], tokens[:, 1:]


@dataclass(frozen=True)
class MaskedToken:
    """Masked language modelling for bidirectional models: a share of the tokens is replaced by `mask` and asked for.

    Every chosen token is masked; none is kept or exchanged, unlike in BERT (Devlin et al. 2018, arXiv:1810.04805).
    """

    mask: int
    bos: int
    rate: float = 0.15

    def pair(self, tokens: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Inputs and targets, both (B,L), of blocks (B,L+1), whose last column is not used; BOS is never chosen."""
        tokens = tokens[:, :-1]
        draw = torch.rand(tokens.shape, generator=generator).to(tokens.device)
        chosen = (draw < self.rate) & (tokens != self.bos)
        return tokens.masked_fill(chosen, self.mask), tokens.masked_fill(~chosen, IGNORED)


Objective = NextToken | MaskedToken
