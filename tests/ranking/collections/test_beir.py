"""BEIR folders, whole and broken."""

import gzip
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from pyrite.ranking.collections.beir import Beir
from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.format_of import format_of, reader_of
from pyrite.ranking.errors import BadInput
from tests.examples import few

WriteBeir = Callable[..., Path]
LETTERS = st.text("abcXYZ 0189é\"\\\t,'", min_size=1, max_size=15).filter(lambda text: text.strip() != "")
IDS = st.text("abcXYZ0189-_:.é", min_size=1, max_size=8)


@pytest.mark.parametrize("packed", [False, True])
def test_beir_folder(write_beir, cache, packed):
    collection = open_collection(Beir(write_beir(packed=packed)), cache)
    assert collection.name == "tiny"
    assert collection.documents.rows() == [
        ("d1", "Moles dig tunnels", "animals", "small"),
        ("d2", "Bats hang upside down", "animals", None),
        ("d3", "Quartz is a mineral", None, None),
    ]
    assert collection.queries.rows() == [
        ("q1", "who digs?", "train", "biology", "moles"),
        ("q2", "who hangs?", "dev", None, None),
        ("q3", "what is quartz?", "test", None, None),
    ]
    assert collection.judgements.rows() == [("q1", "d1", 1), ("q1", "d2", 0), ("q2", "d2", 2), ("q3", "d3", 1)]
    assert collection.judgements["grade"].dtype == pl.Int32
    assert collection.skipped == {}


def test_queries_without_judgements_are_left_out(write_beir, cache):
    collection = open_collection(Beir(write_beir(qrels={"test": [("q2", "d2", 1)]})), cache)
    assert collection.queries["id"].to_list() == ["q2"]
    assert collection.queries["split"].to_list() == [None]
    assert collection.facts == {
        "queries without judgements": "2 left out",
        "judgements of the test split only": "1 queries, which are cross-validated",
    }


ABOUT = [("q1", "as a poem"), ("q3", " in one word "), ("q9", "never"), ("q1", "again")]
"""Instructions of queries: one of a query that is not there, two of one."""


@pytest.mark.parametrize(
    "name", ["instruction.jsonl", "instruction/test-00000-of-00001.parquet", "instructions.parquet"]
)
def test_instructions_stand_behind_their_queries(write_beir, cache, name):
    folder = write_beir()
    table = pl.DataFrame(ABOUT, ["query-id", "instruction"], orient="row")
    (folder / name).parent.mkdir(exist_ok=True)
    (table.write_parquet if name.endswith("parquet") else table.write_ndjson)(folder / name)
    collection = open_collection(Beir(folder), cache)
    assert collection.queries["text"].to_list() == ["who digs? as a poem", "who hangs?", "what is quartz? in one word"]
    assert collection.facts["queries with an instruction behind their text, as in MTEB"] == "2"
    assert collection.facts["instructions of queries that are not there (left out)"] == "1"
    assert collection.facts["queries with another instruction too (the first counts)"] == "1"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"text": "x"}', "not a `query-id` and an `instruction`: it has text"),
        ('{"query-id": "q1", "instruction": null}', "`instruction` is not a string"),
    ],
)
def test_a_broken_instruction_is_one_line(write_beir, cache, line, says):
    folder = write_beir()
    (folder / "instruction.jsonl").write_text(line + "\n")
    with pytest.raises(BadInput, match=rf"instruction\.jsonl:1: broken line: {says}"):
        open_collection(Beir(folder), cache)


CORPUS_LINE = '{"_id": "d9", "title": "", "text": "something"}'
FAULTS = [
    ("corpus", '{"_id": "d9", "text"', "broken line", "not JSON"),
    ("corpus", '["d9", "text"]', "broken line", "not a JSON object"),
    ("corpus", '{"text": "x"}', "broken line", "no `_id`"),
    ("corpus", '{"_id": ["x"], "text": "x"}', "broken line", "`_id` is not a string"),
    ("corpus", '{"_id": "d9"}', "broken line", "no `text`"),
    ("corpus", '{"_id": "d9", "text": {"x": 1}}', "broken line", "`text` is not a string"),
    ("corpus", '{"_id": "d9", "text": "half \\ud83d"}', "broken line", "half of a surrogate pair"),
    ("corpus", '{"_id": "", "text": "x"}', "broken line", "a document has no id"),
    ("corpus", '{"_id": "d9", "title": " ", "text": "\\n"}', "empty text", "the document 'd9' has no text"),
    ("corpus", '{"_id": "d1", "text": "another"}', "duplicate id", "another document is called 'd1'"),
    ("queries", '{"_id": "q9", "text": " "}', "empty text", "the query 'q9' has no text"),
    ("queries", '{"_id": "q1", "text": "another"}', "duplicate id", "another query is called 'q1'"),
]


