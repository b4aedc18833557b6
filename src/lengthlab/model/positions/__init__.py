"""Which number each token carries, one file per way; what the numbers do is the scheme's."""

from lengthlab.model.positions.base import Positions, generator_of
from lengthlab.model.positions.interpolated import Interpolated
from lengthlab.model.positions.offset import Offset
from lengthlab.model.positions.pose import PoSE
from lengthlab.model.positions.randomized import Randomized
from lengthlab.model.positions.sequential import Sequential

__all__ = ["Interpolated", "Offset", "PoSE", "Positions", "Randomized", "Sequential", "generator_of"]
