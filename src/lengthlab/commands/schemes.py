"""`lengthlab schemes`: a table of the schemes, read from conf/scheme/*.yaml and the classes that they name."""

import inspect
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import hydra
from omegaconf import DictConfig, OmegaConf

from lengthlab.commands import build, compose, naming
from lengthlab.commands.compose import Refusal
from lengthlab.commands.tables import aligned

HOOKS = {
    "embed": "embed", "rotate": "rotate", "bias": "bias", "of_distance": "bias", "scores": "scores", "layer": "layer",
}  # fmt: skip
INTERFACE = ("lengthlab.schemes.base", "lengthlab.schemes.content", "torch.nn.modules.module")
REPEATS, TOKENS, VOCAB = 7, 2048, 512  # training steps timed, about so many tokens each, of so small a vocabulary

naming.register()


@hydra.main(version_base="1.3", config_path=str(compose.CONF), config_name="schemes")
def _run(cfg: DictConfig) -> None:
    print(table(compose.plain(cfg), compose.config_dir_of_job()))


def main(words: list[str]) -> None:
    """Run the command."""
    line = compose.parse("schemes", words)
    for job in compose.jobs_of(line):
        if not isinstance(job.config.measure, bool):
            raise Refusal(f"measure={job.config.measure}: must be true or false")
        length = job.config.train_length
        if isinstance(length, bool) or not isinstance(length, int) or length < 1:
            raise Refusal(f"train_length={length}: must be an integer of at least 1")
        if not line.only_shows:
            for one in _jobs(compose.plain(job.config), line.config_dir):
                build.scheme_of(one, line.config_dir)  # refuses, before Hydra runs, what a scheme cannot be made of
    line.to_hydra()
    _run()


def table(config: dict, beside: Path | None = None) -> str:
    """One row per scheme: name, hook, learned parameters at this model's size, first line of its file.

    `measure` adds training tokens/s, and their ratio to NoPE's.
    """
    header = ("scheme", "hook", "learned", *(("tokens/s", "x nope") if config["measure"] else ()))
    rows, nope = [], {"name": "nope", "_target_": "lengthlab.schemes.nope.NoPE"}
    for job in _jobs(config, beside):
        scheme = build.scheme_of(job, beside)
        learned = sum(parameter.numel() for parameter in scheme.parameters())
        speed = _speed(job, {**job, "scheme": nope}, beside) if config["measure"] else ()
        rows.append((job["scheme"]["name"], hooks_of(scheme), f"{learned:,}", *speed, _first_line(type(scheme))))
    return aligned((*header, "what, and where from"), rows)


def _speed(job: dict, plain: dict, beside: Path | None) -> tuple[str, str]:
    """Training tokens/s, and over those of `plain`: steps of the two in turn, the median of each and of their ratio."""
    from lengthlab.training.malloc import keep_memory

    keep_memory()
    both = _steps(job, beside), _steps(plain, beside)
    times = [[_seconds(steps) for steps in both] for _ in range(REPEATS + 1)][1:]  # the first step warms up
    tokens = _batch(job) * job["train"]["length"] / statistics.median(own for own, _ in times)
    return f"{tokens:,.0f}", f"{statistics.median(other / own for own, other in times):.2f}"


def _steps(job: dict, beside: Path | None) -> Iterator[dict]:
    """A training on noise, a step at a time."""
    import numpy as np
    import torch

    from lengthlab.training import TrainSettings, fit

    length, batch = job["train"]["length"], _batch(job)
    settings = TrainSettings(
        length, steps=REPEATS + 1, tokens_per_step=batch * length, lr=1e-3, warmup=0.0, floor=1.0, weight_decay=0.1,
        betas=(0.9, 0.95), clip=1.0, validate_every=0, validation_tokens=1,
    )  # fmt: skip
    noise = np.random.default_rng(0).integers(VOCAB, size=(REPEATS + 1, batch, length + 1))
    model = build.model_of({**job, "seed": 0}, VOCAB, beside)
    return fit(model, build.positions_of(job), iter(noise), [], settings, 0, torch.float32)


def _batch(job: dict) -> int:
    return max(1, TOKENS // job["train"]["length"])


def _seconds(steps: Iterator[dict]) -> float:
    start = time.perf_counter()
    next(steps)
    return time.perf_counter() - start


def hooks_of(scheme) -> str:
    """Where position enters: the hooks that a scheme, or one of its layers', defines beyond the interface."""
    types = {type(one) for one in (scheme, *(scheme.layer(index) for index in range(scheme.dims.layers)))}
    above = {cls for one in types for cls in one.__mro__ if cls.__module__ not in INTERFACE}
    defined = {name for cls in above for name in vars(cls)}
    return ", ".join(dict.fromkeys(hook for name, hook in HOOKS.items() if name in defined)) or "none"


def _jobs(config: dict, beside: Path | None) -> Iterator[dict]:
    """The config of a model with each scheme there is."""
    positions = OmegaConf.to_container(OmegaConf.load(compose.CONF / "positions" / "sequential.yaml"))
    for folder in filter(None, (compose.CONF, beside)):
        for path in sorted((folder / "scheme").glob("*.yaml")):
            chosen = OmegaConf.to_container(OmegaConf.load(path))
            yield {**config, "scheme": chosen, "positions": positions, "train": {"length": config["train_length"]}}


def _first_line(cls: type) -> str:
    return (inspect.getdoc(sys.modules[cls.__module__]) or "").split("\n")[0]
