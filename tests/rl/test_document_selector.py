"""Tests of `rl.document_selector`: picks carried into a sampler, and the frozen agent that picks."""

from typing import Any

import numpy as np
import torch

from ranking.ranked_lists import RankedLists
from ranking.sources import Sources
from ranking.training import Batch, RankerTraining
from rl.document_selector import LearnedSelector, Picks
from rl.networks import PolicyNetwork
from rl.trained import TrainedAgent
from sampling.retrieval.tfidf import TfIdf
from sampling.selection.selector import Selector
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
    selector = Picks(np.array(places), cut)
    return selector.select(batch, Lists(documents), count, training, np.random.default_rng(0))


def test_a_document_picked_twice_and_one_behind_the_end_are_no_negatives():
    candidates = picked([[7, 5, 3, 1], [4, 2, -1, -1]], [[2, 0, 2], [3, 1, 1]], 4, 3)
    assert candidates.documents.tolist() == [[3, 7, -1], [-1, 2, -1]]
    assert np.isneginf(candidates.scores).tolist() == [[False, False, True], [True, False, True]]


def test_picks_may_be_more_than_the_batch_has():
    candidates = picked([[7, 5]], [[1, 0], [0, 0]], 2, 1)
    assert candidates.documents.tolist() == [[5]]


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


def fitted(sources: Sources, selector: Selector) -> RankerTraining:
    training, sampler = start_with(sources, selector)(np.random.SeedSequence(0, spawn_key=(1, 0, 0)))
    training.fit(sampler)
    return training


def same_weights(one: RankerTraining, other: RankerTraining) -> bool:
    weights = other.ranker.state_dict()
    return all(tensor.equal(weights[name]) for name, tensor in one.ranker.state_dict().items())


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
    training = fitted(tiny_sources, learned_selector(tiny_sources, greedy=True))
    assert same_weights(environment.training, training)


def test_a_learned_selector_draws_alike_with_the_same_seed(tiny_sources):
    one, other = (fitted(tiny_sources, learned_selector(tiny_sources)) for _ in range(2))
    assert same_weights(one, other)
    assert not same_weights(one, fitted(tiny_sources, learned_selector(tiny_sources, greedy=True)))


def test_an_interrupted_run_goes_on_to_the_last_bit(tiny_sources):
    check(tiny_sources, lambda: start_with(tiny_sources, learned_selector(tiny_sources))(np.random.SeedSequence(0))[1])
