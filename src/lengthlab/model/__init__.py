"""A small GPT that knows no scheme by name."""

from lengthlab.model.cache import Cache
from lengthlab.model.gpt import GPT, GPTConfig
from lengthlab.model.positions import Sequential

__all__ = ["GPT", "Cache", "GPTConfig", "Sequential"]
