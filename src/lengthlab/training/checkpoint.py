"""The weights of a run in one file of plain tensors, written whole or not at all; loading executes nothing."""

import os
from pathlib import Path

import torch
from torch import nn

from lengthlab import UserError


class CheckpointError(UserError):
    """A checkpoint that is not there, is damaged, or belongs to another model. One clear line."""


def save(path: Path, model: nn.Module, step: int) -> None:
    """Write weights and step to a temporary name, flush it to disk, and rename."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            torch.save({"model": model.state_dict(), "step": step}, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def load(path: Path, model: nn.Module) -> int:
    """Put the stored weights into `model` and return the step. Raises CheckpointError."""
    if not path.exists():
        raise CheckpointError(f"{path}: there is no checkpoint; train the run again")
    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
        weights, step = dict(stored["model"]), int(stored["step"])
    except Exception as error:  # torch and pickle raise a dozen kinds, by where the damage is
        raise CheckpointError(
            f"{path}: the checkpoint is truncated or damaged; delete the run's folder and train it again"
        ) from error
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(
            f"{path}: the checkpoint belongs to another model: {str(error).splitlines()[1].strip()}"
        ) from error
    return step
