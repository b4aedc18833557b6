"""Every notebook runs from its first cell to its last, on the smoke study."""

import json
from pathlib import Path

import matplotlib
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, smoke, monkeypatch):
    matplotlib.use("Agg")
    monkeypatch.chdir(path.parent)
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in cells)  # kept without outputs: they would be stale, and large
    space = {}
    for cell in cells:
        exec(compile("".join(cell["source"]), f"{path.name}[{cell['id']}]", "exec"), space)
        if "parameters" in cell["metadata"].get("tags", []):
            space.update({"STUDY": "smoke", "RESULTS": smoke.parent} if "STUDY" in space else {})


def test_there_are_notebooks():
    assert len(NOTEBOOKS) >= 2
