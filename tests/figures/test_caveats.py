"""Schemes that were trained differently are told, and only where the difference is not the same for all."""

import pandas as pd

from lengthlab.figures.caveats import caveats


def trained(scheme, length=64, seed=0, model=None, corpus="a" * 64, status="done", **train):
    """A record with what decided its weights."""
    options = {"scheme": {"name": scheme, "base": len(scheme)}, "positions": {"name": scheme}, "seed": seed}
    options |= {"model": {"name": "nano", "layers": 4, "kv_heads": None} | (model or {}), "corpus": corpus}
    options |= {"train": {"length": length, "steps": 200, "lr": 0.003, "betas": [0.9, 0.95], **train}}
    return {"run": f"{scheme}-s{seed}", "training": options, "status": status}


def differences(*runs):
    lines = caveats(pd.DataFrame(), pd.DataFrame(), list(runs))
    assert all(line.endswith(": their curves differ by more than the scheme.") for line in lines)
    return [line.removeprefix("Trained differently: ").partition(": ")[0] for line in lines]


def test_schemes_trained_differently_are_told():
    short = trained("rope", steps=5, model={"layers": 1})
    assert differences(trained("alibi"), trained("nope"), short) == [
        "model.layers is 4 (alibi, nope) and 1 (rope)",
        "train.steps is 200 (alibi, nope) and 5 (rope)",
    ]
    assert differences(trained("alibi"), trained("rope", steps=100), trained("t5", steps=5)) == [
        "train.steps is 200 (alibi), 100 (rope) and 5 (t5)"
    ]
    small = trained("rope", model={"name": "small", "layers": 12, "kv_heads": 2})
    assert differences(trained("alibi"), small) == ["model.name is nano (alibi) and small (rope)"]
    assert differences(trained("alibi"), trained("rope", model={"kv_heads": 2})) == [
        "model.kv_heads is null (alibi) and 2 (rope)"
    ]
    assert differences(trained("alibi"), trained("rope", corpus="b" * 64)) == [
        "corpus is aaaaaa (alibi) and bbbbbb (rope)"
    ]


def test_what_is_fair_is_not_told():
    rates = [trained(scheme, lr=lr) for scheme in ("alibi", "rope") for lr in (0.001, 0.003)]
    assert differences(*rates) == []  # a ladder that both climb
    assert differences(*rates[:3]) == ["train.lr is 0.001 or 0.003 (alibi) and 0.001 (rope)"]
    assert differences(*rates[:2]) == []  # one scheme
    assert differences(trained("alibi"), trained("rope", length=128, seed=1), trained("t5", steps=200.0)) == []
    assert differences(trained("alibi", validate_every=50), trained("rope", validate_every=20)) == []
    assert differences(trained("alibi"), {"run": "r", "status": "done", "training": None}) == []
    failed = [trained("alibi"), trained("rope", steps=5, status="failed")]  # it has no curve to compare
    assert not any("Trained" in line for line in caveats(pd.DataFrame(), pd.DataFrame(), failed))
