"""Computes the state of judging from the recorded events: documents handed out, their holders, and their grades."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from pyrite.pooling.judging.options import Options
from pyrite.pooling.judging.progress import TopicProgress
from pyrite.pooling.judging.revocable_order import Place, RevocableOrder, Step
from pyrite.pooling.judging.store import Event

T = TypeVar("T")
SKIPPED_FOR = 10
"""A skipped document is handed out again after this many judgements of its topic."""


class Judgement(NamedTuple):
    """A judgement that was not withdrawn.

    Args:
        id: id of the event by which the document was first judged.
        event: the same, or that of the last correction.
        grade: None if the assessor could not judge the document.
        at: seconds since 1970.
        rationale: the passage that the assessor marked.
    """

    id: int
    event: int
    assessor: str
    place: Place
    grade: int | None
    at: float
    note: str | None
    rationale: str | None = None


@dataclass
class Assignment:
    """A document that was handed out to one or more assessors.

    Args:
        event: id of the hand-out that brought it into play.
        judges: number of assessors that must judge it.
        holders: those on whose screen it is, or to whose screen it returns when they turn to the topic.
        judgements: the judgement of each assessor who judged it, in the order of judging.
        due: number of the topic's judgements from which it may be handed out again after it was skipped.
        since: id of the event since which it waits for an assessor; None while it does not wait.
    """

    event: int
    judges: int
    holders: set[str] = field(default_factory=set)
    judgements: dict[str, Judgement] = field(default_factory=dict)
    due: int = 0
    since: int | None = None

    @property
    def grades(self) -> list[tuple[str, int]]:
        """Assessors and their grades, in the order of judging."""
        return [(name, made.grade) for name, made in self.judgements.items() if made.grade is not None]

    @property
    def waits(self) -> bool:
        """Whether no assessor holds it and it has fewer judgements than required."""
        return not self.holders and len(self.grades) < self.judges

    @property
    def group(self) -> WaitingGroup:
        return frozenset(self.judgements), self.due > 0


WaitingGroup = tuple[frozenset[str], bool]
"""Waiting documents that the same assessors have judged, with skipped ones in a group apart: an assessor who may get
one may get any.
"""


class JudgingState:
    """The state of a judging, which is a function of its events: `apply` is the only way to change it.

    All totals are updated with each event and not recomputed, so that an answer costs the same however many events
    there were.

    Args:
        orders: the order of each topic, by the topic's number; one object may serve several.
        limits: documents to judge per topic.
        names: the numbers of each topic's documents by id, by the topic's name: events use these names.
        relevant_from: lowest grade that counts as relevant.
        gold: documents of each topic with known grades, to test assessors; the orders, totals and judgements leave them
            out.
    """

    def __init__(
        self,
        orders: Sequence[RevocableOrder],
        limits: Sequence[int],
        names: dict[str, dict[str, int]],
        options: Options,
        relevant_from: int,
        gold: Sequence[dict[int, int]],
    ) -> None:
        self.gold = gold
        self.gold_given: defaultdict[str, dict[Place, int | None]] = defaultdict(dict)
        # Number of the assessor's judgements from which a gold document that they skipped is due again.
        self.gold_due: defaultdict[str, dict[Place, int]] = defaultdict(dict)
        self.orders, self.limits = orders, limits
        self.last = 0  # id of the last event
        self.assessors: dict[str, int | None] = {}  # each one's topic
        self.assignments: list[dict[int, Assignment]] = [{} for _ in names]
        self.handed_out = 0
        # Documents in play that several assessors judge, by topic, and whether no run has them.
        self.doubled: Counter[tuple[int, bool]] = Counter()
        self.owners: list[str | None] = [None for _ in names]  # the assessor who was given a topic's first document
        self.waiting: list[dict[WaitingGroup, dict[int, Assignment]]] = [{} for _ in names]
        self.open: dict[str, dict[Place, None]] = {}
        self.judgements: dict[int, Judgement] = {}
        # Notes of judgements that were taken back, until the assessor judges the document again.
        self.withdrawn_notes: dict[tuple[str, Place], str] = {}
        self.of_assessor: defaultdict[str, dict[int, Judgement]] = defaultdict(dict)
        # By the first grade of each document, from which the method learns too.
        self.progress = [TopicProgress(len(documents)) for documents in names.values()]
        self.own_progress: dict[tuple[str, int], TopicProgress] = {}
        # Handed out, not judged, and at least one assessor could not judge it.
        self.unjudgeable: list[dict[int, None]] = [{} for _ in names]
        # Documents with two different grades, and the grades that count while they differ, by the owner's decision.
        self.disputed: dict[Place, None] = {}
        self.resolved: dict[Place, int] = {}
        self._topics = {name: number for number, name in enumerate(names)}
        self._documents = list(names.values())
        self._sizes = list(map(len, self._documents))
        # Ids by number. Documents that no run has and assessors found follow the pool's.
        self._names = list(map(list, self._documents))
        self._options, self._relevant_from = options, relevant_from

    def apply(self, event: Event) -> None:
        """Process an event that is in the store."""
        self.last = event.id
        if event.kind == "turn":
            self.assessors[event.assessor] = None if event.topic is None else self._topics[event.topic]
        elif event.kind == "sign in":
            self.assessors.setdefault(event.assessor, None)
            self.open.setdefault(event.assessor, {})
        else:
            place = self._place(event)
            if place[1] in self.gold[place[0]]:
                self._try_assessor(event, place)
                return
            assignment = self.assignments[place[0]].get(place[1])
            if assignment is not None:
                self._stop_waiting(assignment, place)
            if place[1] >= len(self._names[place[0]]):
                self._names[place[0]].append(str(event.document))
                self._documents[place[0]][str(event.document)] = place[1]
            self._on_document[event.kind](self, event, place)
            self._begin_waiting(event, place)

    def _try_assessor(self, event: Event, place: Place) -> None:
        """Process an event of a gold document: it is on a screen, was skipped, or was judged."""
        if event.kind == "hand out":
            self.open[event.assessor][place] = None
        else:
            self.open[event.assessor].pop(place, None)
        if event.kind == "skip":
            self.gold_due[event.assessor][place] = len(self.of_assessor[event.assessor]) + SKIPPED_FOR
        if event.kind == "gold":
            self.gold_given[event.assessor][place] = event.grade

    def waiting_for(self, assessor: str, topic: int, soon: bool = False, as_second: bool = False) -> Place | None:
        """Return a document that was handed out before and that this assessor should judge now.

        Args:
            soon: whether a skipped one need not be due, as nothing else is left.
            as_second: whether to return only documents that another assessor has looked at.
        """
        judged = len(self.progress[topic])
        firsts = [
            next(iter(documents.items()))
            for (judges, _), documents in self.waiting[topic].items()
            if assessor not in judges and (judges or not as_second)
        ]
        able = [(each.since or 0, document) for document, each in firsts if soon or each.due <= judged]
        return (topic, min(able)[1]) if able else None

    def waiting_count(self, topic: int) -> int:
        """Count the documents of a topic that wait for an assessor."""
        return sum(map(len, self.waiting[topic].values()))

    def new_left(self, topic: int) -> int:
        """Count the documents of a topic that may still be brought into play, without those that assessors found."""
        return self.limits[topic] - len(self.assignments[topic]) + self.beyond(topic)

    def beyond(self, topic: int) -> int:
        """Count the documents in play that no run has: assessors found them."""
        found = range(self._sizes[topic], len(self._names[topic]))
        return sum(number in self.assignments[topic] for number in found)

    def outside(self) -> set[str]:
        """Return the ids of documents that no run has and assessors found, also of those that were returned."""
        return {name for names, size in zip(self._names, self._sizes, strict=True) for name in names[size:]}

    def number_of(self, topic: int, document: str) -> int:
        """Return the number of a document; the next free one if neither the pool nor an assessor has it yet."""
        return self._documents[topic].get(document, len(self._names[topic]))

    def has(self, topic: int, document: str) -> bool:
        """Return whether the pool has a document in a topic, or an assessor found it before."""
        return document in self._documents[topic]

    def name_of(self, place: Place) -> str:
        """Return the id of a document."""
        return self._names[place[0]][place[1]]

    def last_judgement(self, assessor: str) -> Judgement | None:
        """Return the judgement that this assessor would undo."""
        return next(reversed(self.of_assessor.get(assessor, {}).values()), None)

    def _place(self, event: Event) -> Place:
        topic = self._topics[str(event.topic)]
        return topic, self.number_of(topic, str(event.document))

    def _hand_out(self, event: Event, place: Place) -> None:
        topic, document = place
        assignment = self.assignments[topic].get(document)
        if assignment is None:
            if not self.assignments[topic]:
                self.owners[topic] = event.assessor
            assignment = Assignment(event.id, self._options.judges if self._is_doubled(place, event.planned) else 1)
            self.assignments[topic][document] = assignment
            self.doubled[topic, document >= self._sizes[topic]] += assignment.judges > 1
            if document < self._sizes[topic]:  # the budget and the method know only the pool
                self.handed_out += 1
                self.orders[topic].add(event.id, Step(place, None, event.by_method))
        assignment.holders.add(event.assessor)
        self.open[event.assessor][place] = None

    def _is_doubled(self, place: Place, planned: int | None) -> bool:
        """Return whether a document that is handed out next is judged several times.

        It is if those in play, with this one, would have too few: a sample as evenly spread as the share allows, and of
        exactly that size, as the next ones replace documents that are returned. Documents that no run has are counted
        apart, and only a share is also one of these.

        Args:
            planned: the number of documents that were to be judged of the topic then; None takes the present one.
        """
        topic, is_found = place[0], place[1] >= self._sizes[place[0]]
        double, beyond = self._options.double, self.beyond(topic)
        limit = self.limits[topic] if planned is None else planned
        count = 1 + (beyond if is_found else len(self.assignments[topic]) - beyond)
        if not isinstance(double, int):
            wanted = math.floor(count * double + 1e-9)
        else:
            wanted = 0 if is_found else min(double, limit) * min(count, limit) // max(limit, 1)
        return self.doubled[topic, is_found] < wanted

    def _judge(self, event: Event, place: Place) -> None:
        self._lay_down(event.assessor, place)
        self.withdrawn_notes.pop((event.assessor, place), None)
        self._enter(event, place)

    def _enter(self, event: Event, place: Place) -> None:
        """Add a judgement, or replace the first by its correction."""
        number, (topic, document) = event.original or event.id, place
        judgement = Judgement(
            number, event.id, event.assessor, place, event.grade, event.at, event.note, event.rationale
        )
        assignment = self.assignments[topic][document]
        before = assignment.judgements.get(judgement.assessor)
        if before is not None and before.grade is None:
            del assignment.judgements[judgement.assessor]  # this is its first grade, and follows the existing ones
        assignment.judgements[judgement.assessor] = self.judgements[judgement.id] = judgement
        self.of_assessor[judgement.assessor][judgement.id] = judgement
        if judgement.grade is None:
            self.orders[topic].forget(judgement.id)
        elif document < self._sizes[topic]:
            self.orders[topic].add(judgement.id, Step(place, judgement.grade))
        self._count(assignment, judgement.assessor, place)

    def _skip(self, event: Event, place: Place) -> None:
        self._lay_down(event.assessor, place).due = len(self.progress[place[0]]) + SKIPPED_FOR

    def _hand_back(self, event: Event, place: Place) -> None:
        topic, document = place
        assignment = self._lay_down(event.assessor, place)
        if not assignment.holders and not assignment.judgements:
            del self.assignments[topic][document]
            self.doubled[topic, document >= self._sizes[topic]] -= assignment.judges > 1
            self.handed_out -= document < self._sizes[topic]
            if not self.assignments[topic]:
                self.owners[topic] = None
            self.orders[topic].forget(assignment.event)

    def _withdraw(self, event: Event, place: Place) -> None:
        judgement = self.judgements.pop(int(event.original or event.withdraws or 0))
        topic, document = place
        assignment = self.assignments[topic][document]
        del assignment.judgements[judgement.assessor], self.of_assessor[judgement.assessor][judgement.id]
        if judgement.note:
            self.withdrawn_notes[judgement.assessor, place] = judgement.note
        self.orders[topic].forget(judgement.id)
        assignment.holders.add(event.assessor)
        self.open[event.assessor][place] = None
        self._count(assignment, judgement.assessor, place)

    def _count(self, assignment: Assignment, assessor: str, place: Place) -> None:
        """Update the totals after an assessor's judgement of a document was added, changed or removed."""
        topic, document = place
        grades = assignment.grades
        own = [grade for name, grade in grades if name == assessor]
        self.progress[topic].set(document, grades[0][1] >= self._relevant_from if grades else None)
        of_assessor = self.own_progress.setdefault((assessor, topic), TopicProgress(self._sizes[topic]))
        of_assessor.set(document, own[0] >= self._relevant_from if own else None)
        _mark(self.unjudgeable[topic], document, bool(assignment.judgements) and not grades)
        _mark(self.disputed, place, len({grade for _, grade in grades}) > 1)

    def _resolve(self, event: Event, place: Place) -> None:
        if event.grade is not None:
            self.resolved[place] = event.grade

    def _stop_waiting(self, assignment: Assignment, place: Place) -> None:
        if assignment.since is not None:
            groups, group = self.waiting[place[0]], assignment.group
            del groups[group][place[1]]
            if not groups[group]:
                del groups[group]
            assignment.since = None

    def _begin_waiting(self, event: Event, place: Place) -> None:
        assignment = self.assignments[place[0]].get(place[1])
        if assignment is not None and assignment.waits:
            assignment.since = event.id
            self.waiting[place[0]].setdefault(assignment.group, {})[place[1]] = assignment

    def _lay_down(self, assessor: str, place: Place) -> Assignment:
        assignment = self.assignments[place[0]][place[1]]
        assignment.holders.discard(assessor)
        del self.open[assessor][place]
        return assignment

    _on_document: dict[str, Callable[[JudgingState, Event, Place], None]] = {
        "hand out": _hand_out, "judge": _judge, "correct": _enter, "skip": _skip, "hand back": _hand_back,
        "withdraw": _withdraw, "resolve": _resolve,
    }  # fmt: skip


def _mark(marked: dict[T, None], key: T, is_marked: bool) -> None:
    if is_marked:
        marked[key] = None
    else:
        marked.pop(key, None)
