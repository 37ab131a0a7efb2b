"""Serves the requests of assessors: one method per request, whose events are on disk before it returns."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from typing import Any, Literal

import polars as pl

from pooling.across_topics import AcrossTopics
from pooling.judging.assigning import Assigning
from pooling.judging.options import LONGEST_NOTE, Options, assessor_name
from pooling.judging.requests import Refused
from pooling.judging.revocable_order import Place, RevocableOrder
from pooling.judging.state import Judgement, JudgingState
from pooling.judging.store import Event, Kind, Store
from pooling.pool import Pool
from pooling.simulation import Method
from ranking.errors import BadInput
from ranking.trec_files import BLANK

PAGE = 50
"""Judgements that are listed at once."""


class Stale(Refused):
    """A request about a document that the assessor no longer holds: another tab, or a page left open, sent it."""


class Session:
    """The judging of a pool. Threads may call any method at the same time; one is served at a time.

    Args:
        pool: the pool; its judgements are not used.
        method: decides the order.
        store: holds earlier events and the judgements made before; the session continues from there.
        gold: topic, document, grade: pooled documents with known grades, to test assessors; None for none.
        holds: returns whether the collection has a document; None accepts every id.

    Raises:
        BadInput: if no grade, or every grade, would be relevant, or owners name a topic or assessor that does not
            exist.
    """

    def __init__(
        self,
        pool: Pool,
        method: Method,
        store: Store,
        options: Options,
        gold: pl.DataFrame | None = None,
        holds: Callable[[str], bool] | None = None,
    ) -> None:
        self._holds = holds
        if not options.grades[0] < pool.relevant_from <= options.grades[-1]:
            what = f"grades are {list(options.grades)} and relevant_from is {pool.relevant_from}"
            raise BadInput(what, remedy="some grades must be relevant and some not")
        self.options, self._store = options, store
        self.assessors = None if options.assessors is None else list(map(assessor_name, options.assessors))
        self.known = store.known()
        highest = max(options.grades[-1], *self.known["grade"], pool.relevant_from)
        self.pool = replace(pool, highest=highest)
        self.by_method = isinstance(method, AcrossTopics)
        self._lock, self._in_doubt = threading.RLock(), False
        names = [
            (topic.name, {name: number for number, name in enumerate(topic.documents)}) for topic in self.pool.topics
        ]
        self.topics = {name: number for number, (name, _) in enumerate(names)}  # their numbers in the pool
        self.known_grades = _by_place(self.known, dict(names), self.topics)
        self.gold: list[dict[int, int]] = [{} for _ in names]
        if gold is not None:
            self.gold = _by_place(gold, dict(names), self.topics)
            if not any(self.gold):
                raise BadInput("no gold document is in the pool", "gold", "name documents of the runs")
            for known, tried in zip(self.known_grades, self.gold, strict=True):
                known |= tried  # the method has learned their grades
        self.known_relevant = [
            sum(grade >= pool.relevant_from for grade in grades.values()) for grades in self.known_grades
        ]
        self.sizes = [topic.pool.size - len(known) for topic, known in zip(pool.topics, self.known_grades, strict=True)]
        budget = max(self.sizes, default=0) if options.budget is None else options.budget
        self.limit = min(sum(self.sizes), budget * len(self.sizes))
        limits = self.sizes if self.by_method else [min(size, budget) for size in self.sizes]
        self.state = JudgingState(
            self._orders(method), limits, names, options.double, pool.relevant_from, options.judges, self.gold
        )
        self.assigning = Assigning(self.state, options, self.topics, self.is_listed, self.by_method, self.limit)
        for event in store.events():
            self.state.apply(event)
        for name in self.state.assessors:
            if not self.is_listed(name):
                self._release(name)

    @contextmanager
    def up_to_date(self) -> Iterator[JudgingState]:
        """Lock the state, with all that is in the store."""
        with self._lock:
            if self._in_doubt:  # a write failed, maybe after it was done: only the store knows
                self._store.reopen()
                for event in self._store.events(self.state.last):
                    self.state.apply(event)
                self._in_doubt = False
            yield self.state

    def is_listed(self, name: str) -> bool:
        """Return whether an assessor of this name may judge."""
        return self.assessors is None or name in self.assessors

    def has_signed_in(self, name: str) -> bool:
        """Return whether an assessor signed in before, and may still judge."""
        with self.up_to_date() as state:
            return name in state.assessors and self.is_listed(name)

    def sign_in(self, name: str) -> str:
        """Admit an assessor, new or known. Returns the normalised name.

        Raises:
            Refused: if it is no valid name, or not one of the assessors'.
        """
        try:
            name = assessor_name(name)
        except BadInput as error:
            raise Refused(f"{error.what[0].upper()}{error.what[1:]}.") from None
        if not self.is_listed(name):
            raise Refused(f"{name} is not among the assessors of this pool.")
        with self.up_to_date() as state:
            if name not in state.assessors:
                topic = self.assigning.emptiest_topic(name)
                start = [] if self.by_method else [self._event("turn", name, (topic, None))]
                self._record(Event("sign in", name), *start)
        return name

    def next(self, assessor: str) -> Place | None:
        """Return the document on the assessor's screen; a new one is handed out if there is none.

        Raises:
            Refused: if no assessor of this name signed in.
        """
        with self.up_to_date() as state:
            place = self.on_screen(assessor)
            if place is not None:
                return place
            topic = state.assessors[assessor]
            topics = range(len(self.pool.topics)) if topic is None else [topic]
            chosen = self.assigning.choose(assessor, topics, topic)
            if chosen is not None:
                self._record(self._event("hand out", assessor, chosen, by_method=topic is None))
            return chosen

    def judge(self, assessor: str, topic: str, document: str, grade: int | None, request: str, note: str = "") -> None:
        """Record a judgement of the document on the screen.

        Args:
            grade: one of the options' grades; None if the assessor can't judge: others may, and this one does not get
                it again.
            request: id of the request; a second one with the same content changes nothing.
            note: the assessor's note.

        Raises:
            Stale: if the document is not on this assessor's screen.
            Refused: if there is no such grade, or the note is too long.
        """
        self._check_grade(grade, note)
        with self.up_to_date() as state:
            number = self.topics.get(topic, -1)
            tried = number >= 0 and state.number_of(number, document) in self.gold[number]
            kind: Kind = "gold" if tried else "judge"
            event = Event(kind, assessor, topic, document, grade, request=request, note=note or None)
            if not self._repeats(event):
                self._check_held(assessor, topic, document)
                self._record(event)

    def correct(self, assessor: str, judgement: int, grade: int | None, request: str, note: str = "") -> None:
        """Replace the grade or note of a judgement: the method learns from it as if it had been the first.

        Args:
            judgement: its `id`.
            grade, request, note: see `judge`.

        Raises:
            Refused: if there is no such judgement or grade, or the note is too long.
        """
        self._check_grade(grade, note)
        with self.up_to_date() as state:
            self._check_signed_in(assessor)
            given: dict[str, Any] = {"grade": grade, "note": note or None, "original": judgement, "request": request}
            if self._repeats(Event("correct", assessor, **given), "topic", "document", "withdraws"):
                return
            judged = state.of_assessor.get(assessor, {}).get(judgement)
            if judged is None:
                raise Refused("This judgement was taken back.")
            if (judged.grade, judged.note or "") != (grade, note):
                self._record(self._event("correct", assessor, judged.place, withdraws=judged.event, **given))

    def judged_by(self, assessor: str, topic: str | None = None, before: int | None = None) -> list[Judgement]:
        """Return an assessor's judgements, latest first, `PAGE` at a time.

        Args:
            topic: the only topic to list; None lists all.
            before: `id` of the last one of the previous page.
        """
        with self.up_to_date() as state:
            self._check_signed_in(assessor)
            judgements: Iterator[Judgement] = reversed(state.of_assessor.get(assessor, {}).values())
            number = None if topic is None else self.topics.get(topic, -1)
            wanted = (
                judgement for judgement in judgements
                if (before is None or judgement.id < before) and (number is None or judgement.place[0] == number)
            )  # fmt: skip
            return list(islice(wanted, PAGE))

    def skip(self, assessor: str, topic: str, document: str, request: str) -> None:
        """Put the document on the screen aside: after some judgements of the topic it is handed out again, to anyone.

        Raises:
            Stale: see `judge`.
        """
        with self.up_to_date():
            event = Event("skip", assessor, topic, document, request=request)
            if not self._repeats(event):
                self._check_held(assessor, topic, document)
                self._record(event)

    def undo(self, assessor: str, request: str) -> None:
        """Withdraw the assessor's last judgement and put its document back on the screen.

        The document that was on the screen is returned, as it was chosen using the judgement that is withdrawn.

        Raises:
            Refused: if there is nothing to undo.
        """
        with self.up_to_date() as state:
            self._check_signed_in(assessor)
            made = Event("withdraw", assessor, request=request)
            if self._repeats(made, "topic", "document", "withdraws", "original"):
                return
            last = state.last_judgement(assessor)
            if last is None:
                raise Refused("There is nothing to undo.")
            events = []
            turned = state.assessors[assessor]
            shown = self.on_screen(assessor)
            if shown is not None and turned in (None, last.place[0]):
                events.append(self._event("hand back", assessor, shown))
            if turned not in (None, last.place[0]):
                events.append(self._event("turn", assessor, (last.place[0], None)))
            numbers = {"withdraws": last.event, "original": None if last.event == last.id else last.id}
            self._record(*events, self._event("withdraw", assessor, last.place, request=request, **numbers))

    def turn(self, assessor: str, topic: str | None) -> None:
        """Turn to a topic; a document on the screen stays the assessor's until they come back to it.

        Args:
            topic: id; None leaves the topic to the method, if it chooses topics.

        Raises:
            Refused: if there is no such topic.
        """
        with self.up_to_date() as state:
            self._check_signed_in(assessor)
            if topic not in self.topics and not (topic is None and self.by_method):
                raise Refused(f"There is no topic {topic}.")
            if state.assessors[assessor] != (None if topic is None else self.topics[topic]):
                self._record(Event("turn", assessor, topic))

    def turn_by(self, assessor: str, step: Literal[1, -1]) -> None:
        """Turn to the next or the previous topic that has documents left for the assessor, round the list.

        Raises:
            Refused: if no other topic has any.
        """
        with self.up_to_date() as state:
            self._check_signed_in(assessor)
            shown = self.on_screen(assessor)
            turned = state.assessors[assessor]
            current = shown[0] if shown is not None else -1 if turned is None and step > 0 else turned or 0
            count = len(self.pool.topics)
            topics = ((current + step * away) % count for away in range(1, count + (current < 0)))
            topic = next((topic for topic in topics if self.assigning.has_for(assessor, topic)), None)
            if topic is None:
                raise Refused("No other topic has documents left for you.")
            self.turn(assessor, self.pool.topics[topic].name)

    def leave(self, assessor: str) -> None:
        """Return all documents that this assessor holds, so that others may get them."""
        with self.up_to_date():
            self._check_signed_in(assessor)
            self._release(assessor)

    def on_screen(self, assessor: str) -> Place | None:
        """Return the assessor's open document in the current topic, None before `next` finds one.

        Raises:
            Refused: if no assessor of this name signed in.
        """
        with self.up_to_date() as state:
            self._check_signed_in(assessor)
            topic = state.assessors[assessor]
            held = [place for place in state.open[assessor] if topic is None or place[0] == topic]
            return held[-1] if held else None

    def take(self, assessor: str, topic: str, document: str) -> None:
        """Put a document that the assessor found on the screen, of the pool or not: "judge this too".

        Raises:
            Refused: if the collection does not have it, its id can't be exported, this assessor has judged it, it is on
                another's screen, was judged before, or the topic is another's.
        """
        # Outside the lock: the index may have to be built first, while others judge.
        exists = self._holds is None or self._holds(document)
        with self.up_to_date() as state:
            self._check_signed_in(assessor)
            if topic not in self.topics:
                raise Refused(f"There is no topic {topic}.")
            number = self.topics[topic]
            place = number, state.number_of(number, document)
            if place[1] in self.known_grades[number]:
                raise Refused("This document was judged before.")
            assignment = state.assignments[number].get(place[1])
            if assignment is None:
                if place[1] >= len(self.pool.topics[number].documents):
                    self._check_new(document, exists)
            elif assessor in assignment.judgements:
                raise Refused("You have judged this document: it is in the list of your judgements.")
            elif assignment.holders - {assessor}:
                raise Refused("Another assessor has this document on the screen.")
            elif not assignment.waits and assessor not in assignment.holders:
                raise Refused("This document was judged by another assessor.")
            owner = self.assigning.owner_of(number)
            if owner not in (None, assessor):
                raise Refused(f"This is the topic of {owner}.")
            events = [] if state.assessors[assessor] == number else [Event("turn", assessor, topic)]
            if place in state.open[assessor]:  # shown last is shown
                events.append(Event("hand back", assessor, topic, document))
            self._record(*events, Event("hand out", assessor, topic, document))

    def resolve(self, assessor: str, topic: str, document: str, grade: int, request: str) -> None:
        """Record which grade counts if assessors differ; it may be a third one. The latest decision counts.

        Raises:
            Refused: if assessors do not differ on it, or there is no such grade.
        """
        self._check_grade(grade, "")
        with self.up_to_date() as state:
            event = Event("resolve", assessor, topic, document, grade, request=request)
            if not self._repeats(event):
                number = self.topics.get(topic, -1)
                if number < 0 or (number, state.number_of(number, document)) not in state.disputed:
                    raise Refused("Assessors do not differ on this document.")
                self._record(event)

    def _orders(self, method: Method) -> list[RevocableOrder]:
        """Return one order for all topics if the method chooses among them; otherwise one per topic, which is fast to
        rebuild.
        """
        topics, seed = self.pool.topics, self.options.seed
        known = [
            [((number, document), grade) for document, grade in grades.items()]
            for number, grades in enumerate(self.known_grades)
        ]
        if self.by_method:
            of_all = RevocableOrder(self.pool, method, seed, list(chain.from_iterable(known)))
            return [of_all] * len(topics)
        return [
            RevocableOrder(replace(self.pool, topics=[topic]), method, seed, of_topic, first=number)
            for number, (topic, of_topic) in enumerate(zip(topics, known, strict=True))
        ]

    def _event(self, kind: Kind, assessor: str, place: tuple[int, int | None], **more: Any) -> Event:
        number, document = place
        name = None if document is None else self.state.name_of((number, document))
        return Event(kind, assessor, self.pool.topics[number].name, name, **more)

    def _record(self, *events: Event) -> None:
        try:
            stored = self._store.append(*events)
        except BaseException:
            self._in_doubt = True
            raise
        for event in stored:
            self.state.apply(event)

    def _release(self, assessor: str) -> None:
        if held := self.state.open.get(assessor):
            self._record(*(self._event("hand back", assessor, place) for place in held))

    def _repeats(self, event: Event, *left_open: str) -> bool:
        """Return whether the event is already in the store: its request came again as the first answer was lost.

        Args:
            event: what the request asks for.
            left_open: names of fields that the request does not decide.

        Raises:
            Refused: if the request was made with another content.
        """
        before = self._store.request(str(event.request))
        if before is None:
            return False
        undecided: dict[str, Any] = dict.fromkeys(left_open)
        if replace(before, id=0, at=0.0, **undecided) != event:
            raise Refused("This request was made before, with another content.")
        return True

    def _check_signed_in(self, assessor: str) -> None:
        if assessor not in self.state.assessors:
            raise Refused("Please sign in first.")
        if not self.is_listed(assessor):
            raise Refused(f"{assessor} is no longer among the assessors of this pool.")

    def _check_new(self, document: str, exists: bool) -> None:
        """Check a document that no run has.

        Args:
            exists: whether the collection has it.
        """
        if re.search(BLANK, document):
            raise Refused("This document can't be judged: its id has a blank in it, and no qrels could hold it.")
        if not exists:
            raise Refused("The collection has no such document.")

    def _check_grade(self, grade: int | None, note: str) -> None:
        if grade is not None and grade not in self.options.grades:
            raise Refused(f"{grade} is not one of the grades.")
        if len(note) > LONGEST_NOTE:
            raise Refused(f"A note has up to {LONGEST_NOTE:,} characters.")

    def _check_held(self, assessor: str, topic: str, document: str) -> None:
        self._check_signed_in(assessor)
        held = (self._event("judge", assessor, place) for place in self.state.open[assessor])
        if not any((event.topic, event.document) == (topic, document) for event in held):
            raise Stale("This document is no longer yours to judge; here is what is.")


def _by_place(
    known: pl.DataFrame, documents: dict[str, dict[str, int]], topics: dict[str, int]
) -> list[dict[int, int]]:
    """Return grades by document for each topic, for documents in the pool."""
    grades: list[dict[int, int]] = [{} for _ in topics]
    for topic, document, grade in known.iter_rows():
        number = documents.get(topic, {}).get(document)
        if number is not None:
            grades[topics[topic]][number] = grade
    return grades
