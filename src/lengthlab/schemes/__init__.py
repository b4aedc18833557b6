"""What positions do to attention: the interface, and one file per scheme beside it."""

from lengthlab.schemes.base import Dims, DistanceBias, Scheme
from lengthlab.schemes.content import ContentScheme, Kept

__all__ = ["ContentScheme", "Dims", "DistanceBias", "Kept", "Scheme"]
