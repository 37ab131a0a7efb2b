"""Collects what the page shows an assessor, as plain data: texts in pieces, never as markup."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations, pairwise
from statistics import median
from typing import Any

from pooling.judging.agreement import cohen_kappa
from pooling.judging.documents import PooledDocuments
from pooling.judging.expectation import expected_yield
from pooling.judging.export import resolve
from pooling.judging.marking import Marking
from pooling.judging.revocable_order import Place
from pooling.judging.session import Session
from pooling.judging.topics import TopicText

PACE = 20
"""Judgements whose time an assessor's pace is taken from."""


class View:
    """The state of a session as an assessor sees it.

    Args:
        session: looked at.
        topics: texts by id.
        documents: texts.
        stemming: of the words that are marked (`Marking`).
        title: of the page.
    """

    def __init__(
        self,
        session: Session,
        topics: Mapping[str, TopicText],
        documents: PooledDocuments,
        stemming: str | None = "english",
        title: str = "Relevance judgements",
    ) -> None:
        self._session, self._documents, self._title = session, documents, title
        self._texts = [topics.get(topic.name, TopicText()) for topic in session.pool.topics]
        self._seen: dict[int, tuple[tuple[int, int], list[bool]]] = {}
        self._marking = [Marking(text.title or text.description, stemming) for text in self._texts]

    def of(self, assessor: str, place: Place | None) -> dict[str, Any]:
        """All that is on the page.

        Args:
            assessor: who looks.
            place: the document on the screen, as `Session.next` gave it.
        """
        session, options = self._session, self._session.options
        with session.lock:
            turned = session.state.assessors[assessor]
            topic = place[0] if place is not None else turned
            return {
                "title": self._title,
                "assessor": assessor,
                "by_method": session.by_method,
                "turned": None if turned is None else session.pool.topics[turned].name,
                "grades": [
                    {"grade": grade, "name": self._grade_name(number), "relevant": grade >= session.pool.relevant_from}
                    for number, grade in enumerate(options.grades)
                ],
                "topics": [self._progress(assessor, number) for number in range(len(session.pool.topics))],
                "total": {
                    "judged": sum(len(self._relevant(number)) for number in range(len(session.pool.topics))),
                    "limit": min(session.limit, sum(session.state.limits)),
                },
                "topic": None if topic is None else self._topic(topic),
                "document": None if place is None else self._document(place),
                "undo": session.state.last_judgement(assessor) is not None,
                "pace": self._pace(assessor),
                "agreement": self._agreement() if options.double else None,
            }

    def _topic(self, topic: int) -> dict[str, Any]:
        session, (title, description, narrative) = self._session, self._texts[topic]
        relevant = self._relevant(topic)
        found, curve = 0, []
        for one in relevant:
            found += one
            curve.append(found)
        ahead = expected_yield(relevant, session.state.limits[topic] - len(relevant))
        known = [grade >= session.pool.relevant_from for grade in session.known_grades[topic].values()]
        return {
            "name": session.pool.topics[topic].name,
            "title": title,
            "description": description,
            "narrative": narrative,
            "curve": curve,
            "known": {"judged": len(known), "relevant": sum(known)},
            "ahead": None if ahead is None else ahead._asdict(),
            "waiting": len(session.state.waiting[topic]),
        }

    def _document(self, place: Place) -> dict[str, Any]:
        name = self._session.pool.topics[place[0]].documents[place[1]]
        text = self._documents.text(name)
        return {"name": name, "pieces": None if text is None else self._marking[place[0]].pieces(text)}

    def _progress(self, assessor: str, topic: int) -> dict[str, Any]:
        session = self._session
        relevant = self._relevant(topic)
        return {
            "name": session.pool.topics[topic].name,
            "title": self._texts[topic].title or self._texts[topic].description,
            "judged": len(relevant),
            "relevant": sum(relevant),
            "limit": session.state.limits[topic],
            "left": session.has_for(assessor, topic),
        }

    def _relevant(self, topic: int) -> list[bool]:
        """Of a topic's documents, in the order in which they were first judged."""
        session = self._session
        made = session.state.of_topic[topic]
        # Judgements come with ever higher numbers, so that these two say whether any came or went.
        version = len(made), next(reversed(made), 0)
        if topic not in self._seen or self._seen[topic][0] != version:
            assignments, rule = session.state.assignments[topic], session.options.resolve
            places = dict.fromkeys(judgement.place for judgement in made.values())
            grades = (
                resolve([judgement.grade for judgement in assignments[document].judgements.values()], rule)
                for _, document in places
            )
            self._seen[topic] = version, [grade >= session.pool.relevant_from for grade in grades]
        return self._seen[topic][1]

    def _pace(self, assessor: str) -> float | None:
        """Median of the seconds between two judgements, so that a break does not count."""
        times = [made.at for made in self._session.state.judgements.values() if made.assessor == assessor]
        gaps = [later - earlier for earlier, later in pairwise(times[-PACE - 1 :])]
        return median(gaps) if gaps else None

    def _agreement(self) -> list[dict[str, Any]]:
        """Of each two assessors who judged some document both."""
        session = self._session
        pairs: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for assignments in session.state.assignments:
            for assignment in assignments.values():
                for one, other in combinations(sorted(assignment.judgements), 2):
                    both = assignment.judgements[one].grade, assignment.judgements[other].grade
                    pairs.setdefault((one, other), []).append(both)
        shown = []
        for (one, other), grades in sorted(pairs.items()):
            first, second = zip(*grades, strict=True)
            relevance = [[grade >= session.pool.relevant_from for grade in given] for given in (first, second)]
            shown.append(
                {
                    "assessors": [one, other],
                    "documents": len(grades),
                    "equal": sum(a == b for a, b in grades),
                    "kappa": _number(cohen_kappa(first, second)),
                    "kappa_relevance": _number(cohen_kappa(*relevance)),
                }
            )
        return shown

    def _grade_name(self, number: int) -> str:
        options = self._session.options
        if options.names is not None:
            return options.names[number]
        return "relevant" if options.grades[number] >= self._session.pool.relevant_from else "not relevant"


def _number(value: float) -> float | None:
    """None in place of NaN, which JSON has not."""
    return None if math.isnan(value) else value