@pytest.mark.by_day(4)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("file", "line", "kind", "complaint"), FAULTS)
def test_faulty_texts(write_beir, read, faulty, file, line, kind, complaint, packed):
    folder = write_beir(packed=packed)
    whole = read(Beir(folder))
    path = folder / (f"{file}.jsonl.gz" if packed else f"{file}.jsonl")
    text = (gzip.decompress(path.read_bytes()) if packed else path.read_bytes()) + f"\n{line}\n".encode()
    path.write_bytes(gzip.compress(text) if packed else text)
    skipping = faulty(Beir(folder), f"{path}:5", kind, complaint)
    assert skipping.documents.equals(whole.documents)
    assert skipping.queries.equals(whole.queries)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("line", "kind", "complaint"),
    [
        ("q1\td1", "broken line", "not 3 columns"),
        ("q1\td2\thigh", "broken line", "grade 'high' is not a whole number"),
        ("q1\td7\t1", "unknown document", "no document is called 'd7'"),
        ("q7\td1\t1", "unknown query", "no query is called 'q7'"),
        ("q3\td1\t2", "query in two splits", "the query 'q3' has judgements in another split too"),
    ],
)
def test_faulty_judgements(write_beir, read, faulty, line, kind, complaint):
    folder = write_beir()
    whole = read(Beir(folder))
    with (folder / "qrels" / "train.tsv").open("a") as file:
        file.write(f"{line}\n")
    skipping = faulty(Beir(folder), f"{folder / 'qrels' / 'train.tsv'}:4", kind, complaint)
    assert skipping.judgements.rows() == whole.judgements.rows()
    assert skipping.queries.equals(whole.queries)


def test_half_a_character_in_an_array_is_named_or_skipped(write_beir, faulty):
    folder = write_beir(corpus=[], qrels={"test": [("q1", "d1", 1)]})
    (folder / "corpus.jsonl").unlink()
    (folder / "corpus.json").write_text('[{"_id": "d1", "text": "x"},\n{"_id": "d9", "text": "half \\ud83d"}]')
    skipping = faulty(Beir(folder), f"{folder / 'corpus.json'}:2", "broken line", "half of a surrogate pair")
    assert skipping.documents["id"].to_list() == ["d1"]


def test_a_judgement_of_a_skipped_document_is_skipped_too(write_beir, cache):
    folder = write_beir(corpus=['{"_id": "d1", "text": ""}', CORPUS_LINE, '{"_id": "d2", "text": "x"}', "nonsense"])
    collection = open_collection(Beir(folder), cache, strict=False)
    assert collection.skipped == {"empty text": 1, "broken line": 1, "unknown document": 2}
    assert collection.documents["id"].to_list() == ["d9", "d2"]
    assert collection.queries["id"].to_list() == ["q1", "q2"]


@pytest.mark.parametrize(
    "names", [("dev.tsv", "validation.tsv"), ("test.tsv", "eval.tsv"), ("test.tsv", "test.csv"),
              ("test.tsv", "test-00000-of-00001.parquet")],
)  # fmt: skip
def test_two_files_of_a_split_do_not_make_it_trec(write_beir, names):
    """TREC has no splits: the test queries would train."""
    folder = write_beir(qrels={"train": [("q1", "d1", 1)]})
    for name in names:
        (folder / "qrels" / name).write_text("q2\td2\t1\n")
    assert format_of(folder) == "beir"
    with pytest.raises(BadInput, match=r"two files of the split .*; move one of them elsewhere"):
        reader_of(folder).sources()


