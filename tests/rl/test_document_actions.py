"""Agents that pick documents: what they see of the candidates, what their actions do, and the frozen agent."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ranking.checkpoint import from_bytes, to_bytes
from ranking.collections.collection import Collection
from ranking.encoding import Encoder
from ranking.errors import BadInput
from ranking.ranked_lists import RankedLists
from ranking.sources import Sources
from ranking.training import Batch, RankerTraining
from ranking.vectors import RandomVectors
from rl.candidates import candidate_table
from rl.document_actions import DocumentActions
from rl.document_selector import LearnedSelector, Picks
from rl.draws import inverse_cdf
from rl.networks import PolicyNetwork
from rl.trained import TrainedAgent
from sampling.retrieval.tfidf import TfIdf
from sampling.sampler import Sampler
from sampling.selection.selector import Selector
from tests.rl.documents import (
    DOCUMENTS,
    PAIRS,
    PICKS,
    document_environment,
    document_state_tables,
    nearest,
    start_with,
)
from tests.rl.trainings import starts


def sources_of(documents: list[str], queries: list[str], min_count: int = 1) -> Sources:
    """A collection of these texts, without judgements."""
    collection = Collection(
        "made up",
        "0123456789abcdef",
        pl.DataFrame({"id": [f"d{n}" for n in range(len(documents))], "text": documents}),
        pl.DataFrame({"id": [f"q{n}" for n in range(len(queries))], "text": queries, "split": "train"}),
        pl.DataFrame(schema={"query": pl.String, "document": pl.String, "grade": pl.Int32}),
    )
    encoded, words = Encoder(min_count=min_count).encode(collection)
    return Sources(collection, encoded, RandomVectors(4).read(words))


def lists_of(documents: list[list[int]], scores: list[list[float]]) -> RankedLists:
    return RankedLists(np.array(documents, np.int32), np.array(scores, np.float32))


def test_the_matrix_of_a_query_by_hand() -> None:
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


def test_words_without_an_id_are_no_common_term() -> None:
    sources = sources_of(["lion night", "night night"], ["zebra night"], min_count=2)
    table = candidate_table(lists_of([[0, 1]], [[0.0, 0.0]]), sources, 2)
    assert table[0, :, 0].tolist() == pytest.approx([1 / 5, 2 / 6])


def test_a_table_is_cut_to_the_head_of_the_lists(tiny_sources: Sources) -> None:
    lists = nearest(tiny_sources).lists
    whole, head = (candidate_table(lists, tiny_sources, documents) for documents in (8, 3))
    assert np.array_equal(whole[:, :3], head)
    assert np.abs(whole).max() <= 1


def test_gymnasium_accepts_it(tiny_sources: Sources) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*not wrapped.*|.*spec.*|.*Render.*|.*render.*")
        check_env(document_environment(tiny_sources), skip_render_check=True)


def test_a_short_batch_has_no_candidates_behind_its_end(tiny_sources: Sources) -> None:
    environment = document_environment(tiny_sources)
    environment.reset()
    action = environment.action_space.sample()
    environment.step(action)
    observation = environment.step(action)[0]  # before the third batch, of one pair
    (query,) = environment.training.next_batch().queries
    table = environment.tables.candidates
    assert table is not None
    assert observation["present"].tolist() == [1, 0]
    assert np.array_equal(observation["candidates"][0], table[query])
    assert not observation["candidates"][1].any()


def test_picks_of_queries_that_are_not_there_mean_nothing(tiny_sources: Sources) -> None:
    def ends(absent: int) -> tuple[list[Tensor], dict[str, float]]:
        environment = document_environment(tiny_sources)
        environment.reset()
        done = False
        while not done:
            action = np.zeros((PAIRS, PICKS), np.int64)
            action[:, 1] = 1
            action[len(environment.training.next_batch()) :] = absent
            *_, done, _, info = environment.step(action.ravel())
        return list(environment.training.ranker.state_dict().values()), info["summary"]

    (weights, summary), (others, other) = ends(0), ends(3)
    assert all(one.equal(two) for one, two in zip(weights, others, strict=True))
    assert summary == other


def test_their_chances_move_no_weight(tiny_sources: Sources) -> None:
    space = document_state_tables(tiny_sources).space
    network = PolicyNetwork(space, PAIRS * PICKS * DOCUMENTS, torch.Generator().manual_seed(0), last=1.0)
    observation = {name: torch.rand(1, *part.shape) for name, part in space.spaces.items()}  # type: ignore[misc]
    observation["present"] = torch.tensor([[1.0, 0.0]])

    def moved(query: int) -> bool:
        logits = network(observation).unflatten(1, (PAIRS, PICKS, DOCUMENTS))
        gradients = torch.autograd.grad(logits.log_softmax(-1)[0, query, :, 0].sum(), list(network.parameters()))
        return any(bool(gradient.any()) for gradient in gradients)

    assert moved(0)
    assert not moved(1)


class Lists(TfIdf):
    """Lists made by hand."""

    def __init__(self, documents: list[list[int]]) -> None:
        super().__init__(len(documents[0]))
        scores = [[0.5 if document >= 0 else -np.inf for document in row] for row in documents]
        self.lists = lists_of(documents, scores)
        self.counts = self.lists.counts


def picked(documents: list[list[int]], places: list[list[int]], cut: int, count: int, training: Any = None) -> Any:
    batch = Batch(np.arange(len(documents)), np.zeros(len(documents), np.int32))
    selector = Picks(np.array(places), cut)
    return selector.select(batch, Lists(documents), count, training, np.random.default_rng(0))


def test_a_document_picked_twice_and_one_behind_the_end_are_no_negatives() -> None:
    candidates = picked([[7, 5, 3, 1], [4, 2, -1, -1]], [[2, 0, 2], [3, 1, 1]], 4, 3)
    assert candidates.documents.tolist() == [[3, 7, -1], [-1, 2, -1]]
    assert np.isneginf(candidates.scores).tolist() == [[False, False, True], [True, False, True]]


def test_picks_may_be_more_than_the_batch_has() -> None:
    candidates = picked([[7, 5]], [[1, 0], [0, 0]], 2, 1)
    assert candidates.documents.tolist() == [[5]]


def test_no_pick_is_relevant(tiny_sources: Sources) -> None:
    training, _ = starts(tiny_sources)(np.random.SeedSequence(0))
    examples, function = training.examples, nearest(tiny_sources)
    for place in range(DOCUMENTS):
        places = np.full((len(examples), 1), place)
        candidates = Picks(places, DOCUMENTS).select(examples, function, 1, training, np.random.default_rng(0))
        assert (candidates.documents >= 0).any()
        assert not (tiny_sources.encoded.judgements.lookup(examples.queries, candidates.documents) > 0).any()


def test_shares_say_how_many_picks_are_bm25s() -> None:
    actions = DocumentActions(documents=3, pairs=2, picks=2)
    assert actions.space.nvec.tolist() == [3, 3, 3, 3]  # type: ignore[attr-defined]
    candidates = np.zeros((1, 3, 5), np.float32)
    candidates[0, :, 4] = [0.91, 0.90, 0]  # the tenth, the eleventh, none of its list

    class Tables:
        pass

    tables: Any = Tables()
    tables.candidates = candidates
    batch = Batch(np.array([0]), np.array([0], np.int32))
    taken = [actions.recorded(np.array(action), batch, tables) for action in ([0, 1, 0, 0], [2, 2, 0, 0], [0, 0, 0, 0])]
    assert taken == [[1, 1, 0], [0, 0, 2], [2, 0, 0]]
    assert list(actions.shares(taken).values()) == pytest.approx([3 / 6, 1 / 6, 2 / 6])
    assert list(actions.shares([]).values()) == [0, 0, 0]


def test_an_episode_says_so(tiny_sources: Sources) -> None:
    environment = document_environment(tiny_sources)
    environment.reset()
    done = False
    while not done:
        *_, done, _, info = environment.step(environment.action_space.sample())
    shares = {name: value for name, value in info["summary"].items() if name.startswith("share:")}
    assert list(shares) == ["share:BM25 1-10", "share:BM25 11-100", "share:not in BM25's 100"]
    assert sum(shares.values()) == pytest.approx(1)


@pytest.mark.parametrize("decision_every", [2, "epoch"])
def test_picks_are_for_one_batch(tiny_sources: Sources, decision_every: int | str) -> None:
    with pytest.raises(BadInput, match="decision_every"):
        document_environment(tiny_sources, decision_every=decision_every)


def test_a_state_goes_on_to_the_last_bit(tiny_sources: Sources) -> None:
    actions = np.random.default_rng(3).integers(DOCUMENTS, size=(9, PAIRS * PICKS))
    whole = document_environment(tiny_sources)
    whole.reset()
    ends = [whole.step(action) for action in actions]
    interrupted = document_environment(tiny_sources)
    interrupted.reset()
    for action in actions[:4]:
        interrupted.step(action)
    resumed = document_environment(tiny_sources)
    resumed.load_state_dict(from_bytes(to_bytes(interrupted.state_dict())))
    observation, _ = resumed.reset()
    assert all(np.array_equal(observation[name], ends[3][0][name]) for name in observation)
    behind = [resumed.step(action) for action in actions[4:]]
    for (_, reward, *_, info), (_, other, *_, last) in zip(ends[4:], behind, strict=True):
        assert (reward, info) == (other, last)


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


def test_the_learned_selector_picks_what_the_agent_would(tiny_sources: Sources) -> None:
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


def test_a_learned_selector_draws_alike_with_the_same_seed(tiny_sources: Sources) -> None:
    one, other = (fitted(tiny_sources, learned_selector(tiny_sources)) for _ in range(2))
    assert same_weights(one, other)
    assert not same_weights(one, fitted(tiny_sources, learned_selector(tiny_sources, greedy=True)))


def test_a_run_of_it_goes_on_to_the_last_bit(tiny_sources: Sources) -> None:
    def begin() -> tuple[RankerTraining, Sampler]:
        return start_with(tiny_sources, learned_selector(tiny_sources))(np.random.SeedSequence(0, spawn_key=(1, 0, 0)))

    def take(training: RankerTraining, sampler: Sampler, steps: int) -> None:
        for _ in range(steps):
            batch = training.next_batch()
            negatives = sampler.negatives(batch, training)
            sampler.observe(negatives, training.update(batch, negatives))

    whole = begin()
    take(*whole, 3)
    training, sampler = begin()
    take(training, sampler, 2)
    saved = from_bytes(to_bytes([training.state_dict(), sampler.state_dict()]))
    resumed = begin()
    for part, state in zip(resumed, saved, strict=True):
        part.load_state_dict(state)
    take(*resumed, 1)
    assert same_weights(whole[0], resumed[0])


@given(
    st.lists(st.lists(st.floats(-30, 30), min_size=3, max_size=3), min_size=1, max_size=4),
    st.lists(st.floats(0, 1, exclude_max=True), min_size=2, max_size=2),
)
def test_places_are_drawn_as_one_action_is(logits: list[list[float]], uniform: list[float]) -> None:
    rows = np.array(logits)
    places = inverse_cdf(rows, np.tile(uniform, (len(rows), 1)))
    for row, own in zip(rows, places, strict=True):
        for chance, place in zip(uniform, own, strict=True):
            edges = np.cumsum(np.exp(row - row.max()) / np.exp(row - row.max()).sum())
            if np.abs(edges - chance).min() > 1e-12:  # but for draws that rounding decides
                assert place == np.searchsorted(edges, chance, side="right")


def test_an_agents_seed_is_no_negative_number() -> None:
    with pytest.raises(BadInput, match=r"selector\.agent"):
        LearnedSelector(agent=-1)
