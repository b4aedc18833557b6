"""What the README says is so: its example scheme is trained, its table is whole, its commands are understood."""

import re
import shlex
from pathlib import Path

import pytest
import torch

from lengthlab.commands import compose
from lengthlab.commands.main import COMMANDS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """The first code block of a language, without its indentation."""
    lines = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL).group(1).splitlines()
    return "\n".join(line.removeprefix("   ") for line in lines).rstrip() + "\n"


def test_the_example_scheme_is_one_file_and_one_yaml(lengthlab, toy, tmp_path):
    (tmp_path / "mine/scheme").mkdir(parents=True)
    (tmp_path / "mine/mine.py").write_text(block("python"))
    yaml = block("yaml").replace("lengthlab.schemes.mine.Mine", "mine.Mine")
    (tmp_path / "mine/scheme/mine.yaml").write_text(yaml)
    words = ["scheme=mine", *toy, f"results={tmp_path / 'r'}", "study=s", "--config-dir", str(tmp_path / "mine")]
    assert lengthlab("train", *words).code == 0
    assert len(list(tmp_path.glob("r/s/mine-*/eval/*.json"))) == 6


def test_the_example_is_defined_on_both_sides():
    """The contract tests, which a copy inside the package meets, look at keys after the query too."""
    space = {}
    exec(block("python"), space)
    from lengthlab.schemes import Dims

    scheme = space["Mine"](Dims(width=32, heads=4, head_size=8, layers=2, train_length=64, horizon=64))
    pos = torch.arange(32)
    assert torch.isfinite(scheme.bias(pos, pos)).all()


@pytest.mark.parametrize("group", ["scheme", "extension", "positions"])
def test_every_option_is_named(group):
    for path in (ROOT / "conf" / group).glob("*.yaml"):
        assert re.search(rf"\b{path.stem}\b", README), path.stem


def test_every_command_is_shown_and_understood():
    shown = [shlex.split(line, comments=True) for line in README.splitlines() if line.startswith("lengthlab ")]
    assert {words[1] for words in shown} == set(COMMANDS)
    for _, command, *words in shown:
        name = "config" if command == "train" else command
        assert compose.jobs_of(compose.parse(name, words)) or "--help" in words
