"""ir_datasets ids, with datasets that are registered here: no network."""

import pickle
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import huggingface_hub
import lz4.block
import pytest
from huggingface_hub import constants

from pyrite.cluster.config.compose import compose
from pyrite.ranking.collections import ir_datasets as readers
from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.ir_datasets import IrDatasets
from pyrite.ranking.collections.pairs import Pairs
from pyrite.ranking.errors import BadInput
from pyrite.ranking.hub import local_path, prepare_hub

Register = Callable[..., str]


@pytest.fixture
def register(tmp_path, monkeypatch) -> Register:
    """Registers a collection with one part for each split; returns its id, to which the split is added."""
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "hub"))
    ir_datasets = pytest.importorskip("ir_datasets")

    def file(name: str, text: str) -> Any:
        (tmp_path / name).write_text(text)
        return ir_datasets.util.LocalDownload(tmp_path / name)

    def write(docs: str = "d1\tmoles dig\nd2\tbats hang\nd3\tquartz is hard\n", **qrels: str) -> str:
        base = f"made-up-{uuid4().hex}"
        documents = ir_datasets.formats.TsvDocs(file("docs.tsv", docs))
        for split, text in qrels.items():
            queries = "".join(f"{line.split()[0]}\twhat about {line.split()[2]}\n" for line in text.splitlines())
            dataset = ir_datasets.datasets.base.Dataset(
                documents,
                ir_datasets.formats.TsvQueries(file(f"{split}.queries", queries)),
                ir_datasets.formats.TrecQrels(file(f"{split}.qrels", text), {}),
            )
            ir_datasets.registry.register(f"{base}/{split}", dataset)
        ir_datasets.registry.register(base, ir_datasets.datasets.base.Dataset(documents))
        return base

    return write


def test_an_id_for_each_split(register, cache):
    base, splits = register(train="q1 0 d1 1\n", dev="q2 0 d2 2\n", test="q3 0 d3 0\n"), ("train", "dev", "test")
    collection = open_collection(IrDatasets({split: f"{base}/{split}" for split in splits}), cache)
    assert collection.name == f"{base}-train"
    texts = {"d1": "moles dig", "d2": "bats hang", "d3": "quartz is hard"}
    assert collection.documents.rows() == [(*item, None, None) for item in texts.items()]
    queries = [(f"q{n}", f"what about d{n}", split) for n, split in enumerate(splits, 1)]
    assert collection.queries.select("id", "text", "split").rows() == queries
    assert collection.judgements.rows() == [("q1", "d1", 1), ("q2", "d2", 2), ("q3", "d3", 0)]


def test_one_id_has_no_split(register, cache):
    collection = open_collection(IrDatasets(register(test="q3 0 d3 1\n") + "/test"), cache)
    assert collection.queries["split"].to_list() == [None]


def test_faults_name_the_id_and_the_number_of_the_entry(register, cache):
    id = register(docs="d1\tmoles\nd2\tbats\nd1\tmore moles\n", test="q1 0 d1 1\nq2 0 d9 1\n") + "/test"
    with pytest.raises(BadInput, match=f"{id} documents:3: duplicate id"):
        open_collection(IrDatasets(id), cache)
    assert open_collection(IrDatasets(id), cache, strict=False).skipped == {"duplicate id": 1, "unknown document": 1}


@pytest.mark.parametrize("strict", [True, False])
def test_what_cannot_be_had(register, cache, tmp_path, strict):
    base = register(test="q3 0 d3 1\n")
    with pytest.raises(BadInput, match="knows no such id"):
        open_collection(IrDatasets("no/such/id"), cache, strict)
    with pytest.raises(BadInput, match="it has no queries"):
        open_collection(IrDatasets(base), cache, strict)
    (tmp_path / "docs.tsv").unlink()
    with pytest.raises(
        BadInput, match=r"cannot read or download it \(FileNotFoundError.*connect to the network"
    ) as raised:
        open_collection(IrDatasets(f"{base}/test"), cache, strict)
    assert "\n" not in str(raised.value)


