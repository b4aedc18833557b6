"""A pre-norm decoder. Position enters through the scheme's hooks and nowhere else."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lengthlab.model.attention import Attention
from lengthlab.model.cache import Cache
from lengthlab.model.config import MLPS, NORMS, SCALES, GPTConfig
from lengthlab.model.sight import BLOCK, Sight, visible
from lengthlab.model.term import Built, Distances, term_of
from lengthlab.schemes import Scheme


class Block(nn.Module):
    """Attention and MLP, each behind a norm and added to the stream."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        norm = NORMS[config.norm]
        self.attention_norm = norm(config.width, eps=config.norm_eps)
        self.attention = Attention(
            config.width, config.heads, config.groups, config.dropout, config.qk_norm, config.norm_eps
        )
        self.mlp_norm = norm(config.width, eps=config.norm_eps)
        self.mlp = MLPS[config.activation](config.width, round(config.mlp_ratio * config.width))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x_BQD: Tensor, *position) -> Tensor:
        """(B,Q,D) to (B,Q,D); `position` is handed on to the attention."""
        x_BQD = x_BQD + self.dropout(self.attention(self.attention_norm(x_BQD), *position))
        return x_BQD + self.dropout(self.mlp(self.mlp_norm(x_BQD)))


class GPT(nn.Module):
    """Tokens and their positions in, logits out."""

    def __init__(self, config: GPTConfig, vocab: int, scheme: Scheme):
        super().__init__()
        self.config, self.vocab = config, vocab
        self.embedding = nn.Embedding(vocab, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = NORMS[config.norm](config.width, eps=config.norm_eps)
        self.head = None if config.tied_head else nn.Linear(config.width, vocab, bias=False)
        self.dropout = nn.Dropout(config.dropout)
        self.scale = SCALES[config.logit_scale](config.heads, scheme.dims.train_length) if config.logit_scale else None
        self.scheme = scheme
        self.query_block = BLOCK  # fewer queries at once need less memory, and change no result

    def initialise(self, seed: int) -> None:
        """Draw every weight but the scheme's from `seed` alone, so that all schemes start from the same model."""
        generator = torch.Generator().manual_seed(seed)
        into_stream = {id(b.attention.out) for b in self.blocks} | {id(b.mlp.out) for b in self.blocks}
        for module in self._own_modules():
            if isinstance(module, nn.Embedding | nn.Linear):
                std = 0.02  # GPT-2's; width**-0.5 for the table cost 0.2 nats (nano, 120 steps, three schemes)
                if id(module) in into_stream:  # GPT-2: the stream's variance does not grow with depth
                    std /= (2 * self.config.layers) ** 0.5
                nn.init.normal_(module.weight, std=std, generator=generator)

    def hidden(
        self,
        tokens_BQ: Tensor,
        pos: Tensor,
        cache: Cache | None = None,
        valid: Tensor | None = None,
        hidden_keys: Tensor | None = None,
    ) -> Tensor:
        """Final normed states (B,Q,D) of tokens at positions `pos`, (Q) or (B,Q); they follow the cache's, if any.

        `valid` (B,Q) is false for padding. `hidden_keys` (Q,S) is true where a query may not look, causal or not.
        """
        # Vaswani et al. 2017, section 3.4; without the factor a sinusoid is 35 times as large as the tokens.
        x_BQD = self.embedding(tokens_BQ) * self.config.width**0.5
        x_BQD = self.dropout(self.scheme.embed(x_BQD, pos))
        sight = self._sight(pos, cache, valid, hidden_keys)
        terms: dict[Scheme, Distances | Built | None] = {}
        for index, block in enumerate(self.blocks):
            scheme = self.scheme.layer(index)
            if scheme not in terms:  # layers of one scheme share it
                terms[scheme] = term_of(scheme, sight)
            x_BQD = block(x_BQD, scheme, terms[scheme], sight, cache, index)
        return self.norm(x_BQD)

    def _sight(self, pos: Tensor, cache: Cache | None, valid: Tensor | None, hidden_keys: Tensor | None) -> Sight:
        """Positions, mask and scale of a chunk; the mask is left out where it is the plain causal one."""
        config, plain = self.config, cache is None and valid is None and hidden_keys is None
        cache = Cache(0) if cache is None else cache
        order = cache.arrive(pos, valid)
        read = order + 1 if config.is_causal else (order.amax(-1, keepdim=True) + 1).expand_as(order)
        scale = None if self.scale is None else self.scale(read)
        if plain and config.window is None and config.is_causal:
            return Sight(pos, pos, None, scale, self.query_block)
        seen = visible(order, cache.order, cache.valid, config.is_causal, config.window, config.sinks or 0)
        seen = seen if hidden_keys is None else seen & ~hidden_keys
        return Sight(pos, cache.pos, seen, scale, self.query_block)

    def logits(self, x_BQD: Tensor) -> Tensor:
        """The output head alone: (…,D) to (…,vocab)."""
        return F.linear(x_BQD, self.embedding.weight if self.head is None else self.head.weight)

    def forward(self, tokens_BQ: Tensor, pos: Tensor, cache: Cache | None = None, **sight) -> Tensor:
        """Logits (B,Q,vocab) for the token after each of the given ones; arguments as those of `hidden`."""
        return self.logits(self.hidden(tokens_BQ, pos, cache, **sight))

    def parameter_counts(self) -> dict[str, int]:
        """Numbers of parameters: `total`, of which `embedding` (token table and untied head) and `scheme`."""
        count = lambda module: sum(p.numel() for p in module.parameters())  # noqa: E731
        untied = 0 if self.head is None else count(self.head)
        return {
            "total": count(self),
            "embedding": count(self.embedding) + untied,
            "scheme": count(self.scheme),
        }

    def _own_modules(self) -> Iterator[nn.Module]:
        foreign = set(self.scheme.modules())
        return (module for module in self.modules() if module not in foreign)
