"""Sizes and options of the model, and what their names stand for."""

import math
from dataclasses import dataclass

from torch import nn

from lengthlab.model.mlp import GELU, SwiGLU
from lengthlab.model.scale import LogN, SSMax

NORMS = {"layernorm": nn.LayerNorm, "rmsnorm": nn.RMSNorm}
MLPS = {"gelu": GELU, "swiglu": SwiGLU}
SCALES = {"log_n": LogN, "ssmax": SSMax}


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
    causal: bool | None = None  # None: true; false: a bidirectional encoder
    window: int | None = None  # a query sees the last `window` tokens, itself counted (None: all)
    sinks: int | None = None  # and always the first `sinks` tokens (Xiao et al. 2023, arXiv:2309.17453)
    logit_scale: str | None = None  # "log_n" | "ssmax": logits grow with the logarithm of what a query sees

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
        for key in ("window", "sinks"):
            value = getattr(self, key)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ValueError(f"{key}={value}: must be an integer of at least 1, or null")
        if self.sinks and self.window is None:
            raise ValueError(f"sinks={self.sinks}: means something only with a window; set window too")
        if self.logit_scale not in (None, *SCALES):
            raise ValueError(f"logit_scale={self.logit_scale}: must be null or one of {', '.join(SCALES)}")
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
    def is_causal(self) -> bool:
        """Whether a query sees nothing that comes after it."""
        return self.causal is not False

    @property
    def groups(self) -> int:
        """Number of key/value heads."""
        return self.heads if self.kv_heads is None else self.kv_heads
