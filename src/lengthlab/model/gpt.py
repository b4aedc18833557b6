"""A pre-norm decoder. Position enters through the scheme's hooks and nowhere else."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lengthlab.model.attention import Attention
from lengthlab.model.cache import Cache
from lengthlab.schemes import Scheme

NORMS = {"layernorm": nn.LayerNorm, "rmsnorm": nn.RMSNorm}


@dataclass(frozen=True)
class GPTConfig:
    """Sizes and options of the model. Raises ValueError, one line, where they do not fit together."""

    layers: int
    width: int
    heads: int
    kv_heads: int | None = None  # None: one per query head (MHA); 1 is MQA, between them GQA
    mlp_ratio: float = 4.0  # hidden width of the MLP over width; SwiGLU has a third matrix: use 8/3 for equal size
    norm: str = "rmsnorm"
    activation: str = "gelu"
    tied_head: bool = False
    qk_norm: bool = False
    dropout: float = 0.0
    norm_eps: float = 1e-6

    def __post_init__(self):
        sizes = {"layers": self.layers, "width": self.width, "heads": self.heads, "kv_heads": self.groups}
        for key, value in sizes.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{key}={value}: must be an integer of at least 1")
        for key in ("mlp_ratio", "dropout", "norm_eps"):
            value = getattr(self, key)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise ValueError(f"{key}={value}: must be a number of at least 0")
        for key in ("tied_head", "qk_norm"):
            if not isinstance(getattr(self, key), bool):
                raise ValueError(f"{key}={getattr(self, key)}: must be true or false")
        if self.width % self.heads:
            raise ValueError(f"width={self.width} is not divisible by heads={self.heads}; change one of them")
        if self.heads % self.groups:
            raise ValueError(f"kv_heads={self.kv_heads} does not divide heads={self.heads}; change one of them")
        if self.norm not in NORMS:
            raise ValueError(f"norm={self.norm}: must be one of {', '.join(NORMS)}")
        if self.activation not in MLPS:
            raise ValueError(f"activation={self.activation}: must be one of {', '.join(MLPS)}")
        if self.dropout >= 1:
            raise ValueError(f"dropout={self.dropout}: must be below 1")
        if round(self.mlp_ratio * self.width) < 1:
            raise ValueError(f"mlp_ratio={self.mlp_ratio}: leaves the MLP without a hidden unit; use 4")

    @property
    def groups(self) -> int:
        """Number of key/value heads."""
        return self.heads if self.kv_heads is None else self.kv_heads


class GELU(nn.Module):
    """Two matrices around GELU (tanh form, as GPT-2's)."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.up = nn.Linear(width, hidden, bias=False)
        self.out = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(…,D) to (…,D)."""
        return self.out(F.gelu(self.up(x), approximate="tanh"))


class SwiGLU(nn.Module):
    """A gated MLP of three matrices (Shazeer 2020, arXiv:2002.05202)."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.out = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(…,D) to (…,D)."""
        return self.out(F.silu(self.gate(x)) * self.up(x))


MLPS = {"gelu": GELU, "swiglu": SwiGLU}


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
        self.scheme = scheme

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

    def hidden(self, tokens_BQ: Tensor, pos: Tensor, cache: Cache | None = None) -> Tensor:
        """Final normed states (B,Q,D) of tokens at positions `pos`, (Q) or (B,Q); they follow the cache's, if any."""
        # Vaswani et al. 2017, section 3.4; without the factor a sinusoid is 35 times as large as the tokens.
        x_BQD = self.embedding(tokens_BQ) * self.config.width**0.5
        x_BQD = self.dropout(self.scheme.embed(x_BQD, pos))
        k_pos = pos if cache is None else cache.extend_positions(pos)
        biases: dict[Scheme, Tensor | None] = {}
        for index, block in enumerate(self.blocks):
            scheme = self.scheme.layer(index)
            if scheme not in biases:  # layers of one scheme share its bias
                biases[scheme] = scheme.bias(pos, k_pos)
            x_BQD = block(x_BQD, scheme, biases[scheme], pos, k_pos, cache, index)
        return self.norm(x_BQD)

    def logits(self, x_BQD: Tensor) -> Tensor:
        """The output head alone: (…,D) to (…,vocab)."""
        return F.linear(x_BQD, self.embedding.weight if self.head is None else self.head.weight)

    def forward(self, tokens_BQ: Tensor, pos: Tensor, cache: Cache | None = None) -> Tensor:
        """Logits (B,Q,vocab) for the token after each of the given ones."""
        return self.logits(self.hidden(tokens_BQ, pos, cache))

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