def test_splits_of_different_collections_do_not_mix(register, cache):
    one, other = register(train="q1 0 d1 1\n"), register(test="q2 0 d2 1\n")
    with pytest.raises(BadInput, match="its documents are not those of"):
        open_collection(IrDatasets({"train": f"{one}/train", "test": f"{other}/test"}), cache)


def test_options_are_checked():
    with pytest.raises(BadInput, match="no split is called 'validation'"):
        IrDatasets({"validation": "a"})
    with pytest.raises(BadInput, match="no id is given"):
        IrDatasets({})


def test_without_the_package(monkeypatch, cache):
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(BadInput, match=r"not installed; install the extra: pip install 'pyrite-ir\[hub\]'"):
        open_collection(IrDatasets("beir/nfcorpus/test"), cache)


def test_a_failed_download_is_one_line(monkeypatch):
    def refuse(*arguments: object, **options: object) -> str:
        raise OSError("no network\nmore")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    monkeypatch.setattr("pyrite.ranking.hub.prepare_hub", lambda: None)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)  # another test may have found it so
    with pytest.raises(BadInput, match=r"hf:some/pairs: can't be fetched from the hub \(no network\); check name"):
        Pairs("hf:some/pairs").sources()


def test_a_dataset_is_read_from_where_it_was_downloaded(tmp_path, monkeypatch):
    (tmp_path / "train.csv").write_text("query,positive\na,b\n")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **options: str(tmp_path))
    pairs = Pairs("hf:some/pairs")
    assert pairs.name == "pairs"
    assert list(pairs.sources()) == [str((tmp_path / "train.csv").resolve())]
    assert local_path(tmp_path) == tmp_path
    assert compose(["collection=hf:some/pairs"])["collection"]["path"] == "hf:some/pairs"


@pytest.mark.parametrize("resolves", [True, False])
def test_an_unknown_host_makes_the_hub_offline(resolves, monkeypatch):
    def getaddrinfo(*address: object) -> list[object]:
        if not resolves:
            raise socket.gaierror(-2, "Name or service not known")
        return []

    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    prepare_hub.cache_clear()
    prepare_hub()
    assert constants.HF_HUB_OFFLINE is not resolves
    prepare_hub.cache_clear()


class Bomb:
    def __reduce__(self):
        return (Path.touch, (Path("PWNED"),))


def test_stores_of_ir_datasets_are_pickles_and_not_read(register, cache, tmp_path, monkeypatch):
    base, ir_datasets = register(test="q1 0 d1 1\n"), sys.modules["ir_datasets"]
    monkeypatch.chdir(tmp_path)

    class Stored(ir_datasets.formats.TsvDocs):
        """Documents that ir_datasets iterates from its store, as those of `gov` and `clinicaltrials`."""

        def docs_iter(self):
            return iter(self.docs_store())

        def docs_store(self, field="doc_id", **options):
            store = super().docs_store(field, **options)
            store.init_iter_fn = super().docs_iter
            return store

    documents = Stored(ir_datasets.util.LocalDownload(tmp_path / "docs.tsv"), namespace="stored")
    list(documents.docs_iter())  # builds the store
    (binary,) = tmp_path.rglob("bin")
    content = lz4.block.compress(pickle.dumps(Bomb()))
    binary.write_bytes(len(content).to_bytes(4, "little") + content)
    with pytest.raises(TypeError):
        list(documents.docs_iter())
    (tmp_path / "PWNED").unlink()  # what reading the store would do
    part = ir_datasets.load(f"{base}/test")
    ir_datasets.registry.register(
        f"{base}/stored", ir_datasets.datasets.base.Dataset(documents, part.queries_handler(), part.qrels_handler())
    )
    collection = open_collection(IrDatasets(f"{base}/stored"), cache)
    assert collection.documents["id"].to_list() == ["d1", "d2", "d3"]
    assert not (tmp_path / "PWNED").exists()
    monkeypatch.setattr(readers, "_documents", lambda documents: documents.docs_iter)
    with pytest.raises(BadInput, match="it would read pickles"):
        list(IrDatasets(f"{base}/stored").read_documents(Faults()))
    assert not (tmp_path / "PWNED").exists()
