"""What positions do to attention: the interface, and one file per scheme beside it."""

from lengthlab.schemes.base import Dims, DistanceBias, Scheme

__all__ = ["Dims", "DistanceBias", "Scheme"]
