from typing import Any

import numpy as np
import pytest

from ranking.errors import BadInput
from sampling.retrieval import embedding
from sampling.retrieval.embedding import Embedding


@pytest.fixture(scope="module")
def transformers_vectors(small_bert) -> Any:
    """Mean of the last layer, of unit length, by transformers alone."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(small_bert), AutoModel.from_pretrained(small_bert).eval()

    def of(texts: list[str]) -> np.ndarray:
        rows = []
        for text in texts:
            with torch.no_grad():
                mean = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0)
            rows.append((mean / mean.norm()).numpy())
        return np.stack(rows)

    return of


def test_lists_are_the_cosines_of_the_checkpoint(small_bert, tiny_sources, transformers_vectors, monkeypatch):
    monkeypatch.setattr(embedding, "CHUNK", 3)
    function = Embedding(small_bert, depth=5)
    lists = function.rank(tiny_sources)
    collection = tiny_sources.collection
    queries, documents = (
        transformers_vectors(frame["text"].to_list()) for frame in (collection.queries, collection.documents)
    )
    cosines = queries @ documents.T
    assert lists.scores == pytest.approx(-np.sort(-cosines, axis=1)[:, :5], abs=1e-5)
    assert np.take_along_axis(cosines, lists.documents, 1) == pytest.approx(lists.scores, abs=1e-5)
    own = function.own_scores(tiny_sources, np.array([6, 1]), np.array([[3, -1], [0, 11]]))
    assert own[:, 0] == pytest.approx(cosines[[6, 1], [3, 0]], abs=1e-5)
    assert np.isneginf(own[0, 1])
    assert (Embedding(small_bert, depth=5).rank(tiny_sources).scores == lists.scores).all()


def test_documents_that_are_alike_stand_in_the_collection_s_order(small_bert, tiny_sources):
    lists = Embedding(small_bert, depth=12).rank(tiny_sources)
    places = np.argsort(lists.documents, axis=1)
    assert (places[:, 11] == places[:, 10] + 1).all()  # the last two documents of `tiny`


def test_options_reach_the_encoder(small_bert, tiny_sources):
    whole = Embedding(small_bert, depth=12).rank(tiny_sources)
    for other in ({"layers": 1}, {"pooling": "cls"}, {"similarity": "dot"}, {"max_document": 2}):
        assert (Embedding(small_bert, depth=12, **other).rank(tiny_sources).scores != whole.scores).any()


def test_a_checkpoint_that_is_not_there_is_one_line(tiny_sources, tmp_path):
    with pytest.raises(BadInput) as caught:
        Embedding(str(tmp_path)).rank(tiny_sources)
    assert str(tmp_path) in str(caught.value)
