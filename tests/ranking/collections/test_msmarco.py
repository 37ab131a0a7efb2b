"""MS MARCO's files, by their usual names and by others."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.msmarco import MsMarco
from pyrite.ranking.errors import BadInput
from tests.made_up import write_files

Write = Callable[[dict[str, str]], Path]
PASSAGES = {
    "collection.tsv": '0\tMoles "dig" tunnels\n1\tBats hang\n2\tQuartz is hard\n',
    "queries.train.tsv": "10\twho digs\n11\twho hangs\n12\tnobody judged this\n",
    "qrels.train.tsv": "10\t0\t0\t1\n11\t0\t1\t1\n",
    "queries.dev.tsv": "20\twhat is hard\n",
    "qrels.dev.tsv": "20\t0\t2\t1\n",
}


@pytest.fixture
def write(tmp_path) -> Write:
    return partial(write_files, tmp_path / "marco")


def test_passages(write, cache):
    collection = open_collection(MsMarco(write(PASSAGES)), cache)
    texts = {"0": 'Moles "dig" tunnels', "1": "Bats hang", "2": "Quartz is hard"}
    assert collection.documents.rows() == [(*item, None, None) for item in texts.items()]
    # Without test queries the dev queries are the test, and one of two training queries is dev.
    assert sorted(collection.queries["split"]) == ["dev", "test", "train"]
    assert collection.queries.filter(id="20")["split"].to_list() == ["test"]
    assert collection.judgements.rows() == [("10", "0", 1), ("11", "1", 1), ("20", "2", 1)]
    assert collection.facts == {
        "queries without judgements": "1 left out",
        "queries of dev that are the test for lack of others": "1 (1 of train are dev)",
    }


def test_documents_and_trec_judgements_by_their_usual_names(write, cache):
    files = {
        "msmarco-docs.tsv.gz": "D1\thttp://x\tMoles\tdig tunnels\r\nD2\thttp://y\t\tBats hang\n",
        "msmarco-doctrain-queries.tsv.gz": "1\twho digs\n2\twho hangs\n",
        "msmarco-doctrain-qrels.tsv.gz": "1 0 D1 1\n2 0 D2 1\n",
        "msmarco-docdev-queries.tsv": "3\twhat hangs\n",
        "msmarco-docdev-qrels.tsv": "3 0 D2 1\n",
        "msmarco-test2019-queries.tsv": "4\twhat digs\n",
        "2019qrels-docs.txt": "4 0 D1 3\n4 0 D2 0\n",
    }
    collection = open_collection(MsMarco(write(files)), cache)
    assert collection.documents.select("id", "text").rows() == [("D1", "Moles dig tunnels"), ("D2", "Bats hang")]
    splits = {"1": "train", "2": "train", "3": "dev", "4": "test"}
    assert dict(collection.queries.select("id", "split").iter_rows()) == splits
    assert collection.judgements.filter(query="4")["grade"].to_list() == [3, 0]


def test_the_small_dev_set_goes_first(write, cache):
    small = {"queries.dev.small.tsv": "21\twho is hard\n", "qrels.dev.small.tsv": "21\t0\t2\t1\n"}
    collection = open_collection(MsMarco(write({**PASSAGES, **small})), cache)
    assert "20" not in set(collection.queries["id"])
    assert "21" in set(collection.queries["id"])
    assert collection.facts["files that are not read"] == "2 (queries.dev.tsv, qrels.dev.tsv)"
    assert collection.facts["queries of dev that are the test for lack of others"].startswith("1 (1 of train are dev)")


def test_files_that_are_not_read_are_counted(write, cache):
    beside = {"triples.train.ids.tsv": "10\t0\t1\n", "README.md": "MS MARCO"}
    assert open_collection(MsMarco(write({**PASSAGES, **beside})), cache).facts["files that are not read"] == (
        "1 (triples.train.ids.tsv)"
    )
    folder = write({**PASSAGES, **beside})
    collection = open_collection(MsMarco(folder, given="triples.train.ids.tsv"), cache)
    assert "files that are not read" not in collection.facts


def test_files_by_other_names(write, cache):
    names = {"collection.tsv": "a.tsv", "queries.train.tsv": "b.tsv", "qrels.train.tsv": "c.tsv"}
    folder = write({names[name]: text for name, text in PASSAGES.items() if name in names})
    options = {"documents": "a.tsv", "queries": {"test": "b.tsv"}, "qrels": {"test": str(folder / "c.tsv")}}
    collection = open_collection(MsMarco(folder, **options), cache)
    assert (len(collection.documents), collection.queries["split"].to_list()) == (3, [None, None])


@pytest.mark.by_day(4)
@pytest.mark.parametrize(
    ("file", "line", "kind", "complaint"),
    [
        ("collection.tsv", "no tab", "broken line", "not 2 columns (id, text) separated by '\\t'"),
        ("collection.tsv", "9\ta\tb", "broken line", "not 2 columns"),
        ("collection.tsv", "\ttext", "broken line", "a document has no id"),
        ("queries.train.tsv", "9", "broken line", "not 2 columns"),
        ("queries.train.tsv", "9\t", "empty text", "the query '9' has no text"),
        ("qrels.train.tsv", "10 0 0", "broken line", "not 4 columns"),
        ("qrels.train.tsv", "10\t0\t0\tx", "broken line", "grade 'x' is not a whole number"),
        ("qrels.train.tsv", "99 0 1 1", "unknown query", "no query is called '99'"),
    ],
)
def test_faults(write, read, faulty, file, line, kind, complaint):
    folder = write(PASSAGES)
    whole = read(MsMarco(folder))
    number = PASSAGES[file].count("\n") + 1
    write({file: f"{PASSAGES[file]}{line}\n"})
    assert faulty(MsMarco(folder), f"{folder / file}:{number}", kind, complaint).fingerprint == whole.fingerprint


@pytest.mark.parametrize("strict", [True, False])
def test_missing_files(write, cache, tmp_path, strict):
    with pytest.raises(BadInput, match=r"no collection\.tsv or msmarco-docs\.tsv"):
        open_collection(MsMarco(write({"queries.train.tsv": "", "qrels.train.tsv": ""})), cache, strict)
    (tmp_path / "marco" / "qrels.train.tsv").unlink()
    with pytest.raises(BadInput, match="no split has both"):
        open_collection(MsMarco(write({"collection.tsv": "1\ta\n"})), cache, strict)
    folder = write(PASSAGES)
    (folder / "collection.tsv").unlink()
    with pytest.raises(BadInput, match=r"old\.tsv: no such file"):
        open_collection(MsMarco(folder, documents="old.tsv"), cache, strict)


def test_options_are_checked(write, cache):
    folder = write(PASSAGES)
    with pytest.raises(BadInput, match="no split is called 'valid'"):
        open_collection(MsMarco(folder, queries={"valid": "x"}), cache)
    with pytest.raises(BadInput, match="no queries for the qrels of test"):
        open_collection(MsMarco(folder, qrels={"test": "qrels.dev.tsv"}), cache)
