"""The dispatcher: flags anywhere, quick answers that load nothing heavy, commands that leave no folder behind."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "wandb", "datasets", "tokenizers", "transformers", "matplotlib")


@pytest.mark.parametrize(
    "words",
    [["--help"], ["train", "--help"], ["train", "--cfg", "job"], ["train", "scheme=rope", "--cfg", "job", "seed=3"],
     ["evaluate", "--help"], ["report", "--help"], ["schemes", "--cfg", "job"]],
    ids=" ".join,
)  # fmt: skip
def test_quick_answers_import_nothing_heavy(words):
    code = (
        f"import sys; sys.argv[1:] = {words}\nfrom lengthlab.commands.main import main\n"
        "try: main()\nexcept SystemExit as stop: assert not stop.code, stop.code\n"
        f"print('HEAVY', [m for m in {HEAVY} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "HEAVY []"
    assert len(done.stdout) > 100


def test_flags_may_stand_anywhere(lengthlab):
    first = lengthlab("train", "--cfg", "job", "scheme=rope", "seed=3")
    last = lengthlab("train", "scheme=rope", "seed=3", "--cfg", "job")
    between = lengthlab("train", "scheme=rope", "--cfg", "job", "seed=3")
    assert first == last == between and "seed: 3" in first.out and "name: rope" in first.out


def test_without_a_command_the_commands_are_listed(lengthlab):
    for words in ([], ["--help"]):
        code, out, _ = lengthlab(*words)
        assert code == 0 and all(name in out for name in ("train", "evaluate", "report", "schemes"))


def test_version(lengthlab):
    assert lengthlab("--version").out.startswith("lengthlab ")


def test_report_and_schemes_leave_no_folder(lengthlab, smoke, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = {path.name for path in smoke.iterdir()}
    assert lengthlab("report", "study=smoke", f"results={smoke.parent}").code == 0
    assert lengthlab("schemes").code == 0
    assert not list(tmp_path.iterdir()) and {path.name for path in smoke.iterdir()} == before


def test_report_is_from_files_alone_and_the_same_each_time(lengthlab, smoke):
    names = ("summary.csv", "degradation.png", "degradation.svg", "report.html")
    first = {name: (smoke / name).read_bytes() for name in names}
    for path in smoke.glob("*/cells.parquet"):
        path.unlink()
    out = lengthlab("report", "study=smoke", f"results={smoke.parent}").out
    assert {name: (smoke / name).read_bytes() for name in names} == first
    assert out.index("nonoverlapping") < out.index("same_target") < out.index("report.html")
    assert "undefined" in out


def test_schemes_names_hook_parameters_and_paper(lengthlab):
    rows = {line.split()[0]: line for line in lengthlab("schemes").out.splitlines()}
    assert "bias" in rows["alibi"] and "2108.12409" in rows["alibi"]
    assert "rotate" in rows["rope"] and "embed" in rows["sinusoidal"] and "none" in rows["nope"]
    assert "8,192" in rows["learned"]  # 64 positions x nano's width of 128
    assert "16,384" in lengthlab("schemes", "train_length=128").out


def test_several_values_without_m_are_refused_with_the_way_out(lengthlab):
    assert "-m" in lengthlab("train", "scheme=alibi,rope").err
