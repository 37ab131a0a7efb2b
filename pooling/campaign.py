"""Runs the judging of a whole pool by people: several topics, several assessors, one method."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyrite.pooling.across_topics import NAME, AcrossTopics, first_slots, pool_of_topics
from pyrite.pooling.adjudicators.adjudicator import Adjudication, topic_rng
from pyrite.pooling.pool import Pool
from pyrite.pooling.sentinels import NO_SLOT
from pyrite.pooling.shared_fusion import SharedFusion, rounds
from pyrite.pooling.simulation import Method, adjudicator_of


class Campaign:
    """Chooses the next document to judge, of a given topic or of any, and learns from the grades.

    With one assessor it follows the order of `pyrite.pooling.simulation.simulate` from the same seed. With several,
    documents may be handed out while others are judged; none is handed out twice.

    The pool may have judgements, which are not used.
    """

    def __init__(self, pool: Pool, method: Method, seed: int = 0) -> None:
        self.pool = pool
        adjudicator = adjudicator_of(method)
        self._sizes = np.diff(pool.offsets)
        self._out = np.zeros(len(self._sizes), np.int64)
        self._topics = [
            Adjudication(
                adjudicator, topic.pool, topic_rng(seed, topic.name), pool.runs, pool.relevant_from, pool.highest
            )
            for topic in pool.topics
        ]
        self._shared: Adjudication | None = None
        self._lockstep = method if isinstance(method, SharedFusion) else None
        self._rounds, self._informed = list(rounds(int(self._sizes.max(initial=0)))), 0
        if isinstance(method, AcrossTopics):
            self._guard = np.minimum(self._sizes, method.least)
            self._first = first_slots(self._sizes)
            names = [str(topic) for topic in range(len(self._sizes))]
            over_topics = pool_of_topics(self._sizes)
            rng = topic_rng(seed, NAME)
            limits = (pool.relevant_from, pool.highest)
            self._shared = Adjudication(method.topics, over_topics, rng, names, *limits)
            # The slot of its topic that each document took when it was handed out.
            self._slots = np.full(int(self._sizes.sum()), NO_SLOT, np.int64)

    def next(self, topic: int | None = None) -> tuple[int, int] | None:
        """Return the numbers of a topic and of a document that was not handed out yet; None if nothing is left.

        Args:
            topic: its number in the pool; None leaves it to the method, or takes the first with documents left.
        """
        slot = None
        self._inform()
        if topic is None:
            topic, slot = self._choose_topic()
        if topic is None:
            return None
        document = self._topics[topic].next()
        if document is None:
            return None
        self._hand_out(topic, document, slot)
        return topic, document

    def judge(self, topic: int, document: int, grade: int) -> None:
        """Learn the grade of a document, see `pyrite.pooling.adjudicators.adjudicator.Adjudication.judge`."""
        unseen = self._topics[topic].is_open(document)
        self._topics[topic].judge(document, grade)
        if unseen:
            self._hand_out(topic, document, None)
        if self._shared is not None:
            self._shared.judge(int(self._slots[self._first[topic] + document]), grade)

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next step depends on."""
        state: dict[str, Any] = {"topics": [topic.state_dict() for topic in self._topics], "out": self._out.copy()}
        state["informed"] = self._informed
        if self._shared is not None:
            state |= {"shared": self._shared.state_dict(), "slots": self._slots.copy()}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state, see `pyrite.pooling.adjudicators.adjudicator.Adjudication.load_state_dict`."""
        if len(state["topics"]) != len(self._topics) or ("shared" in state) != (self._shared is not None):
            raise ValueError("the state is of another pool or another method")
        for topic, kept in zip(self._topics, state["topics"], strict=True):
            topic.load_state_dict(kept)
        self._out = np.array(state["out"])
        self._informed = int(state["informed"])
        if self._shared is not None:
            self._shared.load_state_dict(state["shared"])
            self._slots = np.array(state["slots"])

    def _choose_topic(self) -> tuple[int | None, int | None]:
        """Choose a topic, and the slot of the bandit over topics that represents its next document."""
        if self._shared is None:
            left = np.flatnonzero(self._out < self._sizes)
            if self._lockstep is not None and len(left):
                return int(left[np.argmin(self._out[left])]), None
            return (int(left[0]) if len(left) else None), None
        behind = np.flatnonzero(self._out < self._guard)
        if len(behind):
            return int(behind[np.argmin(self._out[behind])]), None
        slot = self._shared.next()
        if slot is None:
            return None, None
        return int(np.searchsorted(self._first, slot, side="right") - 1), slot

    def _inform(self) -> None:
        """Let topics share what they learned each time the number of judgements reaches a round of all topics."""
        if self._lockstep is None or self._informed == len(self._rounds):
            return
        judged = sum(int(topic.judged.sum()) for topic in self._topics)
        due = self._informed
        while due < len(self._rounds) and judged >= np.minimum(self._sizes, self._rounds[due]).sum():
            due += 1
        if due > self._informed:
            pools = [topic.pool for topic in self.pool.topics]
            self._lockstep.inform(pools, [topic.state for topic in self._topics])
            self._informed = due

    def _hand_out(self, topic: int, document: int, slot: int | None) -> None:
        self._out[topic] += 1
        if self._shared is None:
            return
        if slot is None:
            slot = self._shared.supply(topic)
        self._slots[self._first[topic] + document] = slot
