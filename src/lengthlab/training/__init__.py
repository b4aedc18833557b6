"""Train a model at one length."""

from lengthlab.training.batches import Batches
from lengthlab.training.checkpoint import CheckpointError, load, save
from lengthlab.training.fit import Diverged, TrainSettings, autocast, fit
from lengthlab.training.objective import MaskedToken, NextToken

__all__ = [
    "Batches", "CheckpointError", "Diverged", "MaskedToken", "NextToken", "TrainSettings", "autocast", "fit", "load",
    "save",
]  # fmt: skip
