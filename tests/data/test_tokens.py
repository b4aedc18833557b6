"""The token file: the documents' tokens and nothing else, built once, sound whatever happens to its cache."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import lengthlab.data
from lengthlab.data import Corpus, CorpusError, Recipe, TokenFile, load_or_train, tokenize, tokens, vocabulary

TINY = Corpus("tiny", ["embedded:tiny"])
BYTES = Recipe("bytes")
SOURCE = str(Path(lengthlab.data.__file__).parents[2])


def token_file(cache, corpus=TINY, recipe=BYTES):
    tokenizer = load_or_train(recipe, corpus, cache)
    return tokenize(corpus, tokenizer, recipe.fingerprint(corpus.fingerprint), cache)


def everything(file):
    return {d.id: d.tokens.tolist() for split in file.splits for d in file.documents(split)}


def written(tmp_path, *texts, split="test"):
    rows = [{"id": f"d{index}", "split": split, "text": text} for index, text in enumerate(texts)]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Corpus("c", [str(tmp_path / "c.jsonl")])


@pytest.mark.parametrize("recipe", [BYTES, Recipe("bpe", 600)], ids=lambda recipe: recipe.kind)
def test_every_document_comes_back_exactly(tmp_path, recipe):
    tokenizer = load_or_train(recipe, TINY, tmp_path)
    words = vocabulary(tokenizer)
    file = token_file(tmp_path, recipe=recipe)
    originals = TINY.documents(tmp_path)
    for split in file.splits:
        documents = file.documents(split)
        expected = [document for document in originals if document.split == split]
        assert [document.id for document in documents] == [document.id for document in expected]
        assert len(documents) == file.splits[split]
        for document, original in zip(documents, expected, strict=True):
            assert tokenizer.decode(document.tokens.tolist()) == original.text
            assert words.token_bytes[document.tokens].sum() == len(original.text.encode())
            assert words.bos not in document.tokens


def test_empty_documents_and_bos_in_the_text(tmp_path):
    texts = ["", "<bos>", "\x00", "a\r\n👍", ""]
    documents = token_file(tmp_path, written(tmp_path, *texts)).documents("test")
    assert [[token - 1 for token in document.tokens] for document in documents] == [[*t.encode()] for t in texts]
    (empty,) = token_file(tmp_path, written(tmp_path, "")).documents("test")
    assert empty.tokens.shape == (0,)


def test_a_document_encoded_in_pieces_is_the_document_encoded_whole(tmp_path, monkeypatch):
    recipe = Recipe("bpe", 600)
    tokenizer = load_or_train(recipe, TINY, tmp_path)
    whole = {document.id: tokenizer.encode(document.text).ids for document in TINY.documents(tmp_path)}
    monkeypatch.setattr(tokens, "PIECE", 50)
    monkeypatch.setattr(tokens, "BATCH", 5_000)
    file = token_file(tmp_path, recipe=recipe)
    assert everything(file) == whole


def test_tokens_are_mapped_read_only_and_as_small_as_the_vocabulary_allows(tmp_path, monkeypatch):
    document = token_file(tmp_path).documents("val")[0]
    assert document.tokens.dtype == np.uint16
    with pytest.raises(ValueError, match="read-only"):
        document.tokens[0] = 1
    big = tokens.Vocabulary(65_537, 0, np.ones(65_537, dtype=np.int64))
    monkeypatch.setattr(tokens, "vocabulary", lambda tokenizer: big)
    assert token_file(tmp_path / "big").documents("val")[0].tokens.dtype == np.uint32


def test_a_token_file_is_built_once_per_content(tmp_path, monkeypatch):
    corpus = written(tmp_path, "one text")
    first = token_file(tmp_path, corpus)
    (tmp_path / "elsewhere").mkdir()
    copy = Corpus("copy", [shutil.copy(corpus.files[0], tmp_path / "elsewhere")])
    monkeypatch.setattr(Corpus, "documents", None)
    assert token_file(tmp_path, copy).fingerprint == first.fingerprint
    monkeypatch.undo()
    assert token_file(tmp_path, written(tmp_path, "another")).fingerprint != first.fingerprint


@pytest.mark.parametrize("name", ["tokens.bin", "offsets.npy", "meta.json"])
def test_a_damaged_or_half_written_folder_is_built_again(tmp_path, name):
    good = token_file(tmp_path)
    expected = everything(good)
    folder = tmp_path / "tokens" / good.fingerprint
    cuts = [lambda path, n=n: path.write_bytes(path.read_bytes()[:-n]) for n in (7, 8)]  # 8: whole tokens
    for damage in (*cuts, Path.unlink, lambda path: path.write_text("")):
        damage(folder / name)
        assert everything(token_file(tmp_path)) == expected
        assert everything(TokenFile(folder)) == expected
        assert [path.name for path in folder.parent.iterdir()] == [good.fingerprint]


def test_an_unknown_split_is_refused_with_the_nearest(tmp_path):
    with pytest.raises(CorpusError, match=r"^split=tset: .* nearest is test \(documents: train: 3, test: 2, val: 1\)"):
        token_file(tmp_path).documents("tset")


def test_a_tokenizer_that_changes_the_text_is_refused(tmp_path):
    from tokenizers import normalizers

    tokenizer = load_or_train(BYTES, TINY, tmp_path)
    tokenizer.normalizer = normalizers.Replace("the", "a")
    with pytest.raises(ValueError, match="keeps .* bytes of document '1790_george"):
        tokenize(TINY, tokenizer, "changed", tmp_path)
    assert list((tmp_path / "tokens").iterdir()) == []


PROGRAM = """
import sys, time
from lengthlab.data import Corpus, Recipe, load_or_train, tokenize, tokens
corpus, recipe, cache = Corpus("tiny", ["embedded:tiny"]), Recipe("bpe", 300), sys.argv[1]
if sys.argv[2] == "killed":
    def stop(*arguments): print("half", flush=True); time.sleep(60)
    tokens._publish = stop
file = tokenize(corpus, load_or_train(recipe, corpus, cache), recipe.fingerprint(corpus.fingerprint), cache)
print(file.fingerprint, sum(int(d.tokens.sum()) for split in file.splits for d in file.documents(split)))
"""


def started(cache, how):
    command = [sys.executable, "-W", "error", "-c", PROGRAM, str(cache), how]
    return subprocess.Popen(command, env={"PYTHONPATH": SOURCE}, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_two_processes_may_build_at_once(tmp_path):
    processes = [started(tmp_path, "whole") for _ in range(2)]
    said = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert said[0] == said[1]
    assert [path.name for path in (tmp_path / "tokens").iterdir()] == [said[0].split()[0]]
    assert len(list((tmp_path / "tokenizers").iterdir())) == 1


@pytest.mark.slow
def test_what_a_killed_process_leaves_is_never_read(tmp_path):
    with started(tmp_path, "killed") as process:
        assert process.stdout.readline() == "half\n"
        process.send_signal(signal.SIGKILL)
    (half,) = (tmp_path / "tokens").iterdir()
    file = token_file(tmp_path, recipe=Recipe("bpe", 300))
    assert half.name != file.fingerprint
    assert file.splits == {"train": 3, "test": 2, "val": 1}


@pytest.mark.slow
def test_the_library_is_ready_in_well_under_a_minute_and_long_enough(tmp_path):
    library = Corpus("library", ["embedded:sotu", "embedded:novels7"])
    start = time.perf_counter()
    documents = token_file(tmp_path, library, Recipe("bpe", 2048)).documents("test")
    assert time.perf_counter() - start < 60
    assert len(documents) == 24
    assert min(len(document.tokens) for document in documents) > 2048
