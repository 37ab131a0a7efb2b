"""Serves the requests of assessors: one method per request, whose events are on disk before it returns."""

from __future__ import annotations

import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from typing import Any, Literal

import polars as pl

from pyrite.pooling.judging.copies import NO_COPIES, with_firsts
from pyrite.pooling.judging.imports import Made
from pyrite.pooling.judging.options import LONGEST_NOTE, LONGEST_PASSAGE, Options, assessor_name
from pyrite.pooling.judging.requests import Id, Refused, RequestId, refuse_request
from pyrite.pooling.judging.revocable_order import Place, RevocableOrder
from pyrite.pooling.judging.state import Assignment, Judgement, JudgingState
from pyrite.pooling.judging.store import FILE, Event, Kind, Store
from pyrite.pooling.pool import Pool
from pyrite.pooling.simulation import Method
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.trec_files import BLANK

PAGE = 50
"""Judgements that are listed at once."""
OF_OTHER_TOPICS = "of topics that are not judged here (no run has them, or topics= leaves them out)"
IMPORTED = "judgements imported"
JUDGED = "judgements of documents that the same assessor judged before, which are not imported"


class Stale(Refused):
    """A request about a document that the assessor no longer holds: another tab, or a page left open, sent it."""


class Session:
    """The judging of a pool. Threads may call any method at the same time; one is served at a time.

    Every method for an assessor raises `Refused` if no assessor of this name signed in.

    Args:
        pool: the pool; its judgements are not used.
        store: holds earlier events and the judgements made before; the session continues from there.
        gold: topic, document, grade: pooled documents with known grades, to test assessors; None for none.
        holds: returns whether the collection has a document; None accepts every id.
        copies: topic, document, first: documents that are not in the pool, as their text is that of another one.
    """

    def __init__(
        self,
        pool: Pool,
        method: Method,
        store: Store,
        options: Options,
        gold: pl.DataFrame | None = None,
        holds: Callable[[str], bool] | None = None,
        copies: pl.DataFrame = NO_COPIES,
    ) -> None:
        refuse(
            not options.grades[0] < pool.relevant_from <= options.grades[-1],
            f"grades are {list(options.grades)} and relevant_from is {pool.relevant_from}",
            remedy="some grades must be relevant and some not",
        )
        self.options, self._store, self._holds = options, store, holds
        self.assessors = None if options.assessors is None else list(map(assessor_name, options.assessors))
        self.known = store.known()
        self.pool = replace(pool, highest=max(options.grades[-1], *self.known["grade"], pool.relevant_from))
        self.by_method = method.chooses_topics  # topics then have no owners
        self._lock, self._in_doubt = threading.RLock(), False
        names = {topic.name: {name: row for row, name in enumerate(topic.documents)} for topic in pool.topics}
        self.topics = {name: number for number, name in enumerate(names)}  # their numbers in the pool
        self._firsts = {(topic, document): first for topic, document, first in copies.iter_rows()}
        self.copies = {key: list(rows["document"]) for key, rows in copies.group_by("topic", "first")}
        self.known_grades = _by_place(with_firsts(self.known, copies), names)
        self.gold: list[dict[int, int]] = [{} for _ in names]
        if gold is not None:
            self.gold = _by_place(with_firsts(gold, copies), names)
            refuse(not any(self.gold), "no gold document is in the pool", "gold", "name documents of the runs")
            for known, tried in zip(self.known_grades, self.gold, strict=True):
                known |= tried  # the method has learned their grades
        self.known_relevant = [
            sum(grade >= pool.relevant_from for grade in grades.values()) for grades in self.known_grades
        ]
        self.sizes = [topic.pool.size - len(known) for topic, known in zip(pool.topics, self.known_grades, strict=True)]
        budgets = self._budgets()
        self.limit = min(sum(self.sizes), sum(budgets))
        limits = self.sizes if self.by_method else list(map(min, self.sizes, budgets))
        self.state = JudgingState(self._orders(method), limits, names, options, pool.relevant_from, self.gold)
        self._owners = self._named_owners()
        for event in store.events():
            try:
                self.state.apply(event)
            except (KeyError, IndexError, TypeError, ValueError) as error:
                what = f"event {event.id} does not fit this pool ({type(error).__name__}: {error})"
                raise BadInput(what, FILE, "the file was edited or damaged: put a copy of it back") from None
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

    def sign_in(self, name: Id) -> str:
        """Admit an assessor, new or known, if one of this name may judge. Returns the normalised name."""
        name = self._admitted(name)
        with self.up_to_date() as state:
            if name not in state.assessors:
                start = [] if self.by_method else [self._event("turn", name, (self._emptiest_topic(name), None))]
                self._record(Event("sign in", name), *start)
        return name

    def _admitted(self, name: Id) -> str:
        """Return the normalised name of an assessor who may judge; raise `Refused` for others."""
        try:
            name = assessor_name(name)
        except BadInput as error:
            raise Refused(f"{error.what[0].upper()}{error.what[1:]}.") from None
        refuse_request(not self.is_listed(name), f"{name} is not among the assessors of this pool.")
        return name

    def next(self, assessor: str) -> Place | None:
        """Return the document on the assessor's screen; a new one is handed out if there is none."""
        with self.up_to_date() as state:
            place = self.on_screen(assessor)
            if place is None:
                topic = state.assessors[assessor]
                place = self._choose(assessor, topic)
                if place is not None:
                    self._record(self._event("hand out", assessor, place, by_method=topic is None))
            return place

    def judge(
        self, assessor: str, topic: str, document: str, grade: int | None, request: str, note: str = "",
        rationale: str = "",
    ) -> None:  # fmt: skip
        """Record a judgement of the document on the screen.

        Args:
            grade: one of the options' grades; None if the assessor can't judge: others may, and this one does not get
                it again.
            request: id of the request; a second one with the same content changes nothing.
            rationale: the passage that decided, see `Options.rationale`.

        Raises:
            Stale: if the document is not on this assessor's screen.
        """
        self._check_grade(grade, note)
        refuse_request(len(rationale) > LONGEST_PASSAGE, f"A marked passage has up to {LONGEST_PASSAGE:,} characters.")
        with self.up_to_date():
            place = self._place(topic, document)
            kind: Kind = "gold" if place is not None and place[1] in self.gold[place[0]] else "judge"
            texts: dict[str, Any] = {"note": note or None, "rationale": rationale or None}
            self._record_held(Event(kind, assessor, topic, document, grade, request=request, **texts))

    def correct(self, assessor: str, judgement: int, grade: int | None, request: str, note: str = "") -> None:
        """Replace the grade or note of the judgement with this `id`: the method learns from it as if it had been the
        first. The other arguments are those of `judge`.
        """
        self._check_grade(grade, note)
        with self.up_to_date():
            self._check_signed_in(assessor)
            given: dict[str, Any] = {"grade": grade, "note": note or None, "original": judgement, "request": request}
            if self._repeats(Event("correct", assessor, **given), "topic", "document", "withdraws", "rationale"):
                return
            judged = self.judgement_of(assessor, judgement)
            if (judged.grade, judged.note or "") != (grade, note):
                kept = {"withdraws": judged.event, "rationale": judged.rationale}
                self._record(self._event("correct", assessor, judged.place, **given, **kept))

    def judgement_of(self, assessor: str, judgement: int) -> Judgement:
        """Return an assessor's judgement by its `id`, if it was not taken back."""
        with self.up_to_date() as state:
            judged = state.of_assessor.get(assessor, {}).get(judgement)
        if judged is None:
            raise Refused("This judgement was taken back.")
        return judged

    def judged_by(self, assessor: str, topic: str | None = None, before: int | None = None) -> list[Judgement]:
        """Return an assessor's judgements, latest first, `PAGE` at a time, of one topic if given.

        Args:
            before: `id` of the last one of the previous page.
        """
        with self.up_to_date() as state:
            self._check_signed_in(assessor)
            number = None if topic is None else self.topics.get(topic, -1)
            wanted = (
                judgement for judgement in reversed(state.of_assessor.get(assessor, {}).values())
                if (before is None or judgement.id < before) and (number is None or judgement.place[0] == number)
            )  # fmt: skip
            return list(islice(wanted, PAGE))

    def take_over(self, made: Sequence[Made]) -> dict[str, int]:
        """Record judgements that were made elsewhere, all or none, under their assessors' names and times, in the order
        of these; those without a time follow.

        Returns:
            How many were recorded, and how many were left out, by description. What an assessor has judged here, or
            brought in before, is left out, so that a second import changes nothing.
        """
        counts: Counter[str] = Counter()
        events: list[Event] = []
        with self.up_to_date() as state:
            admitted = {each: self._admitted(each) for each in dict.fromkeys(row.assessor for row in made)}
            names = {each: self.sign_in(name) for each, name in admitted.items()}
            done = {(each.assessor, *self._names(each.place)) for each in state.judgements.values()}
            for row in sorted(made, key=lambda row: row.at or math.inf):
                document = self.shown(row.topic, row.document)
                judged = (names[row.assessor], row.topic, document)
                reason = self._left_out(row.topic, document) or (JUDGED if judged in done else None)
                counts[reason or IMPORTED] += 1
                if reason is None:
                    done.add(judged)
                    about: dict[str, Any] = {"topic": row.topic, "document": document, "at": row.at}
                    said = about | {"note": row.note or None, "rationale": row.rationale or None}
                    by = judged[0]
                    events += [Event("hand out", by, **about), Event("judge", by, grade=row.grade, **said)]
            self._record(*events)
        return dict(counts)

    def _left_out(self, topic: str, document: str) -> str | None:
        """Return why a judgement that was made elsewhere is not recorded; None if it is."""
        place = self._place(topic, document)
        if place is None:
            return f"judgements {OF_OTHER_TOPICS}, which are not imported"
        if place[1] in self.known_grades[place[0]]:
            return "judgements of documents that were judged before (qrels or gold), which are not imported"
        pooled = self.state.has(place[0], document)
        if not pooled and (re.search(BLANK, document) or not (self._holds is None or self._holds(document))):
            return "judgements of documents that neither the runs nor the collection have, which are not imported"
        return None

    def shown(self, topic: str, document: str) -> str:
        """Return the document that is judged for this one: itself, or the one with the same text."""
        return self._firsts.get((topic, document), document)

    def skip(self, assessor: str, topic: Id, document: Id, request: RequestId) -> None:
        """Put the document on the screen aside: after some judgements of the topic it is handed out again, to anyone.
        Raises `Stale` as `judge` does.
        """
        with self.up_to_date():
            self._record_held(Event("skip", assessor, topic, document, request=request))

    def undo(self, assessor: str, request: RequestId) -> None:
        """Withdraw the assessor's last judgement and put its document back on the screen.

        The document that was on the screen is returned, as it was chosen using the judgement that is withdrawn.
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
            turned, shown = state.assessors[assessor], self.on_screen(assessor)
            if turned not in (None, last.place[0]):
                events.append(self._event("turn", assessor, (last.place[0], None)))
            elif shown is not None:
                events.append(self._event("hand back", assessor, shown))
            numbers = {"withdraws": last.event, "original": None if last.event == last.id else last.id}
            self._record(*events, self._event("withdraw", assessor, last.place, request=request, **numbers))

    def turn(self, assessor: str, topic: Id | None = None, step: Literal[1, -1] | None = None) -> None:
        """Turn to a topic; a document on the screen stays the assessor's until they come back to it.

        Args:
            topic: id; None leaves the topic to the method, if it chooses topics.
            step: instead, 1 or -1: the next or the previous topic that has documents left for the assessor, round the
                list.
        """
        with self.up_to_date() as state:
            self._check_signed_in(assessor)
            if step is not None:
                topic = self._topic_beside(assessor, step)
            elif topic not in self.topics and not (topic is None and self.by_method):
                raise Refused(f"There is no topic {topic}.")
            if state.assessors[assessor] != (None if topic is None else self.topics[topic]):
                self._record(Event("turn", assessor, topic))

    def leave(self, assessor: str) -> None:
        """Return all documents that this assessor holds, so that others may get them."""
        with self.up_to_date():
            self._check_signed_in(assessor)
            self._release(assessor)

    def on_screen(self, assessor: str) -> Place | None:
        """Return the assessor's open document in the current topic, None before `next` finds one."""
        with self.up_to_date() as state:
            self._check_signed_in(assessor)
            topic = state.assessors[assessor]
            held = [place for place in state.open[assessor] if topic is None or place[0] == topic]
            return held[-1] if held else None

    def take(self, assessor: str, topic: Id, document: Id) -> None:
        """Put a document that the assessor found on the screen, of the pool or not: "judge this too"."""
        document = self.shown(topic, document)
        with self.up_to_date() as state:
            known = topic in self.topics and state.has(self.topics[topic], document)
        # Outside the lock: the index may have to be built first, while others judge.
        exists = known or self._holds is None or self._holds(document)
        with self.up_to_date() as state:
            self._check_signed_in(assessor)
            place = self._place(topic, document)
            if place is None:
                raise Refused(f"There is no topic {topic}.")
            number = place[0]
            refuse_request(place[1] in self.known_grades[number], "This document was judged before.")
            assignment = state.assignments[number].get(place[1])
            if assignment is not None:
                _check_assignable(assignment, assessor)
            elif place[1] >= len(self.pool.topics[number].documents):  # no run has it
                _check_unpooled(document, exists)
            refuse_request(self._is_anothers(number, assessor), f"This is the topic of {self.owner_of(number)}.")
            events = [] if state.assessors[assessor] == number else [Event("turn", assessor, topic)]
            if place in state.open[assessor]:  # shown last is shown
                events.append(Event("hand back", assessor, topic, document))
            self._record(*events, Event("hand out", assessor, topic, document))

    def resolve(self, assessor: str, topic: Id, document: Id, grade: int, request: RequestId) -> None:
        """Record which grade counts if assessors differ; it may be a third one. The latest decision counts."""
        self._check_grade(grade, "")
        with self.up_to_date() as state:
            event = Event("resolve", assessor, topic, document, grade, request=request)
            if not self._repeats(event):
                disputed = self._place(topic, document) in state.disputed
                refuse_request(not disputed, "Assessors do not differ on this document.")
                self._record(event)

    def owner_of(self, topic: int) -> str | None:
        """Return the owner of a topic: others get its documents only as second assessors. None if it has none."""
        if self.options.owners != "first":
            return self._owners.get(topic)
        owner = self.state.owners[topic]
        return owner if owner is not None and self.is_listed(owner) else None

    def has_for(self, assessor: str, topic: int) -> bool:
        """Return whether this assessor has anything to judge in a topic."""
        return (
            any(place[0] == topic for place in self.state.open[assessor])
            or self._may_bring(topic, assessor)
            or self.state.waiting_for(assessor, topic, True, self._is_anothers(topic, assessor)) is not None
        )

    def _choose(self, assessor: str, topic: int | None) -> Place | None:
        """Choose the next document for an assessor, of a topic, or of any if the method chooses the topic: one that
        waits for a judge, or a new one. None if there is none.
        """
        topics = range(len(self.pool.topics)) if topic is None else [topic]
        gold = self._gold_for(assessor, topics)
        if gold is not None:
            return gold
        for soon in (False, True):
            for each in topics:
                place = self.state.waiting_for(assessor, each, soon, self._is_anothers(each, assessor))
                if place is not None:
                    return place
            if not soon and any(self._may_bring(each, assessor) for each in topics):
                offered = self.state.orders[topics[0]].offer(topic)
                if offered is not None:
                    return offered
        return self._gold_for(assessor, topics, soon=True)

    def _gold_for(self, assessor: str, topics: Sequence[int], soon: bool = False) -> Place | None:
        """Return a gold document that is due: the first ones to burn in, and then one every `gold_every` judgements.

        Args:
            soon: whether a skipped one need not be due, as nothing else is left.
        """
        given, due = self.state.gold_given.get(assessor, {}), self.state.gold_due.get(assessor, {})
        made = len(self.state.of_assessor.get(assessor, {}))
        if len(given) >= self.options.burn_in + made // self.options.gold_every:
            return None
        places = ((topic, document) for topic in topics for document in self.gold[topic])
        left = (place for place in places if place not in given and (soon or due.get(place, 0) <= made))
        return next(left, None)

    def _may_bring(self, topic: int, assessor: str) -> bool:
        """Return whether a new document of the topic may be handed to the assessor."""
        out = self.state.handed_out if self.by_method else 0
        return self.state.new_left(topic) > 0 and out < self.limit and not self._is_anothers(topic, assessor)

    def _emptiest_topic(self, assessor: str) -> int:
        """Return the first of the topics with the fewest assessors that have anything to judge."""
        open_to = Counter(self.state.assessors.values())
        topics = range(len(self.pool.topics))
        return min(topics, key=lambda topic: (not self._may_bring(topic, assessor), open_to[topic]))

    def _topic_beside(self, assessor: str, step: Literal[1, -1]) -> str:
        turned, shown, count = self.state.assessors[assessor], self.on_screen(assessor), len(self.pool.topics)
        current = shown[0] if shown is not None else -1 if turned is None and step > 0 else turned or 0
        topics = ((current + step * away) % count for away in range(1, count + (current < 0)))
        topic = next((topic for topic in topics if self.has_for(assessor, topic)), None)
        if topic is None:
            raise Refused("No other topic has documents left for you.")
        return self.pool.topics[topic].name

    def _is_anothers(self, topic: int, assessor: str) -> bool:
        return self.owner_of(topic) not in (None, assessor)

    def _named_owners(self) -> dict[int, str]:
        """Return the owners that the options name, by the topics' numbers."""
        owners = self.options.owners
        if owners is None:
            return {}
        refuse(self.by_method, "topics can't be owned where the method chooses them", "owners", "leave owners= out")
        named = {} if owners == "first" else {topic: assessor_name(owner) for topic, owner in owners.items()}
        for topic, owner in named.items():
            refuse(
                topic not in self.topics,
                f"there is no topic {topic!r} in the pool",
                "owners",
                "name topics of the runs",
            )
            refuse(not self.is_listed(owner), f"{owner} owns topic {topic} and is not among the assessors", "owners")
        return {self.topics[topic]: owner for topic, owner in named.items()}

    def _budgets(self) -> list[int]:
        """Return the documents to judge in each topic, at most; on average if the method chooses the topic."""
        budget = self.options.budget
        if not isinstance(budget, Mapping):
            return [max(self.sizes, default=0) if budget is None else budget] * len(self.sizes)
        what = "topics can't have budgets of their own where the method chooses them"
        refuse(self.by_method, what, "budget", "give one number, or another method")
        if unknown := budget.keys() - self.topics.keys():
            raise BadInput(f"there is no topic {min(unknown)!r} in the pool", "budget", "name topics of the runs")
        return [budget.get(name, size) for name, size in zip(self.topics, self.sizes, strict=True)]

    def _orders(self, method: Method) -> list[RevocableOrder]:
        """Return one order for all topics if the method learns from one about another; otherwise one per topic, which
        is fast to rebuild.
        """
        topics, seed = self.pool.topics, self.options.seed
        known = [
            [((number, document), grade) for document, grade in grades.items()]
            for number, grades in enumerate(self.known_grades)
        ]
        if method.shares_topics:
            of_all = RevocableOrder(self.pool, method, seed, list(chain.from_iterable(known)))
            return [of_all] * len(topics)
        return [
            RevocableOrder(replace(self.pool, topics=[topic]), method, seed, of_topic, first=number)
            for number, (topic, of_topic) in enumerate(zip(topics, known, strict=True))
        ]

    def _place(self, topic: str, document: str) -> Place | None:
        number = self.topics.get(topic)
        return None if number is None else (number, self.state.number_of(number, document))

    def _event(self, kind: Kind, assessor: str, place: tuple[int, int | None], **more: Any) -> Event:
        number, document = place
        name = None if document is None else self.state.name_of((number, document))
        return Event(kind, assessor, self.pool.topics[number].name, name, **more)

    def _names(self, place: Place) -> tuple[str, str]:
        return self.pool.topics[place[0]].name, self.state.name_of(place)

    def _record(self, *events: Event) -> None:
        """Write events and process them. Documents that have enough grades by then leave the screens of others."""
        events = (*events, *self._handed_back(events))
        limits = self.state.limits
        planned = (
            replace(event, planned=limits[self.topics[str(event.topic)]]) if event.kind == "hand out" else event
            for event in events
        )
        try:
            stored = self._store.append(*planned)
        except BaseException:
            self._in_doubt = True
            raise
        for event in stored:
            self.state.apply(event)

    def _handed_back(self, events: Sequence[Event]) -> Iterator[Event]:
        """Return the events by which documents leave the screens of assessors whose grades are no longer required.

        A document is on the screens of several if one of them could not judge it, and then corrects or undoes that.
        """
        judges: dict[tuple[str, str], set[str]] = {}
        for event in events:
            if event.kind in ("judge", "correct") and event.grade is not None:
                judges.setdefault((str(event.topic), str(event.document)), set()).add(event.assessor)
        for (topic, document), graded in judges.items():
            number = self.topics[topic]
            assignment = self.state.assignments[number].get(self.state.number_of(number, document))
            if assignment is not None and len(graded | dict(assignment.grades).keys()) >= assignment.judges:
                others = sorted(assignment.holders - graded)
                yield from (Event("hand back", other, topic, document) for other in others)

    def _record_held(self, event: Event) -> None:
        """Record an event of a document on the assessor's screen, unless its request comes again."""
        if self._repeats(event):
            return
        self._check_signed_in(event.assessor)
        if self._place(str(event.topic), str(event.document)) not in self.state.open[event.assessor]:
            raise Stale("This document is no longer yours to judge; here is what is.")
        self._record(event)

    def _release(self, assessor: str) -> None:
        if held := self.state.open.get(assessor):
            self._record(*(self._event("hand back", assessor, place) for place in held))

    def _repeats(self, event: Event, *left_open: str) -> bool:
        """Return whether the event is already in the store: its request came again as the first answer was lost.

        Args:
            left_open: names of fields that the request does not decide.
        """
        before = self._store.request(str(event.request))
        if before is None:
            return False
        undecided: dict[str, Any] = dict.fromkeys(left_open)
        changed = replace(before, id=0, at=0.0, **undecided) != event
        refuse_request(changed, "This request was made before, with another content.")
        return True

    def _check_signed_in(self, assessor: str) -> None:
        refuse_request(assessor not in self.state.assessors, "Please sign in first.")
        refuse_request(not self.is_listed(assessor), f"{assessor} is no longer among the assessors of this pool.")

    def _check_grade(self, grade: int | None, note: str) -> None:
        refuse_request(grade is not None and grade not in self.options.grades, f"{grade} is not one of the grades.")
        refuse_request(len(note) > LONGEST_NOTE, f"A note has up to {LONGEST_NOTE:,} characters.")


def _check_assignable(assignment: Assignment, assessor: str) -> None:
    """Raise `Refused` if an assessor can't get a document that was handed out before."""
    judged = assessor in assignment.judgements
    refuse_request(judged, "You have judged this document: it is in the list of your judgements.")
    refuse_request(assignment.holders - {assessor}, "Another assessor has this document on the screen.")
    complete = not assignment.waits and assessor not in assignment.holders
    refuse_request(complete, "This document was judged by another assessor.")


def _check_unpooled(document: str, exists: bool) -> None:
    """Raise `Refused` if a document that no run has can't be judged."""
    what = "This document can't be judged: its id has a blank in it, and no qrels could hold it."
    refuse_request(re.search(BLANK, document), what)
    refuse_request(not exists, "The collection has no such document.")


def _by_place(grades: pl.DataFrame, names: dict[str, dict[str, int]]) -> list[dict[int, int]]:
    """Return grades by document for each topic, for documents in the pool."""
    by_topic: dict[str, dict[int, int]] = {topic: {} for topic in names}
    for topic, document, grade in grades.iter_rows():
        if document in names.get(topic, {}):
            by_topic[topic][names[topic][document]] = grade
    return list(by_topic.values())
