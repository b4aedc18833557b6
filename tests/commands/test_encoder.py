"""Bidirectional models from the command line: trained on masked tokens, read with pseudo-perplexity."""

import json

import pandas as pd
import torch

from lengthlab.commands import build
from lengthlab.study import Run, collect

ENCODER = ("model.causal=false", "eval.protocols=[nonoverlapping]")


def test_an_encoder_is_trained_and_read(lengthlab, toy, tmp_path):
    words = ["-m", "scheme=alibi_symmetric,nope", *toy, *ENCODER, f"results={tmp_path}", "study=s"]
    code, out, _ = lengthlab("train", *words)
    assert code == 0 and "pseudo-perplexity" in out
    frame = collect("s", tmp_path)
    assert set(frame.protocol) == {"masked_nonoverlapping"} and set(frame.status) == {"done"}
    assert frame.target_hash.nunique() == 1  # the same masked tokens for every scheme and length
    ledger = json.loads(next(tmp_path.glob("s/*/eval/*.json")).read_text())
    assert ledger["mask_seed"] == 0 and ledger["protocol"]["rate"] == 0.15 and ledger["dropped"]["not masked"] > 0
    assert "not comparable" in (tmp_path / "s/report.html").read_text()


def test_its_nll_is_that_of_a_plain_forward_with_the_tokens_masked(lengthlab, toy, tmp_path):
    """One window holds the whole document: mask its chosen tokens, read it once, and sum."""
    from lengthlab.commands.text import TextSource
    from lengthlab.measurement.masking import Masking
    from lengthlab.training import load

    words = ["scheme=alibi_symmetric", *toy, *ENCODER, "eval.lengths=[16,65]", "eval.tokens_per_document=65"]
    assert lengthlab("train", *words, f"results={tmp_path}", "study=s").code == 0
    run = Run(next(tmp_path.glob("s/alibi*")))
    config = run.record["config"]
    text = TextSource.of_run(run, config)
    model = build.model_of(config, text.vocabulary.size).eval()
    load(run.checkpoint, model)
    sums = collect("s", tmp_path).query("length == 65").groupby("document").nll.sum()
    for document in text.texts("test"):
        kept = torch.tensor(document.tokens[:64].astype("int64"))  # 65 tokens of the stream, BOS among them
        chosen = Masking(0).chosen(document.id, 65)
        chosen = torch.tensor(chosen[chosen <= 64])
        stream = torch.cat((torch.tensor([text.vocabulary.bos]), kept))
        fed = stream.clone()
        fed[chosen] = text.vocabulary.size
        with torch.inference_mode():
            nll = torch.nn.functional.cross_entropy(
                model(fed[None], torch.arange(65))[0][chosen].double(), stream[chosen], reduction="sum"
            )
        rows = pd.concat([pd.read_parquet(path) for path in run.folder.glob("eval/*L65*.parquet")])
        first = rows[(rows.document == document.id) & (rows.position <= 64)].nll.sum()
        assert abs(first - nll.item()) < 1e-4 and sums[document.id] >= first - 1e-9


def test_what_an_encoder_cannot_be_is_refused(lengthlab, toy, tmp_path):
    for words, fragments in {
        ("scheme=alibi_symmetric", "model.causal=false"): ["eval.protocols", "nonoverlapping"],
        ("scheme=alibi", *ENCODER): ["scheme=alibi", "alibi_symmetric"],
        ("scheme=rope", "extension=window", *ENCODER): ["extension=window", "causal"],
        ("scheme=rope", "extension=sinks", *ENCODER): ["extension=sinks", "causal"],
        ("scheme=rope", "extension=rerope", *ENCODER): ["extension=rerope", "causal"],
        ("scheme=rope", "extension=self_extend", *ENCODER): ["extension=self_extend", "causal"],
        ("scheme=rope", "eval.mask_seed=-1", *ENCODER): ["eval.mask_seed=-1", "at least 0"],
    }.items():
        code, _, err = lengthlab("train", *toy, *words, f"results={tmp_path}")
        assert code == 2 and err.count("\n") == 1 and all(fragment in err for fragment in fragments), err


def test_an_encoders_logit_scale_counts_all_it_reads(toy):
    """Every query of an encoder reads the whole window, so all have one factor."""
    config = {
        "scheme": {"name": "nope", "_target_": "lengthlab.schemes.nope.NoPE"},
        "positions": {"name": "sequential", "_target_": "lengthlab.model.positions.Sequential"},
        "model": {"layers": 1, "width": 16, "heads": 2, "causal": False, "logit_scale": "ssmax"},
        "train": {"length": 16},
        "seed": 0,
    }
    model = build.model_of(config, 50)
    scale = model._sight(torch.arange(32), None, None, None).scale
    assert torch.allclose(scale, torch.tensor(32.0).log() / torch.tensor(16.0).log())
