"""A checkpoint comes back as it was, or says in one line why not; reading one executes nothing."""

import os
import pickle

import pytest
import torch
from torch import nn

from lengthlab import UserError
from lengthlab.training import CheckpointError, load, save


def model_of(width=8, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(width, 16), nn.LayerNorm(16), nn.Linear(16, width))


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "checkpoint.pt"
    save(path, model_of(), 250)
    return path


def refused(path, model=None):
    model = model or model_of(seed=1)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(CheckpointError) as refusal:
        load(path, model)
    assert "\n" not in str(refusal.value)
    assert str(path) in str(refusal.value)
    assert isinstance(refusal.value, UserError)
    return str(refusal.value), all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_round_trip(saved):
    model = model_of(seed=1)
    assert load(saved, model) == 250
    for key, value in model_of().state_dict().items():
        assert torch.equal(model.state_dict()[key], value)
    assert os.listdir(saved.parent) == ["checkpoint.pt"]


@pytest.mark.parametrize("kept", [0.0, 0.01, 0.2, 0.5, 0.9, 0.99, -1])
def test_truncated(saved, kept):
    data = saved.read_bytes()
    saved.write_bytes(data[: int(kept * len(data)) if kept >= 0 else -1])
    line, untouched = refused(saved)
    assert "truncated or damaged; delete the run's folder and train it again" in line
    assert untouched


def test_noise_in_the_header(saved):
    """The first bytes, and every byte of the pickle that says what the tensors are: an error of ours, or no harm."""
    data = saved.read_bytes()
    start = data.index(b"data.pkl")
    for place in [*range(0, 40), *range(start, start + 700, 7)]:
        noisy = bytearray(data)
        noisy[place] ^= 0xFF
        saved.write_bytes(noisy)
        try:
            load(saved, model_of(seed=1))
        except CheckpointError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize("content", [b"", b"\x80", b"hello\n", b"PK\x03\x04", b"\x00" * 1000, b'{"model": 1}'])
def test_not_a_checkpoint(tmp_path, content):
    (tmp_path / "checkpoint.pt").write_bytes(content)
    assert refused(tmp_path / "checkpoint.pt")[1]


@pytest.mark.parametrize("stored", [3, [], {}, {"model": {}}, {"model": 3, "step": 1}, {"model": {}, "step": "x"}])
def test_other_contents(tmp_path, stored):
    torch.save(stored, tmp_path / "checkpoint.pt")
    assert refused(tmp_path / "checkpoint.pt")[1]


def test_missing(tmp_path):
    assert "there is no checkpoint; train the run again" in refused(tmp_path / "checkpoint.pt")[0]


def test_of_another_model(saved):
    assert "belongs to another model: size mismatch for 0.weight" in refused(saved, model_of(width=4))[0]
    fewer = nn.Sequential(nn.Linear(8, 16))
    assert "belongs to another model: Unexpected key(s)" in refused(saved, fewer)[0]
    assert "belongs to another model: Missing key(s)" in refused(saved, nn.Sequential(*model_of(), nn.Linear(8, 8)))[0]


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.mark.parametrize("dump", [torch.save, lambda value, path: path.write_bytes(pickle.dumps(value))])
def test_nothing_is_executed(tmp_path, dump):
    mark = tmp_path / "executed"
    dump({"model": Payload(mark), "step": 1}, tmp_path / "checkpoint.pt")
    refused(tmp_path / "checkpoint.pt")
    assert not mark.exists()


def test_a_failed_save_leaves_the_old_checkpoint_and_nothing_else(saved, monkeypatch):
    old = saved.read_bytes()

    def full(value, file):
        file.write(b"half a check")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="No space left"):
        save(saved, model_of(seed=1), 300)
    assert saved.read_bytes() == old
    assert os.listdir(saved.parent) == ["checkpoint.pt"]


def test_readers_never_see_half_a_checkpoint(saved, monkeypatch):
    """While it is written, the name still stands for the old one; then for the new one."""
    write, old, seen = torch.save, saved.read_bytes(), []

    def watched(value, file):
        write(value, file)
        seen.append(saved.read_bytes())
        assert file.name != str(saved)

    monkeypatch.setattr(torch, "save", watched)
    save(saved, model_of(seed=1), 300)
    assert seen == [old]
    assert load(saved, model_of()) == 300
