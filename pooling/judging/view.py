"""Collects what the page shows an assessor as plain data: texts in pieces, never as markup."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations, islice, pairwise
from statistics import median
from typing import Annotated, Any

from pydantic import Field

from pyrite.pooling.judging.agreement import agreement_of, krippendorff_alpha
from pyrite.pooling.judging.documents import CollectionSearch, Marking, PooledDocuments, readable
from pyrite.pooling.judging.progress import TopicProgress
from pyrite.pooling.judging.requests import Id, Refused
from pyrite.pooling.judging.revocable_order import Place
from pyrite.pooling.judging.session import PAGE, Session
from pyrite.pooling.judging.topics import TopicText
from pyrite.pooling.sentinels import NO_GRADE

PACE = 20
"""Number of judgements that an assessor's pace is computed from."""
TOPICS = 100
"""Topics that an answer lists: those around the assessor's topic if there are more."""
SHOWN = 100_000
"""Characters of a document that an answer holds; the rest is requested when the assessor wants it."""
SNIPPET = 160
"""Characters of a document's text that a list shows."""
_LINE_END = re.compile("\r(?!\n)|[\v\f\x1c-\x1e\x85\u2028\u2029]")
"""Ends of lines and paragraphs at which a browser does not break a line: the words around them would run together."""


