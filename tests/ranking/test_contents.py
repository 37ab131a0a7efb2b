"""Texts: documents with one text, queries that are documents, languages, and how texts are cut into words."""

import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite.ranking.bm25 import Bm25, Bm25Options
from pyrite.ranking.collections.beir import Beir
from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.contents import content_ids, normalized, repeated_in_row, text_hashes
from pyrite.ranking.encoding import EncodedCollection, Encoder, unmatched_queries
from pyrite.ranking.errors import BadInput
from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.evaluation.origins import Bm25Candidates, FullCollection, RandomCandidates, RunFileCandidates
from pyrite.ranking.reading import Reading
from pyrite.ranking.sources import Sources
from pyrite.ranking.vectors import WordVectors
from pyrite.ranking.word_ids import WordIds
from pyrite.sampling.guard import Guard, negatives_lists
from pyrite.sampling.relevant_pairs import RelevantPairs
from pyrite.sampling.retrieval.bm25 import BM25
from tests.made_up import write_texts
from tests.ranking.trained import Lengths

DOCUMENTS = [
    ("d0", "The otter eats fish in the river"),
    ("d1", "the OTTER  eats fish in the river "),  # d0 in other letters
    ("d2", "the heron eats fish at the lake"),
    ("d3", "what does the otter eat"),  # is query q0
    ("q1", "A title. what does the heron eat and where"),  # is query q1, with a title
    ("d5", "the badger sleeps in the forest and eats fruit"),
    ("d6", "The Badger sleeps in the forest and eats fruit"),
]
QUERIES = [
    ("q0", "What does the otter eat"),
    ("q1", "what does the heron eat and where"),
    ("d5", "where sleeps the badger"),
]
RELEVANT = [("q0", "d0"), ("q1", "d2"), ("d5", "d5")]


@pytest.fixture
def folder(tmp_path) -> Path:
    corpus, queries = ([{"_id": name, "text": text} for name, text in rows] for rows in (DOCUMENTS, QUERIES))
    return write_texts(tmp_path / "same", corpus, queries, {"test": [(*pair, 1) for pair in RELEVANT]})


def sources_of(folder: Path, tmp_path: Path, **options: str) -> Sources:
    collection = open_collection(Beir(str(folder)), tmp_path / "cache").changed(**options)
    encoded, words = Encoder(min_count=1).encode(collection)
    return Sources(collection, encoded, WordVectors(np.zeros((len(words), 2), np.float32), np.ones(len(words), bool)))


def ids(sources: Sources, documents: np.ndarray) -> list[list[str]]:
    names = sources.collection.documents["id"].to_list()
    return [[names[document] for document in row if document >= 0] for row in documents.tolist()]


def test_texts_are_the_same_after_case_space_and_composition():
    texts = pl.Series(["  Cafe\u0301\n au  lait", "café au lait", "cafe au lait", ""])
    assert normalized(texts).to_list() == ["café au lait", "café au lait", "cafe au lait", ""]
    assert content_ids(text_hashes(texts)).tolist() == [0, 0, 2, 3]
    assert repeated_in_row(np.array([[3, 1, 3, -1, -1, 1]])).tolist() == [[False, False, True, False, False, True]]


def test_contents_are_decided_at_encoding(folder, tmp_path):
    encoded = sources_of(folder, tmp_path).encoded
    assert encoded.content.tolist() == [0, 0, 2, 3, 4, 5, 5]
    # q0 has the text of d3; q1 is in the text of the document q1; d5 is only called like one.
    assert encoded.itself.tolist() == [3, 4, -1]
    assert encoded.with_queries(np.array([1])).itself.tolist() == [4]
    assert sources_of(folder, tmp_path, self_documents="keep").encoded.itself is None


@pytest.mark.parametrize(
    ("query", "document", "same"),
    [
        ("cat", "the cat sat on the mat", False),
        ("cat", "cats of the world", False),
        ("the cat", "the cat sat on the mat", False),
        ("the cats of the whole world", "the cats of the whole worldwide web", False),
        ("a cat of the whole world", "we know of a cat of the whole world by its name", False),
        ("a cat of the whole world", "Cats. A cat  of the whole world", True),
        ("A title of a paper on cats", "A title of a paper on cats And its abstract, which is longer", True),
        ("Title a cat of the whole world", "a cat of the whole world", True),
        ("cat", "Cat", True),
    ],
)
def test_a_word_in_the_document_of_its_number_does_not_make_a_query_a_document(query, document, same, tmp_path):
    corpus, queries = [{"_id": "1", "text": document}, {"_id": "2", "text": "otter"}], [{"_id": "1", "text": query}]
    folder = write_texts(tmp_path / "numbered", corpus, queries, {"test": [("1", "2", 1)]})
    itself = sources_of(folder, tmp_path).encoded.itself
    assert (itself is not None) == same


