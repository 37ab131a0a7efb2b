"""95% intervals hold the truth about as often as they say, also if little is relevant and few are judged."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from pooling.adjudicators.active_sampling import ActiveSampling
from pooling.estimation import estimation
from pooling.false_negatives import draw, rate, sizes_of
from pooling.pool import Pool


@pytest.mark.by_day(2)
@pytest.mark.parametrize("prevalence", [0.005, 0.02, 0.1])
@pytest.mark.parametrize("budget", [100, 300])
def test_the_rate_of_false_negatives(prevalence: float, budget: int) -> None:
    # One policy repeats few negatives, the other shows many once: the latter's few relevant ones have uneven weights.
    rng = np.random.default_rng(3)
    repeating = np.where(rng.random(3000) < 0.3, rng.geometric(0.2, 3000), 0).astype(float)
    flat = (rng.random(3000) < 0.9).astype(float)
    shown = repeating + flat > 0
    exposures = [repeating[shown], flat[shown]]
    relevant = (rng.random(shown.sum()) < prevalence).astype(float)
    held = np.zeros((200, 2))
    for seed in range(200):
        drawn = draw(sizes_of(exposures), budget, np.random.default_rng(seed))
        judged = np.full(len(relevant), np.nan)
        judged[drawn.order[:budget]] = relevant[drawn.order[:budget]]
        for policy, shares in enumerate(exposures):
            estimated, truth = rate(shares, drawn.inclusion, judged), (shares * relevant).sum() / shares.sum()
            held[seed, policy] = estimated.low - 1e-12 <= truth <= estimated.high + 1e-12
    assert held.mean(0).min() >= 0.93


def test_single_topics_of_active_sampling(random_pool: Callable[..., Pool]) -> None:
    pool = random_pool(np.random.default_rng(8), topics=8, runs=8, documents=120, depth=40)
    rows = pl.concat(estimation(ActiveSampling(), pool, seed, [12, 26]) for seed in range(40))
    for budget in (12, 26):
        covered = rows.filter(pl.col("budget") == budget)["topics_covered"].mean()
        assert isinstance(covered, float)
        assert covered >= 0.93
