"""wandb: curves of training and of the sweep, in a mode that never asks for a key. The only file that imports it."""

import netrc
import os
import re
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from lengthlab.figures.labels import Curve, curves_of, protocols_of

QUIET = {"silent": True, "console": "off", "init_timeout": 20, "x_disable_stats": True, "disable_git": True}


class NoTracker:
    """Listens and does nothing."""

    def training(self, row: Mapping) -> None:
        """A row of the training loop."""

    def cells(self, summary: pd.DataFrame) -> None:
        """The run's curves: `summarise`'s rows."""

    def close(self, failed: bool = False) -> None:
        """The run is over."""


class Wandb(NoTracker):
    """One wandb run per run folder, with a readable id; all of a study lie in `<study>/wandb`."""

    def __init__(self, config: Mapping, folder: Path):
        import wandb

        study, name = config["study"], folder.name
        scheme, length = config["scheme"]["name"], config["train"]["length"]
        self.run = wandb.init(
            mode=mode_of(config["tracker"]["mode"]),
            project=config["tracker"]["project"],
            entity=config["tracker"]["entity"],
            dir=str(folder.parent),
            id=f"{study}-{name}",
            name=name,
            group=study,
            tags=[scheme, f"L{length}"],
            config=dict(config),
            resume="allow",
            settings=wandb.Settings(**QUIET),
        )
        self.run.define_metric("train/step")
        self.run.define_metric("train/*", step_metric="train/step")
        self.run.define_metric("eval/length")
        self.run.define_metric("eval/*", step_metric="eval/length")

    def training(self, row: Mapping) -> None:
        """Every column of the row as train/<column>."""
        self.run.log({f"train/{key}": value for key, value in row.items() if value is not None})

    def cells(self, summary: pd.DataFrame) -> None:
        """eval/<protocol>/ppl and ratio against eval/length; scalars in the summary (…/ppl@2048, …/ratio@16x)."""
        values: dict[int, dict] = {}
        for protocol in protocols_of(summary):
            for curve in curves_of(summary, protocol):
                key = f"eval/{_key(curve, protocol)}"
                for point in curve.points[curve.points.nll.notna()].itertuples():
                    times = point.length / point.train_length
                    values.setdefault(point.length, {}).update({f"{key}/ppl": point.ppl, f"{key}/ratio": point.ratio})
                    self.run.summary[f"{key}/ppl@{point.length}"] = point.ppl
                    self.run.summary[f"{key}/ratio@{times:g}x"] = point.ratio
        for length in sorted(values):
            self.run.log({"eval/length": int(length), **values[length]})

    def close(self, failed: bool = False) -> None:
        """Tell wandb how it ended."""
        self.run.finish(exit_code=int(failed))


def start(config: Mapping, folder: Path) -> NoTracker:
    """The tracker that `tracker.mode` asks for; none, with a line that says why, where wandb does not start."""
    if config["tracker"]["mode"] == "disabled":
        return NoTracker()
    try:
        return Wandb(config, folder)
    except Exception as error:  # a dashboard must never stop a study
        print(f"wandb did not start ({str(error).splitlines()[0]}); going on without it")
        return NoTracker()


def mode_of(mode: str) -> str:
    """`auto` is WANDB_MODE where it is set, else online where a key is configured, else offline."""
    if mode != "auto":
        return mode
    return os.environ.get("WANDB_MODE") or ("online" if _has_key() else "offline")


def _has_key() -> bool:
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai").partition("://")[2].split("/")[0]
    try:
        return netrc.netrc().authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def _key(curve: Curve, protocol: str) -> str:
    """`same_target`, or `yarn/same_target`, `reach-128/same_target` …: what tells a run's curves from each other."""
    told = re.sub(r"[^A-Za-z0-9.=]+", "-", curve.label.removeprefix(curve.scheme)).strip("-")
    return f"{told}/{protocol}" if told else protocol
