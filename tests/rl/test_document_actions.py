"""Tests of `rl.document_selector`: an environment whose agent picks documents."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ranking.errors import BadInput
from ranking.training import Batch
from rl.document_selector import DocumentActions
from rl.networks import PolicyNetwork
from tests.rl.documents import DOCUMENTS, PAIRS, PICKS, document_environment, document_state_tables


def test_a_short_batch_has_no_candidates_behind_its_end(tiny_sources):
    environment = document_environment(tiny_sources)
    environment.reset()
    action = environment.action_space.sample()
    environment.step(action)
    observation = environment.step(action)[0]  # before the third batch, of one pair
    (query,) = environment.training.next_batch().queries
    table = environment.tables.candidates
    assert observation["present"].tolist() == [1, 0]
    assert np.array_equal(observation["candidates"][0], table[query])
    assert not observation["candidates"][1].any()


def test_picks_of_queries_that_are_not_there_mean_nothing(tiny_sources):
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


def test_their_chances_move_no_weight(tiny_sources):
    space = document_state_tables(tiny_sources).space
    network = PolicyNetwork(space, PAIRS * PICKS * DOCUMENTS, torch.Generator().manual_seed(0), last=1.0)
    observation = {name: torch.rand(1, *part.shape) for name, part in space.spaces.items()}
    observation["present"] = torch.tensor([[1.0, 0.0]])

    def moved(query: int) -> bool:
        logits = network(observation).unflatten(1, (PAIRS, PICKS, DOCUMENTS))
        gradients = torch.autograd.grad(logits.log_softmax(-1)[0, query, :, 0].sum(), list(network.parameters()))
        return any(bool(gradient.any()) for gradient in gradients)

    assert moved(0)
    assert not moved(1)


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
    assert list(actions.shares(taken).values()) == pytest.approx([3 / 6, 1 / 6, 2 / 6])
    assert list(actions.shares([]).values()) == [0, 0, 0]


def test_an_episode_says_so(tiny_sources):
    environment = document_environment(tiny_sources)
    environment.reset()
    done = False
    while not done:
        *_, done, _, info = environment.step(environment.action_space.sample())
    shares = {name: value for name, value in info["summary"].items() if name.startswith("share:")}
    assert list(shares) == ["share:BM25 1-10", "share:BM25 11-100", "share:not in BM25's 100"]
    assert sum(shares.values()) == pytest.approx(1)


@pytest.mark.parametrize("decision_every", [2, "epoch"])
def test_picks_are_for_one_batch(tiny_sources, decision_every):
    with pytest.raises(BadInput, match="decision_every"):
        document_environment(tiny_sources, decision_every=decision_every)
