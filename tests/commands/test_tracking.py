"""wandb offline, read back with wandb's own reader: what a user's dashboard will show."""

import json
import subprocess
import sys

import pytest

from lengthlab.commands.tracking import mode_of


def test_an_offline_run_has_its_curves_and_scalars(lengthlab, tmp_path, toy):
    words = [word for word in toy if word != "tracker=none"]
    assert lengthlab("train", "scheme=rope", *words, f"results={tmp_path}", "study=s").code == 0
    (folder,) = tmp_path.glob("s/wandb/offline-run-*")
    name = next(tmp_path.glob("s/rope-*")).name
    assert folder.name.endswith(f"s-{name}")
    (log,) = folder.glob("*.wandb")
    reader = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(log)]
    done = subprocess.run(reader, capture_output=True, text=True, check=True)
    text = done.stdout
    for key in ("train/step", "train/loss", "train/val_loss", "eval/length", "eval/same_target/ppl@32",
                "eval/nonoverlapping/ratio@2x", "eval/sliding/ppl"):  # fmt: skip
        assert key in text, key
    assert name in text


def test_none_leaves_no_wandb_folder(smoke):
    assert not (smoke / "wandb").exists()


@pytest.mark.parametrize(
    ("variables", "mode"),
    [
        ({}, "offline"),
        ({"WANDB_API_KEY": "k" * 40}, "online"),
        ({"WANDB_MODE": "offline", "WANDB_API_KEY": "k"}, "offline"),
    ],
)
def test_auto_is_online_only_where_a_key_is_configured(monkeypatch, tmp_path, variables, mode):
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert mode_of("auto") == mode
    (tmp_path / ".netrc").write_text("machine api.wandb.ai login user password secret\n")
    (tmp_path / ".netrc").chmod(0o600)
    assert mode_of("auto") == ("online" if not variables else mode)
    assert mode_of("disabled") == "disabled"


def test_the_key_is_written_nowhere(lengthlab, tmp_path, monkeypatch, toy):
    key = "0123456789abcdef0123456789abcdef01234567"
    monkeypatch.setenv("WANDB_API_KEY", key)
    words = [word for word in toy if word != "tracker=none"]
    assert lengthlab("train", "scheme=nope", *words, f"results={tmp_path}", "study=s").code == 0
    assert list(tmp_path.glob("s/wandb/*"))
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert key.encode() not in path.read_bytes(), path


def test_a_tracker_that_does_not_start_stops_nothing(lengthlab, tmp_path, monkeypatch, toy):
    import wandb

    def fails(**_):
        raise wandb.errors.CommError("no network today")

    monkeypatch.setattr(wandb, "init", fails)
    words = [word for word in toy if word != "tracker=none"]
    code, out, _ = lengthlab("train", "scheme=nope", *words, f"results={tmp_path}", "study=s")
    assert code == 0 and "no network today" in out
    assert json.loads(next(tmp_path.glob("s/*/run.json")).read_text())["status"] == "done"
