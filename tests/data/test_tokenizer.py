"""Tokenizers: exact both ways, BOS unreachable from text, trained on the train split alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lengthlab import UserError
from lengthlab.data import Corpus, CorpusError, Document, Recipe, load_or_train, read_tokenizer, vocabulary

TINY = Corpus("tiny", ["embedded:tiny"])
RECIPES = [Recipe("bytes"), Recipe("bpe", 512)]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module", params=RECIPES, ids=lambda recipe: recipe.kind)
def tokenizer(request, cache):
    return load_or_train(request.param, TINY, cache)


def fixed(monkeypatch, *documents):
    monkeypatch.setattr(Corpus, "documents", lambda self, cache=None: list(documents))


def check_exact(tokenizer, text):
    tokens = tokenizer.encode(text).ids
    words = vocabulary(tokenizer)
    assert words.bos not in tokens
    assert tokenizer.decode(tokens, skip_special_tokens=False) == text
    assert words.token_bytes[np.array(tokens, dtype=int)].sum() == len(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<bos>",
        "a<bos><bos> <bos>\n",
        "👩‍👩‍👧 🇫🇷",
        "\x00\x00",
        "a\r\nb\r",
        "  two  spaces ",
        "é" * 50,
        "\ufeff日本",
    ],
)
def test_hard_texts_come_back_exactly(tokenizer, text):
    check_exact(tokenizer, text)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(text=st.text())
def test_any_text_comes_back_exactly(tokenizer, text):
    check_exact(tokenizer, text)


def test_one_file_holds_either_kind(tokenizer, tmp_path):
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    again = read_tokenizer(tmp_path / "tokenizer.json")
    assert again.get_vocab() == tokenizer.get_vocab()
    check_exact(again, "a <bos> in the saved one")
    assert again.encode("We the people").ids == tokenizer.encode("We the people").ids


def test_bytes_are_the_bytes(cache):
    tokenizer = load_or_train(Recipe("bytes"), TINY, cache)
    text = "".join(chr(byte) for byte in range(256)) + "👍"
    assert tokenizer.encode(text).ids == [byte + 1 for byte in text.encode()]
    assert vocabulary(tokenizer).token_bytes.tolist() == [0] + [1] * 256


def test_bpe_has_the_size_asked_for_and_shorter_documents(cache):
    words = vocabulary(load_or_train(Recipe("bpe", 512), TINY, cache))
    assert (words.size, words.bos, words.token_bytes[0]) == (512, 0, 0)
    assert words.token_bytes[1:].min() == 1
    assert words.token_bytes.max() > 3


def test_training_reads_the_train_split_alone(monkeypatch, tmp_path):
    train, test = (
        Document("a", "train", "low lower lowest " * 20),
        Document("b", "test", "zebra zebras " * 99),
    )
    fixed(monkeypatch, train, test)
    both = load_or_train(Recipe("bpe", 300), TINY, tmp_path / "both")
    fixed(monkeypatch, train)
    assert load_or_train(Recipe("bpe", 300), TINY, tmp_path / "one").to_str() == both.to_str()
    fixed(monkeypatch, test)
    with pytest.raises(CorpusError, match=r"no document in the train split \(only test\)"):
        load_or_train(Recipe("bpe", 300), TINY, tmp_path / "none")


def test_a_corpus_that_is_full_of_bos_does_not_train_it(monkeypatch, tmp_path):
    fixed(monkeypatch, *[Document(str(index), "train", "<bos>") for index in range(50)])
    check_exact(load_or_train(Recipe("bpe", 400), TINY, tmp_path), "x<bos> <bos><bos>")


def test_a_tokenizer_is_trained_once_and_again_where_the_file_is_damaged(monkeypatch, tmp_path):
    recipe = Recipe("bpe", 300)
    first = load_or_train(recipe, TINY, tmp_path).to_str()
    (path,) = (tmp_path / "tokenizers").iterdir()
    assert path.name == f"{recipe.fingerprint(TINY.fingerprint)}.json"
    path.write_text(first[: len(first) // 2])
    assert load_or_train(recipe, TINY, tmp_path).to_str() == first
    monkeypatch.setattr(Corpus, "documents", None)
    assert load_or_train(recipe, TINY, tmp_path).to_str() == first


def test_the_fingerprint_is_the_recipe():
    assert Recipe("bytes", 999) == Recipe("bytes")
    assert Recipe("bytes", 999).fingerprint("a") == Recipe("bytes", 5).fingerprint("b")
    named = [Recipe("bytes").fingerprint("a")]
    named += [Recipe("bpe", vocab).fingerprint(corpus) for vocab in (257, 258) for corpus in "ab"]
    assert len(set(named)) == 5


def test_bad_recipes_and_files_are_refused(tmp_path):
    with pytest.raises(UserError, match="^kind=byte: unknown; nearest is bytes"):
        Recipe("byte")
    for vocab in (256, 2**32 + 1, 300.0, True, None):
        with pytest.raises(UserError, match=f"^vocab={vocab}: must be a whole number from 257"):
            Recipe("bpe", vocab)
    (tmp_path / "a.json").write_text("{}")
    for name in ("a.json", "missing.json"):
        with pytest.raises(UserError, match=f"^tokenizer=.*{name}: cannot be read"):
            read_tokenizer(tmp_path / name)
