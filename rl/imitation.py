"""Pre-trains an agent that picks documents to pick BM25's, before it learns from rewards."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pyrite.ranking.bounds import Between, NonNegative, Positive, checked
from pyrite.ranking.errors import refuse
from pyrite.rl.candidates import BM25_DEPTH
from pyrite.rl.environment import SamplingEnvironment
from pyrite.rl.networks import PolicyNetwork

MINIBATCH = 4
"""States per update."""
HELD_OUT = 5
"""Every fifth query is held out."""


@checked
@dataclass(frozen=True)
class Imitation:
    """Options of the supervised pre-training of the actor (`actions.imitate` of the configuration).

    Args:
        epochs: passes over the states; 0 for none: the agent learns from scratch.
        top: n; a candidate is labelled if BM25 ranks it among its first n.
        lr: learning rate of Adam.
        states: training batches that are learned from and tested on.
    """

    epochs: Annotated[int, NonNegative] = 0
    top: Annotated[int, Between(1, BM25_DEPTH)] = BM25_DEPTH
    lr: Annotated[float, Positive] = 0.001
    states: Annotated[int, Positive] = 256


@dataclass(frozen=True)
class States:
    """States of training batches."""

    observations: dict[str, Tensor]
    """Each part of an observation, float32 [n, …]."""
    queries: NDArray[np.int64]
    """Queries [n, b], −1 after the end of a short batch."""

    def __len__(self) -> int:
        return len(self.queries)

    def take(self, rows: NDArray[np.integer]) -> dict[str, Tensor]:
        """Return the observations at `rows`."""
        return {name: part[torch.from_numpy(rows)] for name, part in self.observations.items()}


def states_of(environment: SamplingEnvironment, count: int, rng: np.random.Generator) -> States:
    """Return states as the agent will see them: of episodes in which documents are picked uniformly."""
    observations: list[Mapping[str, NDArray[np.float32]]] = []
    queries = np.full((count, environment.tables.pairs), -1, np.int64)
    done = True
    for row in range(count):
        if done:
            observation, _ = environment.reset()
        observations.append(observation)
        of_batch = environment.training.next_batch().queries
        queries[row, : len(of_batch)] = of_batch
        if row + 1 < count:
            action = rng.integers(environment.action_space.nvec)  # type: ignore[attr-defined]
            observation, _, done, _, _ = environment.step(action)
    stacked = {name: torch.from_numpy(np.stack([state[name] for state in observations])) for name in observations[0]}
    return States(stacked, queries)


def imitate(
    network: PolicyNetwork, states: States, options: Imitation, rng: np.random.Generator
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Train a network to behave like a sampler that draws uniformly from the candidates in BM25's top n (section 6.2).

    The loss of a query is the cross-entropy of the policy's distribution over its candidates and the uniform one over
    the labelled candidates; queries without a labelled candidate are skipped. (The paper has one action per document,
    and a binary label for each; as a distribution that label is the same.)

    Args:
        network: an actor over candidates. It is trained in place.

    Returns:
        The weights of the actor, and the mean share of the policy's mass on labelled candidates: of held-out queries
        `before` and `after` the training, and of the queries that it has `learned` from, after the training.

    Raises:
        BadInput: if no candidate is in BM25's top n.
    """
    # By BM25's rank, the last feature of each candidate.
    labels = states.observations["candidates"][..., -1] > 1 - (options.top - 0.5) / BM25_DEPTH
    named = torch.from_numpy(states.queries >= 0) & labels.any(-1)
    refuse(
        not named.any(),
        f"no candidate is among BM25's first {options.top}",
        "actions.imitate.top",
        "choose more of them",
    )
    known = np.unique(states.queries[named.numpy()])
    tested = named & torch.from_numpy(np.isin(states.queries, known[HELD_OUT - 1 :: HELD_OUT]))
    taught = named & ~tested
    before = _mass(network, states, labels, tested)
    network.train().requires_grad_(True)
    optimizer = torch.optim.Adam(network.parameters(), lr=options.lr)
    for _ in range(options.epochs):
        for rows in np.array_split(rng.permutation(len(states)), math.ceil(len(states) / MINIBATCH)):
            shown = taught[torch.from_numpy(rows)]
            if not shown.any():
                continue
            wanted = labels[torch.from_numpy(rows)][shown].float()
            logs = _log_shares(network, states.take(rows))[shown]
            loss = -(wanted / wanted.sum(-1, keepdim=True) * logs).sum(-1).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
    network.eval().requires_grad_(False)
    weights = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
    after, learned = (_mass(network, states, labels, queries) for queries in (tested, taught))
    return weights, {"before": before, "after": after, "learned": learned}


def _log_shares(network: PolicyNetwork, observations: dict[str, Tensor]) -> Tensor:
    """Return ln π of each candidate of each query, [n, b, s_d]; all picks of a query share them."""
    _, queries, documents, _ = observations["candidates"].shape
    logits = network(observations).unflatten(1, (queries, network.picks, documents))[:, :, 0]
    return torch.log_softmax(logits, -1)


@torch.no_grad()
def _mass(network: PolicyNetwork, states: States, labels: Tensor, of: Tensor) -> float:
    """Return the policy's mean mass on labelled candidates over the queries `of` [n, b]; nan for no query."""
    parts = np.array_split(np.arange(len(states)), math.ceil(len(states) / MINIBATCH))
    shares = torch.cat([_log_shares(network, states.take(rows)).exp() for rows in parts])
    return float((shares * labels).sum(-1)[of].mean())