def test_a_query_that_is_judged_relevant_for_itself_stays(folder, tmp_path):
    with (folder / "qrels" / "test.tsv").open("a") as file:
        file.write("q0\td3\t1\n")
    assert sources_of(folder, tmp_path).encoded.itself.tolist() == [-1, 4, -1]


def test_no_negative_has_the_text_of_the_positive_or_is_the_query(folder, tmp_path):
    sources = sources_of(folder, tmp_path)
    pairs = RelevantPairs(sources.encoded)
    assert pairs.counts.tolist() == [3, 2, 2]  # d0, d1, d3; d2, q1; d5, d6
    assert [pairs.contents_of(np.array(queries, np.int64)).tolist() for queries in ([0], [2, 0], [])] == [
        [0, 3],
        [0, 3, 5],
        [],
    ]
    among = pairs.among(np.arange(3), np.tile(np.arange(7), (3, 1)))
    assert [np.flatnonzero(row).tolist() for row in among] == [[0, 1, 3], [2, 4], [5, 6]]
    lists, dropped, ranks = negatives_lists(BM25(depth=5, stop_words=False), sources, Guard())
    shown = ids(sources, lists.documents)
    assert not {"d0", "d1", "d3"} & {*shown[0]}
    assert not {"d2", "q1"} & {*shown[1]}
    assert len({"d0", "d1"} & {*shown[1]}) == 1  # one of two with the same text
    assert ranks[1, 0] == 1
    assert dropped.repeats > 0


@pytest.mark.parametrize("origin", [Bm25Candidates(4), RandomCandidates(20), FullCollection(3)])
def test_a_query_is_left_out_of_its_own_ranking(folder, tmp_path, origin):
    sources = sources_of(folder, tmp_path)
    candidates = origin.of(sources, np.arange(3))
    assert "d3" not in ids(sources, candidates.first_stage.documents)[0]
    assert "q1" not in ids(sources, candidates.first_stage.documents)[1]
    if candidates.documents is not None:
        assert "d3" not in ids(sources, candidates.documents)[0]
    kept = sources_of(folder, tmp_path, self_documents="keep")
    first = ids(kept, origin.of(kept, np.arange(3)).first_stage.documents)
    assert "d3" in first[0]
    assert "q1" in first[1]


def test_the_ranks_over_the_whole_collection_leave_the_query_out(folder, tmp_path):
    values = {}
    for option in ("drop", "keep"):
        sources = sources_of(folder, tmp_path, self_documents=option)
        candidates = FullCollection(None).of(sources, np.array([1]))
        values[option] = float(Evaluation(sources.encoded, candidates, ["RR"])(Lengths(step=-1))["RR"][0])
    # The least like the query's length first: d3, d5, d6 and q1 (5 and 9 words) are ahead of d0, d1 and d2 (7).
    assert 1 / values["keep"] - 1 / values["drop"] == pytest.approx(1)


def test_duplicates_are_merged_in_evaluation_if_asked(folder, tmp_path):
    merged = sources_of(folder, tmp_path, duplicates="merge")
    assert merged.encoded.merges
    listed = ids(merged, RandomCandidates(20).of(merged, np.arange(3)).first_stage.documents)
    assert "d5" in listed[2]  # the relevant one of the two
    assert "d6" not in listed[2]
    assert all(len({"d0", "d1"} & {*row}) == 1 for row in listed)
    kept = sources_of(folder, tmp_path)
    assert {"d5", "d6"} <= {*ids(kept, RandomCandidates(20).of(kept, np.arange(3)).first_stage.documents)[2]}


def with_copies(folder: Path, tmp_path: Path, **options: str) -> Sources:
    """Sixty texts, each five times, and two queries with three relevant documents, of which two have one text."""
    texts = [f"otter river number{text}" for text in range(60)]
    corpus = [{"_id": f"d{n}_{copy}", "text": text} for n, text in enumerate(texts) for copy in range(5)]
    queries = [{"_id": f"q{n}", "text": f"otter number{40 + n}"} for n in range(2)]
    relevant = [(f"q{n}", f"d{text}", 1) for n in range(2) for text in (f"{40 + n}_1", f"{40 + n}_2", f"{10 + n}_3")]
    write_texts(folder, corpus, queries, {"test": relevant})
    return sources_of(folder, tmp_path, **options)


