"""Documents with a split: text and JSON-lines files, checked strictly and read through `datasets`."""

import difflib
import glob
import gzip
import hashlib
import json
import lzma
import os
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from lengthlab import UserError

CORPORA = Path(__file__).parent / "corpora"
OPENERS = {"": open, ".xz": lzma.open, ".gz": gzip.open}
FORMATS = (".txt", ".jsonl", ".json")
READING = 1  # raise it when the same files start to give other documents


class CorpusError(UserError):
    """What is wrong with the data or its cache, in one line."""


@dataclass(frozen=True)
class Document:
    id: str
    split: str
    text: str


@dataclass(frozen=True)
class Corpus:
    """Documents in `files`: paths, globs, or "embedded:NAME" for a file of `data/corpora/`.

    A .txt file is one document, its id the file's name. A .jsonl or .json file has one object a line; without
    an id a document is "<file stem>-<index>". Both may be compressed (.xz, .gz). A document without a split
    gets one from the sha256 of its id: 90 % train, 5 % val, 5 % test.
    """

    name: str
    files: tuple[str, ...]
    text_field: str = "text"
    id_field: str = "id"
    split_field: str = "split"

    def __post_init__(self) -> None:
        files = [self.files] if isinstance(self.files, str | os.PathLike) else self.files
        object.__setattr__(self, "files", tuple(os.fspath(file) for file in files))

    @property
    def fingerprint(self) -> str:
        """sha256 over the files' bytes, in order, and the field names; raises CorpusError for a bad file."""
        fields = [self.text_field, self.id_field, self.split_field]
        paths = [source.path for source in self._sources()]
        digests = [_digest(path, path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
        return hashlib.sha256(json.dumps([fields, digests]).encode()).hexdigest()

    @property
    def cache_key(self) -> str:
        """sha256 over the fingerprint and the files' names (which can be ids): what the cache is keyed by."""
        names = [source.path.name for source in self._sources()]
        return hashlib.sha256(json.dumps([READING, self.fingerprint, names]).encode()).hexdigest()

    def documents(self, cache: str | os.PathLike | None = None) -> list[Document]:
        """All documents in file order; raises CorpusError that names the file and what is wrong in it."""
        import datasets

        # load_dataset("json") turns an id or text like 2020-01-01 into a timestamp, and load_dataset("text")
        # turns CRLF into LF, so `datasets` gets the records from our own reading.
        folder = made(Path(cache or cache_folder()) / "datasets")
        if not sys.stderr.isatty():
            datasets.disable_progress_bars()
        features = datasets.Features(dict.fromkeys(("id", "split", "text"), datasets.Value("large_string")))
        try:
            records = datasets.Dataset.from_generator(
                self._records, features, cache_dir=str(folder), fingerprint=self.cache_key
            )
        except datasets.exceptions.DatasetGenerationError as error:
            if isinstance(error.__cause__, CorpusError):
                raise error.__cause__ from None
            raise
        return [Document(**record) for record in records]

    def _sources(self) -> list["Source"]:
        if not self.files:
            raise CorpusError("data.files=[]: names no file; give a path, a glob or embedded:sotu")
        sources = [Source(name, path) for file in self.files for name, path in _resolve(file)]
        for source in sources:
            source.check()
        return sources

    def _records(self) -> Iterator[dict[str, str]]:
        seen: dict[str, str] = {}
        for source in self._sources():
            before = len(seen)
            for record in source.text() if source.bare.suffix == ".txt" else source.rows(self):
                identity = record["id"]
                if identity in seen:
                    source.refuse(f"duplicate id {identity!r} (first in {seen[identity]}); make ids unique")
                seen[identity] = source.name
                yield record
            if len(seen) == before:
                source.refuse("holds no document")


@dataclass(frozen=True)
class Source:
    """One file of a corpus, and the name by which messages call it."""

    name: str
    path: Path

    @property
    def compression(self) -> str:
        return self.path.suffix if self.path.suffix in OPENERS else ""

    @property
    def bare(self) -> Path:
        return Path(self.path.name.removesuffix(self.compression))

    def refuse(self, why: str) -> NoReturn:
        raise CorpusError(f"data.files={self.name}: {why}")

    def check(self) -> None:
        """Refuses what can be seen without reading: a folder, an unknown suffix, an empty file."""
        if self.path.is_dir():
            self.refuse(f"a folder; give its files, as in {self.path / '*.txt'}")
        if self.bare.suffix not in FORMATS:
            valid = f"{', '.join(FORMATS)}, each also with .xz or .gz"
            self.refuse(f"unknown suffix {self.path.suffix!r}; valid are {valid}")
        if self.path.stat().st_size == 0:
            self.refuse("an empty file")

    def text(self) -> Iterator[dict[str, str]]:
        """The one document of a .txt file."""
        text = "".join(self._lines())
        if text:
            identity = self._string(self.path.name, "the file's name")
            yield {"id": identity, "split": hashed_split(identity), "text": text}

    def rows(self, corpus: Corpus) -> Iterator[dict[str, str]]:
        """The documents of a JSON-lines file, without blank lines."""
        index = 0
        for number, line in enumerate(self._lines(), start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                self.refuse(f"line {number} is not valid JSON ({error}); one object per line is expected")
            if not isinstance(row, dict):
                self.refuse(f"line {number} is a {type(row).__name__}; one JSON object per line is expected")
            yield self._record(row, corpus, f"line {number}", f"{self.bare.stem}-{index}")
            index += 1

    def _record(self, row: dict[str, Any], corpus: Corpus, where: str, default_id: str) -> dict[str, str]:
        # An id or split may be missing, but not from a field that the user has named.
        needed = {corpus.text_field} | ({corpus.id_field, corpus.split_field} - {"id", "split"})
        for field in sorted(needed - row.keys()):
            self.refuse(f"{where} has no field {field!r}; the fields there are {', '.join(row) or 'none'}")
        identity = default_id if (given := row.get(corpus.id_field)) is None else given
        if isinstance(identity, int | float) and not isinstance(identity, bool):
            identity = str(identity)
        identity = self._string(identity, f"{where}: {corpus.id_field}")
        split = hashed_split(identity) if (own := row.get(corpus.split_field)) is None else own
        return {
            "id": identity,
            "split": self._string(split, f"{where}: {corpus.split_field}"),
            "text": self._string(row[corpus.text_field], f"{where}: {corpus.text_field}"),
        }

    def _string(self, value: Any, where: str) -> str:
        if not isinstance(value, str):
            kind = "null" if value is None else type(value).__name__
            self.refuse(f"{where} is {kind}; it must be a string")
        try:
            value.encode()
        except UnicodeEncodeError:
            self.refuse(f"{where} holds a lone surrogate, which is not text")
        return value

    def _lines(self) -> Iterator[str]:
        """Decoded lines with their line ends as they are, without a byte order mark."""
        offset = 0
        try:
            with OPENERS[self.compression](self.path, "rb") as stream:
                for raw in stream:
                    line = raw.decode()
                    yield line if offset else line.removeprefix("\ufeff")
                    offset += len(raw)
        except UnicodeDecodeError as error:
            self.refuse(f"not UTF-8 at byte {offset + error.start} of its text; convert the file to UTF-8")
        except (lzma.LZMAError, gzip.BadGzipFile, zlib.error, EOFError) as error:
            self.refuse(f"a damaged or truncated {self.compression} file ({error})")
        except OSError as error:
            self.refuse(f"cannot be read ({error.strerror})")


def hashed_split(identity: str) -> str:
    """train (90 %), val (5 %) or test (5 %), from the sha256 of a document's id: the same everywhere."""
    percent = int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8]) % 100
    return "train" if percent < 90 else "val" if percent < 95 else "test"


def cache_folder() -> Path:
    """$LENGTHLAB_CACHE, else $XDG_CACHE_HOME/lengthlab, else ~/.cache/lengthlab; not created here."""
    if own := os.environ.get("LENGTHLAB_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lengthlab"


def made(folder: Path) -> Path:
    """The folder of a cache, created where it is missing; raises CorpusError where that is impossible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"the cache cannot be written ({error.strerror})"
        raise CorpusError(f"LENGTHLAB_CACHE: {folder}: {why}; set it to a folder that can") from None
    return folder


def _resolve(file: str) -> list[tuple[str, Path]]:
    """(name in messages, path) of every file that one entry of `files` stands for."""
    if file.startswith("embedded:"):
        names = sorted(path.name.removesuffix(".jsonl.xz") for path in CORPORA.glob("*.jsonl.xz"))
        wanted = file.removeprefix("embedded:")
        if wanted not in names:
            nearest = difflib.get_close_matches(wanted, names, 1, 0.0)[0]
            raise CorpusError(f"data.files={file}: unknown; nearest is embedded:{nearest} ({', '.join(names)})")
        return [(file, CORPORA / f"{wanted}.jsonl.xz")]
    path = Path(file).expanduser()
    matches = [path] if path.exists() else map(Path, sorted(glob.glob(str(path), recursive=True)))
    found = [match for match in matches if match == path or match.is_file()]
    if not found:
        raise CorpusError(f"data.files={file}: no such file; give a path, a glob or embedded:sotu")
    return [(str(path), path) for path in found]


@lru_cache(maxsize=4096)
def _digest(path: Path, size: int, mtime_ns: int) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
