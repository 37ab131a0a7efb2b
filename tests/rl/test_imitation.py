"""Supervised pre-training of an agent that picks documents."""

from typing import Any

import numpy as np
import pytest
import torch

from pyrite.ranking.errors import BadInput
from pyrite.rl.imitation import Imitation, States, imitate, states_of
from pyrite.rl.networks import PolicyNetwork
from tests.ranking.trained import equal
from tests.rl.documents import DOCUMENTS, PAIRS, document_environment

LISTED = 3
"""Candidates of the states below."""


def network_of(queries: int, last: float = 0.0) -> PolicyNetwork:
    """An actor with two picks a query; at first, with `last` 0, every candidate is as probable as another."""
    shapes = {"model": [1], "candidates": [queries, LISTED, 5]}
    return PolicyNetwork(shapes, queries * 2 * LISTED, torch.Generator().manual_seed(1), hidden=8, last=last)


def states_with(nearness: list[list[float]]) -> States:
    """A state for each list of BM25's features of its candidates, of a query of its own."""
    candidates = torch.rand(len(nearness), 1, LISTED, 5, generator=torch.Generator().manual_seed(2))
    candidates[:, 0, :, 4] = torch.tensor(nearness)
    model, present = torch.zeros(len(nearness), 1), torch.ones(len(nearness), 1)
    observations = {"model": model, "present": present, "candidates": candidates}
    return States(observations, np.arange(len(nearness))[:, None])


def taught(states: States, last: float = 0.0, **options: Any) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
    return imitate(network_of(states.queries.shape[1], last), states, Imitation(**options), np.random.default_rng(0))


def test_an_even_policy_has_the_share_of_labelled_candidates():
    # Ranks 0, 9 and 10: of BM25's first ten, queries have two, one, none, one, one; the fifth that has any is held out.
    nearness = [[1, 0.91, 0], [1, 0, 0], [0.9, 0, 0], [0.91, 0.9, 0], [0, 0, 1], [1, 1, 1]]
    _, figures = taught(states_with(nearness), top=10)
    assert figures["before"] == figures["after"] == pytest.approx(3 / 3)
    assert figures["learned"] == pytest.approx((2 + 1 + 1 + 1) / 4 / 3)
    assert taught(states_with(nearness), top=11)[1]["before"] == pytest.approx(1 / 3)


def many(seed: int = 0) -> States:
    """Forty queries with one of BM25's documents each, at any place of the list."""
    nearness = np.zeros((40, LISTED))
    nearness[np.arange(40), np.random.default_rng(seed).integers(LISTED, size=40)] = 1
    return states_with(nearness.tolist())


def test_it_learns_to_pick_bm25s_documents_of_queries_that_it_never_saw():
    _, figures = taught(many(), epochs=30, lr=0.02)
    assert figures["before"] == pytest.approx(1 / 3)
    assert figures["after"] > 0.9
    assert figures["learned"] > 0.9


def test_its_weights_are_those_of_what_is_reported():
    states = many()
    network, (weights, figures) = network_of(1), taught(states, epochs=5, lr=0.02)
    network.load_state_dict(weights)
    logits = network(states.observations).unflatten(1, (2, LISTED)).softmax(-1)
    labels = states.observations["candidates"][:, 0, :, 4]
    held_out = slice(4, None, 5)
    assert (logits[held_out, 0] * labels[held_out]).sum(-1).mean().item() == pytest.approx(figures["after"])


def test_the_first_step_follows_the_cross_entropy():
    """Two labelled candidates of three, one query to learn from: the loss is −½·(ln π₀ + ln π₁)."""
    states = states_with([[1, 1, 0]])
    network = network_of(1, last=1.0)
    logits = network(states.observations)[0, :LISTED].log_softmax(0)
    (-(logits[0] + logits[1]) / 2).backward()
    before = {name: weights.detach().clone() for name, weights in network.named_parameters()}
    after = imitate(network_of(1, last=1.0), states, Imitation(epochs=1, lr=0.01), np.random.default_rng(0))[0]
    for name, weights in network.named_parameters():
        # Adam's first step is the learning rate against the gradient's sign.
        clear = weights.grad.abs() > 1e-5
        moved = (after[name] - before[name])[clear]
        torch.testing.assert_close(moved, -0.01 * weights.grad[clear].sign(), rtol=5e-3, atol=1e-6)


def test_held_out_queries_teach_nothing():
    states, changed = many(), many()
    changed.observations["candidates"][4::5] = torch.rand(8, 1, LISTED, 5)
    changed.observations["candidates"][4::5, 0, 0, 4] = 1
    assert equal(*(taught(each, epochs=2)[0] for each in (states, changed)))


def test_queries_that_are_not_there_or_have_no_label_teach_nothing():
    def weights(number: float) -> dict[str, torch.Tensor]:
        states = many()
        states.queries[1] = -1
        states.observations["candidates"][:2] = number  # of the first query, none is among BM25's; the second is gone
        states.observations["candidates"][0, 0, :, 4] = 0
        return taught(states, epochs=2)[0]

    assert equal(weights(0.25), weights(0.75))


def test_there_must_be_something_to_imitate():
    with pytest.raises(BadInput, match="no candidate is among BM25's first 5"):
        taught(states_with([[0, 0.95, 0], [0, 0, 0]]), top=5)


def test_states_are_those_of_an_episode(tiny_sources):
    count = 11  # an episode has nine
    states, again = (
        states_of(document_environment(tiny_sources, copy=5), count, np.random.default_rng(1)) for _ in range(2)
    )
    assert len(states) == count
    assert all(part.equal(again.observations[name]) for name, part in states.observations.items())
    assert states.observations["candidates"].shape == (count, PAIRS, DOCUMENTS, 5)
    assert ((states.queries >= 0) == states.observations["present"].numpy().astype(bool)).all()
    assert (states.queries[2] >= 0).tolist() == [True, False]
    assert not states.observations["candidates"][2, 1].any()
    table = document_environment(tiny_sources).tables.candidates
    assert np.array_equal(states.observations["candidates"][0].numpy(), table[states.queries[0]])
    epochs = states.observations["model"][:, 3].tolist()
    assert epochs == pytest.approx([0, 0, 0, 1 / 2, 1 / 2, 1 / 2, 2 / 3, 2 / 3, 2 / 3, 0, 0])
