"""Causal attention with a positional term. The scheme says what the term is, never this file which scheme."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lengthlab.model.cache import Cache
from lengthlab.schemes import Scheme


def causal_mask(queries: int, keys: int, device: torch.device) -> Tensor:
    """(Q,S) bool, true where a query may look. The queries are the last of the keys: bottom-right aligned."""
    past = keys - queries
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(diagonal=past)


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, dropout: float = 0.0) -> Tensor:
    """Causal softmax attention: q (B,H,Q,K), k and v (B,G,S,K), bias (H,Q,S) or (B,H,Q,S) float32; returns (B,H,Q,K).

    The bias stays float32: where the kernel cannot mix dtypes, queries and keys are raised to it.
    """
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    queries, keys = q.shape[2], k.shape[2]
    if bias is None:
        if queries == keys:
            return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        mask = None if queries == 1 else causal_mask(queries, keys, q.device)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
    mask = bias.masked_fill(~causal_mask(queries, keys, q.device), float("-inf"))
    with torch.autocast(q.device.type, enabled=False):
        dtype = q.dtype if q.device.type == "cpu" else bias.dtype
        out = F.scaled_dot_product_attention(q.to(dtype), k.to(dtype), v.to(dtype), attn_mask=mask, dropout_p=dropout)
    return out.to(q.dtype)


class Attention(nn.Module):
    """One layer's self-attention: H query heads share G key/value heads; optional RMS norm of q and k."""

    def __init__(self, width: int, heads: int, kv_heads: int, dropout: float, qk_norm: bool, eps: float):
        super().__init__()
        self.heads, self.kv_heads, self.size, self.dropout = heads, kv_heads, width // heads, dropout
        self.query = nn.Linear(width, heads * self.size, bias=False)
        self.key = nn.Linear(width, kv_heads * self.size, bias=False)
        self.value = nn.Linear(width, kv_heads * self.size, bias=False)
        self.out = nn.Linear(heads * self.size, width, bias=False)
        self.query_norm = nn.RMSNorm(self.size, eps=eps) if qk_norm else nn.Identity()
        self.key_norm = nn.RMSNorm(self.size, eps=eps) if qk_norm else nn.Identity()

    def forward(
        self,
        x_BQD: Tensor,
        scheme: Scheme,
        bias: Tensor | None,
        q_pos: Tensor,
        k_pos: Tensor,
        cache: Cache | None,
        layer: int,
    ) -> Tensor:
        """(B,Q,D) to (B,Q,D). With a cache, the keys are all its slots, this chunk's last."""
        B, Q, _ = x_BQD.shape
        q_BHQK = self.query_norm(self.query(x_BQD).view(B, Q, self.heads, self.size)).transpose(1, 2)
        k_BGSK = self.key_norm(self.key(x_BQD).view(B, Q, self.kv_heads, self.size)).transpose(1, 2)
        v_BGSK = self.value(x_BQD).view(B, Q, self.kv_heads, self.size).transpose(1, 2)
        if cache is not None:
            k_BGSK, v_BGSK = cache.extend(layer, k_BGSK, v_BGSK)
        q_BHQK, k_BGSK = scheme.rotate(q_BHQK, k_BGSK, q_pos, k_pos)
        out_BHQK = attend(q_BHQK, k_BGSK, v_BGSK, bias, self.dropout if self.training else 0.0)
        return self.out(out_BHQK.transpose(1, 2).reshape(B, Q, -1))
