"""Causal attention with a positional term. The scheme says what the term is, never this file which scheme."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lengthlab.model.cache import Cache
from lengthlab.model.sight import Sight, causal
from lengthlab.schemes import ContentScheme, Kept, Scheme

BLOCK = 512
"""Queries whose logits are held at once where a scheme transforms them."""


def attend(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, visible: Tensor | None = None, dropout: float = 0.0
) -> Tensor:
    """Softmax attention: q (B,H,Q,K), k and v (B,G,S,K), bias (H,Q,S) or (B,H,Q,S) float32; returns (B,H,Q,K).

    `visible`, bool (Q,S) or (B,1,Q,S), is true where a query may look; None: the queries are the last of the keys, and
    look at themselves and what is before. The bias stays float32: where the kernel cannot mix dtypes, queries and keys
    are raised to it.
    """
    k, v = repeated(k, q.shape[1]), repeated(v, q.shape[1])
    queries, keys = q.shape[2], k.shape[2]
    if bias is None and visible is None and queries == keys:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
    visible = causal(queries, keys, q.device) if visible is None else visible
    if bias is None:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=visible, dropout_p=dropout)
    mask = bias.masked_fill(~visible, float("-inf"))
    with torch.autocast(q.device.type, enabled=False):
        dtype = q.dtype if q.device.type == "cpu" else bias.dtype
        out = F.scaled_dot_product_attention(q.to(dtype), k.to(dtype), v.to(dtype), attn_mask=mask, dropout_p=dropout)
    return out.to(q.dtype)


def attend_content(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    scheme: ContentScheme,
    kept: Tensor | None,
    sight: Sight,
    dropout: float,
) -> Tensor:
    """The same where the scheme transforms the logits: written out in float32, a block of queries at a time."""
    k, v, queries = repeated(k, q.shape[1]), repeated(v, q.shape[1]), q.shape[2]
    visible = causal(queries, k.shape[2], q.device) if sight.visible is None else sight.visible
    out = []
    with torch.autocast(q.device.type, enabled=False):
        keys = k.float()
        for first in range(0, queries, BLOCK):
            rows = slice(first, first + BLOCK)
            block = q[:, :, rows].float()
            s = block @ keys.mT / q.shape[-1] ** 0.5
            s = s if bias is None else s + bias[..., rows, :]
            both = None if kept is None else Kept(kept[:, kept.shape[1] - queries :][:, rows], kept)
            seen = visible[..., rows, :]
            s = scheme.scores(s, block, keys, both, sight.q_pos[..., rows], sight.k_pos, seen)
            weights = s.masked_fill(~seen, float("-inf")).softmax(dim=-1)
            out.append(F.dropout(weights, dropout, training=dropout > 0).to(v.dtype) @ v)
    return torch.cat(out, dim=2).to(q.dtype)


def repeated(k: Tensor, heads: int) -> Tensor:
    """(B,G,S,K) to (B,H,S,K): every key/value head once per query head that it serves."""
    return k if k.shape[1] == heads else k.repeat_interleave(heads // k.shape[1], dim=1)


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
        self, x_BQD: Tensor, scheme: Scheme, bias: Tensor | None, sight: Sight, cache: Cache | None, layer: int
    ) -> Tensor:
        """(B,Q,D) to (B,Q,D). With a cache, the keys are all its slots, this chunk's last."""
        B, Q, _ = x_BQD.shape
        q_BHQK = self.query_norm(self.query(x_BQD).view(B, Q, self.heads, self.size)).transpose(1, 2)
        k_BGSK = self.key_norm(self.key(x_BQD).view(B, Q, self.kv_heads, self.size)).transpose(1, 2)
        v_BGSK = self.value(x_BQD).view(B, Q, self.kv_heads, self.size).transpose(1, 2)
        content = isinstance(scheme, ContentScheme)
        kept = scheme.keep(x_BQD, None if cache is None else cache.last_kept(layer)) if content else None
        if cache is not None:
            k_BGSK, v_BGSK, kept = cache.extend(layer, k_BGSK, v_BGSK, kept)
        q_BHQK, k_BGSK = scheme.rotate(q_BHQK, k_BGSK, sight.q_pos, sight.k_pos)
        if sight.scale is not None:
            q_BHQK = q_BHQK * sight.scale.to(q_BHQK.dtype)
        dropout = self.dropout if self.training else 0.0
        if content:
            out_BHQK = attend_content(q_BHQK, k_BGSK, v_BGSK, bias, scheme, kept, sight, dropout)
        else:
            out_BHQK = attend(q_BHQK, k_BGSK, v_BGSK, bias, sight.visible, dropout)
        return self.out(out_BHQK.transpose(1, 2).reshape(B, Q, -1))
