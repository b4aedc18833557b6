"""Corpora: exact reading, stable splits and fingerprints, and one clear line for every bad file."""

import gzip
import json
import lzma
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lengthlab.data
from lengthlab.data import Corpus, CorpusError, Document, cache_folder
from lengthlab.data.corpus import hashed_split

OPENERS = {"": open, ".xz": lzma.open, ".gz": gzip.open}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LENGTHLAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write(path, *rows):
    compression = path.suffix if path.suffix in OPENERS else ""
    with OPENERS[compression](path, "wb") as stream:
        stream.write("".join(json.dumps(row) + "\n" for row in rows).encode())
    return str(path)


def refusal(*files, **fields):
    with pytest.raises(CorpusError) as caught:
        Corpus("bad", files, **fields).documents()
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("data.files=")
    return message


# Texts that a table reader would change: a date, CRLF, a line separator, NUL, a number, nothing.
HARD = ["2020-01-01", "a\r\nb\rc\n", "x\u2028y\x85z", "\x00", "12", "", " \ufeff end ", "emoji 👩‍👩‍👧 é"]


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".jsonl.xz", ".json.gz"])
def test_json_lines_are_read_exactly(tmp_path, suffix):
    rows = [{"id": text[:4] or "none", "split": "test", "text": text, "year": None} for text in HARD]
    documents = Corpus("hard", [write(tmp_path / f"hard{suffix}", *rows)]).documents()
    assert documents == [Document(row["id"], "test", row["text"]) for row in rows]


@pytest.mark.parametrize("suffix", [".txt", ".txt.xz", ".txt.gz"])
def test_a_text_file_is_one_document_with_its_line_ends(tmp_path, suffix):
    text = "\r\n".join(HARD)
    path = tmp_path / f"a[1]{suffix}"  # brackets are a glob for others
    with OPENERS["" if suffix == ".txt" else path.suffix](path, "wb") as stream:
        stream.write(text.encode())
    assert Corpus("text", str(path)).documents() == [Document(path.name, hashed_split(path.name), text)]


def test_globs_stand_for_files_in_sorted_order(tmp_path):
    for name in "bac":
        (tmp_path / f"{name}.txt").write_text(name)
    assert [document.text for document in Corpus("glob", [str(tmp_path / "*.txt")]).documents()] == [
        "a",
        "b",
        "c",
    ]


def test_missing_ids_and_numbers_as_ids(tmp_path):
    file = write(tmp_path / "stem.jsonl.xz", {"text": "x"}, {"id": 7, "text": "y"}, {"id": None, "text": "z"})
    assert [document.id for document in Corpus("ids", [file]).documents()] == ["stem-0", "7", "stem-2"]


def test_other_field_names_and_a_split_of_another_name(tmp_path):
    file = write(tmp_path / "a.jsonl", {"body": "x", "key": "k", "part": "holdout"})
    corpus = Corpus("fields", [file], text_field="body", id_field="key", split_field="part")
    assert corpus.documents() == [Document("k", "holdout", "x")]


def test_the_hashed_split_is_90_5_5_and_never_moves():
    splits = [hashed_split(str(index)) for index in range(20_000)]
    shares = [splits.count(split) / len(splits) for split in ("train", "val", "test")]
    assert shares == pytest.approx([0.90, 0.05, 0.05], abs=0.01)
    # Known answers: a change here changes the test set of every corpus without a split field.
    known = {"novel-0": "train", "novel-8": "val", "novel-18": "test"}
    assert {identity: hashed_split(identity) for identity in known} == known


def test_the_fingerprint_follows_content_and_not_the_path(tmp_path):
    file = write(tmp_path / "a.jsonl", {"text": "x"})
    other = write(tmp_path / "b.jsonl", {"text": "y"})
    elsewhere = shutil.copy(file, tmp_path / "elsewhere.jsonl")
    fingerprint = Corpus("one", [file]).fingerprint
    assert Corpus("two", [elsewhere]).fingerprint == fingerprint
    changed = [
        Corpus("one", [file], id_field="key"),
        Corpus("one", [other]),
        Corpus("one", [file, other]),
        Corpus("one", [other, file]),
    ]
    assert len({fingerprint, *(corpus.fingerprint for corpus in changed)}) == 5
    Path(file).write_text(Path(file).read_text().replace("x", "z"))
    assert Corpus("one", [file]).fingerprint != fingerprint


def test_an_edited_or_renamed_file_is_never_read_from_the_cache(tmp_path):
    file = write(tmp_path / "a.jsonl", {"text": "x"})
    assert Corpus("one", [file]).documents()[0].text == "x"
    write(tmp_path / "a.jsonl", {"text": "y"})
    assert Corpus("one", [file]).documents()[0].text == "y"
    renamed = shutil.copy(file, tmp_path / "b.jsonl")
    assert Corpus("one", [renamed]).documents()[0].id == "b-0"


