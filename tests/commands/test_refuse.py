"""Bad input gets one clear line that names the key, the value and the way out, exit code 2, and leaves no folder."""

import json
import lzma

import pytest

from lengthlab.study import Run

BAD = {
    "scheme=alibii": ["scheme=alibii", "did you mean alibi"],
    "model=nanoo": ["model=nanoo", "did you mean nano?"],
    "data=libary": ["data=libary", "did you mean library?"],
    "extension=yarm": ["extension=yarm", "did you mean yarn?"],
    "scheme=alibi extension=yarn": ["extension=yarn", "does not fit", "scheme=alibi"],
    "scheme=rope extension=pi extension.factor=0.5": ["extension.factor=0.5"],
    "experiment=quickstrt": ["experiment=quickstrt", "did you mean quickstart?"],
    "train.stepz=3": ["train.stepz", "train.steps"],
    "trian.steps=3": ["trian.steps", "train.steps"],
    "scheme=rope scheme.bas=3": ["scheme.bas", "scheme.base"],
    "+scheme.slope=3": ["+scheme.slope=3", "set, not added"],
    "seed=0,1": ["seed=0,1", "-m"],
    "--colour": ["--colour", "--help"],
    "eval.lengths=[]": ["eval.lengths=[]", "at least one"],
    "eval.lengths=[128,64]": ["eval.lengths=[128, 64]", "'eval.lengths=[64, 128]'"],
    "eval.lengths=[64,64]": ["eval.lengths=[64, 64]", "'eval.lengths=[64]'"],
    "eval.lengths=[0,64]": ["eval.lengths=[0, 64]", "0 is not positive"],
    "eval.lengths=[-64]": ["eval.lengths=[-64]", "-64 is not positive"],
    "eval.lengths=[64.5]": ["eval.lengths=[64.5]", "not an integer"],
    "eval.lengths=[true]": ["eval.lengths=[True]", "not an integer"],
    "eval.lengths=128": ["eval.lengths=128", "a list"],
    "eval.protocols=[slidng]": ["eval.protocols", "slidng", "sliding"],
    "eval.protocols=[]": ["eval.protocols=[]", "at least one"],
    "eval.stride=128": ["eval.stride=128", "64", "null"],
    "eval.stride=0": ["eval.stride=0", "at least 1"],
    "eval.tokens_per_document=100": ["eval.tokens_per_document=100", "longest length 2048"],
    "eval.reach=5000": ["eval.tokens_per_document=4096", "eval.reach 5000"],
    "eval.reach=512": ["eval.reach=512", "shorter", "2048"],
    "eval.block=17": ["eval.block=17", "16"],
    "eval.split=tset": ["eval.split=tset", "test 2"],
    "eval.dtype=float8": ["eval.dtype=float8", "float32"],
    "eval.lengths=[100000] eval.tokens_per_document=null": ["0 of 2 test documents", "100000", "longest has"],
    "model.width=130": ["model.width=130", "heads=4"],
    "model.kv_heads=3": ["model.kv_heads=3", "heads=4"],
    "model.heads=128 scheme=rope": ["rope", "even head size", "1"],
    "model.width=131 model.heads=1 scheme=sinusoidal": ["sinusoidal", "even width", "131"],
    "model.norm=batchnorm": ["model.norm=batchnorm", "layernorm"],
    "dtype=float16": ["dtype=float16", "cpu", "bfloat16"],
    "dtype=float8": ["dtype=float8", "float32"],
    "device=cuda": ["device=cuda", "device=cpu"],
    "device=abacus": ["device=abacus", "not a device"],
    "train.steps=0": ["train.steps=0", "at least 1"],
    "train.steps=many": ["train.steps=many", "integer"],
    "train.lr=-1": ["train.lr=-1", "above 0"],
    "train.lr=high": ["train.lr=high", "a number"],
    "model.tied_head=2": ["model.tied_head=2", "true or false"],
    "model.layers=2.5": ["model.layers=2.5", "an integer"],
    "train.length=60": ["train.tokens_per_step=4096", "length=60", "4080 or 4140"],
    "train.betas=[0.9]": ["train.betas", "two numbers"],
    "seed=-1": ["seed=-1", "at least 0"],
    "seed=99999999999999999999": ["seed=99999999999999999999", "below 2^63"],
    "threads=100000": ["threads=100000", "cores"],
    "scheme=null": ["scheme=null", "--help"],
    "model=null": ["model=null", "--help"],
    "train=null": ["train=null", "--help"],
    "data.files=null": ["data.files=None", "must be given"],
    "data.tokenizer=null": ["data.tokenizer=None", "must be given"],
    "eval.protocols=[sliding,sliding]": ["eval.protocols", "twice"],
    "scheme=rope scheme.base=0": ["scheme.base=0", "above 1"],
    "scheme=fox scheme.std=-1": ["scheme", "std -1"],
    "scheme=transformer_xl scheme.base=0": ["scheme.base=0", "above 0"],
    "positions=randomized positions.max=10": ["positions.max=10"],
    "scheme=sinusoidal scheme.base=-3": ["scheme.base=-3", "above 0"],
    "study=../elsewhere": ["study=../elsewhere", "letters"],
    "threads=0": ["threads=0", "at least 1"],
    "tracker.mode=sometimes": ["tracker.mode=sometimes", "offline"],
    "data.tokenizer.kind=byte": ["data.tokenizer.kind=byte", "bytes"],
    "data.tokenizer.vocab=100": ["data.tokenizer.vocab=100", "257"],
    "data=local": ["data.files", "must be given"],
    "data=local data.files=nowhere.txt": ["data.files=nowhere.txt", "no such file"],
    "scheme._target_=os.system": ["scheme._target_=os.system", "lengthlab.schemes"],
    "scheme._target_=lengthlab.schemes.base.Dims": ["scheme._target_", "not a Scheme"],
    "scheme._target_=lengthlab.schemes.alibi.Alibi": ["scheme._target_", "Alibi"],
    "positions._target_=subprocess.Popen": ["positions._target_=subprocess.Popen", "lengthlab.model.positions"],
}


