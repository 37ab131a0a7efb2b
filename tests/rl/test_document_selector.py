"""Tests of `pyrite.rl.document_selector`: picks in a sampler, the frozen agent that picks, and its environment."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pyrite.ranking.encoding import Encoder
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.sources import Sources
from pyrite.ranking.training import Batch
from pyrite.ranking.vectors import RandomVectors
from pyrite.rl.candidates import candidate_table
from pyrite.rl.document_selector import DocumentActions, LearnedSelector, Picks
from pyrite.rl.networks import PolicyNetwork
from pyrite.rl.trained import TrainedAgent
from pyrite.sampling.retrieval.tfidf import TfIdf
from pyrite.sampling.selection.selector import Selector
from tests.made_up import collection_of
from tests.ranking.trained import equal, weights
from tests.rl.documents import DOCUMENTS, PAIRS, PICKS, document_environment, document_state_tables, nearest, start_with
from tests.sampling.test_contracts import check


class Lists(TfIdf):
    """Lists made by hand."""

    def __init__(self, documents: list[list[int]]) -> None:
        super().__init__(len(documents[0]))
        scores = [[0.5 if document >= 0 else -np.inf for document in row] for row in documents]
        self.lists = RankedLists(np.array(documents, np.int32), np.array(scores, np.float32))
        self.counts = self.lists.counts


def picked(documents: list[list[int]], places: list[list[int]], cut: int, count: int, training: Any = None) -> Any:
    batch = Batch(np.arange(len(documents)), np.zeros(len(documents), np.int32))
    return Picks(np.array(places), cut).select(batch, Lists(documents), count, training, np.random.default_rng(0))


def test_a_document_picked_twice_and_one_behind_the_end_are_no_negatives():
    candidates = picked([[7, 5, 3, 1], [4, 2, -1, -1]], [[2, 0, 2], [3, 1, 1]], 4, 3)
    assert candidates.documents.tolist() == [[3, 7, -1], [-1, 2, -1]]
    assert np.isneginf(candidates.scores).tolist() == [[False, False, True], [True, False, True]]
    more = picked([[7, 5]], [[1, 0], [0, 0]], 2, 1)  # than the batch has queries
    assert more.documents.tolist() == [[5]]


def test_no_pick_is_relevant(training, tiny_sources):
    examples, function = training.examples, nearest(tiny_sources)
    for place in range(DOCUMENTS):
        places = np.full((len(examples), 1), place)
        candidates = Picks(places, DOCUMENTS).select(examples, function, 1, training, np.random.default_rng(0))
        assert (candidates.documents >= 0).any()
        assert not (tiny_sources.encoded.judgements.lookup(examples.queries, candidates.documents) > 0).any()


def trained(sources: Sources) -> TrainedAgent:
    """An agent whose chances are far from even."""
    tables = document_state_tables(sources)
    generator = torch.Generator().manual_seed(4)
    network = PolicyNetwork(tables.space, PAIRS * PICKS * DOCUMENTS, generator, hidden=8, last=30.0)
    weights = dict(network.state_dict())
    agent = TrainedAgent(
        ["tfidf"], tables.options, 1, PAIRS, tables.compressed.dimension, network.description(), weights, DOCUMENTS, {}
    )
    return TrainedAgent.from_bytes(agent.to_bytes(), "agent")


def learned_selector(sources: Sources, greedy: bool = False) -> LearnedSelector:
    selector = LearnedSelector(greedy=greedy)
    selector.equip(trained(sources), document_state_tables(sources))
    return selector


def fitted(sources: Sources, selector: Selector) -> dict[str, torch.Tensor]:
    """Weights that a training with the selector ends with."""
    training, sampler = start_with(sources, selector)(np.random.SeedSequence(0, spawn_key=(1, 0, 0)))
    training.fit(sampler)
    return weights(training.ranker)


def test_the_learned_selector_picks_what_the_agent_would(tiny_sources):
    """The environment, told each query's most probable documents, trains the ranker that the greedy selector does."""
    environment, actor = document_environment(tiny_sources), trained(tiny_sources).actor()
    observation, _ = environment.reset()
    done, seen = False, set()
    while not done:
        row = {name: torch.from_numpy(part)[None] for name, part in observation.items()}
        logits = actor(row)[0].unflatten(0, (PAIRS, PICKS, DOCUMENTS))
        assert logits[:, 0].equal(logits[:, 1])
        action = np.argsort(-logits[:, 0].numpy(), axis=1, kind="stable")[:, :PICKS]
        seen.add(tuple(action[0].tolist()))
        observation, _, done, _, _ = environment.step(action.ravel())
    assert len(seen) > 1, "it is not the same for every query"
    environment.training.restore_best()
    learned = fitted(tiny_sources, learned_selector(tiny_sources, greedy=True))
    assert equal(weights(environment.training.ranker), learned)
    assert not equal(fitted(tiny_sources, learned_selector(tiny_sources)), learned), "it draws where it is not greedy"