def test_embedded_corpora_are_whole():
    tiny = Corpus("tiny", ["embedded:tiny"]).documents()
    assert len(tiny) == 6
    assert {document.split for document in tiny} == {"train", "val", "test"}
    assert "nearest is embedded:sotu" in refusal("embedded:sotoo")


def test_bad_rows_are_refused_by_line(tmp_path):
    def said(*lines, **fields):
        (tmp_path / "a.jsonl").write_text("\n".join(lines))
        message = refusal(str(tmp_path / "a.jsonl"), **fields)
        return message.removeprefix(f"data.files={tmp_path / 'a.jsonl'}: ")

    good = '{"text": "x", "id": "i"}'
    assert said(good, "", '{"text": ').startswith("line 3 is not valid JSON")
    assert said('[{"text": "x"}]').startswith("line 1 is a list")
    assert said('{"body": "x", "title": "y"}') == "line 1 has no field 'text'; the fields there are body, title"
    assert said(good, split_field="part") == "line 1 has no field 'part'; the fields there are text, id"
    assert said('{"text": null}') == "line 1: text is null; it must be a string"
    assert said('{"text": ["x"]}') == "line 1: text is list; it must be a string"
    assert said('{"text": "x", "id": {}}') == "line 1: id is dict; it must be a string"
    assert said('{"text": "x", "split": 1}') == "line 1: split is int; it must be a string"
    assert "lone surrogate" in said('{"text": "\\ud800"}')
    assert said(good, good).startswith("duplicate id 'i'")
    assert said("", " ") == "holds no document"


def test_bytes_that_are_not_utf8_are_refused_with_their_offset(tmp_path):
    data = b'{"text": "caf\xc3\xa9"}\n{"text": "caf\xe9"}\n'
    (tmp_path / "a.jsonl").write_bytes(data)
    (tmp_path / "a.txt").write_bytes(data)
    (tmp_path / "a.jsonl.xz").write_bytes(lzma.compress(data))
    offset = data.index(b'\xe9"')
    for name in ("a.jsonl", "a.txt", "a.jsonl.xz"):
        assert f"{name}: not UTF-8 at byte {offset}" in refusal(str(tmp_path / name))


@pytest.mark.parametrize("compress", [lzma.compress, gzip.compress])
def test_damaged_compression_is_refused(tmp_path, compress):
    suffix = ".xz" if compress is lzma.compress else ".gz"
    data = compress(b'{"text": "some words that are long enough"}\n' * 100)
    path = tmp_path / f"a.jsonl{suffix}"
    for broken in (data[: len(data) // 2], b"no archive", data[:20] + b"\xff\xff\xff" + data[23:]):
        path.write_bytes(broken)
        assert f"{path}: a damaged or truncated {suffix} file" in refusal(str(path))


def test_bad_files_are_refused_by_asking_the_fingerprint(tmp_path):
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "a.parquet").write_text("x")
    (tmp_path / "folder.txt").mkdir()
    expected = {
        "missing.jsonl": "no such file",
        "*.csv": "no such file",
        "empty.jsonl": "an empty file",
        "a.parquet": "unknown suffix '.parquet'; valid are .txt, .jsonl, .json, each also with .xz or .gz",
        "folder.txt": "a folder",
    }
    for name, words in expected.items():
        with pytest.raises(CorpusError, match=r"^data\.files=") as caught:
            _ = Corpus("bad", [str(tmp_path / name)]).fingerprint
        assert f"{tmp_path / name}: {words}" in str(caught.value)
    assert "names no file" in refusal()
    (tmp_path / "blank.txt.gz").write_bytes(gzip.compress(b""))
    assert "holds no document" in refusal(str(tmp_path / "blank.txt.gz"))


def test_the_cache_folder_follows_the_environment(tmp_path, monkeypatch, cache):
    Corpus("tiny", [write(tmp_path / "a.jsonl", {"text": "x"})]).documents()
    assert [path.name for path in cache.iterdir()] == ["datasets"]
    (tmp_path / "file").touch()
    monkeypatch.setenv("LENGTHLAB_CACHE", str(tmp_path / "file"))
    with pytest.raises(CorpusError, match="^LENGTHLAB_CACHE: .*cannot be written"):
        Corpus("tiny", [str(tmp_path / "a.jsonl")]).documents()
    monkeypatch.delenv("LENGTHLAB_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "lengthlab"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "lengthlab"


def test_importing_the_room_loads_no_heavy_library():
    code = "import sys, lengthlab.data; print({'datasets', 'tokenizers', 'torch', 'pandas'} & set(sys.modules))"
    source = str(Path(lengthlab.data.__file__).parents[2])
    environment = {"PYTHONPATH": source}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
