"""`lengthlab audit`: what stays untrained, what 16 bits cost, and where a run and its report say so."""

import re

import pytest
import torch

from lengthlab.commands import audit
from lengthlab.schemes import DistanceBias, Scheme
from lengthlab.study import Run

T5 = "t5: no training distance (0 to 63) is in buckets 27-31 of 32"


class KeyIndexALiBi(Scheme):
    """ALiBi's other form, slope times the key's index, in the dtype of the model (fault F4)."""

    def bias(self, q_pos, k_pos):
        dtype = torch.bfloat16 if torch.is_autocast_enabled("cpu") else torch.float32
        return (0.5 * k_pos.to(dtype)).expand(self.dims.heads, len(q_pos), -1).float()


class LateDistance(DistanceBias):
    """The distance, rounded before it is used (fault F6), from its second layer on."""

    def of_distance(self, distance):
        rounded = distance.bfloat16() if torch.is_autocast_enabled("cpu") else distance
        return -rounded.float().expand(self.dims.heads, *distance.shape)

    def bias(self, q_pos, k_pos):
        return self.of_distance((q_pos.unsqueeze(-1) - k_pos + 250).float()).movedim(0, -3)

    def layer(self, index):
        return self if index else self.plain

    def __init__(self, dims):
        super().__init__(dims)
        self.plain = Scheme(dims)


def lines_of(config_of, scheme, lengths, name="nope", **changes) -> list[str]:
    config = config_of(name) | {"eval": {"lengths": lengths}, "device": "cpu", "dtype": "bfloat16", **changes}
    config["extension"] = {"name": "none", "_target_": "lengthlab.schemes.extensions.none.Unchanged"}
    return audit.precision(config, scheme)


def test_what_stays_untrained_is_said(lengthlab, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = lengthlab("audit", "scheme=t5", "train.length=64", "dtype=float32")
    assert code == 0 and out.startswith(T5) and len(out.splitlines()) == 1
    out = lengthlab("audit", "scheme=alibi", "train.length=128", "train.tokens_per_step=4096", "dtype=float32").out
    assert out == "alibi: nothing is left untrained at train.length=128\n"
    assert not list(tmp_path.iterdir())


def test_a_sweep_is_audited_job_by_job_and_leaves_no_folder(lengthlab, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = lengthlab("audit", "-m", "scheme=t5,rope", "train.length=32,64", "dtype=float32")
    assert code == 0 and "(0 to 31)" in out and T5 in out and "within 32 tokens" in out and "within 64 tokens" in out
    assert not list(tmp_path.iterdir())


def test_it_reads_the_command_line_of_a_run(lengthlab):
    assert lengthlab("audit", "experiment=smoke", "scheme=rope", "seed=3", "tracker=none", "dtype=float32").code == 0
    assert "alibii" in lengthlab("audit", "scheme=alibii").err
    assert "-m" in lengthlab("audit", "scheme=alibi,rope").err
    assert "not a multiple of length=60" in lengthlab("audit", "train.length=60").err
    assert "eval.lengths=[128, 64]" in lengthlab("audit", "eval.lengths=[128,64]").err


def test_bfloat16_is_compared_at_every_length(lengthlab):
    words = ("eval.lengths=[64,8192]", "dtype=bfloat16", "train.length=64")
    lines = lengthlab("audit", "scheme=alibi", *words).out.splitlines()[1:]
    assert [re.match(r"length (\d+)", line).group(1) for line in lines] == ["64", "8192"]
    for line in lines:  # float32 biases of relative distances, whatever the model's dtype
        assert "bias at most 0 from float32, 64 of the 64 nearest keys told apart (float32: 64)" in line
    turned = lengthlab("audit", "scheme=rope", *words).out.splitlines()[-1]
    drift = float(re.search(r"rotate at most (\S+) from float32, 64 of the 64", turned).group(1))
    assert 1e-3 < drift <= 2**-8  # sums of a sine and a cosine, below 2, rounded to 8 bits
    table = lengthlab("audit", "scheme=learned", *words).out.splitlines()
    assert table[-1] == "length 8192: undefined, positions are learned up to 63"
    assert lengthlab("audit", "scheme=alibi", "eval.lengths=[64]", "dtype=float32").out.count("\n") == 1


def test_the_key_index_form_tells_three_of_64_apart(config_of, scheme_of):
    """At key 8,191 a slope of 0.5 gives 4,096, where bfloat16 knows the multiples of 16; distances stay 64."""
    (short, long) = lines_of(config_of, KeyIndexALiBi(scheme_of("nope").dims), [64, 8192])
    assert "at most 0 from float32, 64 of the 64" in short
    assert "at most 8 from float32, 3 of the 64 nearest keys told apart (float32: 64)" in long


def test_the_worst_layer_is_reported(config_of, scheme_of):
    (line,) = lines_of(config_of, LateDistance(scheme_of("nope").dims), [64])
    apart = (256 - 250) + (312 - 256) // 2 + 1  # all below 256, then every second number to 312; 313 becomes 312
    assert f"bias at most 1 from float32, {apart} of the 64" in line


@pytest.mark.parametrize("name", ["nope", "sinusoidal", "rope", "alibi", "t5", "fox", "cope", "shaw"])
def test_every_kind_of_hook_is_read(config_of, scheme_of, name):
    scheme = scheme_of(name)
    lines = lines_of(config_of, scheme, [64, 100], name)
    hooks = [hook for hook in audit.MADE if any(f" {hook} at most" in line for line in lines)]
    expected = {"nope": [], "sinusoidal": ["embed"], "rope": ["rotate"], "alibi": ["bias"], "t5": ["bias"]}
    assert hooks == expected.get(name, ["scores"])
    assert len(lines) == 2 * len(hooks)


def test_a_run_prints_and_keeps_it_and_the_report_shows_it(lengthlab, tmp_path, toy):
    words = [*toy, f"results={tmp_path}", "study=s"]
    code, _, err = lengthlab("train", "-m", "scheme=t5,alibi", *words)
    assert code == 0 and err.count("audit: t5: no training distance (0 to 15)") == 1
    kept = {path.parent.name.split("-")[0]: Run(path.parent).record["audit"] for path in tmp_path.glob("s/*/run.json")}
    assert kept["alibi"] == [] and len(kept["t5"]) == 1 and f"audit: {kept['t5'][0]}\n" in err
    page = (tmp_path / "s" / "report.html").read_text()
    limits = page[page.index("What limits these numbers") :]
    assert "t5: no training distance (0 to 15)" in limits[: limits.index("</ul>")]
