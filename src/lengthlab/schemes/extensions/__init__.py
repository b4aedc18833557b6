"""What is changed at test time: the interface, and one file per extension beside it."""

from lengthlab.schemes.extensions.base import Extension

__all__ = ["Extension"]
