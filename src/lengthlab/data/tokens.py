"""The token file: a corpus under a tokenizer as one flat memory-mapped array, built once and cached."""

import contextlib
import difflib
import hashlib
import json
import os
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lengthlab import UserError
from lengthlab.data.corpus import Corpus, CorpusError, Document, cache_folder, made
from lengthlab.data.tokenizer import Vocabulary, vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FORMAT = 1  # raise it when the files of a token folder change
PIECE = 1 << 18  # characters: an encoded piece takes about 100 bytes a token until it is copied
BATCH = 1 << 21  # characters that are encoded at once
# Byte-level BPE always starts a new word at a space or line end after a letter or digit, so a cut there
# changes no token.
CUT = re.compile(r"(?<=[0-9A-Za-z])(?=[ \n])")


@dataclass(frozen=True, eq=False)
class TokenDocument:
    """A document's tokens (N,), read-only and without BOS; N may be 0."""

    id: str
    tokens: np.ndarray


class TokenFile:
    """A token folder: tokens.bin (uint16 or uint32), offsets.npy (D + 1,), meta.json."""

    def __init__(self, folder: str | os.PathLike) -> None:
        """Opens a finished folder; raises ValueError, KeyError or OSError where it is damaged."""
        folder = Path(folder)
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        self.fingerprint: str = meta["fingerprint"]
        self._ids: list[str] = meta["ids"]
        self._splits: list[str] = meta["splits"]
        self._offsets = np.load(folder / "offsets.npy")
        dtype = np.dtype(meta["dtype"])
        total = int(self._offsets[-1])
        if (folder / "tokens.bin").stat().st_size != total * dtype.itemsize:
            raise ValueError(f"{folder / 'tokens.bin'}: not the {total} tokens that its offsets say")
        if not len(self._ids) == len(self._splits) == len(self._offsets) - 1:
            raise ValueError(f"{folder / 'meta.json'}: not one id and split for every document")
        # An empty file can't be mapped.
        mapped = np.memmap(folder / "tokens.bin", dtype=dtype, mode="r") if total else np.empty(0, dtype)
        self._tokens = mapped.view(np.ndarray)

    @property
    def splits(self) -> dict[str, int]:
        """Documents per split, in the order in which the splits first come."""
        return dict(Counter(self._splits))

    def documents(self, split: str) -> list[TokenDocument]:
        """The split's documents in file order; raises CorpusError for a split that no document has."""
        if split not in self.splits:
            nearest = difflib.get_close_matches(str(split), self.splits, 1, 0.0)[0]
            there = ", ".join(f"{name}: {count}" for name, count in self.splits.items())
            raise CorpusError(f"split={split}: no document has it; nearest is {nearest} (documents: {there})")
        return [
            TokenDocument(identity, self._tokens[self._offsets[index] : self._offsets[index + 1]])
            for index, (identity, own) in enumerate(zip(self._ids, self._splits, strict=True))
            if own == split
        ]


def tokenize(
    corpus: Corpus,
    tokenizer: "Tokenizer",
    tokenizer_fingerprint: str,
    cache: str | os.PathLike | None = None,
) -> TokenFile:
    """The corpus's token file, cached or built now; any number of processes may ask at once."""
    source = {"corpus": corpus.fingerprint, "tokenizer": tokenizer_fingerprint}
    key = json.dumps([FORMAT, corpus.cache_key, tokenizer_fingerprint])
    fingerprint = hashlib.sha256(key.encode()).hexdigest()
    final = made(Path(cache or cache_folder()) / "tokens") / fingerprint
    if (cached := _open(final)) is not None:
        return cached
    half = final.with_name(f".{fingerprint}-{secrets.token_hex(4)}")
    half.mkdir()
    try:
        _build(half, corpus.documents(cache), tokenizer, {"fingerprint": fingerprint, **source})
        built = TokenFile(half)  # opened before it moves: what another process does to the cache can't take it away
        _publish(half, final)
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return built


def _open(folder: Path) -> TokenFile | None:
    try:
        return TokenFile(folder)
    except (OSError, ValueError, KeyError, TypeError, IndexError, EOFError):
        return None  # missing or damaged: built again


def _publish(half: Path, final: Path) -> None:
    """Renames half to final, where a sound folder of another process may stay and a damaged one gives way."""
    if final.exists() and _open(final) is None:
        damaged = half.with_name(half.name + "-damaged")
        with contextlib.suppress(FileNotFoundError):  # another process was faster
            os.rename(final, damaged)
        shutil.rmtree(damaged, ignore_errors=True)
    with contextlib.suppress(OSError):  # another process has put the same tokens there
        os.rename(half, final)


def _build(folder: Path, documents: list[Document], tokenizer: "Tokenizer", source: dict[str, str]) -> None:
    words = vocabulary(tokenizer)
    dtype = np.dtype(np.uint16 if words.size <= 1 << 16 else np.uint32)
    lengths = np.zeros(len(documents), dtype=np.int64)
    kept = np.zeros(len(documents), dtype=np.int64)
    with open(folder / "tokens.bin", "wb") as stream:
        for index, tokens in _encoded(documents, tokenizer):
            lengths[index] += len(tokens)
            kept[index] += words.token_bytes[tokens].sum()
            tokens.astype(dtype).tofile(stream)
    _check(documents, kept, words)
    np.save(folder / "offsets.npy", np.concatenate([[0], lengths.cumsum()]))
    meta = {
        **source,
        "dtype": dtype.name,
        "vocab": words.size,
        "ids": [document.id for document in documents],
        "splits": [document.split for document in documents],
    }
    (folder / "meta.json").write_text(json.dumps(meta), encoding="utf-8")


def _check(documents: list[Document], kept: np.ndarray, words: Vocabulary) -> None:
    for document, found in zip(documents, kept, strict=True):
        expected = len(document.text.encode())
        if found != expected:
            raise UserError(
                f"tokenizer of {words.size} tokens: keeps {found} of the {expected} bytes of document "
                f"{document.id!r}; use one that lengthlab made"
            )


def _encoded(documents: list[Document], tokenizer: "Tokenizer") -> Iterator[tuple[int, np.ndarray]]:
    """(document's index, tokens of its next piece), in order."""
    pieces = ((index, piece) for index, document in enumerate(documents) for piece in _pieces(document.text))
    batch: list[tuple[int, str]] = []
    size = 0
    for index, piece in pieces:
        batch.append((index, piece))
        size += len(piece)
        if size >= BATCH:
            yield from _encoded_batch(batch, tokenizer)
            batch, size = [], 0
    yield from _encoded_batch(batch, tokenizer)


def _encoded_batch(batch: list[tuple[int, str]], tokenizer: "Tokenizer") -> Iterator[tuple[int, np.ndarray]]:
    encodings = tokenizer.encode_batch_fast([piece for _, piece in batch], add_special_tokens=False)
    for (index, _), encoding in zip(batch, encodings, strict=True):
        yield index, np.array(encoding.ids, dtype=np.int64)


def _pieces(text: str) -> Iterator[str]:
    start = 0
    while cut := CUT.search(text, start + PIECE):
        yield text[start : cut.start()]
        start = cut.start()
    yield text[start:]
