"""Computes the state of judging from the recorded events: which documents are out, with whom, and their grades."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pooling.judging.revocable_order import Place, RevocableOrder, Step
from pooling.judging.store import Event

SKIPPED_FOR = 10
"""A skipped document is handed out again after this many judgements of its topic."""


class Judgement(NamedTuple):
    """A grade that an assessor gave and did not withdraw.

    Args:
        event: id of its event.
        assessor: whose.
        place: topic and document.
        grade: given.
        at: seconds since 1970.
    """

    event: int
    assessor: str
    place: Place
    grade: int
    at: float


@dataclass
class Assignment:
    """A document that was handed out to one or more assessors.

    Args:
        event: id of the hand-out that brought it into play.
        double: a second assessor is to judge it too.
        holders: those on whose screen it is, or to whose screen it returns when they turn to the topic.
        judgements: of each assessor who judged it, in the order of judging.
        due: number of the topic's judgements from which it may be handed out again after it was skipped.
    """

    event: int
    double: bool
    holders: set[str] = field(default_factory=set)
    judgements: dict[str, Judgement] = field(default_factory=dict)
    due: int = 0

    @property
    def waits(self) -> bool:
        """Whether it is nobody's just now, and not yet judged as often as it is to be."""
        return not self.holders and len(self.judgements) < (2 if self.double else 1)


class JudgingState:
    """The state of a judging, which is a function of its events: `apply` is the only way to change it.

    Args:
        orders: the order of each topic, by the topic's number; one object may serve several.
        limits: documents of each topic that are to be judged.
        names: of the topics and of their documents, to numbers: what events call them.
        double: share of a topic's documents that a second assessor judges too, or (as an int) how many of them.
    """

    def __init__(
        self,
        orders: Sequence[RevocableOrder],
        limits: Sequence[int],
        names: Sequence[tuple[str, dict[str, int]]],
        double: int | float = 0,
    ) -> None:
        self.orders, self.limits = orders, limits
        self.assessors: dict[str, int | None] = {}  # each one's topic
        self.assignments: list[dict[int, Assignment]] = [{} for _ in names]
        self.waiting: list[dict[int, Assignment]] = [{} for _ in names]
        self.judgements: dict[int, Judgement] = {}
        self.of_topic: list[dict[int, Judgement]] = [{} for _ in names]
        self.open: dict[str, dict[Place, None]] = {}
        self._topics = {name: number for number, (name, _) in enumerate(names)}
        self._documents = [documents for _, documents in names]
        self._double = double

    def apply(self, event: Event) -> None:
        """Take in an event that is in the store."""
        if event.kind == "turn":
            self.assessors[event.assessor] = None if event.topic is None else self._topics[event.topic]
        elif event.kind == "sign in":
            self.assessors.setdefault(event.assessor, None)
            self.open.setdefault(event.assessor, {})
        elif event.kind == "withdraw":
            self._withdraw(event)
        else:
            place = self._place(event)
            self._on_document[event.kind](self, event, place)
            self._settle(place)

    def waiting_for(self, assessor: str, topic: int, soon: bool = False) -> Place | None:
        """A document that was handed out before and is to be judged by this assessor now.

        Args:
            assessor, topic: who asks for a document of which topic.
            soon: one that was skipped need not be due, as nothing else is left.
        """
        judged = len(self.of_topic[topic])
        for document, assignment in self.waiting[topic].items():
            if assessor not in assignment.judgements and (soon or assignment.due <= judged):
                return topic, document
        return None

    def new_left(self, topic: int) -> int:
        """Documents of a topic that may still be brought into play."""
        return self.limits[topic] - len(self.assignments[topic])

    def last_judgement(self, assessor: str) -> Judgement | None:
        """What this assessor would undo."""
        own = (judgement for judgement in reversed(self.judgements.values()) if judgement.assessor == assessor)
        return next(own, None)

    def _place(self, event: Event) -> Place:
        topic = self._topics[str(event.topic)]
        return topic, self._documents[topic][str(event.document)]

    def _hand_out(self, event: Event, place: Place) -> None:
        topic, document = place
        assignment = self.assignments[topic].get(document)
        if assignment is None:
            # Every so many-th document: a sample as evenly spread as the share allows, of just the size.
            turn = len(self.assignments[topic]) + 1
            assignment = Assignment(event.id, self._doubled(turn, topic) > self._doubled(turn - 1, topic))
            self.assignments[topic][document] = assignment
            self.orders[topic].add(event.id, Step(place, None, event.by_method))
        assignment.holders.add(event.assessor)
        self.open[event.assessor][place] = None

    def _doubled(self, turn: int, topic: int) -> int:
        if isinstance(self._double, int):
            return turn * min(self._double, self.limits[topic]) // max(self.limits[topic], 1)
        return math.floor(turn * self._double + 1e-9)

    def _judge(self, event: Event, place: Place) -> None:
        self._lay_down(event.assessor, place)
        judgement = Judgement(event.id, event.assessor, place, int(event.grade or 0), event.at)
        self.assignments[place[0]][place[1]].judgements[event.assessor] = judgement
        self.judgements[event.id] = self.of_topic[place[0]][event.id] = judgement
        self.orders[place[0]].add(event.id, Step(place, judgement.grade))

    def _skip(self, event: Event, place: Place) -> None:
        self._lay_down(event.assessor, place).due = len(self.of_topic[place[0]]) + SKIPPED_FOR

    def _hand_back(self, event: Event, place: Place) -> None:
        assignment = self._lay_down(event.assessor, place)
        if not assignment.holders and not assignment.judgements:
            del self.assignments[place[0]][place[1]]
            self.orders[place[0]].forget(assignment.event)

    def _withdraw(self, event: Event) -> None:
        judgement = self.judgements.pop(int(event.withdraws or 0))
        topic, document = judgement.place
        assignment = self.assignments[topic][document]
        del self.of_topic[topic][judgement.event], assignment.judgements[judgement.assessor]
        self.orders[topic].forget(judgement.event)
        assignment.holders.add(event.assessor)
        self.open[event.assessor][judgement.place] = None
        self._settle(judgement.place)

    def _settle(self, place: Place) -> None:
        """Add the document to `waiting`, or remove it, as its assignment now says."""
        topic, document = place
        assignment = self.assignments[topic].get(document)
        if assignment is not None and assignment.waits:
            self.waiting[topic][document] = assignment
        else:
            self.waiting[topic].pop(document, None)

    def _lay_down(self, assessor: str, place: Place) -> Assignment:
        assignment = self.assignments[place[0]][place[1]]
        assignment.holders.discard(assessor)
        del self.open[assessor][place]
        return assignment

    _on_document: dict[str, Callable[[JudgingState, Event, Place], None]] = {
        "hand out": _hand_out, "judge": _judge, "skip": _skip, "hand back": _hand_back,
    }  # fmt: skip
