"""Tests of `pyrite.rl.state`, `pyrite.rl.similarity` and `pyrite.rl.compression`: what an agent sees of a training."""

import math

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyrite.ranking.errors import BadInput
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.sources import Sources
from pyrite.ranking.training import Batch, UpdateResult
from pyrite.ranking.vectors import WordVectors, directions
from pyrite.rl.compression import compress
from pyrite.rl.networks import PolicyNetwork
from pyrite.rl.similarity import similarity_table
from pyrite.rl.state import State, StateOptions, StateTables
from pyrite.sampling.retrieval.bm25 import BM25
from pyrite.sampling.retrieval.function import RetrievalFunction
from tests.rl.trainings import state_tables_of


def step(loss: float, norm: float = 0.0) -> UpdateResult:
    return UpdateResult(loss, norm, np.zeros((2, 3), np.float32))


def test_the_models_features_are_the_papers(training, tiny_sources):
    state = State(state_tables_of(tiny_sources, beta=0.5))
    np.testing.assert_array_equal(state.observe(training.next_batch(), training)["model"], [1, 0, 0, 0])
    state.note(step(2.0, 4.0), first=True)
    state.note(step(1.0, 6.0), first=False)
    training.position, training.epoch = 2, 1
    # Half of the largest loss; .5·6 / (1 + .5·6); the third of five examples; after one epoch.
    np.testing.assert_allclose(
        state.observe(training.next_batch(), training)["model"], [0.5, 0.75, 0.4, 0.5], rtol=1e-6
    )


def test_the_last_validation_is_a_feature_where_asked_for(training, tiny_sources):
    state = State(state_tables_of(tiny_sources, features=["validation", "epoch"]))
    for validations, feature in (([], 0), ([0.25, 0.5], 0.5), ([math.nan], 0)):
        training.validations[:] = validations
        assert state.observe(training.next_batch(), training)["model"].tolist() == [feature, 0]


@pytest.fixture
def tables(tiny_sources) -> StateTables:
    return state_tables_of(tiny_sources)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # neither changes
@given(
    loss=st.floats(allow_nan=True, allow_infinity=True),
    norm=st.floats(allow_nan=True, allow_infinity=True),
    second=st.floats(allow_nan=True, allow_infinity=True),
)
def test_nothing_unbounded_leaves_the_state(tables, training, loss, norm, second):
    state = State(tables)
    state.note(step(loss, norm), first=True)
    state.note(step(second, norm), first=False)
    assert tables.space.contains(state.observe(training.next_batch(), training))


def test_a_short_batch_is_padded(training, tiny_sources):
    observation = State(state_tables_of(tiny_sources, pairs=4)).observe(training.next_batch(), training)
    assert observation["present"].tolist() == [1, 1, 0, 0]
    assert not observation["batch"][4:].any()
    assert not observation["similarity"][2:].any()
    assert observation["batch"][:4].any(axis=1).all()
    with pytest.raises(BadInput, match="reads 1"):
        State(state_tables_of(tiny_sources, pairs=1)).observe(training.next_batch(), training)


def test_the_matrix_of_the_batch_can_be_left_out(training, tiny_sources):
    tables = state_tables_of(tiny_sources, batch=False)
    observation = State(tables).observe(training.next_batch(), training)
    assert set(observation) == {"model", "present", "similarity"}
    assert tables.space.contains(observation)
    network = PolicyNetwork(tables.space, 2, torch.Generator())
    assert network({name: torch.tensor(part)[None] for name, part in observation.items()}).shape == (1, 2)


def test_numbers_that_are_none_are_replaced(training, tiny_sources):
    tables = state_tables_of(tiny_sources)
    tables.similarity["bm25"][:] = np.nan
    broken = StateTables(tables.options, tables.compressed, tables.similarity, tables.pairs)
    assert broken.space.contains(State(broken).observe(training.next_batch(), training))


@pytest.mark.parametrize("options", [{"features": ["mood"]}, {"features": []}, {"beta": 0}, {"weighting": "bm25"}])
def test_bad_options_are_refused(options):
    with pytest.raises(BadInput):
        StateOptions(**options)


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
    function = BM25(depth=4)
    ranked = function.rank(tiny_sources).without_relevant(tiny_sources.encoded.judgements)
    table = similarity_table(function, ranked, tiny_sources)
    # Most words of "who digs tunnels under a lawn" stand in its relevant document alone, far above all others.
    assert table[0, 3] > 0
    assert np.isfinite(table).all()


def test_compression_adds_up_the_words_of_a_text(encoded_of):
    encoded = encoded_of([[2, 2, 3], [3], [4]], [[2], [3, 4]], {0: {0: 1}, 1: {2: 1}})
    table = np.array([[0, 0], [0, 0], [1, 0], [0, 1], [-1, 0]], np.float32)
    found = compress(encoded, WordVectors(table, table.any(axis=1)), "tf")
    # Document 0 is 2·(1, 0) + (0, 1), over its length √5; document 1 is relevant to nobody.
    np.testing.assert_allclose(found.documents, [[2 / 5**0.5, 1 / 5**0.5], [-1, 0]], rtol=1e-6)
    np.testing.assert_array_equal(found.relevant, [0, 2])
    np.testing.assert_allclose(found.queries, [[1, 0], [-(0.5**0.5), 0.5**0.5]], rtol=1e-6)
    rows = found.matrix(Batch(np.array([1]), np.array([2], np.int32)), 2)
    np.testing.assert_allclose(rows, [found.queries[1], found.documents[1], [0, 0], [0, 0]])


def test_compression_by_idf_weighs_words(encoded_of):
    encoded = encoded_of([[2, 3]], [[2]], {0: {0: 1}})
    table = np.array([[0, 0], [0, 0], [1, 0], [0, 1]], np.float32)
    found = compress(encoded, WordVectors(table, table.any(axis=1)), "idf")
    weights = encoded.idf[2:4]
    np.testing.assert_allclose(found.documents[0], weights / np.linalg.norm(weights), rtol=1e-6)


def test_a_text_without_a_known_word_has_no_direction(encoded_of):
    encoded = encoded_of([[2]], [[2]], {})
    table = np.zeros((3, 4), np.float32)
    assert not directions(encoded.documents, table, encoded.idf).any()
