"""Tests of `rl.similarity`: statistics of the candidates' scores."""

import numpy as np

from ranking.ranked_lists import RankedLists
from ranking.sources import Sources
from ranking.vectors import WordVectors
from rl.similarity import similarity_table
from sampling.retrieval.bm25 import Bm25Function
from sampling.retrieval.function import RetrievalFunction
from tests.rl.trainings import state_tables_of


class Scored(RetrievalFunction):
    """Gives a document its own number as its score."""

    def own_scores(self, sources, queries, documents):
        return documents.astype(np.float32)

    def prepare(self, encoded, lists) -> None:
        pass

    sample = top = prepare


def test_similarity_is_that_of_the_lists(encoded_of, tiny):
    encoded = encoded_of([[2]] * 9, [[2]] * 3, {0: {8: 1}, 1: {3: 1}})
    lists = RankedLists(
        np.array([[4, 2], [5, -1], [-1, -1]], np.int32), np.array([[4, 2], [5, -np.inf], [-np.inf, -np.inf]])
    )
    table = similarity_table(Scored(), lists, Sources(tiny, encoded, WordVectors(np.zeros((3, 2)), np.zeros(3, bool))))
    # Mean 3, deviation 1, maximum 4, the positive's 8 is 4 above it; the largest number of the table is 5.
    np.testing.assert_allclose(table[0] * 5, [3, 1, 4, 4], rtol=1e-6)
    np.testing.assert_allclose(table[1] * 5, [5, 0, 5, -2], rtol=1e-6)
    np.testing.assert_array_equal(table[2], [0, 0, 0, 0])


def test_random_sampling_is_measured_by_cosines(tiny_sources):
    table = state_tables_of(tiny_sources).similarity["random"]
    assert table.shape == (8, 4)
    assert np.abs(table).max() == 1
    assert (table[:, 2] >= table[:, 0]).all()
    assert (table[:, 1] > 0).all()


def test_bm25s_table_knows_the_positive(tiny_sources):
    function = Bm25Function(depth=4)
    ranked = function.rank(tiny_sources).without_relevant(tiny_sources.encoded.judgements)
    table = similarity_table(function, ranked, tiny_sources)
    # Most words of "who digs tunnels under a lawn" stand in its relevant document alone, far above all others.
    assert table[0, 3] > 0
    assert np.isfinite(table).all()
