"""Learns from the judgements of all topics how likely a document is relevant, by its ranks in the runs of each team."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.compiled import kernel
from pyrite.pooling.pool import TopicPool
from pyrite.ranking.bounds import Between, NonNegative, Positive, checked
from pyrite.ranking.part import Part

DECIMALS = 6
"""Decimals of log-odds, so that no last bit decides which document is judged."""
LONGEST_STEP, STEPS, CONVERGED = 2.0, 50, 1e-10


class RunRegression(Part):
    """Bayesian logistic regression over runs: the log-odds of relevance are b_0 + Σ_g b_g · x_g(d), over teams g,
    x_g(d) = (constant + 1) / (constant + 1 + rank), by the best rank (from 0) at which a run of the team holds d.

    A team's runs are near-copies, and count once. All topics' judgements together give a common b, the maximum of its
    posterior, with normal priors of deviation `spread` around 3 / teams (a document that all hold at the top has e³
    times the odds of one that none holds); a topic's b has the common one as a prior, with deviation `topic_spread`.

    Documents are judged because runs rank them high; given the ranks, that does not bias the regression.

    Args:
        weight: weight of the log-odds relative to the logarithm of the fusion's score; 0 leaves them out.
        until: share of judged documents in a topic's pool from which they have no weight.
        fade: the weight is `weight` · (1 - share / until)^fade; 0 does not fade.
        constant: added to ranks. The higher, the less the rank matters compared with being held at all.
        spread: deviation of the weights of teams that are common to the topics.
        topic_spread: deviation of a topic's weights around the common ones.
    """

    @checked
    def __init__(
        self,
        weight: Annotated[float, NonNegative] = 1.0,
        until: Annotated[float, Between(0, 1, exclude="low")] = 1.0,
        fade: Annotated[float, NonNegative] = 2.0,
        constant: Annotated[float, NonNegative] = 30.0,
        spread: Annotated[float, Positive] = 1.0,
        topic_spread: Annotated[float, Positive] = 0.5,
    ) -> None:
        self.weight, self.until, self.fade = weight, until, fade
        self.constant, self.spread, self.topic_spread = constant, spread, topic_spread

    def log_odds(self, pools: Sequence[TopicPool], rewards: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
        """Compute how likely each document is relevant: for each topic float64 [documents], rounded. Rewards are NaN
        for documents that were not judged.
        """
        teams = int(pools[0].teams.max(initial=-1)) + 1
        judged = [np.flatnonzero(~np.isnan(judgements)) for judgements in rewards]
        answers = [judgements[topic_fit] for judgements, topic_fit in zip(rewards, judged, strict=True)]
        mean = np.concatenate([[-2.0], np.full(teams, 3.0 / max(teams, 1))])
        precision = np.concatenate([[0.01], np.full(teams, self.spread**-2.0)])
        common = self._fit(pools, judged, answers, np.tile(mean, (1, 1)), precision)
        precision = np.concatenate([[0.25], np.full(teams, self.topic_spread**-2.0)])
        topic_fit = self._fit(pools, judged, answers, np.tile(common, (len(pools), 1)), precision)
        found = []
        for pool, weights in zip(pools, topic_fit, strict=True):
            odds, best = np.empty(pool.size), np.zeros(teams)
            _odds(pool, weights, self.constant, best, odds)
            found.append(np.round(odds, DECIMALS))
        return found

    def _fit(
        self,
        pools: Sequence[TopicPool],
        judged: Sequence[NDArray[np.int64]],
        answers: Sequence[NDArray[np.float64]],
        mean: NDArray[np.float64],
        precision: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Find the maximum of the posterior by Newton's method: float64, shaped like the prior's mean, which is float64
        [topics, teams + 1], or [1, teams + 1] for one fit to all topics. Its precision is float64 [teams + 1].
        """
        weights, together = mean.copy(), len(mean) == 1
        best, touched = np.zeros(mean.shape[1] - 1), np.empty(mean.shape[1] - 1, np.int64)
        for _ in range(STEPS):
            gradient = precision * (weights - mean)
            curvature = np.tile(np.diag(precision), (len(mean), 1, 1))
            for topic, (pool, own, said) in enumerate(zip(pools, judged, answers, strict=True)):
                row = 0 if together else topic
                _add(pool, own, said, weights[row], self.constant, best, touched, gradient[row], curvature[row])
            step = np.linalg.solve(curvature, gradient[:, :, None])[:, :, 0]
            longest = np.abs(step).max(1, keepdims=True)
            weights -= step * np.minimum(1.0, LONGEST_STEP / np.maximum(longest, 1e-300))
            if longest.max() < CONVERGED:
                break
        return weights


@kernel
def _touch(pool, document, constant, best, touched):  # type: ignore[no-untyped-def]
    """Put a document's x into `best`, and the teams that hold it into `touched`. Returns their number."""
    count = 0
    for cell in range(pool.offsets[document], pool.offsets[document + 1]):
        team = pool.teams[pool.holders[cell]]
        value = (constant + 1.0) / (constant + 1.0 + pool.ranks[cell])
        if best[team] == 0.0:
            touched[count] = team
            count += 1
        best[team] = max(best[team], value)
    return count


@kernel
def _add(pool, judged, answers, weights, constant, best, touched, gradient, curvature):  # type: ignore[no-untyped-def]
    for place in range(len(judged)):
        count = _touch(pool, judged[place], constant, best, touched)
        odds = weights[0]
        for one in range(count):
            odds += weights[touched[one] + 1] * best[touched[one]]
        chance = 1.0 / (1.0 + np.exp(-odds))
        lacks, varies = chance - answers[place], chance * (1.0 - chance)
        gradient[0] += lacks
        curvature[0, 0] += varies
        for one in range(count):
            team, value = touched[one], best[touched[one]]
            gradient[team + 1] += lacks * value
            curvature[0, team + 1] += varies * value
            curvature[team + 1, 0] += varies * value
            for two in range(count):
                curvature[team + 1, touched[two] + 1] += varies * value * best[touched[two]]
        for one in range(count):
            best[touched[one]] = 0.0


@kernel
def _odds(pool, weights, constant, best, odds):  # type: ignore[no-untyped-def]
    for document in range(len(odds)):
        odds[document] = weights[0]
        for cell in range(pool.offsets[document], pool.offsets[document + 1]):
            team = pool.teams[pool.holders[cell]]
            value = (constant + 1.0) / (constant + 1.0 + pool.ranks[cell])
            if value > best[team]:
                odds[document] += weights[team + 1] * (value - best[team])
                best[team] = value
        for cell in range(pool.offsets[document], pool.offsets[document + 1]):
            best[pool.teams[pool.holders[cell]]] = 0.0
