"""`lengthlab schemes`: a table of the schemes, read from conf/scheme/*.yaml and the classes that they name."""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import hydra
from omegaconf import DictConfig, OmegaConf

from lengthlab.commands import build, compose
from lengthlab.commands.tables import aligned

HOOKS = {"embed": "embed", "rotate": "rotate", "bias": "bias", "of_distance": "bias", "layer": "layer"}


@hydra.main(version_base="1.3", config_path=str(compose.CONF), config_name="schemes")
def _run(cfg: DictConfig) -> None:
    print(table(compose.plain(cfg), compose.config_dir_of_job()))


def main(words: list[str]) -> None:
    """Run the command."""
    line = compose.parse("schemes", words)
    compose.jobs_of(line)
    line.to_hydra()
    _run()


def table(config: dict, beside: Path | None = None) -> str:
    """One row per scheme: name, hook, learned parameters at this model's size, first line of its file."""
    rows = []
    positions = OmegaConf.to_container(OmegaConf.load(compose.CONF / "positions" / "sequential.yaml"))
    for chosen in _schemes(beside):
        job = {
            **config,
            "scheme": chosen,
            "positions": positions,
            "train": {"length": config["train_length"]},
        }
        scheme = build.scheme_of(job, beside)
        learned = sum(parameter.numel() for parameter in scheme.parameters())
        rows.append((chosen["name"], hooks_of(type(scheme)), f"{learned:,}", _first_line(type(scheme))))
    return aligned(("scheme", "hook", "learned", "what, and where from"), rows)


def hooks_of(scheme: type) -> str:
    """Where position enters: the hooks that a class, or one above it other than the interface, defines."""
    defined = {name for cls in scheme.__mro__ if not cls.__module__.endswith("schemes.base") for name in vars(cls)}
    return ", ".join(dict.fromkeys(hook for name, hook in HOOKS.items() if name in defined)) or "none"


def _schemes(beside: Path | None) -> Iterator[dict]:
    for folder in filter(None, (compose.CONF, beside)):
        for path in sorted((folder / "scheme").glob("*.yaml")):
            yield OmegaConf.to_container(OmegaConf.load(path))


def _first_line(cls: type) -> str:
    return (inspect.getdoc(sys.modules[cls.__module__]) or "").split("\n")[0]
