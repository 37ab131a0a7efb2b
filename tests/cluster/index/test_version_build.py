"""One version of an index, built by encoder actors, which read in the precision that is asked for."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray
import torch

from pyrite.cluster.config.compose import compose
from pyrite.cluster.index.attach import attach_indexes
from pyrite.cluster.index.demand import check_room, demand, live_functions, reserved
from pyrite.cluster.index.encoder import IndexEncoder, PreparedCorpus, TextBlock
from pyrite.cluster.index.encoder_pool import EncoderOptions
from pyrite.cluster.index.index_folder import (
    OWNER,
    WEIGHTS,
    IndexFolder,
    Publication,
    claim,
    digest_of,
    release,
    remove_orphans,
)
from pyrite.cluster.index.version_build import IndexBuild, IndexSpec
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.ranking.checkpoint import to_bytes
from pyrite.ranking.errors import BadInput
from pyrite.ranking.index import IndexOptions
from pyrite.ranking.index_versions import (
    DOCUMENTS,
    QUERIES,
    IndexVersion,
    finish_version,
    start_version,
    weights_digest,
    write_block,
)
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.texts import Texts
from pyrite.sampling.retrieval.dense import Dense, Refresh
from tests.cluster.index.toy_corpus import ToyCorpus, WordSums, exact, weights_of
from tests.ranking.checkpoints import write_checkpoint

CORPUS = ToyCorpus()
ALL = np.arange(12)
TWO = EncoderOptions(2, cpu=0.1)


def build_of(corpus: ToyCorpus, folder: Path) -> IndexBuild:
    """A build with two encoders, which read seven texts per call."""
    return IndexBuild(IndexSpec("index", corpus, Path(), IndexOptions(), TWO, {}, block=7), IndexFolder(folder))


def version_of(build: IndexBuild, place: Path, step: int) -> IndexVersion:
    """The version of the weights of a step."""
    build.folder = IndexFolder(place)
    return build(Publication.of(step, 0, ray.put(np.frombuffer(to_bytes(weights_of(step)), np.uint8))))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Where poison for the encoders may lie."""
    return tmp_path_factory.mktemp("encoders")


@pytest.fixture(scope="module")
def build(ray_session, folder) -> Iterator[IndexBuild]:
    """Two encoders, who take seven texts at once."""
    build = build_of(ToyCorpus(folder=str(folder)), folder / "index")
    yield build
    for actor in build.pool.actors:
        ray.kill(actor)


@pytest.mark.nightly
def test_the_block_of_an_encoder_that_dies_is_done_again(build, folder, tmp_path):
    (folder / "poison").touch()
    version = version_of(build, tmp_path, 5)
    assert not (folder / "poison").exists()
    documents, products = exact(CORPUS, weights_of(5), 9)
    found = version.search(ALL, 9)
    assert (found[0] == documents).all()
    np.testing.assert_allclose(found[1], products, rtol=1e-5, atol=1e-6)


@pytest.mark.nightly
def test_an_encoder_that_does_not_see_the_folder_hands_its_vectors_back(build, tmp_path):
    weights = weights_of(1)
    content = np.frombuffer(to_bytes(weights), np.uint8)
    encode = build.pool.actors[0].encode.options(num_returns=2)
    written, vectors = ray.get(encode.remote(content, "one", TextBlock(10, 14, False, tmp_path / "elsewhere", 10)))
    assert not written
    documents = CORPUS.texts()[0]
    table = weights["table"].numpy()
    for row, vector in enumerate(vectors):
        tokens = documents.tokens[documents.offsets[10 + row] : documents.offsets[11 + row]]
        np.testing.assert_allclose(vector, table[tokens].sum(0), rtol=1e-5, atol=1e-6)
    finish = build.pool.actors[0].finish.remote
    assert not ray.get(finish(tmp_path / "no", tmp_path / "nowhere", 0, 0, "one", IndexOptions()))


@pytest.mark.nightly
def test_an_encoder_builds_the_index_of_faiss(build, tmp_path):
    build.spec = replace(build.spec, options=IndexOptions("HNSW16", probes=64))
    version = version_of(build, tmp_path, 2)
    assert (IndexFolder(tmp_path).version_path(2) / "faiss.index").is_file()
    documents, _ = exact(CORPUS, weights_of(2), 3)
    assert (version.search(ALL, 3)[0] == documents).mean() > 0.9
    build.spec = replace(build.spec, options=IndexOptions("IVF5000,Flat"))
    with pytest.raises(BadInput, match=r"^function.dense.index.factory: 'IVF5000,Flat' can't be built from 60 vectors"):
        version_of(build, tmp_path, 3)