@pytest.mark.parametrize("strict", [True, False])
def test_missing_files(write_beir, cache, tmp_path, strict):
    with pytest.raises(BadInput, match="no such folder"):
        open_collection(Beir(tmp_path / "none"), cache, strict)
    for name in ("corpus.jsonl", "queries.jsonl"):
        folder = write_beir()
        (folder / name).unlink()
        with pytest.raises(BadInput, match=f"{name}: no such file"):
            open_collection(Beir(folder), cache, strict)


@pytest.mark.parametrize("strict", [True, False])
def test_nothing_to_read(write_beir, cache, strict):
    with pytest.raises(BadInput, match="not one document"):
        open_collection(Beir(write_beir(corpus=[])), cache, strict)
    folder = write_beir(qrels={"train": [], "dev": [], "test": []})
    with pytest.raises(BadInput, match="not one judgement"):
        open_collection(Beir(folder), cache, strict)


def no_text_twice(queries: dict[str, str]) -> bool:
    """Whether no two queries would be joined."""
    return len({" ".join(text.lower().split()) for text in queries.values()}) == len(queries)


@few(6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    corpus=st.dictionaries(IDS, st.tuples(LETTERS, LETTERS, st.none() | LETTERS), min_size=1, max_size=8),
    queries=st.dictionaries(IDS, LETTERS, min_size=1, max_size=8).filter(no_text_twice),
    packed=st.booleans(),
    data=st.data(),
)
def test_any_collection_survives_being_written(write_beir, tmp_path_factory, corpus, queries, packed, data):
    splits = {query: data.draw(st.sampled_from(["train", "dev", "test"])) for query in queries}
    judged = {
        query: data.draw(st.dictionaries(st.sampled_from(sorted(corpus)), st.integers(-2, 4), min_size=1))
        for query in queries
    }
    where = tmp_path_factory.mktemp("any")
    write_beir(
        [{"_id": i, "title": t, "text": b, "metadata": {"category": c}} for i, (t, b, c) in corpus.items()],
        [{"_id": i, "text": text} for i, text in queries.items()],
        {
            split: [(q, d, grade) for q in queries if splits[q] == split for d, grade in judged[q].items()]
            for split in ("train", "dev", "test")
        },
        packed,
        where,
    )
    collection = open_collection(Beir(where), where / "cache")
    assert collection.documents.rows() == [(i, f"{t} {b}".strip(), c, None) for i, (t, b, c) in corpus.items()]
    assert dict(collection.queries.select("id", "text").iter_rows()) == {i: t.strip() for i, t in queries.items()}
    assert {(q, d, grade) for q, d, grade in collection.judgements.iter_rows()} == {
        (q, d, grade) for q in queries for d, grade in judged[q].items()
    }
    if set(splits.values()) == {"train", "dev", "test"}:
        assert dict(collection.queries.select("id", "split").iter_rows()) == splits


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("name", "documents", "queries", "judgements"),
    [("medquad", 15_809, 14_345, 16_359), ("quest", 6_555, 4_059, 6_555), ("cranfield", 1_398, 225, 1_611)],
)
def test_real_collections(shared_data, cache, name, documents, queries, judgements):
    collection = open_collection(Beir(shared_data / name), cache)
    sizes = [len(each) for each in (collection.documents, collection.queries, collection.judgements)]
    assert sizes == [documents, queries, judgements]
    shares = {row[0]: row[1] / queries for row in collection.queries["split"].value_counts().iter_rows()}
    train, part = (0.6, 0.2) if name == "cranfield" else (0.8, 0.1)
    assert shares == pytest.approx({"train": train, "dev": part, "test": part}, abs=0.02)
    labels = collection.documents.select(pl.col("category", "subcategory").drop_nulls().n_unique())
    assert labels.row(0) == {"medquad": (9, 16), "quest": (5, 64), "cranfield": (0, 0)}[name]


def test_numbers_as_ids_null_titles_and_escaped_pairs(write_beir, cache):
    folder = write_beir(
        corpus=['{"_id": 7, "title": null, "text": "\\ud83d\\ude00"}'],
        queries=[{"_id": 1, "text": "one"}],
        qrels={"test": [("1", "7", 1)], "train": [], "dev": []},
    )
    assert open_collection(Beir(folder), cache).documents.rows() == [("7", "😀", None, None)]
