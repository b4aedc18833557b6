"""What positions do to attention: the interface, and one file per scheme beside it."""

from lengthlab.schemes.base import ContentScheme, Dims, DistanceBias, Kept, Scheme

__all__ = ["ContentScheme", "Dims", "DistanceBias", "Kept", "Scheme"]
