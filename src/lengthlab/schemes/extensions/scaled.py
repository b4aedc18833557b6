"""Extensions that have a factor: how many times longer than the training's a text is."""

import math

from lengthlab.schemes.base import Scheme
from lengthlab.schemes.extensions.base import Extension


class Scaled(Extension):
    """Reads with a factor s of at least 1.

    `factor`: auto is max(1, L / train_length) with the cell's L, dynamic the same with the n of `extend(n)`, and a
    number is s itself. Raises ValueError where it is none of these.
    """

    def __init__(self, factor: float | str = "auto"):
        number = isinstance(factor, int | float) and not isinstance(factor, bool) and 1 <= factor < math.inf
        if not number and factor not in ("auto", "dynamic"):
            raise ValueError(f"factor={factor}: must be auto, dynamic, or a number of at least 1")
        self.factor = factor

    @property
    def length_dependent(self) -> bool:
        """Whether `at` looks at the number of tokens that are about to be read."""
        return self.factor == "dynamic"

    def wrap(self, scheme: Scheme, length: int) -> Scheme:
        """The scheme under this factor. Raises ValueError, one line, where the options do not suit the scheme."""
        return Extended(scheme, self, length)

    def at(self, scheme: Scheme, s: float, length: int) -> Scheme:
        """A changed copy that shares the parameters of `scheme`, for reading `length` tokens under the factor s."""
        raise TypeError(f"{type(self).__name__} must say what it changes: define at")


class Extended(Scheme):
    """A trained scheme under an extension, layer by layer; what the extension does not fit is left as it is."""

    def __init__(self, trained: Scheme, extension: Scaled, length: int):
        super().__init__(trained.dims)
        self.trained, self.extension, self.cell = trained, extension, length
        self.length_dependent = trained.length_dependent or extension.length_dependent
        self.extend(length)

    def extend(self, length):
        """Change the trained scheme anew, from what it was trained as."""
        self.reading, self.changed = length, {}
        self.horizon = self._changed(self.trained).horizon

    def embed(self, x, pos):
        """The changed scheme's."""
        return self._changed(self.trained).embed(x, pos)

    def rotate(self, q, k, q_pos, k_pos):
        """The changed scheme's."""
        return self._changed(self.trained).rotate(q, k, q_pos, k_pos)

    def bias(self, q_pos, k_pos):
        """The changed scheme's."""
        return self._changed(self.trained).bias(q_pos, k_pos)

    def layer(self, index):
        """The changed scheme of that layer, itself: what it is, the attention can ask it."""
        return self._changed(self.trained.layer(index))

    def _changed(self, scheme: Scheme) -> Scheme:
        if not isinstance(scheme, self.extension.fits):
            return scheme
        if scheme not in self.changed:
            self.changed[scheme] = self.extension.at(scheme, self._factor(), self.reading)
            self.changed[scheme].extend(self.reading)
        return self.changed[scheme]

    def _factor(self) -> float:
        lengths = {"auto": self.cell, "dynamic": self.reading}
        if self.extension.factor not in lengths:
            return float(self.extension.factor)
        return max(1.0, lengths[self.extension.factor] / self.dims.train_length)
