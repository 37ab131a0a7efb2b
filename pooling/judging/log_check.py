"""Refuses a log of judging that was edited or damaged, and names the event."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from pyrite.pooling.judging.store import Event
from pyrite.ranking.errors import BadInput

REMEDY = "the file was edited or damaged: put a copy of it back"
TEXTS = ("kind", "assessor", "topic", "document", "request", "note", "rationale")
Held = tuple[str, str | None, str | None]
"""An assessor, a topic and a document."""


class LogCheck:
    """The parts of the state that decide whether an event can follow those before it.

    Args:
        grades: the grades of the scale; None accepts every grade.
    """

    def __init__(self, grades: Collection[int] | None) -> None:
        self._grades = grades
        self._assessors: set[str] = set()
        self._on_screen: set[Held] = set()
        self._judgements: dict[int, Held] = {}  # by the event that counts now: a judgement, or its last correction
        self._judged: set[tuple[str | None, str | None]] = set()

    def fault(self, event: Event) -> str | None:
        """Return why an event can't follow those before it; None if it can, which is then counted among them."""
        if not (
            isinstance(event.at, int | float) and all(isinstance(getattr(event, name), str | None) for name in TEXTS)
        ):
            return "has a value of another type"
        if event.kind not in self._CHECKS:
            return f"is of no known kind ({event.kind})"
        if event.kind not in ("sign in", "resolve") and event.assessor not in self._assessors:
            return f"is of {event.assessor}, who has not signed in"
        if event.grade is not None and self._grades is not None and event.grade not in self._grades:
            return f"has the grade {event.grade}, which the scale lacks"
        return self._CHECKS[event.kind](self, event)

    def _sign_in(self, event: Event) -> str | None:
        self._assessors.add(event.assessor)
        return None

    def _turn(self, event: Event) -> str | None:
        return None

    def _hand_out(self, event: Event) -> str | None:
        self._on_screen.add(_held(event))
        return None

    def _leave_screen(self, event: Event) -> str | None:
        if (held := _held(event)) not in self._on_screen:
            return f"is about document {event.document}, which {event.assessor} was not handed"
        self._on_screen.remove(held)
        return None

    def _judge(self, event: Event) -> str | None:
        fault = self._leave_screen(event)
        self._judgements[event.id] = _held(event)
        self._judged.add((event.topic, event.document))
        return fault

    def _replace(self, event: Event) -> str | None:
        if self._judgements.pop(event.withdraws or 0, None) != _held(event):
            return f"takes back event {event.withdraws}, which is no judgement of the same document"
        return None

    def _correct(self, event: Event) -> str | None:
        fault = self._replace(event)
        self._judgements[event.id] = _held(event)
        return fault

    def _withdraw(self, event: Event) -> str | None:
        self._on_screen.add(_held(event))
        return self._replace(event)

    def _resolve(self, event: Event) -> str | None:
        if (event.topic, event.document) not in self._judged:
            return f"decides on document {event.document}, which nobody has judged"
        return None

    _CHECKS: dict[str, Callable[[LogCheck, Event], str | None]] = {
        "sign in": _sign_in, "turn": _turn, "hand out": _hand_out, "judge": _judge, "gold": _leave_screen,
        "skip": _leave_screen, "hand back": _leave_screen, "correct": _correct, "withdraw": _withdraw,
        "resolve": _resolve,
    }  # fmt: skip


def check_log(events: Iterable[Event], grades: Collection[int] | None, path: Path) -> None:
    """Refuse a log with an event that can't follow those before it."""
    check = LogCheck(grades)
    for event in events:
        if (fault := check.fault(event)) is not None:
            raise BadInput(f"event {event.id} {fault}", path, REMEDY)


def _held(event: Event) -> Held:
    return event.assessor, event.topic, event.document
