"""One version of an index, built by encoder actors, which read in the precision that is asked for."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray
import torch

from cluster.index.encoder import IndexEncoder, TextBlock
from cluster.index.encoder_pool import EncoderOptions
from cluster.index.index_folder import IndexFolder, Publication, digest_of
from cluster.index.version_build import IndexBuild, IndexSpec
from ranking.checkpoint import to_bytes
from ranking.errors import BadInput
from ranking.index import IndexOptions
from ranking.index_versions import IndexVersion
from ranking.rankers.bi_encoder import BiEncoder
from ranking.texts import Texts
from sampling.retrieval.dense import Dense
from tests.cluster.index.toy_corpus import ToyCorpus, exact, weights_of
from tests.ranking.checkpoints import write_checkpoint

CORPUS = ToyCorpus()
ALL = np.arange(12)
TWO = EncoderOptions(2, cpu=0.1)


def build_of(corpus: ToyCorpus) -> IndexBuild:
    """A build with two encoders, which read seven texts per call."""
    return IndexBuild(IndexSpec("index", corpus, Path(), IndexOptions(), TWO, {}, block=7))


def version_of(build: IndexBuild, place: Path, step: int) -> IndexVersion:
    """The version of the weights of a step."""
    folder, content = IndexFolder(place), np.frombuffer(to_bytes(weights_of(step)), np.uint8)
    publication = Publication(step, None, digest_of(content))
    folder.publish(publication, content)
    return build(folder, publication, 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Where poison for the encoders may lie."""
    return tmp_path_factory.mktemp("encoders")


@pytest.fixture(scope="module")
def build(ray_session, folder) -> Iterator[IndexBuild]:
    """Two encoders, who take seven texts at once."""
    build = build_of(ToyCorpus(folder=str(folder)))
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
    with pytest.raises(BadInput, match=r"^index.factory: 'IVF5000,Flat' can't be built from 60 vectors"):
        version_of(build, tmp_path, 3)


@pytest.mark.nightly
def test_there_may_be_more_encoders_than_blocks_and_no_documents_at_all(ray_session, tmp_path):
    build = build_of(ToyCorpus(documents=0, queries=3))
    version = version_of(build, tmp_path, 0)
    documents, scores = version.search(np.arange(3), 4)
    assert (documents == -1).all()
    assert (scores == -np.inf).all()
    assert version.queries.shape == (3, 8)
    for actor in build.pool.actors:
        ray.kill(actor)


def test_vectors_are_read_in_the_precision_that_is_asked_for(tmp_path):
    checkpoint = write_checkpoint(tmp_path / "bert", "bert", [f"w{number}" for number in range(9)])
    ranker = BiEncoder(torch.Generator(), checkpoint, max_query=5, max_document=5).eval()
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
