"""Judges topics in lockstep, so that each topic informs the others about the runs: posterior fusion with a prior across
topics and with regressions over runs and texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

from pyrite.pooling.adjudicators.adjudicator import topic_rng
from pyrite.pooling.adjudicators.fusion import FusionState, reweigh
from pyrite.pooling.adjudicators.posterior_fusion import PosteriorFusion
from pyrite.pooling.method import Method
from pyrite.pooling.pool import Pool, TopicPool
from pyrite.pooling.run_regression import RunRegression
from pyrite.pooling.sentinels import OPEN
from pyrite.pooling.text_regression import TextRegression
from pyrite.ranking.bounds import NonNegative, checked

STRENGTHS = np.array([0.0, 0.5, 1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 60, 80, 120, 160])
"""Numbers of judgements that other topics may be worth."""


class SharedFusion(Method):
    """Posterior fusion in which a run begins each topic with its results in the other topics.

    Topics are judged in lockstep: each has had as many judgements as the others before it gets the next. Run s has the
    prior Beta(α + κ·m, β + κ·(1 - m)) in a topic, m its share of relevant documents among the judged ones it holds,
    over all other topics. How far they are trusted, κ, is estimated by empirical Bayes: the one of `STRENGTHS` that
    makes the topics' counts most likely (beta-binomial, m of the other topics). If runs do about as well in one topic
    as in the next, κ is large; if each topic has different best runs it is small, and the method is posterior fusion.

    Runs hold the same documents, so their counts are not independent; the likelihood is a composite one.

    Regressions over runs and over texts estimate how likely each document is relevant. They are combined with the
    fusion log-linearly (Genest and Zidek 1986, "Combining probability distributions", section 3): its score is
    multiplied by the odds to the power of the regression's weight, which fades with the share of the topic's pool that
    was judged.

    Args:
        adjudicator: the fusion, with the prior of the first judgement.
        strength: κ, how many judgements the other topics are worth; None estimates it again as judging proceeds.
        runs: the regression over runs, in which a team's best rank counts once; None or a weight of 0 leaves it out.
        texts: the regression over tf·idf, which needs texts; None or a weight of 0 leaves it out.
    """

    shares_topics = True

    @checked
    def __init__(
        self,
        adjudicator: PosteriorFusion = PosteriorFusion(),  # noqa: B008
        strength: Annotated[float, NonNegative] | None = None,
        runs: RunRegression | None = RunRegression(),  # noqa: B008
        texts: TextRegression | None = None,
    ) -> None:
        self.adjudicator, self.strength = adjudicator, strength
        self.regressions = [part for part in (runs, texts) if part is not None and part.weight > 0]

    @property
    def reads_texts(self) -> bool:
        """Whether the pool must have texts."""
        return any(isinstance(part, TextRegression) for part in self.regressions)

    def orders(self, pool: Pool, rewards: Sequence[NDArray[np.float64]], seed: int) -> list[NDArray[np.int32]]:
        """Return the order in which each topic's documents are judged, given the rewards that the method will receive.
        `pyrite.pooling.adjudicators.adjudicator.judging_order` is the same for one topic.
        """
        rngs = [topic_rng(seed, topic.name) for topic in pool.topics]
        states = [
            self.adjudicator.start(topic.pool, rng, pool.runs) for topic, rng in zip(pool.topics, rngs, strict=True)
        ]
        orders = [np.empty(topic.pool.size, np.int32) for topic in pool.topics]
        pools, options = [topic.pool for topic in pool.topics], self.adjudicator.options()
        sizes = [own.size for own in pools]
        judged = 0
        for upto in rounds(max(sizes, default=0)):
            if judged:
                self.inform(pools, states)
            for own, state, rng, heard, order, size in zip(pools, states, rngs, rewards, orders, sizes, strict=True):
                part = order[min(judged, size) : min(upto, size)]
                if len(part):
                    self.adjudicator.loop(own, state, options, rng, heard, part)
            judged = upto
        return orders

    def inform(self, pools: Sequence[TopicPool], states: Sequence[FusionState]) -> float:
        """Give each topic's runs the prior from the others' judgements, and its documents their factors; return κ."""
        judged, relevant = np.array([state.seen for state in states]), np.array([state.gained for state in states])
        strength, means = self.prior(judged, relevant)
        options = self.adjudicator.weight_options
        self._set_factors(pools, states)
        for pool, state, mean in zip(pools, states, means, strict=True):
            state.lent_seen[:], state.lent_gained[:] = strength, strength * mean
            seen, gained = state.seen + state.lent_seen, state.gained + state.lent_gained
            state.weights[:] = [self.adjudicator.weight(*counts, *options) for counts in zip(seen, gained, strict=True)]
            reweigh(pool, state)
        return strength

    def _set_factors(self, pools: Sequence[TopicPool], states: Sequence[FusionState]) -> None:
        rewards = [state.rewards for state in states]
        shares = np.array([np.mean(~np.isnan(judgements)) if len(judgements) else 1.0 for judgements in rewards])
        logarithms = [np.zeros(len(judgements)) for judgements in rewards]
        for part in self.regressions:
            weights = part.weight * np.maximum(1 - shares / part.until, 0) ** part.fade * (shares < part.until)
            if weights.any():
                for log, weight, odds in zip(logarithms, weights, part.log_odds(pools, rewards), strict=True):
                    log += weight * odds
        for state, log in zip(states, logarithms, strict=True):
            # The most likely of the open documents has 1, so that none is too small for a float.
            waiting = log[state.taken == OPEN]
            state.factors[:] = np.exp(np.minimum(log - waiting.max(initial=-np.inf), 0)) if len(waiting) else 1.0

    def prior(self, judged: NDArray[np.float64], relevant: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Compute κ, and m of each topic and run, from the number of judged documents that the run holds, and relevant
        ones of these: float64 [topics, runs].
        """
        alpha, beta = self.adjudicator.alpha, self.adjudicator.beta
        means = (alpha + relevant.sum(0) - relevant) / (alpha + beta + judged.sum(0) - judged)
        if len(judged) < 2:
            return 0.0, means
        if self.strength is not None:
            return float(self.strength), means
        likelihoods = [
            # Rounded, so that no last bit decides.
            round(float(_likelihood(alpha + strength * means, beta + strength * (1 - means), judged, relevant)), 6)
            for strength in STRENGTHS
        ]
        return float(STRENGTHS[int(np.argmax(likelihoods))]), means


def rounds(most: int) -> Iterator[int]:
    """Return the numbers of judgements per topic after which topics inform each other: each of the first twenty, then a
    tenth more each time.
    """
    judged = 0
    while judged < most:
        judged = judged + 1 if judged < 20 else judged + judged // 10
        yield judged


def _likelihood(
    alpha: NDArray[np.float64], beta: NDArray[np.float64], judged: NDArray[np.float64], relevant: NDArray[np.float64]
) -> float:
    """Compute the logarithm of the beta-binomial likelihood, without terms that do not depend on α and β."""
    return float((betaln(alpha + relevant, beta + judged - relevant) - betaln(alpha, beta)).sum())
