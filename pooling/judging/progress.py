"""Keeps running totals of a topic, so that an answer costs the same after ten judgements and after ten thousand."""

from __future__ import annotations

from itertools import islice

CURVE_POINTS = 120
"""Points of the curve that is drawn: about as many as can be told apart."""


class TopicProgress:
    """The documents judged, relevant or not, in the order of judging.

    Args:
        found: relevant documents.
        places: sum of the relevant documents' positions in the order, ½ for the first
            (`pooling.yield_curves.exponential_rest`).
    """

    def __init__(self) -> None:
        self.found = 0
        self.places = 0.0
        self._relevant: dict[int, bool] = {}
        self._found_at: list[int] = []

    def __len__(self) -> int:
        """Documents judged."""
        return len(self._relevant)

    def set(self, document: int, relevant: bool | None) -> None:
        """Set a document's relevance; None if it is no longer judged.

        A new document comes last; one that changes keeps its position.
        """
        before = self._relevant.get(document)
        if before is relevant:
            return
        if relevant is None:
            del self._relevant[document]
        else:
            self._relevant[document] = relevant
        if before is None:
            self._count(len(self._relevant), bool(relevant))
            return
        self.found, self.places, self._found_at = 0, 0.0, []
        for judgement, each in enumerate(self._relevant.values(), 1):
            self._count(judgement, each)

    def recent(self, count: int) -> list[bool]:
        """Return the last judgements, latest first."""
        return list(islice(reversed(self._relevant.values()), count))

    def curve(self) -> list[tuple[int, int]]:
        """Return judgements, and relevant documents found by then, at some of those that found one, the last among
        them.
        """
        every = -(-len(self._found_at) // CURVE_POINTS) or 1
        return [(self._found_at[number - 1], number) for number in range(self.found, 0, -every)][::-1]

    def _count(self, judgement: int, relevant: bool) -> None:
        if relevant:
            self.found += 1
            self.places += judgement - 0.5
            self._found_at.append(judgement)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicProgress) and list(self._relevant.items()) == list(other._relevant.items())

    __hash__ = None  # type: ignore[assignment]
