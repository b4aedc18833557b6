"""A small GPT that knows no scheme by name."""

from lengthlab.model.cache import Cache
from lengthlab.model.config import GPTConfig
from lengthlab.model.gpt import GPT
from lengthlab.model.positions import Positions, Sequential, generator_of

__all__ = ["GPT", "Cache", "GPTConfig", "Positions", "Sequential", "generator_of"]
