"""Bytes or a trained BPE, both one `tokenizers.Tokenizer` in one tokenizer.json, with BOS as token 0."""

import difflib
import hashlib
import json
import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lengthlab import UserError
from lengthlab.data.corpus import Corpus, CorpusError, cache_folder, made

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BOS = "<bos>"
BYTES_VOCAB = 257  # 256 bytes and BOS
FORMAT = 1  # raise it when the same recipe starts to give another tokenizer
KINDS = ("bytes", "bpe")


@dataclass(frozen=True)
class Recipe:
    """What a tokenizer is made by; `vocab` counts BOS and is 257 for bytes, whatever is given."""

    kind: str
    vocab: int = BYTES_VOCAB

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            nearest = difflib.get_close_matches(str(self.kind), KINDS, 1, 0.0)[0]
            raise UserError(f"kind={self.kind}: unknown; nearest is {nearest} ({', '.join(KINDS)})")
        if self.kind == "bytes":
            object.__setattr__(self, "vocab", BYTES_VOCAB)
        elif type(self.vocab) is not int or not BYTES_VOCAB <= self.vocab <= 2**32:
            raise UserError(f"vocab={self.vocab}: must be a whole number from {BYTES_VOCAB} to 2**32")

    def fingerprint(self, corpus_fingerprint: str) -> str:
        """sha256 over the recipe and, for a trained kind, the corpus: known before anything is trained."""
        corpus = corpus_fingerprint if self.kind == "bpe" else None
        return hashlib.sha256(json.dumps([FORMAT, self.kind, self.vocab, corpus]).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Size V, the id of BOS, and how many UTF-8 bytes each token stands for: (V,) int64, 0 for BOS."""

    size: int
    bos: int
    token_bytes: np.ndarray


def load_or_train(recipe: Recipe, corpus: Corpus, cache: str | os.PathLike | None = None) -> "Tokenizer":
    """The recipe's tokenizer, from the cache or trained on the corpus's train split and put there."""
    folder = made(Path(cache or cache_folder()) / "tokenizers")
    fingerprint = recipe.fingerprint(corpus.fingerprint if recipe.kind == "bpe" else "")
    path = folder / f"{fingerprint}.json"
    if path.exists():
        try:
            return read_tokenizer(path)
        except UserError:
            pass  # a damaged entry of the cache is made again
    tokenizer = _byte_level(_bytes_model()) if recipe.kind == "bytes" else _train(recipe, corpus, cache)
    half = folder / f".{fingerprint}-{secrets.token_hex(4)}"
    half.write_text(tokenizer.to_str())
    os.replace(half, path)
    return tokenizer


def read_tokenizer(path: str | os.PathLike) -> "Tokenizer":
    """A tokenizer.json that this module wrote; raises UserError for any other file."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(Path(path).read_text(encoding="utf-8"))
    except Exception as error:  # `tokenizers` raises bare Exception
        raise UserError(f"tokenizer={os.fspath(path)}: cannot be read ({error})") from None
    if tokenizer.token_to_id(BOS) != 0 or tokenizer.get_added_tokens_decoder():
        raise UserError(f"tokenizer={os.fspath(path)}: not written by lengthlab ({BOS} is not its plain token 0)")
    return tokenizer


def vocabulary(tokenizer: "Tokenizer") -> Vocabulary:
    """Sizes and bytes of a tokenizer's tokens; in byte-level BPE one character of a token is one byte."""
    ids = tokenizer.get_vocab()
    token_bytes = np.zeros(len(ids), dtype=np.int64)
    for token, index in ids.items():
        token_bytes[index] = 0 if token == BOS else len(token)
    return Vocabulary(size=len(ids), bos=ids[BOS], token_bytes=token_bytes)


def _byte_level(model: object) -> "Tokenizer":
    """A tokenizer around a BPE model that holds BOS as a plain token, not as an added one.

    An added token would be found inside a document that says "<bos>". As a plain token it can't be reached
    from text: the pre-tokenizer never leaves letters and punctuation in one piece, so no merge builds it.
    """
    from tokenizers import Tokenizer, decoders, pre_tokenizers

    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _bytes_model() -> object:
    """BPE without merges: byte b is token b + 1."""
    from tokenizers import models

    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]  # byte-level BPE names these from U+0100 on
    character = {byte: chr(byte) for byte in printable} | {b: chr(256 + n) for n, b in enumerate(others)}
    return models.BPE(vocab={BOS: 0} | {character[byte]: byte + 1 for byte in range(256)}, merges=[])


def _train(recipe: Recipe, corpus: Corpus, cache: str | os.PathLike | None) -> "Tokenizer":
    from tokenizers import models, pre_tokenizers, trainers

    documents = corpus.documents(cache)
    texts = [document.text for document in documents if document.split == "train"]
    if not texts:
        splits = ", ".join(sorted({document.split for document in documents}))
        raise CorpusError(
            f"data.files={','.join(corpus.files)}: no document in the train split (only {splits}), "
            "and a bpe is trained on it; add train documents or use data.tokenizer.kind=bytes"
        )
    trained = _byte_level(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=recipe.vocab,
        min_frequency=2,  # a pair seen once is a quotation, not a token
        special_tokens=[BOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=sys.stderr.isatty(),
    )
    trained.train_from_iterator(texts, trainer, length=len(texts))
    return _byte_level(trained.model)
