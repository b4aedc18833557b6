"""Extensions that read a learned table past its end, by giving late positions the numbers of rows that exist."""

from torch import Tensor

from lengthlab.schemes.base import Scheme
from lengthlab.schemes.extensions.base import Extension
from lengthlab.schemes.learned import Learned


class Renumbering(Extension):
    """Position p gets the row `row(p)`; the rows that there are stay where they are. Lifts the horizon."""

    fits = (Learned,)

    def wrap(self, scheme, length):
        """The table, defined at every position."""
        return Renumbered(scheme, self)

    def row(self, pos: Tensor, rows: int) -> Tensor:
        """The row of each position, of a table that has `rows`; a position below 0 must stay there, to be refused."""
        raise TypeError(f"{type(self).__name__} must say which row: define row")


class Renumbered(Scheme):
    """A learned table whose rows are asked for under other numbers."""

    def __init__(self, trained: Learned, extension: Renumbering):
        super().__init__(trained.dims)
        self.trained, self.extension = trained, extension

    def embed(self, x, pos):
        """Add the row of each position. Raises ValueError below 0."""
        return self.trained.embed(x, self.extension.row(pos, self.trained.horizon))
