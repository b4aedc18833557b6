"""Train a model at one length."""

from lengthlab.training.batches import Batches
from lengthlab.training.checkpoint import CheckpointError, load, save
from lengthlab.training.fit import Diverged, TrainSettings, autocast, fit

__all__ = ["Batches", "CheckpointError", "Diverged", "TrainSettings", "autocast", "fit", "load", "save"]
