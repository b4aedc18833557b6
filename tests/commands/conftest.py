"""Run `lengthlab` in this process, as its console script would, and keep one finished smoke study for all tests."""

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from lengthlab.commands.main import main

TOY = (
    "data=tiny", "tracker=none", "model.layers=1", "model.width=16", "model.heads=2", "train.length=16",
    "train.steps=3", "train.tokens_per_step=64", "train.validation_tokens=64", "eval.lengths=[16,32]",
    "eval.tokens_per_document=64",
)  # fmt: skip


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def lengthlab(monkeypatch, capsys) -> Callable[..., Outcome]:
    """Call with the words after `lengthlab`; gives exit code, stdout and stderr."""

    def call(*words: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["lengthlab", *words])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture
def toy() -> tuple[str, ...]:
    """The overrides of the smallest run that goes through every room."""
    return TOY


@pytest.fixture(scope="session")
def smoke(tmp_path_factory):
    """The folder of the study that `experiment=smoke` makes."""
    results = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["lengthlab", "train", "experiment=smoke", f"results={results}"])
        main()
    return results / "smoke"
