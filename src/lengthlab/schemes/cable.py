"""Cable: a learned penalty per token, summed from key to query (Veisi et al. 2025, arXiv:2503.08067, section 3)."""

from torch import nn

from lengthlab.schemes.base import Dims
from lengthlab.schemes.content import ContentScheme
from lengthlab.schemes.fox import ForgetGate


class Cable(ContentScheme):
    """bias_ij = -sum over t = j + 1 … i of softplus(W x_t + b), x the normed input of the layer.

    -softplus(z) = logsigmoid(-z): FoX's gate with its sign turned, so the two share a layer and differ in their start.
    Learned: (D + 1) x H per layer, from torch's start of a linear map, as in the authors' code. Positions are not used.
    """

    causal_only = True

    def __init__(self, dims: Dims):
        super().__init__(dims)
        self.layers = nn.ModuleList(ForgetGate(dims, sign=-1) for _ in range(dims.layers))

    def layer(self, index):
        """The penalty of layer `index`."""
        return self.layers[index]
