from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ranking import embedding
from ranking.embedding import block_starts, embed
from ranking.texts import Texts
from tests.ranking.trained import Bag


class Words(Bag):
    """A document is the mean of its words' vectors, a query their sum; dropout where it trains."""

    def __init__(self, words: int, dimension: int) -> None:
        super().__init__(words, dimension)
        self.reads: list[int] = []

    def represent_queries(self, queries: Texts) -> Tensor:
        return nn.functional.dropout(super().represent_queries(queries), 0.5, self.training)

    def represent_documents(self, documents: Texts) -> Tensor:
        self.reads.append(len(documents))
        return self.represent_queries(documents) / torch.from_numpy(documents.lengths).float()[:, None]


@pytest.fixture
def texts() -> Texts:
    rng = np.random.default_rng(0)
    return Texts.of([rng.integers(1, 50, rng.integers(1, 9)).tolist() for _ in range(103)])


def test_vectors_are_the_rows_asked_for_in_their_order(texts):
    ranker = Words(50, 7)
    rows = np.array([90, 4, 4, 17])
    by_hand = [ranker.table.detach()[texts.tokens[texts.offsets[r] : texts.offsets[r + 1]]].mean(0) for r in rows]
    vectors = embed(ranker, texts, rows)
    assert vectors.dtype == np.float32
    assert vectors == pytest.approx(np.stack(by_hand), abs=1e-6)
    assert embed(ranker, texts, np.zeros(0, np.int64)).shape == (0, 7)


@pytest.mark.parametrize("workers", [1, 4])
def test_whoever_reads_a_block_gives_the_same_bytes(texts, workers, monkeypatch):
    monkeypatch.setattr(embedding, "BLOCK", 10)
    rows = np.arange(len(texts))
    whole = embed(Words(50, 7), texts, rows)
    with ThreadPoolExecutor(workers) as pool:
        parts = pool.map(lambda start: embed(Words(50, 7), texts, rows[start : start + 10]), block_starts(len(rows)))
        assert np.concatenate(list(parts)).tobytes() == whole.tobytes()


def test_blocks_bound_what_is_read_at_once(texts, monkeypatch):
    monkeypatch.setattr(embedding, "BLOCK", 50)
    ranker = Words(50, 7)
    embed(ranker, texts, np.arange(103))
    assert ranker.reads == [50, 50, 3]


def test_there_is_no_dropout_in_it_and_the_mode_is_left_as_it_was(texts):
    ranker = Words(50, 7).train()
    first, second = (embed(ranker, texts, np.arange(5), queries=True) for _ in range(2))
    assert (first == second).all()
    assert (first != 0).all()
    assert ranker.training
    ranker.eval()
    embed(ranker, texts, np.arange(5))
    assert not ranker.training
