"""What reading and keeping vectors at half precision does to the negatives that are found."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ranking.embedding import embed
from ranking.errors import BadInput
from ranking.index import IndexOptions, VectorIndex
from ranking.index_versions import in_precision
from ranking.rankers.bi_encoder import BiEncoder
from ranking.rankers.pretrained import read_in, transformers_of
from ranking.texts import Texts
from tests.ranking.checkpoints import write_checkpoint

HALF = "bfloat16", "float16"


def found(ranker: BiEncoder, documents: Texts, queries: Texts, precision: str) -> tuple[NDArray[np.int32], ...]:
    """The top 10 and the top 100 of each query, and the vectors' bytes apart from all that is kept in float32."""
    read_in(ranker, precision)
    of_documents = embed(ranker, documents, np.arange(len(documents)))
    asked = embed(ranker, queries, np.arange(len(queries)), queries=True)
    kept = "float32" if precision == "float32" else "float16"
    index = VectorIndex.build(in_precision(of_documents, kept), IndexOptions(precision=kept))
    return index.search(asked, 10)[0], index.search(asked, 100)[0]


def shares(ranker: BiEncoder, documents: Texts, queries: Texts, precision: str) -> list[float]:
    """How many of the top 10 and 100 are those of float32, and in how many places."""
    whole, half = (found(ranker, documents, queries, each) for each in ("float32", precision))
    same = [
        float(np.mean([np.isin(a, b).mean() for a, b in zip(*lists, strict=True)]))
        for lists in zip(half, whole, strict=True)
    ]
    return [*same, float((half[1] == whole[1]).mean())]


@pytest.mark.parametrize("precision", HALF)
def test_most_negatives_of_a_random_transformer_stay(precision, tmp_path):
    rng = np.random.default_rng(0)
    checkpoint = write_checkpoint(tmp_path / "bert", "bert", [f"w{number}" for number in range(60)])
    ranker = BiEncoder(torch.Generator(), checkpoint, max_query=12, max_document=12).eval()
    documents, queries = (
        Texts.of([rng.integers(4, 64, rng.integers(3, 12)).tolist() for _ in range(n)]) for n in (400, 20)
    )
    top10, top100, places = shares(ranker, documents, queries, precision)
    assert top10 >= 0.8
    assert top100 >= 0.9
    assert places < 1  # it did something
    assert ranker.query_tower.precision is {"bfloat16": torch.bfloat16, "float16": torch.float16}[precision]


def test_what_has_no_transformer_is_refused():
    with pytest.raises(BadInput, match=r"function.dense.precision: Linear has no transformer"):
        transformers_of(torch.nn.Linear(2, 2))
    read_in(torch.nn.Linear(2, 2), None)
