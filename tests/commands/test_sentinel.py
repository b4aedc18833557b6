"""`lengthlab train` refuses, before any folder is made, a scheme that does not act as it is configured."""

import pytest

FLAT = """
import torch
from lengthlab.schemes import DistanceBias

class Flat(DistanceBias):
    def __init__(self, dims, slope: float = 0.0):
        super().__init__(dims)
        self.slope = slope

    def of_distance(self, distance):
        return -self.slope * distance.expand(self.dims.heads, *distance.shape)
"""


@pytest.fixture
def words(tmp_path, toy):
    folder = tmp_path / "mine"
    (folder / "scheme").mkdir(parents=True)
    (folder / "flat.py").write_text(FLAT)
    (folder / "scheme" / "flat.yaml").write_text("name: flat\n_target_: flat.Flat\nslope: 0.0\n")
    return (*toy, f"results={tmp_path / 'r'}", "study=s", "--config-dir", str(folder))


@pytest.mark.parametrize("command", ["train", "audit"])
def test_a_scheme_that_does_nothing_is_refused_in_one_line(lengthlab, tmp_path, words, command):
    code, out, err = lengthlab(command, "scheme=flat", *words)
    assert (code, out) == (2, "") and len(err.splitlines()) == 1
    assert err.startswith("lengthlab: scheme=flat: it is configured and changes nothing")
    assert not (tmp_path / "r").exists()


def test_one_such_job_stops_a_sweep_before_it_begins(lengthlab, tmp_path, words):
    code, _, err = lengthlab("train", "-m", "scheme=alibi,flat", *words)
    assert code == 2 and "scheme=flat" in err and not (tmp_path / "r").exists()


def test_with_a_slope_the_same_scheme_is_trained(lengthlab, words):
    assert lengthlab("train", "scheme=flat", "scheme.slope=0.5", *words).code == 0
