"""What every reader promises, whichever there are: found by walking the package.

A new reader needs an entry in `EXAMPLES`: how to write a small collection in its format.
"""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import pyrite.ranking.collections
from pyrite.ranking.collections.beir import Beir
from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.ir_datasets import IrDatasets
from pyrite.ranking.collections.mix import Mix
from pyrite.ranking.collections.msmarco import MsMarco
from pyrite.ranking.collections.pairs import Pairs
from pyrite.ranking.collections.pydocs import Pydocs
from pyrite.ranking.collections.reader import DOCUMENTS, GIVEN, JUDGEMENTS, QUERIES, Reader
from pyrite.ranking.collections.trec import Trec
from tests.classes import classes_in
from tests.made_up import write_beir, write_files


def in_beir(folder: Path) -> Beir:
    return Beir(str(write_beir(folder / "beir")))


def in_msmarco(folder: Path) -> MsMarco:
    files = {"collection.tsv": "0\tMoles dig\n1\tBats hang\n2\tQuartz is hard\n"}
    for split, query, document in (("train", 10, 0), ("dev", 20, 1), ("test", 30, 2)):
        files[f"queries.{split}.tsv"] = f"{query}\twhat is {split}\n"
        files[f"qrels.{split}.tsv"] = f"{query}\t0\t{document}\t1\n"
    return MsMarco(str(write_files(folder, files)))


def in_trec(folder: Path) -> Trec:
    documents = "".join(f"<DOC>\n<DOCNO> D{n} </DOCNO>\n<TEXT>moles dig {n} holes</TEXT>\n</DOC>\n" for n in range(9))
    topics = "".join(f"<top>\n<num> Number: {n}\n<title> moles {n}\n</top>\n" for n in range(6))
    qrels = "".join(f"{n} 0 D{n} 1\n" for n in range(6))
    return Trec(str(write_files(folder, {"docs.trec": documents, "topics.txt": topics, "qrels.txt": qrels})))


def in_pairs(folder: Path) -> Pairs:
    rows = [{"query": f"who is {n}?", "positive": f"number {n}", "negative": f"letter {n}"} for n in range(30)]
    pl.DataFrame(rows).write_parquet(folder / "rows.parquet")
    return Pairs(str(folder / "rows.parquet"))


def in_pydocs(folder: Path) -> Pydocs:
    return Pydocs(folders=[Path(json.__file__).parent])


def in_mix(folder: Path) -> Mix:
    (folder / "mixed").mkdir()
    return Mix(mix=[str(write_beir(folder / "mixed" / "beir")), {"path": in_pairs(folder / "mixed").path, "share": 1}])


EXAMPLES: dict[type[Reader], Callable[[Path], Reader]] = {
    Beir: in_beir, Mix: in_mix, MsMarco: in_msmarco, Trec: in_trec, Pairs: in_pairs, Pydocs: in_pydocs,
}  # fmt: skip
# IrDatasets needs a registry: tests/ranking/collections/test_ir_datasets.py.
EVERY = sorted(classes_in(pyrite.ranking.collections, Reader) - {IrDatasets}, key=lambda kind: kind.__name__)


@pytest.fixture(params=EVERY, ids=lambda kind: kind.__name__)
def reader(request, tmp_path) -> Reader:
    assert request.param in EXAMPLES, f"write a small collection for {request.param.__name__} into EXAMPLES"
    return EXAMPLES[request.param](tmp_path)


def frames_of(reader: Reader) -> dict[str, pl.DataFrame]:
    faults = Faults(strict=True)
    documents = pl.concat([frame.select(list(DOCUMENTS)) for frame in reader.read_documents(faults)])
    tables = {"documents": documents, "queries": reader.read_queries(faults)}
    return tables | {"judgements": reader.read_judgements(faults), "given": reader.read_given(faults)}


@pytest.mark.by_day(2)
def test_its_tables_have_the_columns_that_all_have_and_are_read_the_same_again(reader):
    tables, again = frames_of(reader), frames_of(reader)
    schemas = {"documents": DOCUMENTS, "queries": QUERIES, "judgements": JUDGEMENTS, "given": GIVEN}
    for name, schema in schemas.items():
        assert dict(tables[name].select(list(schema)).schema) == dict(schema), name
        assert tables[name].equals(again[name]), name
    for name in ("documents", "queries", "judgements"):
        assert len(tables[name]), name
        assert tables[name]["file"].null_count() == 0, f"a fault in {name} could not be named by its file"
    assert tables["judgements"]["split"].drop_nulls().is_in(["train", "dev", "test"]).all()


@pytest.mark.by_day(2)
def test_a_cached_collection_is_found_again_by_its_options_and_files(reader, tmp_path):
    assert dataclasses.is_dataclass(reader)
    assert reader.name
    assert json.loads(json.dumps(dict(reader.sources())))
    assert isinstance(reader.version, int)
    one, other = (open_collection(reader, tmp_path / cache) for cache in ("one", "other"))
    assert one.fingerprint == other.fingerprint
    assert one.documents["id"].n_unique() == len(one.documents) > 0
    assert one.queries["split"].drop_nulls().is_in(["train", "dev", "test"]).all()
    assert set(one.judgements["document"]) <= set(one.documents["id"])
    assert set(one.judgements["query"]) <= set(one.queries["id"])
    assert all(isinstance(fact, str) for fact in reader.facts().values())


def test_there_are_readers():
    assert {Beir, MsMarco, Pairs, Pydocs, Trec} <= set(EVERY)
