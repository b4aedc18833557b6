"""Causal attention with a positional term. The scheme says what the term is, never this file which scheme."""

from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from lengthlab.model.cache import Cache
from lengthlab.model.sight import Sight, causal
from lengthlab.model.term import Built, Distances
from lengthlab.schemes import ContentScheme, Kept, Scheme

SHORT = 128
"""Keys up to which the CPU's fused kernel is slower than plain operations in 16 bits. A layer's attention over 4,096
tokens, forward and backward in bfloat16: 41 ms fused and 16 plain at 64 keys, 45 and 26 at 128, 32 and 42 at 256."""


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
        return _softmax(q, k, v, None, dropout)
    visible = causal(queries, keys, q.device) if visible is None else visible
    if bias is None:
        return _softmax(q, k, v, visible, dropout)
    mask = bias.masked_fill(~visible, float("-inf"))
    mask = mask.unsqueeze(0) if mask.ndim == 3 else mask  # the fast kernel takes no mask of three dimensions
    with torch.autocast(q.device.type, enabled=False):
        dtype = q.dtype if q.device.type == "cpu" else bias.dtype
        out = _softmax(q.to(dtype), k.to(dtype), v.to(dtype), mask, dropout)
    return out.to(q.dtype)


def attend_distances(q: Tensor, k: Tensor, v: Tensor, term: Distances, block: int, dropout: float) -> Tensor:
    """The same, plain causal, with a bias of distance alone: in blocks of queries, each over the keys it can see."""
    k, v, queries = repeated(k, q.shape[1]), repeated(v, q.shape[1]), q.shape[2]
    dtype = q.dtype if q.device.type == "cpu" else term.row.dtype
    flipped, k, v = q.flip(2).to(dtype), k.to(dtype), v.to(dtype)
    out = []
    with torch.autocast(q.device.type, enabled=False):
        for first in range(0, queries, block):
            stop = min(first + block, queries)
            rows, mask = flipped[:, :, queries - stop : queries - first], term.flipped(first, stop)
            out.append(_softmax(rows, k[:, :, :stop], v[:, :, :stop], mask, dropout).flip(2))
    return torch.cat(out, dim=2).to(q.dtype)


def attend_blocks(q: Tensor, k: Tensor, v: Tensor, term: Built, sight: Sight, dropout: float) -> Tensor:
    """The same with any bias, which is there for a block of queries at a time."""
    queries, keys, out = q.shape[2], k.shape[2], []
    for first in range(0, queries, sight.block):
        stop = min(first + sight.block, queries)
        seen = stop if sight.visible is None else keys  # without a cache or a mask, later keys are nobody's
        visible = None if sight.visible is None else sight.rows(first, stop, seen)
        bias = term.rows(first, stop, seen)
        out.append(attend(q[:, :, first:stop], k[:, :, :seen], v[:, :, :seen], bias, visible, dropout))
    return torch.cat(out, dim=2)


def attend_content(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    term: Built | None,
    scheme: ContentScheme,
    kept: Tensor | None,
    sight: Sight,
    dropout: float,
) -> Tensor:
    """The same where the scheme transforms the logits: written out in float32, a block of queries at a time."""
    k, v, queries, keys = repeated(k, q.shape[1]), repeated(v, q.shape[1]), q.shape[2], k.shape[2]
    out = []
    with torch.autocast(q.device.type, enabled=False):
        k = k.float()
        for first in range(0, queries, sight.block):
            stop = min(first + sight.block, queries)
            block = q[:, :, first:stop].float()
            s = block @ k.mT / q.shape[-1] ** 0.5
            s = s if term is None else s + term.rows(first, stop, keys)
            both = None if kept is None else Kept(kept[:, keys - queries :][:, first:stop], kept)
            seen = sight.rows(first, stop, keys)
            s = scheme.scores(s, block, k, both, sight.q_pos[..., first:stop], sight.k_pos, seen)
            weights = s.masked_fill(~seen, float("-inf")).softmax(dim=-1)
            out.append(F.dropout(weights, dropout, training=dropout > 0).to(v.dtype) @ v)
    return torch.cat(out, dim=2).to(q.dtype)


def _softmax(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
    """softmax(q·k / sqrt(K) + mask) v by torch's kernels; without a mask, plain causal."""
    short = q.device.type == "cpu" and q.dtype.itemsize == 2 and k.shape[2] <= SHORT
    with sdpa_kernel(SDPBackend.MATH) if short else nullcontext():
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=mask is None)


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
        self,
        x_BQD: Tensor,
        scheme: Scheme,
        term: Distances | Built | None,
        sight: Sight,
        cache: Cache | None,
        layer: int,
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
            out_BHQK = attend_content(q_BHQK, k_BGSK, v_BGSK, term, scheme, kept, sight, dropout)
        elif term is None:
            out_BHQK = attend(q_BHQK, k_BGSK, v_BGSK, None, sight.visible, dropout)
        elif isinstance(term, Distances):
            out_BHQK = attend_distances(q_BHQK, k_BGSK, v_BGSK, term, sight.block, dropout)
        else:
            out_BHQK = attend_blocks(q_BHQK, k_BGSK, v_BGSK, term, sight, dropout)
        return self.out(out_BHQK.transpose(1, 2).reshape(B, Q, -1))
