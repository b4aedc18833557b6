"""No extension: the scheme is read as it was trained."""

from lengthlab.schemes.extensions.base import Extension


class Unchanged(Extension):
    """Changes nothing; fits every scheme."""