def test_an_interrupted_run_goes_on_to_the_last_bit(tiny_sources):
    check(tiny_sources, lambda: start_with(tiny_sources, learned_selector(tiny_sources))(np.random.SeedSequence(0))[1])


def test_picks_of_queries_that_are_not_there_mean_nothing(tiny_sources):
    def ends(absent: int) -> tuple[dict[str, Tensor], dict[str, float]]:
        environment = document_environment(tiny_sources)
        environment.reset()
        done = False
        while not done:
            action = np.zeros((PAIRS, PICKS), np.int64)
            action[:, 1] = 1
            action[len(environment.training.next_batch()) :] = absent
            *_, done, _, info = environment.step(action.ravel())
        return environment.training.ranker.state_dict(), info["summary"]

    assert equal(ends(0), ends(3))


def test_shares_say_how_many_picks_are_bm25s():
    actions = DocumentActions(documents=3, pairs=2, picks=2)
    assert actions.space.nvec.tolist() == [3, 3, 3, 3]
    candidates = np.zeros((1, 3, 5), np.float32)
    candidates[0, :, 4] = [0.91, 0.90, 0]  # the tenth, the eleventh, none of its list

    tables: Any = SimpleNamespace(candidates=candidates)
    batch = Batch(np.array([0]), np.array([0], np.int32))
    taken = [
        actions.to_record(np.array(action), batch, tables) for action in ([0, 1, 0, 0], [2, 2, 0, 0], [0, 0, 0, 0])
    ]
    assert taken == [[1, 1, 0], [0, 0, 2], [2, 0, 0]]
    names = ["BM25 1-10", "BM25 11-100", "not in BM25's 100"]
    assert actions.shares(taken) == pytest.approx(dict(zip(names, [3 / 6, 1 / 6, 2 / 6], strict=True)))
    assert list(actions.shares([]).values()) == [0, 0, 0]


def sources_of(documents: list[str], queries: list[str], min_count: int = 1) -> Sources:
    collection = collection_of(documents, queries)
    encoded, words = Encoder(min_count=min_count).encode(collection)
    return Sources(collection, encoded, RandomVectors(4).read(words))


def lists_of(documents: list[list[int]], scores: list[list[float]]) -> RankedLists:
    return RankedLists(np.array(documents, np.int32), np.array(scores, np.float32))


def test_the_matrix_of_a_query_by_hand():
    sources = sources_of(
        ["night trains and night boats", "trains run", "a red garden"], ["night trains", "a garden of trains"]
    )
    lists = lists_of([[2, 0, 1], [1, -1, -1]], [[0.5, 0.25, -0.75], [1.5, -np.inf, -np.inf]])
    table = candidate_table(lists, sources, 4)
    assert table.shape == (2, 4, 5)
    # "a red garden": no term of the query, three words, and BM25 does not find it.
    assert table[0, 0].tolist() == pytest.approx([0, 3 / 103, 3 / 63, 0.5, 0])
    # Night, trains and night again, of five words four different ones; BM25's first. The other one is its second.
    assert table[0, 1].tolist() == pytest.approx([3 / 7, 5 / 105, 4 / 64, 0.25, 1.0])
    assert table[0, 2].tolist() == pytest.approx([1 / 5, 2 / 102, 2 / 62, -0.75, 0.99])
    # What rounding leaves above a cosine of 1 is cut; behind a list's end there is nothing.
    assert table[1, 0].tolist() == pytest.approx([1 / 5, 2 / 102, 2 / 62, 1.0, 0.99])
    assert not table[0, 3].any()
    assert not table[1, 1:].any()


def test_words_without_an_id_are_no_common_term():
    sources = sources_of(["lion night", "night night"], ["zebra night"], min_count=2)
    table = candidate_table(lists_of([[0, 1]], [[0.0, 0.0]]), sources, 2)
    assert table[0, :, 0].tolist() == pytest.approx([1 / 5, 2 / 6])


def test_a_table_is_cut_to_the_head_of_the_lists(tiny_sources):
    lists = nearest(tiny_sources).lists
    whole, head = (candidate_table(lists, tiny_sources, documents) for documents in (8, 3))
    assert np.array_equal(whole[:, :3], head)
    assert np.abs(whole).max() <= 1
