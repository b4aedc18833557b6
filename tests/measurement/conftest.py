"""A study in memory: `collect`'s frame without a run."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="session")
def frame():
    """Makes the frame of some cells."""
    return _frame


def _frame(*cells):
    """One row per unit of each cell: `mean` nats per target, `targets`, and its `document` and `part` (0, 1, …)."""
    rows = []
    for number, cell in enumerate(cells):
        cell = {
            "scheme": "alibi", "variant": "", "positions": "sequential", "extension": "none", "train_length": 64,
            "data": "tiny", "split": "test", "tokens_per_document": None, "protocol": "nonoverlapping", "stride": None,
            "reach": None, "block": None, "documents": "separate", "last": None,
            "eval_dtype": "float32", "draws": None, "mask_seed": None,
            "length": 64, "seed": 0, "status": "done",
            "reason": None, "target_hash": "aa", "mean": 3.0, "targets": [100], **cell,
        }  # fmt: skip
        cell.setdefault("run", f"{cell['scheme']}-{cell['variant']}-s{cell['seed']}")
        cell.setdefault("cell", f"cell{number}")
        means, targets = np.broadcast_arrays(cell.pop("mean"), cell.pop("targets"))
        documents = np.broadcast_to(cell.pop("document", "d"), len(means))
        parts = cell.pop("part", range(len(means)))
        for mean, count, document, part in zip(means, targets, documents, parts, strict=True):
            unit = {"document": document, "part": part, "targets": count, "nll": mean * count, "bytes": 4 * count}
            rows.append({**cell, **unit})
    return pd.DataFrame(rows)
