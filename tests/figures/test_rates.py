"""A ladder of learning rates: each scheme's best, and the one that is best for all together."""

from lengthlab.figures.rates import rates_of


def run(scheme: str, lr: float, loss: float | None, length: int = 64, status: str = "done", **train) -> dict:
    config = {"scheme": {"name": scheme}, "train": {"length": length, "lr": lr, **train}}
    return {"config": config, "status": status, "val_loss": loss}


def test_one_rate_is_no_ladder():
    assert rates_of([run("alibi", 1e-3, 4.0), run("rope", 3e-3, 4.1)]) == []


def test_the_best_of_each_stands_beside_the_common_one():
    runs = [
        run("alibi", 1e-3, 4.0), run("alibi", 3e-3, 4.2), run("alibi", 1e-2, 5.0),
        run("rope", 1e-3, 4.9), run("rope", 3e-3, 4.3), run("rope", 1e-2, 4.2),
    ]  # fmt: skip
    alibi, rope = rates_of(runs)
    assert (alibi["scheme"], alibi["best"], rope["best"]) == ("alibi", 1e-3, 1e-2)
    assert alibi["common"] == rope["common"] == 3e-3  # 8.5 together, against 8.9 and 9.2
    assert list(alibi["losses"].items()) == [(1e-3, 4.0), (3e-3, 4.2), (1e-2, 5.0)]


def test_seeds_are_averaged_and_a_diverged_seed_rules_its_rate_out():
    runs = [run("alibi", 1e-3, 4.0), run("alibi", 1e-3, 5.0), run("alibi", 1e-2, 3.0)]
    runs.append(run("alibi", 1e-2, None, status="diverged"))
    (row,) = rates_of(runs)
    assert row["losses"] == {1e-3: 4.5, 1e-2: None} and row["best"] == row["common"] == 1e-3


def test_training_lengths_have_ladders_of_their_own():
    runs = [run("alibi", lr, loss, n) for n in (64, 256) for lr, loss in ((1e-3, 4.0 + n), (3e-3, 4.1 - n))]
    assert [(row["train_length"], row["best"]) for row in rates_of(runs)] == [(64, 3e-3), (256, 3e-3)]


def test_runs_that_differ_in_more_than_the_rate_are_no_ladder():
    assert rates_of([run("rope", 1e-3, 4.0, steps=200), run("rope", 3e-3, 5.0, steps=20)]) == []


def test_runs_that_were_not_validated_are_left_out():
    assert rates_of([run("rope", 1e-3, None), run("rope", 3e-3, None)]) == []