@pytest.mark.parametrize("origin", ["bm25", "random", "run_file", "full"])
def test_merged_copies_count_once_for_any_origin(origin, tmp_path):
    sources = with_copies(tmp_path / "copies", tmp_path, duplicates="merge")
    names, run = sources.collection.documents["id"], tmp_path / "all.run"
    run.write_text("".join(f"q{q} Q0 {name} 1 {rank} x\n" for q in range(2) for rank, name in enumerate(names)))
    made = {
        "bm25": Bm25Candidates(30), "random": RandomCandidates(30), "run_file": RunFileCandidates(str(run), 30),
        "full": FullCollection(30),
    }[origin]  # fmt: skip
    encoded, candidates = sources.encoded, made.of(sources, np.arange(2))
    documents = candidates.first_stage.documents if candidates.documents is None else candidates.documents
    assert [len({*encoded.contents(row[row >= 0]).tolist()}) for row in documents] == [30, 30]
    assert candidates.first_stage.counts.tolist() == [30, 30]
    assert documents.shape == (2, 30)
    evaluation = Evaluation(encoded, candidates, ["R@30", "AP@30", "nDCG@10"])
    best = evaluation.of_ideal()
    in_reach = 0.5 if origin in ("bm25", "run_file") and 10 * 5 not in documents[0] else 1.0
    assert best["R@30"][0] == pytest.approx(in_reach)  # of two texts, and not of three documents
    if origin == "full":
        scores = evaluation(Lengths(step=-1))  # all alike, in the order of their ids
        first = sorted(names.to_list()[::5], reverse=True)
        ranks = sorted(1 + first.index(name) for name in ("d40_0", "d10_0"))
        expected = sum((place + 1) / rank for place, rank in enumerate(ranks) if rank <= 30) / 2
        assert scores["AP@30"][0] == pytest.approx(expected)


def test_the_highest_grade_of_copies_counts_and_names_them(encoded_of):
    encoded = encoded_of([[1]] * 5, [[1], [2]], {0: {0: 0, 1: 2, 3: 1}, 1: {4: 1, 3: 1, 2: -1}})
    content = np.array([0, 0, 2, 2, 4], np.int32)
    merged = replace(encoded, content=content, merges=True)
    judgements = merged.counted_judgements()
    assert [dict(zip(*map(np.ndarray.tolist, judgements.of(query)), strict=True)) for query in range(2)] == [
        {0: 2, 2: 1}, {2: 1, 4: 1},
    ]  # fmt: skip
    assert merged.judged_copies(np.arange(2), np.array([[0, 2, 4, -1], [0, 2, 4, -1]], np.int32)).tolist() == [
        [1, 3, 4, -1], [0, 3, 4, -1],
    ]  # fmt: skip
    assert merged.counted(np.arange(5)).tolist() == [0, 0, 2, 2, 4]
    assert [merged.most_documents(texts) for texts in (1, 2, 3, 9)] == [2, 4, 5, 9]
    kept = replace(encoded, content=content)
    assert kept.counted_judgements() is kept.judgements
    assert kept.counted(np.arange(5)).tolist() == [0, 1, 2, 3, 4]


def test_collections_without_repeats_cost_nothing(encoded_of):
    encoded: EncodedCollection = encoded_of([[1], [2]], [[1]], {0: {0: 1}})
    documents = np.array([[0, 1, -1]])
    assert encoded.contents(documents) is documents
    assert encoded.most_copies == 1
    assert replace(encoded, content=np.array([0, 0])).most_copies == 2


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
    assert Bm25Candidates(2).candidates(sources, np.arange(6)).documents[:, 0].tolist() == [0, 1, 2, 3, 4, 5]


def test_how_texts_are_cut():
    texts = pl.Series(["水獭 iPhone手机", "", "猫", "ไทย", "Two words", "?"])
    characters = [["水", "水獭", "獭", "iphone", "手", "手机", "机"], [], ["猫"], ["ไ", "ไท", "ท", "ทย", "ย"]]
    assert Reading("characters").words(texts).to_list() == [*characters, ["two", "words"], []]
    assert Reading().words(texts).to_list()[0] == ["水獭", "iphone手机"]


def test_the_language_decides_stems_and_stop_words(tmp_path):
    documents = ["die Häuser der Stadt", "the houses of a town", "ein Baum"]
    for language, expected in (("german", [0]), (None, [-1])):
        assert first_of(collection_of(tmp_path / str(language), documents, ["Hauses"], language=language)) == expected


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


@pytest.mark.parametrize("duplicates", ["keep", "merge"])
def test_a_random_document_takes_the_place_of_the_query_itself(folder, tmp_path, duplicates):
    sources = sources_of(folder, tmp_path, duplicates=duplicates)
    for seed in range(20):
        found = ids(sources, RandomCandidates(3, seed).of(sources, np.arange(3)).documents)
        assert [len(documents) for documents in found] == [3, 3, 3]
