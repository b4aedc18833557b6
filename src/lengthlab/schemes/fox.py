"""FoX: a forget gate per token and head (Lin et al. 2025, arXiv:2503.02130); Cable's bias is of the same family."""

import torch
import torch.nn.functional as F
from torch import nn

from lengthlab.schemes.base import Dims
from lengthlab.schemes.content import ContentScheme


class ForgetGate(ContentScheme):
    """One layer of `FoX` or `Cable`: log f_t = logsigmoid(sign x (W x_t + b)), a number per head."""

    def __init__(self, dims: Dims, sign: int):
        super().__init__(dims)
        self.sign = sign
        self.gate = nn.Linear(dims.width, dims.heads)

    def keep(self, x, last):
        """(B,Q,H) float32: the sum of log f over all tokens up to each."""
        with torch.autocast(x.device.type, enabled=False):
            z = F.linear(x.float(), self.gate.weight.float(), self.gate.bias.float())
            total = F.logsigmoid(self.sign * z).cumsum(dim=1)
        return total if last is None else last + total

    def scores(self, s, q, k, kept, q_pos, k_pos, visible):
        """Add the log gates of what was read after the key, up to the query: the difference of two sums."""
        q_total, k_total = kept.q.transpose(1, 2).unsqueeze(-1), kept.k.transpose(1, 2).unsqueeze(-2)
        return s + (q_total - k_total)


class FoX(ContentScheme):
    """bias_ij = sum over t = j + 1 … i of log f_t, f_t = sigmoid(W x_t + b), x the normed input of the layer.

    Without other positions, the paper's default. Learned: (D + 1) x H per layer; W N(0, 0.02²) and b = `bias` 0 as in
    the official code (half is forgotten at every token at the start); x-transformers starts at b = 5.
    Positions are not used: the gates count tokens, evicted ones too. The sums are float32, so after n tokens that
    forget a each, a bias is exact to about 6e-8 n a.
    """

    causal_only = True

    def __init__(self, dims: Dims, bias: float = 0.0, std: float = 0.02):
        super().__init__(dims)
        self.layers = nn.ModuleList(ForgetGate(dims, sign=1) for _ in range(dims.layers))
        for layer in self.layers:
            nn.init.normal_(layer.gate.weight, std=std)
            nn.init.constant_(layer.gate.bias, bias)

    def layer(self, index):
        """The gate of layer `index`."""
        return self.layers[index]
