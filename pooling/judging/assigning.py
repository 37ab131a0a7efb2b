"""Decides which document an assessor gets: one that waits for a judge, or a new one of a topic that they may judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from pooling.judging.options import Options, assessor_name
from pooling.judging.revocable_order import Place
from pooling.judging.state import JudgingState
from ranking.errors import BadInput


class Assigning:
    """Decides which documents each assessor may get, from the state and the owners of topics.

    Args:
        topics: numbers of the topics by their ids.
        is_listed: returns whether an assessor of a name may judge.
        by_method: whether the method chooses among topics, so that topics have no owners.
        limit: documents that may be handed out in total, if the method chooses topics.

    Raises:
        BadInput: if owners name a topic or an assessor that does not exist.
    """

    def __init__(
        self,
        state: JudgingState,
        options: Options,
        topics: dict[str, int],
        is_listed: Callable[[str], bool],
        by_method: bool,
        limit: int,
    ) -> None:
        self._state, self._first_owns = state, options.owners == "first"
        self._burn_in, self._gold_every = options.burn_in, options.gold_every
        self._is_listed, self._by_method, self._limit = is_listed, by_method, limit
        self._owners = self._named(options, topics)

    def owner_of(self, topic: int) -> str | None:
        """Return the owner of a topic: others get its documents only as second assessors. None if it has none."""
        if not self._first_owns:
            return self._owners.get(topic)
        owner = self._state.owners[topic]
        return owner if owner is not None and self._is_listed(owner) else None

    def has_for(self, assessor: str, topic: int) -> bool:
        """Return whether this assessor has anything to judge in a topic."""
        if any(place[0] == topic for place in self._state.open[assessor]) or self.may_bring(topic, assessor):
            return True
        return self._state.waiting_for(assessor, topic, True, self._is_anothers(topic, assessor)) is not None

    def choose(self, assessor: str, topics: Sequence[int], topic: int | None) -> Place | None:
        """Choose the next document of some topics for an assessor; None if there is none.

        Args:
            topic: the only topic in `topics`, or None if the method chooses the topic.
        """
        gold = self._gold_for(assessor, topics)
        if gold is not None:
            return gold
        for soon in (False, True):
            for each in topics:
                place = self._state.waiting_for(assessor, each, soon, self._is_anothers(each, assessor))
                if place is not None:
                    return place
            if not soon and any(self.may_bring(each, assessor) for each in topics):
                offered = self._state.orders[topics[0]].offer(topic)
                if offered is not None:
                    return offered
        return None

    def _gold_for(self, assessor: str, topics: Sequence[int]) -> Place | None:
        """Return a gold document that is due: the first ones to burn in, and then one every `gold_every` judgements."""
        given = self._state.gold_given.get(assessor, {})
        made = len(self._state.of_assessor.get(assessor, {}))
        if len(given) >= self._burn_in + made // self._gold_every:
            return None
        places = ((topic, document) for topic in topics for document in self._state.gold[topic])
        return next((place for place in places if place not in given), None)

    def may_bring(self, topic: int, assessor: str) -> bool:
        """Return whether a new document of the topic may be handed to the assessor."""
        out = self._state.handed_out if self._by_method else 0
        return self._state.new_left(topic) > 0 and out < self._limit and not self._is_anothers(topic, assessor)

    def emptiest_topic(self, assessor: str) -> int:
        """Return the first of the topics with the fewest assessors that have anything to judge."""
        open_to = Counter(self._state.assessors.values())
        topics = range(len(self._state.limits))
        return min(topics, key=lambda topic: (not self.may_bring(topic, assessor), open_to[topic]))

    def _is_anothers(self, topic: int, assessor: str) -> bool:
        return self.owner_of(topic) not in (None, assessor)

    def _named(self, options: Options, topics: dict[str, int]) -> dict[int, str]:
        """Return the owners that the options name, by the topics' numbers."""
        owners = options.owners
        if owners is None:
            return {}
        if self._by_method:
            raise BadInput("topics can't be owned where the method chooses them", "owners", "leave owners= out")
        named = {} if owners == "first" else {topic: assessor_name(owner) for topic, owner in owners.items()}
        for topic, owner in named.items():
            if topic not in topics:
                raise BadInput(f"there is no topic {topic!r} in the pool", "owners", "name topics of the runs")
            if not self._is_listed(owner):
                raise BadInput(f"{owner} owns topic {topic} and is not among the assessors", "owners")
        return {topics[topic]: owner for topic, owner in named.items()}
