"""Serves the requests of assessors: each is one method, and is on disk before it returns."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import polars as pl

from pooling.across_topics import AcrossTopics
from pooling.judging.options import Options, assessor_name
from pooling.judging.revocable_order import Place, RevocableOrder
from pooling.judging.state import JudgingState
from pooling.judging.store import Event, Kind, Store
from pooling.pool import Pool
from pooling.simulation import Method
from ranking.errors import BadInput

MADE_BEFORE = "This request was made before, with another content."


class Refused(Exception):
    """A request that can't be met; its text is for the assessor."""


class Stale(Refused):
    """A request about a document that is no longer the assessor's: another tab, or a page left open, sent it."""


class Session:
    """The judging of a pool. Threads may call any method at once; one at a time is served.

    Args:
        pool: of documents to judge; its own judgements are not looked at.
        method: decides their order.
        store: holds what happened so far, and the judgements made before; the session goes on from there.
        options: how it is judged.

    Raises:
        BadInput: where no grade, or every grade, would be relevant.
    """

    def __init__(self, pool: Pool, method: Method, store: Store, options: Options) -> None:
        if not options.grades[0] < pool.relevant_from <= options.grades[-1]:
            what = f"grades are {list(options.grades)} and relevant_from is {pool.relevant_from}"
            raise BadInput(what, remedy="some grades must be relevant and some not")
        self.options, self._store = options, store
        self.known = store.known()
        highest = max(options.grades[-1], *self.known["grade"], pool.relevant_from)
        self.pool = replace(pool, highest=highest)
        self.by_method = isinstance(method, AcrossTopics)
        self.lock = threading.RLock()
        names = [
            (topic.name, {name: number for number, name in enumerate(topic.documents)}) for topic in self.pool.topics
        ]
        self.known_grades = _by_place(self.known, dict(names), {name: number for number, (name, _) in enumerate(names)})
        sizes = np.array(
            [topic.pool.size - len(known) for topic, known in zip(pool.topics, self.known_grades, strict=True)]
        )
        budget = int(sizes.max(initial=0)) if options.budget is None else options.budget
        self.limit = min(int(sizes.sum()), budget * len(sizes))
        limits = sizes if self.by_method else np.minimum(sizes, budget)
        self.state = JudgingState(self._orders(method), limits.tolist(), names, options.double)
        for event in store.events():
            self.state.apply(event)

    def sign_in(self, name: str) -> str:
        """Let an assessor in, new or known. Returns the name as it is written down.

        Raises:
            Refused: where the name is none, or not among those who may judge.
        """
        try:
            name = assessor_name(name)
        except BadInput as error:
            raise Refused(f"{error.what[0].upper()}{error.what[1:]}.") from None
        if self.options.assessors is not None and name not in map(assessor_name, self.options.assessors):
            raise Refused(f"{name} is not among the assessors of this pool.")
        with self.lock:
            if name not in self.state.assessors:
                start = [] if self.by_method else [self._event("turn", name, (self._emptiest_topic(), None))]
                self._record(self._event("sign in", name), *start)
        return name

    def next(self, assessor: str) -> Place | None:
        """The document on the assessor's screen; a new one is handed out if there is none.

        Raises:
            Refused: where nobody of this name signed in.
        """
        with self.lock:
            place = self.on_screen(assessor)
            if place is not None:
                return place
            topic = self.state.assessors[assessor]
            found = self._choose(assessor, topic)
            if found is not None:
                self._record(replace(self._event("hand out", assessor, found), by_method=topic is None))
            return found

    def judge(self, assessor: str, topic: str, document: str, grade: int, request: str) -> None:
        """Keep a judgement of the document on the screen.

        Args:
            assessor: who judges.
            topic, document: ids.
            grade: one of the options' grades.
            request: id of the request; a second one of the same content changes nothing.

        Raises:
            Stale: where the document is not on this assessor's screen.
            Refused: where there is no such grade.
        """
        if grade not in self.options.grades:
            raise Refused(f"{grade} is not one of the grades.")
        with self.lock:
            event = Event("judge", assessor, topic, document, grade, request=request)
            if not self._repeats(event):
                self._check_held(assessor, topic, document)
                self._record(event)

    def skip(self, assessor: str, topic: str, document: str, request: str) -> None:
        """Lay the document on the screen aside: after some judgements of the topic it is handed out again, to anyone.

        Raises:
            Stale: as `judge`.
        """
        with self.lock:
            event = Event("skip", assessor, topic, document, request=request)
            if not self._repeats(event):
                self._check_held(assessor, topic, document)
                self._record(event)

    def undo(self, assessor: str, request: str) -> None:
        """Withdraw the assessor's last judgement and put its document back on the screen.

        The document that was on the screen goes back, as it was chosen in the light of what is withdrawn.

        Raises:
            Refused: where there is nothing to undo.
        """
        with self.lock:
            self._check_signed_in(assessor)
            before = self._store.request(request)
            if before is not None:
                if (before.kind, before.assessor) != ("withdraw", assessor):
                    raise Refused(MADE_BEFORE)
                return
            last = self.state.last_judgement(assessor)
            if last is None:
                raise Refused("There is nothing to undo.")
            events = []
            turned = self.state.assessors[assessor]
            shown = self.on_screen(assessor)
            if shown is not None and turned in (None, last.place[0]):
                events.append(self._event("hand back", assessor, shown))
            if turned not in (None, last.place[0]):
                events.append(self._event("turn", assessor, (last.place[0], None)))
            withdraw = replace(self._event("withdraw", assessor, last.place), withdraws=last.event, request=request)
            self._record(*events, withdraw)

    def turn(self, assessor: str, topic: str | None) -> None:
        """Turn to a topic; a document on the screen stays the assessor's until they come back to it.

        Args:
            assessor: who turns.
            topic: id; None leaves the topic to the method, where it chooses topics.

        Raises:
            Refused: where there is no such topic.
        """
        with self.lock:
            self._check_signed_in(assessor)
            numbers: dict[str | None, int | None] = {each.name: number for number, each in enumerate(self.pool.topics)}
            if self.by_method:
                numbers[None] = None
            if topic not in numbers:
                raise Refused(f"There is no topic {topic}.")
            if self.state.assessors[assessor] != numbers[topic]:
                self._record(Event("turn", assessor, topic))

    def leave(self, assessor: str) -> None:
        """Hand all documents back that this assessor has, so that others may get them."""
        with self.lock:
            self._check_signed_in(assessor)
            self._record(*(self._event("hand back", assessor, place) for place in self.state.open[assessor]))

    def on_screen(self, assessor: str) -> Place | None:
        """The document that the assessor has in the topic turned to, None before `next` finds one.

        Raises:
            Refused: where nobody of this name signed in.
        """
        with self.lock:
            self._check_signed_in(assessor)
            topic = self.state.assessors[assessor]
            held = [place for place in self.state.open[assessor] if topic is None or place[0] == topic]
            return held[-1] if held else None

    def has_for(self, assessor: str, topic: int) -> bool:
        """Whether this assessor has anything to judge in a topic."""
        with self.lock:
            held = any(place[0] == topic for place in self.state.open[assessor])
            return held or self._may_bring(topic) or self.state.waiting_for(assessor, topic, soon=True) is not None

    def _choose(self, assessor: str, topic: int | None) -> Place | None:
        topics = range(len(self.pool.topics)) if topic is None else [topic]
        for soon in (False, True):
            for each in topics:
                if (found := self.state.waiting_for(assessor, each, soon)) is not None:
                    return found
            if not soon and any(map(self._may_bring, topics)):
                offered = self.state.orders[topics[0]].offer(topic)
                if offered is not None:
                    return offered
        return None

    def _may_bring(self, topic: int) -> bool:
        out = sum(map(len, self.state.assignments)) if self.by_method else 0
        return self.state.new_left(topic) > 0 and out < self.limit

    def _emptiest_topic(self) -> int:
        """The first of the topics with the fewest assessors that have anything to judge."""
        there = list(self.state.assessors.values())
        topics = range(len(self.pool.topics))
        return min(topics, key=lambda topic: (not self._may_bring(topic), there.count(topic)))

    def _orders(self, method: Method) -> list[RevocableOrder]:
        """An order for all topics where the method chooses among them; otherwise one a topic, quick to make anew."""
        topics, seed = self.pool.topics, self.options.seed
        known = [
            [((number, document), grade) for document, grade in grades.items()]
            for number, grades in enumerate(self.known_grades)
        ]
        if self.by_method:
            return [RevocableOrder(self.pool, method, seed, [each for of_topic in known for each in of_topic])] * len(
                topics
            )
        return [
            RevocableOrder(replace(self.pool, topics=[topic]), method, seed, of_topic, first=number)
            for number, (topic, of_topic) in enumerate(zip(topics, known, strict=True))
        ]

    def _event(self, kind: Kind, assessor: str, place: tuple[int, int | None] | None = None) -> Event:
        if place is None:
            return Event(kind, assessor)
        topic = self.pool.topics[place[0]]
        return Event(kind, assessor, topic.name, None if place[1] is None else topic.documents[place[1]])

    def _record(self, *events: Event) -> None:
        for event in self._store.append(*events):
            self.state.apply(event)

    def _repeats(self, event: Event) -> bool:
        """Whether the event is in the store already: its request came twice because the first answer was lost."""
        before = self._store.request(str(event.request))
        if before is None:
            return False
        if replace(before, id=0, at=0.0) != event:
            raise Refused(MADE_BEFORE)
        return True

    def _check_signed_in(self, assessor: str) -> None:
        if assessor not in self.state.assessors:
            raise Refused("Please sign in first.")

    def _check_held(self, assessor: str, topic: str, document: str) -> None:
        self._check_signed_in(assessor)
        held = (self._event("judge", assessor, place) for place in self.state.open[assessor])
        if not any((event.topic, event.document) == (topic, document) for event in held):
            raise Stale("This document is no longer yours to judge; here is what is.")


def _by_place(
    known: pl.DataFrame, documents: dict[str, dict[str, int]], topics: dict[str, int]
) -> list[dict[int, int]]:
    """Grades by document for each topic, of those in the pool."""
    grades: list[dict[int, int]] = [{} for _ in topics]
    for topic, document, grade in known.iter_rows():
        number = documents.get(topic, {}).get(document)
        if number is not None:
            grades[topics[topic]][number] = grade
    return grades
