"""Learns from the judgements of all topics how likely a document is relevant, by its ranks in the runs of each team."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pooling.adjudicators.compiled import kernel
from pooling.pool import TopicPool
from ranking.errors import BadInput

DECIMALS = 6
"""Of log-odds, so that no last bit decides which document is judged."""
LONGEST_STEP, STEPS, CONVERGED = 2.0, 50, 1e-10


class RunRegression:
    """Bayesian logistic regression over runs: the log-odds of relevance are b_0 + Σ_g b_g · x_g(d), over teams g,
    x_g(d) = (constant + 1) / (constant + 1 + rank), by the best rank (from 0) at which a run of the team holds d.

    A team's runs are near-copies, and count once. All topics' judgements together give a common b, the maximum of its
    posterior, with normal priors of deviation `spread` around 3 / teams (a document that all hold at the top has e³
    times the odds of one that none holds); a topic's own b has the common one for a prior, with deviation
    `topic_spread`.

    Documents are judged because runs rank them high; given the ranks, that does not bias the regression.

    Args:
        weight: of the log-odds beside the logarithm of the fusion's score; 0 leaves them out.
        until: share of a topic's pool, judged, from which they count for nothing.
        fade: the weight is `weight` · (1 - share / until)^fade.
        constant: the higher, the less the rank matters beside being held at all.
        spread, topic_spread: of b.

    Raises:
        BadInput: where an option is out of range.
    """

    def __init__(
        self,
        weight: float = 1.0,
        until: float = 1.0,
        fade: float = 2.0,
        constant: float = 30.0,
        spread: float = 1.0,
        topic_spread: float = 0.5,
    ) -> None:
        check_weight(weight, until, fade)
        if constant < 0 or not (spread > 0 and topic_spread > 0):
            raise BadInput(
                f"constant is {constant}, spread {spread} and topic_spread {topic_spread}",
                remedy="give a constant of 0 or more, and spreads above 0",
            )
        self.weight, self.until, self.fade = weight, until, fade
        self.constant, self.spread, self.topic_spread = constant, spread, topic_spread

    def log_odds(self, pools: Sequence[TopicPool], rewards: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
        """How likely each document is relevant: for each topic float64 [documents], rounded.

        Args:
            pools: of the topics, whose runs are the same.
            rewards: for each topic float64 [documents], from 0 to 1; NaN where it was not judged.
        """
        teams = int(pools[0].teams.max(initial=-1)) + 1
        judged = [np.flatnonzero(~np.isnan(heard)) for heard in rewards]
        answers = [heard[own] for heard, own in zip(rewards, judged, strict=True)]
        mean = np.concatenate([[-2.0], np.full(teams, 3.0 / max(teams, 1))])
        precision = np.concatenate([[0.01], np.full(teams, self.spread**-2.0)])
        common = self._fit(pools, judged, answers, np.tile(mean, (1, 1)), precision)
        precision = np.concatenate([[0.25], np.full(teams, self.topic_spread**-2.0)])
        own = self._fit(pools, judged, answers, np.tile(common, (len(pools), 1)), precision)
        found = []
        for pool, weights in zip(pools, own, strict=True):
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
        """The maximum of the posterior, by Newton's method: float64 as `mean`.

        Args:
            pools, judged, answers: of the topics.
            mean: float64 [topics, teams + 1], of the prior, or [1, teams + 1] for one fit to all topics.
            precision: float64 [teams + 1], of the prior.
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


def check_weight(weight: float, until: float, fade: float) -> None:
    """Refuse options of what adds to a fusion's score, for a while.

    Raises:
        BadInput: where one is out of range.
    """
    if weight < 0 or not 0 < until <= 1 or fade < 0:
        raise BadInput(
            f"weight is {weight}, until {until} and fade {fade}",
            remedy="give weight and fade 0 or more, until above 0 and at most 1",
        )


@kernel
def _touch(pool, document, constant, best, touched):  # type: ignore[no-untyped-def]
    """Put a document's x into `best`, and the teams that hold it into `touched`; how many these are."""
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
