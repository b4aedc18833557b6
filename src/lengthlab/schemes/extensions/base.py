"""The one interface of every extension: a test-time change to a trained scheme, without retraining."""

from lengthlab.schemes.base import Scheme


class Extension:
    """Wraps a trained scheme for reading cells of a given length. `Extension` itself changes nothing."""

    fits: tuple[type[Scheme], ...] = (Scheme,)
    """The schemes that it knows how to change; any other is refused by name before any compute."""
    causal_only: bool = False
    """It counts back from the query, and says nothing sensible of keys that come after it."""

    def wrap(self, scheme: Scheme, length: int) -> Scheme:
        """The scheme with which a cell of `length` tokens is read; `scheme` itself is left as it was."""
        return scheme
