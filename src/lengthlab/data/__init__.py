"""Text to tokens: corpora of documents with a split, tokenizers, and the cached token file."""

from lengthlab.data.corpus import Corpus, CorpusError, Document, cache_folder
from lengthlab.data.tokenizer import Recipe, Vocabulary, load_or_train, read_tokenizer, vocabulary
from lengthlab.data.tokens import TokenDocument, TokenFile, tokenize

__all__ = [
    "Corpus",
    "CorpusError",
    "Document",
    "Recipe",
    "TokenDocument",
    "TokenFile",
    "Vocabulary",
    "cache_folder",
    "load_or_train",
    "read_tokenizer",
    "tokenize",
    "vocabulary",
]
