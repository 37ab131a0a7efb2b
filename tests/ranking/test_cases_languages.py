"""Languages: composed letters, scripts without blanks, and one way to cut texts for all that counts words.

Words are numbered as they are read.
"""

import unicodedata
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.bm25 import Bm25, Bm25Options
from ranking.collections.beir import Beir
from ranking.collections.cache import open_collection
from ranking.collections.collection import Collection
from ranking.encoding import Encoder, unmatched_queries
from ranking.errors import BadInput
from ranking.evaluation.origins import Bm25Candidates
from ranking.reading import Reading
from ranking.sources import Sources
from ranking.vectors import WordVectors
from ranking.word_ids import WordIds
from tests.made_up import write_texts

CHINESE = ["水獭住在河里", "苍鹭住在沼泽", "獾住在山地", "猫头鹰住在树上", "狐狸住在洞里", "蝙蝠住在岩洞"]
ASKED = ["请问水獭呢", "苍鹭在哪", "獾呢", "什么猫头鹰", "狐狸", "看见蝙蝠"]


def collection_of(folder: Path, documents: list[str], queries: list[str], **options: object) -> Collection:
    corpus, asked = (
        [{"_id": f"{name}{n}", "text": text} for n, text in enumerate(texts)]
        for name, texts in (("c", documents), ("q", queries))
    )
    write_texts(folder, corpus, asked, {"test": [(f"q{n}", f"c{n}", 1) for n in range(len(queries))]})
    return open_collection(Beir(folder, **options), folder / "cache")


def first_of(collection: Collection) -> list[int]:
    """BM25's first document of each query."""
    lists, _ = Bm25(collection, Bm25Options()).search(np.arange(len(collection.queries)), 3)
    return lists.documents[:, 0].tolist()


def test_composed_and_decomposed_letters_are_the_same_words(tmp_path):
    words = ["écureuil", "héron", "élan", "blaireau"]
    documents = [unicodedata.normalize("NFD", f"un {word} dort") for word in words]
    collection = collection_of(tmp_path, documents, words, language=None)
    assert first_of(collection) == [0, 1, 2, 3]
    assert not len(unmatched_queries(Encoder(min_count=1).encode(collection)[0]))


def test_characters_find_what_words_cannot(tmp_path):
    words = collection_of(tmp_path, CHINESE, ASKED)
    assert first_of(words) == [-1] * 6
    assert len(unmatched_queries(Encoder(min_count=1).encode(words)[0])) == 6
    characters = collection_of(tmp_path, CHINESE, ASKED, tokenizer="characters")
    assert first_of(characters) == [0, 1, 2, 3, 4, 5]
    assert characters.fingerprint != words.fingerprint
    encoded = Encoder(min_count=1).encode(characters)[0]
    assert not len(unmatched_queries(encoded))
    sources = Sources(characters, encoded, WordVectors(np.zeros((1, 1), np.float32), np.zeros(1, bool)))
    candidates = Bm25Candidates(2).candidates(sources, np.arange(6))
    assert candidates.documents[:, 0].tolist() == [0, 1, 2, 3, 4, 5]


def test_how_texts_are_cut():
    texts = pl.Series(["水獭 iPhone手机", "", "猫", "ไทย", "Two words", "?"])
    characters = [["水", "水獭", "獭", "iphone", "手", "手机", "机"], [], ["猫"], ["ไ", "ไท", "ท", "ทย", "ย"]]
    assert Reading("characters").words(texts).to_list() == [*characters, ["two", "words"], []]
    assert Reading().words(texts).to_list()[0] == ["水獭", "iphone手机"]


def test_the_language_decides_stems_and_stop_words(tmp_path):
    documents = ["die Häuser der Stadt", "the houses of a town", "ein Baum"]
    for language, expected in (("german", [0]), (None, [-1])):
        collection = collection_of(tmp_path / str(language), documents, ["Hauses"], language=language)
        assert first_of(collection) == expected


def test_subwords_need_a_tokenizer():
    with pytest.raises(BadInput, match=r"collection\.subwords: no tokenizer is named"):
        Reading("subwords")
    with pytest.raises(BadInput, match="choose words, characters or subwords"):
        Reading("letters")


TEXT = st.text(st.sampled_from("abÀİßéＡ١कि食べ物ไทย\u0301\0 -_\n\x7fZ9") | st.characters(codec="utf-8"), max_size=30)


@given(st.lists(st.lists(TEXT, max_size=6), min_size=1, max_size=3), st.sampled_from(["words", "characters"]))
def test_words_are_those_of_the_reading(chunks, tokenizer):
    reading, ids, words = Reading(tokenizer), WordIds(Reading(tokenizer)), []
    for chunk in chunks:
        texts = pl.Series("text", chunk, pl.String)
        numbers, lengths, new = ids.read(texts)
        words += new
        expected = reading.words(texts).to_list()
        assert lengths.tolist() == list(map(len, expected))
        assert [words[number] for number in numbers] == [word for read in expected for word in read]
    assert len(words) == len(set(words))


def test_many_words_are_told_apart_and_found_again():
    ids = WordIds(Reading())
    every = [f"w{number}" for number in range(9_000)]
    numbers, lengths, new = ids.read(pl.Series("text", [" ".join(every), "", " ".join(every).upper()]))
    assert lengths.tolist() == [9_000, 0, 9_000]
    assert new == every
    assert numbers.tolist() == [*range(9_000), *range(9_000)]
    assert ids.read(pl.Series("text", ["w8999 w0 new"]))[0].tolist() == [8_999, 0, 9_000]


@pytest.mark.parametrize("texts", [[], [""], ["", " ,"]])
def test_texts_without_words(texts):
    numbers, lengths, new = WordIds(Reading()).read(pl.Series("text", texts, pl.String))
    assert (len(numbers), new) == (0, [])
    assert lengths.tolist() == [0] * len(texts)