@pytest.mark.nightly
def test_there_may_be_more_encoders_than_blocks_and_no_documents_at_all(ray_session, tmp_path):
    build = build_of(ToyCorpus(documents=0, queries=3), tmp_path)
    version = version_of(build, tmp_path, 0)
    documents, scores = version.search(np.arange(3), 4)
    assert (documents == -1).all()
    assert (scores == -np.inf).all()
    assert version.queries.shape == (3, 8)
    for actor in build.pool.actors:
        ray.kill(actor)


def test_vectors_are_read_in_the_precision_that_is_asked_for(tmp_path):
    checkpoint = write_checkpoint(tmp_path / "bert", "bert", [f"w{number}" for number in range(9)])
    ranker = BiEncoder(checkpoint, max_query=5, max_document=5).start(RankerInputs(torch.Generator())).eval()
    texts = Texts.of([[4, 5, 6], [7, 8], [9, 10, 11, 12]])
    corpus: Any = SimpleNamespace(texts=lambda: (texts, texts), ranker=lambda: Dense()._copy(ranker))
    weights, read = np.frombuffer(to_bytes(ranker.state_dict()), np.uint8), {}
    block = TextBlock(0, 3, False, Path("nowhere"), 0)
    for precision in (None, "float32", "bfloat16"):
        made, vectors = IndexEncoder(corpus, precision=precision).encode(weights, "digest", block)
        assert not made
        assert vectors is not None
        read[precision] = vectors
    assert read[None].tobytes() == read["float32"].tobytes()
    assert read["bfloat16"].tobytes() != read["float32"].tobytes()
    assert np.abs(read["bfloat16"] - read["float32"]).max() < 0.05
    assert Dense(precision="bfloat16")._copy(ranker).query_tower.precision == torch.bfloat16
    assert ranker.query_tower.precision == torch.float32
    with pytest.raises(BadInput, match=r"function.dense.precision: WordSums has no transformer"):
        IndexEncoder(CORPUS, precision="bfloat16")
    with pytest.raises(BadInput, match="Dense: precision is 'half'"):
        Dense(precision="half")


OPTIONS = IndexOptions()


def content_of(number: float) -> np.ndarray:
    return np.frombuffer(to_bytes({"table": torch.full((2, 3), float(number))}), np.uint8)


def build_small(folder: IndexFolder, step: int, content: np.ndarray) -> str:
    """Build a version of two documents and a query; return the digest of its weights."""
    place, digest = folder.version_path(step), digest_of(content)
    building = start_version(place, 2, 1, 3, OPTIONS)
    write_block(building / DOCUMENTS, 0, np.eye(2, 3, dtype=np.float32))
    write_block(building / QUERIES, 0, np.ones((1, 3), np.float32))
    content.tofile(building / WEIGHTS)
    finish_version(building, place, 4, step, digest, OPTIONS)
    return digest


def test_a_good_version_is_found_again(tmp_path):
    digest = build_small(IndexFolder(tmp_path), 40, content_of(1))
    assert digest == weights_digest({"table": torch.ones(2, 3)})
    start_version(IndexFolder(tmp_path).version_path(7), 2, 1, 3, OPTIONS)  # half of one, of a killed actor
    again = IndexFolder(tmp_path)
    versions = again.versions()
    assert {step: (each.version, each.digest) for step, each in versions.items()} == {40: (4, digest)}
    assert versions[40].search(np.array([0]), 2)[0].tolist() == [[0, 1]]
    assert [path.name for path in (tmp_path / "versions").iterdir()] == ["000000040"]
    again.remove(40)
    assert IndexFolder(tmp_path).versions() == {}


@pytest.mark.parametrize("broken", ["weights", "other weights", "vectors", "record", "no weights"])
def test_a_broken_version_is_removed(tmp_path, broken):
    folder = IndexFolder(tmp_path)
    build_small(folder, 40, content_of(1))
    place = folder.version_path(40)
    file = place / {"vectors": DOCUMENTS, "record": "version.json"}.get(broken, WEIGHTS)
    if broken == "other weights":
        content_of(2).tofile(file)
    elif broken == "no weights":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-4])
    assert folder.versions() == {}
    assert not place.exists()


