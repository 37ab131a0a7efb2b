"""Measures whether `policy=by_query` finds a planted effect per query, for `benchmarks.feedback_control`.

The collection is that of `feedback_control`. BM25's first ten ranks are true negatives for half of the training
queries, and hidden positives for the others: there, the judged document ranks behind them. Its rank shows which kind a
query is, except for a tenth of the queries. Two more features show nothing: the score gap is noise, and the ranker's
margin has to be learned. An oracle takes BM25's first ten for the first kind, and random documents for the other one.

`policy=by_query` has to find feature and actions: by whole trainings of each candidate with common seeds, or by forks
of half the queries. Both are compared with the oracle and with the best action for all.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product

import numpy as np
from numpy.typing import NDArray

from benchmarks.feedback_control import HEAD, Changing, Made, train
from pyrite.cluster.statistics.fork_values import SIDES
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.training import Batch, RankerTraining
from pyrite.sampling.policies.action import Action
from pyrite.sampling.policies.by_query import ByQuery
from pyrite.sampling.policies.forked import ForkedPolicy
from pyrite.sampling.policies.mixture import Mixture
from pyrite.sampling.policies.policy import SamplingPolicy
from pyrite.sampling.query_features import Feature, QuerySplit

QUERY_FEATURES: tuple[Feature, ...] = ("positive_rank", "score_gap", "margin")
ACTIONS = ("random", f"bm25:1-{HEAD}")
OWN = ["random", "bm25"]
WRONG = 0.1
"""The share of the queries whose rank shows the wrong kind."""
Choice = tuple[Feature, str, str]


def plant(made: Made) -> tuple[RankedLists, NDArray[np.bool_]]:
    """Return lists whose first ranks are hidden positives for half of the training queries, and for which queries."""
    rng, count = np.random.default_rng(1), len(made.clean)
    planted = np.zeros(count, bool)
    train_queries = rng.permutation(np.flatnonzero(made.encoded.split == 0))
    planted[train_queries[: len(train_queries) // 2]] = True
    shows = planted ^ (rng.random(count) < WRONG)
    rank = np.where(shows, HEAD + 1, 1) + rng.integers(0, HEAD // 2, count)
    features = {"positive_rank": rank.astype(np.float32), "score_gap": rng.normal(size=count).astype(np.float32)}
    lists = (np.where(planted[:, None], hidden, clean) for hidden, clean in zip(
        (made.hidden.documents, made.hidden.scores), (made.clean.documents, made.clean.scores), strict=True
    ))  # fmt: skip
    documents, scores = lists
    return RankedLists(documents, scores, features), planted


class QueryOracle(SamplingPolicy):
    """Random documents for the planted queries, and BM25's first ten for the others."""

    window = (1, HEAD)

    def __init__(self, planted: NDArray[np.bool_]) -> None:
        self.planted = planted

    def choose(self, batch: Batch, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        return np.where(self.planted[batch.queries], 0, 1)


def report(made: Made, trainings: int, searches: int, seeds: int, epochs: int) -> None:
    """Print what the oracle gains over the best action for all, and which share each way of choosing gets."""
    lists, planted = plant(made)

    def trained(seed: int, policy: SamplingPolicy) -> float:
        return train(made, seed, epochs, lambda _: policy, Changing(made, np.inf, lists))

    known: dict[Choice, NDArray[np.float64]] = {}

    def measured(choice: Choice) -> NDArray[np.float64]:
        """Return the AP with each new seed; the feature does not matter if both actions are the same."""
        feature, low, high = choice
        key = (QUERY_FEATURES[0], low, high) if low == high else choice
        if key not in known:
            known[key] = np.array([trained(seed, ByQuery(feature, actions=[low, high])) for seed in range(seeds)])
        return known[key]

    oracle = np.array([trained(seed, QueryOracle(planted)) for seed in range(seeds)])
    gains: dict[str, list[NDArray[np.float64]]] = {}
    for search in range(searches):
        first = 10_000 * (search + 1)
        all_values = by_trainings(trained, trainings, first)
        same = measured(max((choice for choice in all_values if choice[1] == choice[2]), key=lambda c: all_values[c]))
        chosen = {
            "trainings": max(all_values, key=lambda c: all_values[c]),
            "forks": by_forks(trained, trainings, first),
        }
        gains.setdefault("oracle", []).append(oracle - same)
        for name, choice in chosen.items():
            gains.setdefault(name, []).append(measured(choice) - same)
            print(f"search {search + 1}, by {name}: {choice[0]}, {choice[1]} below and {choice[2]} above", flush=True)
    room = float(np.mean(gains["oracle"]))
    for name, values in gains.items():
        gain = np.mean(values, axis=0)
        error = 1.96 * float(gain.std()) / np.sqrt(len(gain))
        share = f", {gain.mean() / room:.0%} of the oracle's" if name != "oracle" and room else ""
        print(f"by {name}: {gain.mean():+.4f} (95% over seeds ± {error:.4f}) over the best action for all{share}")


def by_trainings(trained: Callable[[int, SamplingPolicy], float], trainings: int, first: int) -> dict[Choice, float]:
    """Return the mean AP of each candidate; all are trained with the same seeds."""
    pairs = [(feature, *pair) for feature in QUERY_FEATURES for pair in permutations(ACTIONS)]
    choices: list[Choice] = [*((QUERY_FEATURES[0], action, action) for action in ACTIONS), *pairs]  # type: ignore[list-item]
    repeats = max(trainings // len(choices), 1)
    return {
        choice: float(np.mean([
            trained(first + number, ByQuery(choice[0], actions=list(choice[1:]))) for number in range(repeats)
        ]))
        for choice in choices
    }  # fmt: skip


def by_forks(trained: Callable[[int, SamplingPolicy], float], trainings: int, first: int) -> Choice:
    """Return the feature and the actions whose values in the two halves, as forks measure them, have the largest sum.

    A fork replaces the policy, a draw between the two actions, for one side of a split throughout the training.
    """
    kinds = list(product(QUERY_FEATURES, SIDES, ACTIONS))

    def forked(feature: Feature, side: str, action: str, seed: int) -> float:
        split = QuerySplit(feature, 0.5)
        policy = ForkedPolicy(base(), OWN, Action.parse(action), 0, 10**9, split=split, side=side)
        return trained(seed, policy)

    def base() -> SamplingPolicy:
        return Mixture(per="query", window=[1, HEAD])

    repeats = max(trainings // (len(kinds) + 1), 1)
    unchanged = np.array([trained(first + number, base()) for number in range(repeats)])
    worth = {
        kind: float(np.mean([forked(*kind, first + number) for number in range(repeats)] - unchanged)) for kind in kinds
    }
    choices = list(product(QUERY_FEATURES, ACTIONS, ACTIONS))
    return max(choices, key=lambda c: worth[c[0], "below", c[1]] + worth[c[0], "above", c[2]])
