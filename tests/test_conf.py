"""Every option of every group composes, and every experiment runs: what is in conf/ works."""

from pathlib import Path

import pytest

from lengthlab.commands import compose

CONF = Path(__file__).parents[1] / "conf"
GROUPS = {
    folder.name: sorted(path.stem for path in folder.glob("*.yaml") if path.stem != "local")
    for folder in sorted(CONF.iterdir())
    if folder.is_dir() and folder.name not in ("experiment", "hydra")
}
# One option of every group at a time, until each has had its turn.
CHOICES = [
    {group: names[turn % len(names)] for group, names in GROUPS.items()}
    for turn in range(max(map(len, GROUPS.values())))
]
EXPERIMENTS = sorted(path.stem for path in CONF.glob("experiment/*.yaml"))


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: "-".join(choice.values()))
def test_every_option_composes_and_is_named_as_its_file(choice):
    (job,) = compose.jobs_of(compose.parse("config", [f"{group}={name}" for group, name in choice.items()]))
    config = compose.plain(job.config)
    assert all(config[group].get("name", name) == name for group, name in choice.items())


def test_audit_has_every_key_of_train():
    """So that a run's command line can be audited with its first word changed."""
    keys = [compose.keys_of(compose.jobs_of(compose.parse(name, []))[0].config) for name in ("config", "audit")]
    assert keys[0] == keys[1]


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_an_experiment_opens_with_its_own_command(experiment):
    lines = (CONF / "experiment" / f"{experiment}.yaml").read_text().splitlines()
    assert lines[:2] == ["# @package _global_", f"# lengthlab train experiment={experiment}"]


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_sweeps_its_jobs_into_a_study_of_its_name(experiment):
    jobs = compose.jobs_of(compose.parse("config", [f"experiment={experiment}"]))
    assert len(jobs) > 1
    assert {job.config.study for job in jobs} == {experiment}
    one = compose.jobs_of(compose.parse("config", [f"experiment={experiment}", "scheme=rope"]))
    assert {job.config.scheme.name for job in one} == {"rope"}  # the command line wins over the file


def test_the_quickstart_is_what_the_readme_says():
    jobs = compose.jobs_of(compose.parse("config", ["experiment=quickstart"]))
    assert [job.config.scheme.name for job in jobs] == ["sinusoidal", "learned", "rope", "alibi", "nope"]
    config = compose.plain(jobs[0].config)
    assert config["data"]["name"] == "library" and config["data"]["tokenizer"] == {"kind": "bpe", "vocab": 2048}
    assert config["train"]["length"] == 64 and config["eval"]["lengths"] == [64, 128, 256, 512, 1024, 2048]
    assert config["train"]["steps"] * config["train"]["tokens_per_step"] == pytest.approx(1e6, rel=0.1)