def test_what_the_dead_have_left_is_removed_and_nothing_else(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for name in ("mine", "dead", "elsewhere", "damaged"):
        claim(tmp_path / name)
    owner = json.loads((tmp_path / "dead" / OWNER).read_text())
    (tmp_path / "dead" / OWNER).write_text(json.dumps(owner | {"pid": ended.pid}))
    (tmp_path / "damaged" / OWNER).write_text("{")
    (tmp_path / "nobody's").mkdir()
    # Processes of a container with the name of this machine have ids of their own.
    there = {"host": f"{socket.gethostname()} pid:[1]", "pid": ended.pid}
    (tmp_path / "elsewhere" / OWNER).write_text(json.dumps(there))
    remove_orphans(tmp_path)
    assert {folder.name for folder in tmp_path.iterdir()} == {"mine", "elsewhere", "damaged", "nobody's"}
    release(tmp_path / "mine")
    assert {folder.name for folder in tmp_path.iterdir()} == {"elsewhere", "damaged", "nobody's"}


def config_of(mode: str = "lagged", workers: int = 1, **index: Any) -> dict[str, Any]:
    return {
        "function": {"bm25": {"_target_": "any"}, "dense": {"_target_": "any", "refresh": {"mode": mode}}},
        "resources": {"cpu": 2, "gpu": 0.5, "workers": workers, "placement": "pack"},
        "index": {"encoders": 1, "cpu": 1, "gpu": 0.0} | index,
        "cache": None,
    }


def test_a_trial_sets_aside_what_encoders_take_whose_index_is_built_beside_the_training():
    for mode, live in (("lagged", True), ("async", True), ("sync", False), ("never", False)):
        assert live_functions(config_of(mode)) == (["dense"] if live else [])
        assert len(reserved(config_of(mode))) == live
    config = config_of(encoders=3, cpu=0.5, gpu=0.25)
    assert reserved(config) == [{"CPU": 0.5, "GPU": 0.25}] * 3
    assert demand(config) == {"CPU": 1.5, "GPU": 0.75}
    assert reserved(config_of(encoders=2)) == [{"CPU": 1.0}] * 2
    assert reserved(config_of(workers=2)) == []  # what is free must do


def test_encoders_that_would_never_come_are_refused():
    check_room(config_of(encoders=2), {"CPU": 4, "GPU": 1})
    check_room(config_of("sync", encoders=9), {"CPU": 2, "GPU": 1})
    for asked, says in (
        ({"encoders": 3}, r"index.cpu: a run and the encoders of its index ask for 5 CPUs .* has 4"),
        ({"gpu": 1}, r"index.gpu.* 1.5 GPUs .* has 1;"), ({"workers": 2}, "ask for 5 CPUs"),
    ):  # fmt: skip
        with pytest.raises(BadInput, match=says):
            check_room(config_of(**asked), {"CPU": 4, "GPU": 1})
    for wrong in ("encoders=0", "cpu=0", "gpu=-1"):
        with pytest.raises(BadInput, match=f"index.{wrong.split('=')[0]}"):
            compose([f"index.{wrong}"])


def training_of(ranker: Any, documents: int = 60) -> Any:
    encoded = SimpleNamespace(documents=range(documents), queries=range(12))
    return SimpleNamespace(ranker=ranker, encoded=encoded)


def test_an_index_is_stated_before_it_starts_and_given_to_its_function(tmp_path):
    dense, bm25 = Dense(refresh=Refresh("lagged")), SimpleNamespace()
    said: list[str] = []
    config = config_of() | {"cache": str(tmp_path)}
    functions: Any = {"bm25": bm25, "dense": dense}
    with attach_indexes(functions, training_of(WordSums()), config, "a run/of mine", said.append) as attached:
        (index,) = attached.values()
        assert dense._served is index
        assert index.name.startswith("negative-index:a run/of mine:dense#")
        assert index.folder.parent == tmp_path / "indexes" / "a_run_of_mine-dense"
    assert said == [
        "the negative index takes 0.00 MB of memory, 0.00 MB while a new version takes over, 0.00 MB on disk"
    ]
    with attach_indexes(functions, training_of(object()), config_of("sync"), "run") as attached:
        assert attached == {}


def test_what_can_not_be_searched_or_does_not_fit_is_refused(tmp_path):
    functions: Any = {"dense": Dense(refresh=Refresh("lagged"))}
    config = config_of() | {"cache": str(tmp_path)}
    with pytest.raises(BadInput, match="object has no vectors that an index could search; choose ranker=bi_encoder"):
        attach_indexes(functions, training_of(object()), config, "run").__enter__()
    with pytest.raises(BadInput, match=r"the negative index takes .* GB of memory and .* GB are free"):
        attach_indexes(functions, training_of(WordSums(), 10**12), config, "run").__enter__()
    functions["dense"].index = IndexOptions("Nonsense7")
    with pytest.raises(BadInput, match="faiss makes no index 'Nonsense7'"):
        attach_indexes(functions, training_of(WordSums()), config, "run").__enter__()


def test_actors_read_what_a_run_reads(base):
    config = compose([*base, "function=bm25", "function.bm25.k1=1.2"])
    corpus = PreparedCorpus(config)
    encoded = Artifacts().part(config, "base").encoded
    documents, queries = corpus.texts()
    assert (documents.tokens == encoded.documents.tokens).all()
    assert (queries.offsets == encoded.queries.offsets).all()
