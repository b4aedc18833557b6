"""A run's name, as Hydra asks for it: `${lengthlab.run:}` in a config is the folder of that job."""

import atexit
from functools import cache
from tempfile import TemporaryDirectory

from omegaconf import DictConfig, OmegaConf

from lengthlab.commands import build
from lengthlab.commands.compose import config_dir_of, plain
from lengthlab.study import run_name

TRAINING = ("scheme", "positions", "model", "data", "train", "seed", "device", "dtype")


def register() -> None:
    """Make the resolver known; to be called where a module with a Hydra main is imported, also in a worker."""
    OmegaConf.register_new_resolver("lengthlab.run", _run, replace=True)
    OmegaConf.register_new_resolver("lengthlab.scratch", _scratch, replace=True)


def _run(*, _root_: DictConfig) -> str:
    config = {key: plain_value(_root_, key) for key in TRAINING}
    return run_name(build.training_of(config, config_dir_of(_root_.hydra)))


@cache
def _scratch() -> str:
    """A folder that goes with this process: Hydra insists on writing down a sweep that has no folder of its own."""
    folder = TemporaryDirectory(prefix="lengthlab-")
    atexit.register(folder.cleanup)
    return folder.name


def plain_value(config: DictConfig, key: str):
    """One key of a config as plain data."""
    value = config[key]
    return plain(value) if isinstance(value, DictConfig) else value