class View:
    """The state of a session as an assessor, or the owner, sees it.

    If documents are judged twice, second judgements must be blind: an assessor who is not the owner sees how many
    documents are judged, and relevance only by their judgements.

    Args:
        topics: texts by id.
        stemming: language of the stemmer for words that are marked (`pyrite.pooling.judging.documents.Marking`).
        search: search over the whole collection; None if the page has none.
    """

    def __init__(
        self,
        session: Session,
        topics: Mapping[str, TopicText],
        documents: PooledDocuments,
        stemming: str | None = "english",
        title: str = "Relevance judgements",
        search: CollectionSearch | None = None,
    ) -> None:
        self._search = search
        self._session, self._documents, self._title = session, documents, title
        self._texts = [topics.get(topic.name, TopicText()) for topic in session.pool.topics]
        self._recalls: dict[int, tuple[tuple[int, int, float], dict[str, Any] | None]] = {}
        Marking("", stemming)  # refuses an unknown language at the start, though words are marked at first use
        self._stemming, self._markings = stemming, dict[int, Marking]()
        grades, relevant_from = session.options.grades, session.pool.relevant_from
        self._grade_names = session.options.names or _names_of(grades, [grade >= relevant_from for grade in grades])
        of_names = {name.lower(): grade for name, grade in zip(self._grade_names, grades, strict=True)}
        self.words = of_names | {str(grade): grade for grade in grades}

    def of(self, assessor: str, place: Place | None, owner: bool = False) -> dict[str, Any]:
        """Return all that is on the page.

        Args:
            place: the document on the screen, from `Session.next`.
            owner: whether others' judgements may be shown.
        """
        session, options = self._session, self._session.options
        blind = bool(options.double) and not owner
        with session.up_to_date() as state:
            turned = state.assessors[assessor]
            topic, topics = place[0] if place is not None else turned, session.pool.topics
            document = None
            if place is not None:
                document = self._document(place) | {"note": state.withdrawn_notes.get((assessor, place), "")}
            return {
                "title": self._title,
                "assessor": assessor,
                "owner": owner,
                "blind": blind,
                "by_method": session.by_method,
                "turned": None if turned is None else topics[turned].name,
                "grades": [
                    {
                        "grade": grade,
                        "name": name,
                        "relevant": grade >= session.pool.relevant_from,
                        "guideline": options.guidelines[number] if options.guidelines else "",
                    }
                    for number, (grade, name) in enumerate(zip(options.grades, self._grade_names, strict=True))
                ],
                "topics": [self._progress(assessor, number) for number in self._window(topic)],
                "topic_count": len(topics),
                "elsewhere": any(session.has_for(assessor, other) for other in range(len(topics)) if other != topic),
                "total": {
                    "judged": sum(map(len, state.progress)),
                    "limit": min(session.limit, sum(state.limits)) + sum(map(state.beyond, range(len(topics)))),
                },
                "topic": None if topic is None else self._topic(assessor, topic, blind),
                "document": document,
                "tried": self._tried(assessor),
                "searches": self._search is not None,
                "rationale": options.rationale,
                "undo": state.last_judgement(assessor) is not None,
                "pace": self._pace(assessor),
            }

    def judged(self, assessor: str, topic: Id | None = None, before: int | None = None) -> dict[str, Any]:
        """Return the judgements of `Session.judged_by`; `more` is whether others may follow."""
        made = self._session.judged_by(assessor, topic, before)
        listed = [
            self._heading(each.place)
            | {"id": each.id, "at": each.at, "grade": each.grade, "note": each.note or ""}
            | {"rationale": each.rationale or ""}
            for each in made
        ]
        return {"judgements": listed, "more": len(made) == PAGE}

    def document_of(self, assessor: str, judgement: int) -> dict[str, Any]:
        """Return a document that the assessor judged."""
        return self._document(self._session.judgement_of(assessor, judgement).place)

    def rest(self, assessor: str, topic: Id, document: Id, start: Annotated[int, Field(ge=0)]) -> dict[str, Any]:
        """Return more of a long document, from a character on."""
        text, number = self._text(document), self._session.topics.get(topic)
        if text is None or number is None:
            raise Refused("There is no text of this document.")
        return self._pieces(number, text[start:])

    def found(self, assessor: str, query: Id) -> dict[str, Any]:
        """Return the collection's documents for a query, and whether the assessor judged each for the topic."""
        if self._search is None:
            raise Refused("This page has no search.")
        lines = self._search.search(query)
        with self._session.up_to_date() as state:
            turned = state.assessors.get(assessor)
            shown = []
            for name, text in lines:
                assignment = None
                if turned is not None:
                    shown_as = self._session.shown(self._session.pool.topics[turned].name, name)
                    assignment = state.assignments[turned].get(state.number_of(turned, shown_as))
                judged = assignment is not None and assessor in assignment.judgements
                shown.append({"document": name, "snippet": _snippet(text), "judged": judged})
        return {"found": shown, "topic": None if turned is None else self._session.pool.topics[turned].name}

    def overview(self) -> dict[str, Any]:
        """Return what only the owner may see."""
        session, shown = self._session, self._session.pool.topics[:TOPICS]
        with session.up_to_date() as state:
            return {
                "assessors": [self._work(name) for name in sorted(state.assessors)],
                **self._agreement(),
                "machine": self._machine_agreement(),
                "grades": list(zip(session.options.grades, self._grade_names, strict=True)),
                "disputed": [self._dispute(place) for place in list(state.disputed)[:PAGE]],
                "disputes": len(state.disputed),
                "graded": len(session.options.grades) > 2,
                "unjudgeable_count": sum(map(len, state.unjudgeable)),
                "unjudgeable": [
                    {"topic": topic.name, "document": state.name_of((number, document))}
                    for number, topic in enumerate(session.pool.topics)
                    for document in state.unjudgeable[number]
                ][:PAGE],
                "topics": [
                    {
                        "name": topic.name,
                        "judged": len(progress),
                        "relevant": progress.found,
                        "limit": state.limits[number] + state.beyond(number),
                        "owner": session.owner_of(number),
                        "recall": self._recall(number),
                    }
                    for number, (topic, progress) in enumerate(zip(shown, state.progress, strict=False))
                ],
                "topic_count": len(session.pool.topics),
            }

    def _topic(self, assessor: str, topic: int, blind: bool) -> dict[str, Any]:
        session, state, (title, description, narrative) = self._session, self._session.state, self._texts[topic]
        progress = state.own_progress.get((assessor, topic), TopicProgress()) if blind else state.progress[topic]
        recall = self._recall(topic)
        if blind and recall is not None:  # the numbers would reveal what others found
            recall = {key: recall[key] for key in ("may_stop", "target", "sure")}
        ahead = progress.ahead(state.limits[topic] - state.progress[topic].pooled[0])
        return {
            "name": session.pool.topics[topic].name,
            "title": title,
            "description": description,
            "narrative": narrative,
            "figures": {
                "judged": len(progress),
                "found": progress.found,
                "pooled": progress.pooled,
                "curve": progress.curve(),
            },
            "known": {"judged": len(session.known_grades[topic]), "relevant": session.known_relevant[topic]},
            "ahead": None if ahead is None else ahead._asdict(),
            "recall": recall,
            "waiting": state.waiting_count(topic),
            "unjudgeable": len(state.unjudgeable[topic]),
            "owner": session.owner_of(topic),
        }

    def _document(self, place: Place) -> dict[str, Any]:
        name = self._session.state.name_of(place)
        text = self._text(name)
        shown = self._pieces(place[0], text) if text is not None and readable(text) else {"pieces": None, "more": 0}
        copies = self._session.copies.get((self._session.pool.topics[place[0]].name, name), [])
        same = {"same text": ", ".join(copies)} if copies else {}
        return shown | {"name": name, "fields": self._documents.fields(name) | same}

    def _pieces(self, topic: int, text: str) -> dict[str, Any]:
        """Return the start of a text, with the topic's words marked, and the number of characters after it."""
        if topic not in self._markings:  # made at first use: there may be thousands of topics
            words = self._texts[topic].title or self._texts[topic].description
            self._markings[topic] = Marking(words, self._stemming)
        return {"pieces": self._markings[topic].pieces(text[:SHOWN]), "more": max(len(text) - SHOWN, 0)}

    def _heading(self, place: Place) -> dict[str, Any]:
        """Return what a list shows of a document."""
        name = self._session.state.name_of(place)
        topic, title = self._session.pool.topics[place[0]].name, self._texts[place[0]].title
        return {"topic": topic, "title": title, "document": name, "snippet": _snippet(self._text(name))}

    def _window(self, topic: int | None) -> range:
        count = len(self._session.pool.topics)
        first = min(max((topic or 0) - TOPICS // 2, 0), max(count - TOPICS, 0))
        return range(first, min(first + TOPICS, count))

    def _progress(self, assessor: str, topic: int) -> dict[str, Any]:
        session, state = self._session, self._session.state
        recall = self._recall(topic)
        return {
            "name": session.pool.topics[topic].name,
            "title": self._texts[topic].title or self._texts[topic].description,
            "judged": len(state.progress[topic]),
            "limit": state.limits[topic] + state.beyond(topic),
            "left": session.has_for(assessor, topic),
            "may_stop": recall is not None and recall["may_stop"],
        }

    def _recall(self, topic: int) -> dict[str, Any] | None:
        """Return the recall reached for all that is known, and whether that is enough."""
        session, rule = self._session, self._session.options.rule
        if rule is None:
            return None
        progress = session.state.progress[topic]
        version = *progress.pooled, progress.places
        if topic not in self._recalls or self._recalls[topic][0] != version:
            estimate = progress.recall(session.sizes[topic], session.known_relevant[topic], rule)
            shown = None if estimate is None else estimate._asdict() | {"target": rule.recall, "sure": rule.confidence}
            self._recalls[topic] = version, shown
        return self._recalls[topic][1]

    def _pace(self, assessor: str) -> float | None:
        """Return the median of the seconds between two judgements, so that a break does not count."""
        judgements = self._session.state.of_assessor.get(assessor, {})
        times = [judgement.at for judgement in islice(reversed(judgements.values()), PACE + 1)]
        gaps = [later - earlier for later, earlier in pairwise(times)]
        return median(gaps) if gaps else None

    def _tried(self, assessor: str) -> dict[str, Any] | None:
        """Return the last gold document while an assessor burns in: the grade given, and the known one."""
        session = self._session
        grades = session.state.gold_given.get(assessor, {})
        if not grades or len(grades) > session.options.burn_in or session.state.of_assessor.get(assessor):
            return None
        place, grade = next(reversed(grades.items()))
        return {
            "document": session.state.name_of(place),
            "given": grade,
            "known": session.gold[place[0]][place[1]],
            "number": len(grades),
        }

    def _work(self, name: str) -> dict[str, Any]:
        tried = self._session.state.gold_given.get(name, {})
        judgements = self._session.state.of_assessor.get(name, {})
        last = next(reversed(judgements.values()), None)
        return {
            "name": name,
            "judged": len(judgements),
            "pace": self._pace(name),
            "last": None if last is None else last.at,
            "open": len(self._session.state.open.get(name, {})),
            "gold": [sum(self._session.gold[t][d] == grade for (t, d), grade in tried.items()), len(tried)],
            "listed": self._session.is_listed(name),
        }

    def _agreement(self) -> dict[str, Any]:
        """Return the agreement of each pair of assessors with common documents, and that of all."""
        documents, by_pair = [], defaultdict[tuple[str, str], Counter[tuple[int, int]]](Counter)
        for assignments in self._session.state.assignments:
            for grades in (each.grades for each in assignments.values() if len(each.judgements) > 1):
                documents.append([grade for _, grade in grades])
                for (one, first), (other, second) in combinations(sorted(grades), 2):
                    by_pair[one, other][first, second] += 1
        pairs = [
            {"assessors": pair, **agreement_of(counts, self._session.pool.relevant_from)}
            for pair, counts in sorted(by_pair.items())
        ]
        return {"agreement": pairs, "alpha": krippendorff_alpha(documents)}

    def _machine_agreement(self) -> dict[str, Any] | None:
        """Return how far people agree with a machine's grades on documents with both; None without such grades. The
        first judgement counts, or the owner's decision.
        """
        session, state, counts = self._session, self._session.state, Counter[tuple[int, int]]()
        for number, topic in enumerate(session.pool.topics):
            machine = topic.pool.machine
            for document, assignment in state.assignments[number].items():
                if document < len(machine) and machine[document] != NO_GRADE and assignment.grades:
                    grade = assignment.grades[0][1]
                    if (number, document) in state.disputed:
                        grade = state.resolved.get((number, document), grade)
                    counts[grade, int(machine[document])] += 1
        graded = any(len(topic.pool.machine) for topic in session.pool.topics)
        return agreement_of(counts, session.pool.relevant_from) if graded else None

    def _dispute(self, place: Place) -> dict[str, Any]:
        """Return a document on which assessors differ: their grades, and the owner's decision."""
        state = self._session.state
        judgements = state.assignments[place[0]][place[1]].judgements.values()
        grades = [[each.assessor, each.grade, each.note or ""] for each in judgements if each.grade is not None]
        return self._heading(place) | {"grades": grades, "resolved": state.resolved.get(place)}

    def _text(self, name: str) -> str | None:
        text = self._documents.text(name)
        if text is None and self._search is not None:
            text = self._search.text(name)
        return None if text is None else _LINE_END.sub("\n", text)


def _names_of(grades: Sequence[int], relevant: Sequence[bool]) -> list[str]:
    """Name grades by whether they are relevant, with their number if several are."""
    return [
        f"{'' if is_relevant else 'not '}relevant" + ("" if relevant.count(is_relevant) == 1 else f", grade {grade}")
        for grade, is_relevant in zip(grades, relevant, strict=True)
    ]


def _snippet(text: str | None) -> str:
    return " ".join((text or "")[: 2 * SNIPPET].split())[:SNIPPET]
