"""Rankers read and write what sentence-transformers reads, from version 5.2 on: `tests/oldest_libraries.py` runs this.

What is used of the library here has the same name in all versions.
"""

import json
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from pyrite.ranking.errors import BadInput
from pyrite.ranking.rankers import sentence_library
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.cross_encoder import CrossEncoder
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.sentence_library import OlderLibrary, SentenceLibrary, library
from pyrite.ranking.rankers.sparse import Sparse
from pyrite.ranking.scoring import score_candidates
from tests.ranking.trained import LISTS, QUERIES, generator, texts_for

theirs = pytest.importorskip("sentence_transformers", reason="sentence-transformers is in the dev extra")


def encoded_as(folder: str, tiny: Any, kind: Any = BiEncoder) -> tuple[Any, list[np.ndarray]]:
    """A ranker from a folder, and its vectors of queries and documents."""
    tokens = kind.tokenization(checkpoint=folder).encode(tiny)
    ranker = kind(folder).start(RankerInputs(generator())).eval()
    with torch.no_grad():
        return ranker, [
            ranker.represent_queries(tokens.queries).numpy(),
            ranker.represent_documents(tokens.documents).numpy(),
        ]


def written(made_up, folder, name: str) -> str:
    """A folder of the library's, with the modules of one form."""
    from sentence_transformers import models

    with torch.random.fork_rng():
        torch.manual_seed(3)
        reader = models.Transformer(made_up())
        forms: dict[str, Any] = {
            "mean": lambda: [reader, models.Pooling(16)],
            "dense": lambda: [reader, models.Pooling(16, "cls"), models.Dense(16, 6), models.Normalize()],
            "two towers": lambda: [
                models.Router.for_query_document(
                    [reader, models.Pooling(16)], [models.Transformer(made_up("roberta")), models.Pooling(16, "max")]
                )
            ],
        }
        theirs.SentenceTransformer(modules=forms[name](), device="cpu").save(str(folder))
    return str(folder)


def assert_theirs(folder: str, tiny: Any, vectors: list[np.ndarray]) -> None:
    model = theirs.SentenceTransformer(folder, device="cpu", local_files_only=True)
    expected = [
        model.encode_query(tiny.queries["text"].to_list()),
        model.encode_document(tiny.documents["text"].to_list()),
    ]
    for found, wanted in zip(vectors, expected, strict=True):
        np.testing.assert_allclose(found, wanted / np.linalg.norm(wanted, axis=1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize("name", ["mean", "dense"])
def test_a_model_is_read_and_written(name, made_up, tiny, tmp_path):
    folder = written(made_up, tmp_path / "theirs", name)
    ranker, vectors = encoded_as(folder, tiny)
    assert_theirs(folder, tiny, vectors)
    assert ranker.dimension == vectors[0].shape[1] == (6 if name == "dense" else 16)
    assert ranker.pooling == ("cls" if name == "dense" else "mean")
    ranker.save_pretrained(str(tmp_path / "ours"))
    assert_theirs(str(tmp_path / "ours"), tiny, vectors)
    again, same = encoded_as(str(tmp_path / "ours"), tiny)
    assert again.pooling == ranker.pooling
    for one, other in zip(same, vectors, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_two_towers_are_read_and_written(made_up, tiny, tmp_path):
    ranker = BiEncoder(made_up(), tied=False, pooling="max").start(RankerInputs(generator())).eval()
    with torch.no_grad():
        for weight in ranker.document_tower.parameters():
            weight.mul_(0.5)
    ranker.save_pretrained(str(tmp_path))
    again, vectors = encoded_as(str(tmp_path), tiny)
    assert again.document_tower is not again.query_tower
    assert again.pooling == "max"
    assert_theirs(str(tmp_path), tiny, vectors)


def test_a_model_of_masked_words_is_read_and_written(made_up, tiny, tmp_path):
    config = transformers.AutoConfig.from_pretrained(made_up())
    with torch.random.fork_rng():
        torch.manual_seed(2)
        transformers.BertForMaskedLM(config).save_pretrained(tmp_path / "masked")
    transformers.AutoTokenizer.from_pretrained(made_up()).save_pretrained(tmp_path / "masked")
    ranker, vectors = encoded_as(str(tmp_path / "masked"), tiny, Sparse)
    assert not ranker.drawn
    ranker.save_pretrained(str(tmp_path / "ours"))
    for folder in (str(tmp_path / "masked"), str(tmp_path / "ours")):
        model = theirs.SparseEncoder(folder, device="cpu", local_files_only=True)
        wanted = model.encode_query(tiny.queries["text"].to_list()).to_dense().numpy()
        np.testing.assert_allclose(vectors[0], wanted, atol=1e-6)
    for one, other in zip(encoded_as(str(tmp_path / "ours"), tiny, Sparse)[1], vectors, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_reranker_is_read_and_written(made_up, read_as, tiny, tmp_path):
    ranker = CrossEncoder(made_up()).start(RankerInputs(generator())).eval()
    scores = score_candidates(ranker, texts_for(CrossEncoder, read_as, made_up()), QUERIES, LISTS)
    ranker.save_pretrained(str(tmp_path))
    model = theirs.CrossEncoder(str(tmp_path), device="cpu", local_files_only=True)
    pairs = [
        (tiny.queries["text"][int(query)], tiny.documents["text"][int(document)])
        for query, row in zip(QUERIES, LISTS, strict=True)
        for document in row
    ]
    expected = model.predict(pairs, activation_fn=torch.nn.Identity()).reshape(LISTS.shape)
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    again = CrossEncoder(str(tmp_path)).start(RankerInputs(generator())).eval()
    same = score_candidates(again, texts_for(CrossEncoder, read_as, str(tmp_path)), QUERIES, LISTS)
    np.testing.assert_allclose(same, scores, atol=1e-6)


@pytest.mark.parametrize(("version", "kind"), [("5.2.0", OlderLibrary), ("6.0.1", SentenceLibrary)])
def test_the_version_decides(version, kind, monkeypatch):
    monkeypatch.setattr(theirs, "__version__", version)
    assert type(library()) is kind


def test_an_older_package_is_refused(monkeypatch):
    monkeypatch.setattr(theirs, "__version__", "5.1.2")
    with pytest.raises(BadInput, match=r"sentence-transformers from version 5\.2 on is not installed"):
        library()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("modules.json", [{"idx": 0, "name": "0", "path": "", "type": "mine.Reader"}]),
        ("0_Router/router_config.json", {"types": {"query_0": "mine.Reader"}, "structure": {}}),
    ],
)
def test_code_next_to_a_checkpoint_is_not_run(file, content, tmp_path):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / "modules.json").write_text("[]")
    (tmp_path / file).write_text(json.dumps(content))
    with pytest.raises(BadInput, match=r"its module mine\.Reader is code that is not run"):
        OlderLibrary(theirs).check_types(str(tmp_path))


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (lambda older: older.model("MultiVectorEncoder"), "late interaction"),
        (lambda older: older.read_pairs("", "text-generation", (), {}), "a language model that judges pairs"),
    ],
)
def test_what_needs_version_6_says_so(ask, what):
    with pytest.raises(BadInput, match=f"{what} needs sentence-transformers 6"):
        ask(OlderLibrary(theirs))
    assert sentence_library.OLDEST == (5, 2)
