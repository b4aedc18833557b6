"""Does a scheme act as it is configured? Tried on one layer before anything is trained; takes milliseconds."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from lengthlab.model import GPT, GPTConfig
from lengthlab.schemes import Scheme

TOKENS = 32
"""Tokens read at most; each is another one, so that their order can be told."""
TELLS = 1e-5
"""Logits of size 1 that differ by more are not rounded differently, they are others."""


class OneLayer(Scheme):
    """What a scheme does in its layer `index`, for a model that has no other. Learned: what the scheme learns."""

    def __init__(self, scheme: Scheme, index: int):
        super().__init__(scheme.dims)
        self.whole, self.index = scheme, index

    def embed(self, x, pos):
        """As the whole scheme."""
        return self.whole.embed(x, pos)

    def layer(self, index):
        """The chosen one, for every index."""
        return self.whole.layer(self.index)


def complaint(scheme: Scheme, sizes: GPTConfig, positional: bool) -> str | None:
    """What is wrong, in half a line; None where the scheme acts in some layer, or, not `positional`, in none.

    To act is both: logits differ from those of the same weights without a scheme, and the last ones change with the
    order of the tokens before (one causal layer without positions cannot tell it). The scheme's parameters are moved at
    random, in place: many start at zero. Random state is left as it was. Too short a training length has no order.
    """
    length = min(TOKENS, scheme.dims.train_length)
    if length < 3:
        return None
    generator = torch.Generator().manual_seed(0)
    _shake(scheme, generator)
    distinct = {scheme.layer(index): index for index in reversed(range(sizes.layers))}
    seen = [_seen(OneLayer(scheme, index), sizes, length) for index in sorted(distinct.values())]
    if not positional:
        return "it has no hook, and yet logits depend on positions" if any(map(any, seen)) else None
    if any(map(all, seen)):
        return None
    if any(differs for differs, _ in seen):
        return "it changes logits, but no layer sees the order of the tokens before"
    return "it is configured and changes nothing: logits are those of a model without positions"


@torch.no_grad()
def _seen(scheme: OneLayer, sizes: GPTConfig, length: int) -> tuple[bool, bool]:
    """Whether logits differ from those without the scheme; whether the last ones depend on the order before."""
    sizes = replace(sizes, layers=1, dropout=0.0, causal=None, window=None, sinks=None, logit_scale=None, mlp_ratio=1.0)
    with torch.random.fork_rng(devices=[]):  # the weights' first draw, which the second replaces
        model = GPT(sizes, TOKENS, scheme).eval()
    generator = torch.Generator().manual_seed(1)
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding) and module not in set(scheme.modules()):
            nn.init.normal_(module.weight, std=sizes.width**-0.5, generator=generator)
    tokens, pos = torch.randperm(TOKENS, generator=generator)[None, :length], torch.arange(length)
    mixed = torch.cat((tokens[:, :-1].flip(1), tokens[:, -1:]), dim=1)
    logits = model(tokens, pos)
    order = _differ(logits[:, -1], model(mixed, pos)[:, -1])
    model.scheme = Scheme(scheme.dims)
    return _differ(logits, model(tokens, pos)), order


def _differ(left: Tensor, right: Tensor) -> bool:
    return not torch.allclose(left, right, atol=TELLS, rtol=0)


@torch.no_grad()
def _shake(scheme: Scheme, generator: torch.Generator) -> None:
    for parameter in scheme.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.5)
