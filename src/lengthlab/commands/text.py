"""The tokenized text of a job, built once and read by every job that shares corpus and tokenizer."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from lengthlab.commands import build
from lengthlab.data import Corpus, Recipe, TokenFile, load_or_train, read_tokenizer, tokenize, vocabulary
from lengthlab.measurement import Text
from lengthlab.study import Run


@dataclass(frozen=True)
class TextSource:
    """Tokens, their tokenizer and what the two are called in a cell's identity."""

    corpus: str
    tokenizer_fingerprint: str
    tokenizer: object
    tokens: TokenFile

    @classmethod
    def of_training(cls, config: Mapping) -> "TextSource":
        """The text that a run is trained on, with the tokenizer of its config (trained where there is none yet)."""
        return _tokenized(build.corpus_of(config), build.recipe_of(config))

    @classmethod
    def of_run(cls, run: Run, config: Mapping) -> "TextSource":
        """The text that a run is evaluated on, with the run's own tokenizer."""
        corpus, fingerprint = build.corpus_of(config), run.record["training"]["tokenizer"]
        tokenizer = read_tokenizer(run.tokenizer)
        return cls(corpus.fingerprint, fingerprint, tokenizer, tokenize(corpus, tokenizer, fingerprint))

    @cached_property
    def vocabulary(self):
        """Size, BOS and bytes per token."""
        return vocabulary(self.tokenizer)

    def arrays(self, split: str) -> list[np.ndarray]:
        """The documents of a split that have a token; none where no document is in that split."""
        documents = self.tokens.documents(split) if split in self.tokens.splits else []
        return [document.tokens for document in documents if len(document.tokens)]

    def texts(self, split: str) -> list[Text]:
        """The documents of a split as they are measured."""
        return [Text(document.id, document.tokens) for document in self.tokens.documents(split)]


@lru_cache
def _tokenized(corpus: Corpus, recipe: Recipe) -> TextSource:
    """Opened once for all jobs of a sweep."""
    fingerprint = recipe.fingerprint(corpus.fingerprint)
    tokenizer = load_or_train(recipe, corpus)
    return TextSource(corpus.fingerprint, fingerprint, tokenizer, tokenize(corpus, tokenizer, fingerprint))
