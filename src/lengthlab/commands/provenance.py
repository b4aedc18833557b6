"""Where a run comes from: the command line, the commit, the versions, the device."""

import platform
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import lengthlab
from lengthlab.commands import build

PACKAGES = ("torch", "numpy", "pandas", "tokenizers", "datasets", "hydra-core")
_words: list[str] = []


def remember(command: str, words: Sequence[str]) -> None:
    """Keep the command line as typed, for the records of this process."""
    _words[:] = [command, *words]


def command() -> str:
    """The command line that this process runs, to be typed again."""
    return shlex.join(["lengthlab", *_words])


def record(config: Mapping) -> dict:
    """date, command, git, versions, device, dtype and threads, as run.json keeps them."""
    import torch

    device = build.device_of(config)
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command(),
        "git": git(),
        "versions": {"lengthlab": lengthlab.__version__, "python": platform.python_version()}
        | {name: version(name) for name in PACKAGES},
        "device": device_name(device),
        "dtype": build.dtype_name(config),
        "threads": torch.get_num_threads(),
    }


def git() -> dict:
    """Commit and whether files were changed; nulls where lengthlab does not run from a checkout of its own."""
    root = Path(lengthlab.__file__).parents[2]
    if not (root / ".git").exists():
        return {"commit": None, "dirty": None}
    try:
        commit = _ask(root, "rev-parse", "HEAD")
        return {"commit": commit, "dirty": bool(_ask(root, "status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return {"commit": None, "dirty": None}


def device_name(device) -> str:
    """The device and, of a GPU, its model."""
    import torch

    return f"{device} ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else str(device)


def _ask(root: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", str(root), *words], check=True, capture_output=True, text=True, timeout=10
    ).stdout.strip()
