"""Factors on the logits that grow with the number of tokens read, against attention that flattens with length."""

import math

import torch
from torch import Tensor, nn


class LogN(nn.Module):
    """Logits times max(1, log n / log train_length), n the number of tokens up to the query (Su 2021; Chiang 2022)."""

    def __init__(self, heads: int, train_length: int):
        super().__init__()
        self.train_length = train_length

    def forward(self, n: Tensor) -> Tensor:
        """(…,Q) tokens read to factors (…,1,Q,1), float32."""
        return (n.float().log() / math.log(max(2, self.train_length))).clamp(min=1.0).unsqueeze(-1).unsqueeze(-3)


class SSMax(nn.Module):
    """Logits times s_h · log n, s_h learned per head (Nakanishi 2025, arXiv:2501.19399); 1 at the training length."""

    def __init__(self, heads: int, train_length: int):
        super().__init__()
        self.s = nn.Parameter(torch.full((heads,), 1 / math.log(max(2, train_length))))

    def forward(self, n: Tensor) -> Tensor:
        """(…,Q) tokens read to factors (…,H,Q,1), float32."""
        n = n.clamp(min=1)  # padding has read nothing, and must not become NaN: 0 x NaN is what others would see of it
        return self.s.float().view(-1, 1, 1) * n.float().log().unsqueeze(-1).unsqueeze(-3)
