from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pooling.adjudicators.posterior_fusion import PosteriorFusion
from pooling.effort import total_curve
from pooling.pool import Pool
from pooling.shared_fusion import SharedFusion, rounds, side_by_side
from pooling.simulation import found_at, simulate
from ranking.errors import BadInput


def test_topics_take_turns() -> None:
    assert list(rounds(3)) == [1, 2, 3]
    assert list(rounds(25))[18:] == [19, 20, 22, 24, 26]
    assert side_by_side([2, 1, 3]).tolist() == [0, 1, 2, 0, 2, 2]


def test_the_prior_is_of_the_other_topics(pool_of: Callable[..., Pool]) -> None:
    method = SharedFusion(PosteriorFusion(alpha=0.5, beta=2), strength=10)
    strength, means = method.prior(np.array([[4.0, 2.0], [6.0, 0.0]]), np.array([[4.0, 0.0], [3.0, 0.0]]))
    assert strength == 10
    assert means.tolist() == [[3.5 / 8.5, 0.5 / 2.5], [4.5 / 6.5, 0.5 / 4.5]]


def test_trust_in_other_topics_is_estimated() -> None:
    method, rng = SharedFusion(PosteriorFusion()), np.random.default_rng(1)
    judged = np.full((30, 8), 40.0)
    alike = rng.binomial(40, np.linspace(0.1, 0.8, 8), (30, 8)).astype(float)
    unlike = rng.permuted(alike, axis=1)  # each topic has its own best runs
    trust, mistrust = method.prior(judged, alike)[0], method.prior(judged, unlike)[0]
    assert trust >= 80
    assert mistrust <= 5
    assert method.prior(judged[:1], alike[:1])[0] == 0  # nothing to learn from


def test_it_finds_more_where_runs_are_alike_in_all_topics(pool_of: Callable[..., Pool]) -> None:
    rng, rankings, grades = np.random.default_rng(8), [], []
    for _ in range(20):
        relevant = rng.random(60) < 0.3
        lists = [np.argsort(rng.random(60) - quality * relevant)[:15] for quality in (2, 0, 0, 0, 0, 0)]
        held, numbers = np.unique(np.concatenate(lists), return_inverse=True)
        rankings.append(numbers.reshape(6, 15).tolist())
        grades.append(relevant[held].astype(int).tolist())
    pool = pool_of(rankings, grades)
    seeds, budgets = [0, 1, 2], [3, 6]
    alone = sum(found_at(pool, order, budgets).sum() for order in simulate(PosteriorFusion(), pool, seeds))
    orders = simulate(SharedFusion(PosteriorFusion()), pool, seeds)
    assert sum(found_at(pool, order, budgets).sum() for order in orders) > 1.1 * alone
    # Each topic has its own budget, whatever the turns.
    assert orders[0].spent(5).tolist() == [5] * 20
    assert total_curve(pool, orders[0])[1][5] == found_at(pool, orders[0], [6]).sum()


def test_one_topic_is_judged_as_by_posterior_fusion(random_pool: Callable[..., Pool]) -> None:
    pool = random_pool(np.random.default_rng(8), topics=1)
    [shared], [alone] = simulate(SharedFusion(PosteriorFusion()), pool, [4]), simulate(PosteriorFusion(), pool, [4])
    assert shared.documents[0].tolist() == alone.documents[0].tolist()


def test_a_strength_below_0_is_refused() -> None:
    with pytest.raises(BadInput, match="strength is -1"):
        SharedFusion(PosteriorFusion(), -1)