@pytest.mark.parametrize("words", BAD, ids=list(BAD))
def test_train_refuses(lengthlab, tmp_path, words):
    results = tmp_path / "results"
    usual = [] if words.startswith(("data=", "experiment=")) else ["data=tiny"]
    code, out, err = lengthlab("train", *usual, *words.split(), f"results={results}")
    _one_line(code, err, BAD[words])
    assert out == "" and not results.exists()


def _one_line(code: int, err: str, fragments: list[str]) -> None:
    assert code == 2
    assert err.startswith("lengthlab: ") and err.count("\n") == 1, err
    for fragment in fragments:
        assert fragment in err


CORPORA = {
    "empty.txt": (b"", ["empty.txt", "empty"]),
    "latin.txt": ("déjà vu".encode("latin-1") * 100, ["latin.txt", "UTF-8"]),
    "broken.jsonl": (b'{"text": "a"}\n{"text": \n', ["broken.jsonl", "line 2"]),
    "fieldless.jsonl": (b'{"body": "a"}\n', ["fieldless.jsonl", "body"]),
    "cut.jsonl.xz": (lzma.compress(b'{"text": "a"}\n' * 1000)[:-20], ["cut.jsonl.xz"]),
    "book.pdf": (b"%PDF", ["book.pdf", ".txt"]),
    "one.txt": (b"One short book. " * 40, ["documents per split"]),
    "short.jsonl": (
        b"".join(json.dumps({"id": f"{s}{i}", "split": s, "text": "a b c " * 300}).encode() + b"\n"
                 for s in ("train", "val", "test") for i in range(3)),
        ["0 of 3 test documents", "2048", "longest has", "'eval.lengths="],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CORPORA)
def test_train_refuses_a_corpus(lengthlab, tmp_path, name):
    content, fragments = CORPORA[name]
    (tmp_path / name).write_bytes(content)
    code, _, err = lengthlab(
        "train", "data=local", f"data.files={tmp_path / name}", "data.tokenizer.kind=bytes", f"results={tmp_path / 'r'}"
    )
    _one_line(code, err, fragments)
    assert not (tmp_path / "r").exists()


def test_every_job_of_a_sweep_is_looked_at_before_the_first_runs(lengthlab, tmp_path):
    code, _, err = lengthlab("train", "-m", "scheme=alibi,alibii", "data=tiny", f"results={tmp_path / 'r'}")
    _one_line(code, err, ["scheme=alibii"])
    code, _, err = lengthlab("train", "-m", "model.width=128,130", "data=tiny", f"results={tmp_path / 'r'}")
    _one_line(code, err, ["model.width=130"])
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("words", "fragments"),
    [
        ([], ["run", "run=results/STUDY/RUN"]),
        (["run=nowhere"], ["run=nowhere", "not a run"]),
        (["run={run}", "extension=yarn"], ["extension=yarn", "does not fit", "alibi"]),
        (["run={run}", "eval.lengths=[64,32]"], ["eval.lengths=[64, 32]"]),
        (["run={run}", "eval.lengths=[100000]", "eval.tokens_per_document=null"], ["0 of 2 test documents"]),
        (["run={run}", "train.steps=3"], ["train.steps", "training has decided it"]),
        (["run={run}", "eval.length=[3]"], ["eval.length", "no such key", "eval.lengths"]),
        (["run={run}", "data.tokenizer.kind=bytes"], ["data.tokenizer.kind", "own tokenizer"]),
        (["-m", "run={run}", "extension=none,pi", "--cfg", "job"], ["--cfg", "-m"]),
        (["run={run}", "eval.stride=100"], ["eval.stride=100", "16"]),
    ],
)
def test_evaluate_refuses(lengthlab, smoke, words, fragments):
    run = next(smoke.glob("alibi-*"))
    before = sorted((run / "eval").iterdir())
    code, _, err = lengthlab("evaluate", *(word.format(run=run) for word in words))
    _one_line(code, err, fragments)
    assert sorted((run / "eval").iterdir()) == before


@pytest.mark.parametrize("damage", ["truncated", "empty", "absent"])
def test_evaluate_refuses_a_damaged_checkpoint(lengthlab, smoke, tmp_path, damage):
    source = next(smoke.glob("alibi-*"))
    run = Run(tmp_path / "study" / source.name)
    run.folder.mkdir(parents=True)
    for name in ("run.json", "tokenizer.json", "checkpoint.pt"):
        (run.folder / name).write_bytes((source / name).read_bytes())
    whole = run.checkpoint.read_bytes()
    if damage == "absent":
        run.checkpoint.unlink()
    else:
        run.checkpoint.write_bytes(whole[: len(whole) // 2] if damage == "truncated" else b"")
    code, _, err = lengthlab("evaluate", f"run={run.folder}", "eval.lengths=[16,64]")
    _one_line(code, err, [str(run.folder)])


@pytest.mark.parametrize("words", [["study=nothing"], [], ["study=../smoke"]])
def test_report_refuses(lengthlab, smoke, words):
    code, _, err = lengthlab("report", *words, f"results={smoke.parent}")
    _one_line(code, err, ["study"])


@pytest.mark.parametrize(("words", "fragments"), [(["trian"], ["trian", "train"]), (["frobnicate"], ["frobnicate"])])
def test_unknown_commands(lengthlab, words, fragments):
    code, _, err = lengthlab(*words)
    _one_line(code, err, fragments)
