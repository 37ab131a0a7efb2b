"""Spends one budget of judgements over all topics, on those in which a bandit expects the most relevant documents."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.adjudicator import Adjudicator, topic_rng
from pyrite.pooling.adjudicators.bandit.bandit import Bandit
from pyrite.pooling.adjudicators.bandit.methods import MM
from pyrite.pooling.judging_order import side_by_side
from pyrite.pooling.method import Method
from pyrite.pooling.pool import TopicPool, topic_pool
from pyrite.pooling.sentinels import NO_DOCUMENT
from pyrite.ranking.bounds import NonNegative, checked
from pyrite.ranking.errors import refuse

NAME = "all topics"
"""Instead of a topic's id, names the generator of the choice among topics."""


class AcrossTopics(Method):
    """A bandit with the topics as arms chooses whose next document is judged; an adjudicator chooses the document.

    The paper leaves this to later work (Losada et al. 2016, section 6) and warns that it may favour some topics:
    `least` guards against that. A play of a topic takes its next document, whichever the adjudicator chooses; so the
    topics form a pool in which topic t "ranks" as many documents as it has.

    Args:
        adjudicator: chooses a topic's document.
        topics: chooses the topic.
        least: judgements that each topic gets, round-robin, before the bandit begins; all of a smaller topic.
    """

    shares_topics = chooses_topics = True

    @checked
    def __init__(
        self,
        adjudicator: Adjudicator = MM(),  # noqa: B008
        topics: Bandit = MM(rate=0.9),  # noqa: B008  (a topic's yield falls: what was found lately says more)
        least: Annotated[int, NonNegative] = 20,
    ) -> None:
        refuse(
            topics.options().in_teams or topics.options().replays,
            "the bandit over topics has teams=true or judged=replay",
            remedy="topics have neither",
        )
        self.adjudicator, self.topics, self.least = adjudicator, topics, least

    def turns(self, sizes: NDArray[np.int64], rewards: list[NDArray[np.float64]], seed: int) -> NDArray[np.int32]:
        """Return the topic of each judgement: int32 [documents of all topics], from the sizes of the topics and, for
        each, the rewards of its documents in the order of judging.
        """
        pool, first = pool_of_topics(sizes), first_slots(sizes)
        rng = topic_rng(seed, NAME)
        state = self.topics.start(pool, rng, [str(topic) for topic in range(len(sizes))])
        options = self.topics.options()
        by_slot = np.concatenate(rewards)
        guarded, judged = side_by_side(np.minimum(sizes, self.least)), np.zeros(len(sizes), np.int64)
        for topic in guarded:
            slot = first[topic] + judged[topic]
            judged[topic] += 1
            self.topics.take(pool, state, options, slot, np.int64(topic))
            self.topics.learn(pool, state, options, slot, by_slot[slot])
        slots = np.empty(len(by_slot) - len(guarded), np.int32)
        self.topics.loop(pool, state, options, rng, by_slot, slots)
        chosen = np.searchsorted(first, slots, side="right") - 1
        return np.concatenate([guarded, chosen]).astype(np.int32)


def first_slots(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first slot of each topic when the documents of the topics follow each other."""
    return np.cumsum(sizes) - sizes


def pool_of_topics(sizes: NDArray[np.int64]) -> TopicPool:
    """Build a pool in which the runs are topics and hold their documents, one topic after another."""
    places = np.arange(sizes.max(initial=0))
    ranking = np.where(places < sizes[:, None], first_slots(sizes)[:, None] + places, NO_DOCUMENT)
    return topic_pool(ranking.astype(np.int32), int(sizes.sum()))
