"""DroPE: the positions are dropped after training (Gelberg et al. 2025, arXiv:2512.12167)."""

from lengthlab.schemes.extensions.base import Extension
from lengthlab.schemes.nope import NoPE


class DroPE(Extension):
    """Reads with NoPE what was trained with any scheme, at every length, the training length included.

    The paper recalibrates: it trains on for a short while at the original length after the drop. Without that, as here,
    a model is read that never saw text without positions: a control, not the paper's result.
    """

    def wrap(self, scheme, length):
        """NoPE."""
        return NoPE(scheme.dims)
