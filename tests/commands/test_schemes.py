"""`lengthlab schemes measure=true`: training speed beside the other columns, relative to NoPE in the same process."""

import pytest

SMALL = ("model.layers=1", "model.width=16", "model.heads=2", "train_length=16")


def test_speed_is_measured_for_every_scheme(lengthlab, monkeypatch):
    monkeypatch.setattr("lengthlab.commands.schemes.TOKENS", 64)
    code, out, _ = lengthlab("schemes", "measure=true", *SMALL)
    plain = lengthlab("schemes", *SMALL).out.splitlines()
    header, *rows = out.splitlines()
    assert code == 0 and "tokens/s" in header and "x nope" in header and "tokens/s" not in plain[0]
    assert [row.split()[0] for row in rows] == [row.split()[0] for row in plain[1:]]
    at, end = header.index("x nope"), header.index("x nope") + len("x nope")
    assert all(0.01 < float(row[at:end]) < 10 for row in rows)


def test_more_work_is_less_speed(lengthlab, monkeypatch):
    """A clock that a step of NoPE moves by 1 s and any other by 4 s."""
    clock = {"now": 0.0}

    def steps(job, beside):
        while True:
            clock["now"] += 1.0 if job["scheme"]["name"] == "nope" else 4.0
            yield {}

    monkeypatch.setattr("lengthlab.commands.schemes._steps", steps)
    monkeypatch.setattr("lengthlab.commands.schemes.time.perf_counter", lambda: clock["now"])
    rows = {line.split()[0]: line.split() for line in lengthlab("schemes", "measure=true").out.splitlines()}
    assert rows["alibi"][3:5] == ["512", "0.25"] and rows["nope"][3:5] == ["2,048", "1.00"]  # 2,048 tokens a step


@pytest.mark.parametrize("value", ["1", "yes", "often"])
def test_measure_is_true_or_false(lengthlab, value):
    code, _, err = lengthlab("schemes", f"measure={value}")
    assert code == 2 and err == f"lengthlab: measure={value}: must be true or false\n"
