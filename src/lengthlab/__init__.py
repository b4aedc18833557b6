"""lengthlab: train short, test long - a research harness for length extrapolation."""

__version__ = "0.1.0"


class UserError(ValueError):
    """What a user can mend: one line that names the key, the value and the way out."""
