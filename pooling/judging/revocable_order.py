"""Orders documents for judging when judgements can be withdrawn, as if those had never been made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pyrite.pooling.campaign import Campaign
from pyrite.pooling.pool import Pool
from pyrite.pooling.simulation import Method

Place = tuple[int, int]
"""Numbers of a topic in the pool and a document in the topic."""


SAVE_EVERY = 200
"""Steps between two saved states."""


class Step(NamedTuple):
    """A judgement, or a hand-out (grade None) for which the method chose the topic too if `by_method`."""

    place: Place
    grade: int | None = None
    by_method: bool = False


class _Saved(NamedTuple):
    """The campaign's state after a number of steps, and documents that it had chosen and that were not handed out."""

    steps: int
    state: dict[str, Any]
    ahead: list[Place]


class RevocableOrder:
    """A campaign from which steps can be removed.

    A campaign only goes forward. When steps are forgotten, it is restored to an earlier state, or to its beginning, and
    processes the remaining steps. They return the same documents as the first time, unless a document was chosen
    because of what is forgotten; then the campaign's new choice is offered before anything else.

    Args:
        seed: seed of the method's random choices.
        known: topic, document and grade of judgements made before.
        first: number of the pool's first topic in `known` and in the steps.
    """

    def __init__(
        self, pool: Pool, method: Method, seed: int, known: Sequence[tuple[Place, int]] = (), first: int = 0
    ) -> None:
        self._new = lambda: Campaign(pool, method, seed)
        self._first = first
        self._known = list(known)
        self._steps: dict[int, Step] = {}
        self._campaign: Campaign | None = None
        self._stale = True  # whether the campaign has processed steps that are no longer there
        self._saved: list[_Saved] = []
        self._ahead: list[Place] = []
        self._given: set[Place] = set()
        self._heard: set[Place] = set()

    def offer(self, topic: int | None = None) -> Place | None:
        """Return a document that was not handed out, the same again until it is; None if nothing is left. A topic of
        None leaves it to the method.
        """
        campaign = self._current()
        if not self._offered(topic):
            self._draw(campaign, topic)
        return next(iter(self._offered(topic)), None)

    def add(self, event: int, step: Step) -> None:
        """Process a step. Of several judgements of a document the campaign uses the first.

        Args:
            event: a number by which to `forget` it. A step with an existing number replaces that one.
        """
        before = self._steps.get(event)
        if before is not None and before != step:
            self._go_back(event)
        self._steps[event] = step
        if before is None and not self._stale:
            self._go(self._current(), step)
            self._save(len(self._steps))

    def forget(self, event: int) -> None:
        """Undo a step, if there is one with this number."""
        if event in self._steps:
            self._go_back(event)
            del self._steps[event]

    def _go_back(self, event: int) -> None:
        """Discard all states from a step on."""
        after = next(count for count, other in enumerate(reversed(self._steps)) if other == event)
        self._saved = [saved for saved in self._saved if saved.steps < len(self._steps) - after]
        self._stale = True  # it processes the steps again when it is needed

    def _save(self, steps: int) -> None:
        """Save the state after this number of steps, at intervals: users undo their last steps."""
        if self._campaign is not None and steps % SAVE_EVERY == 0:
            state = _Saved(steps, self._campaign.state_dict(), list(self._ahead))
            self._saved = [*(saved for saved in self._saved[-1:] if saved.steps < steps), state]

    def _current(self) -> Campaign:
        if self._campaign is not None and not self._stale:
            return self._campaign
        self._given = {place for place, _ in self._known}
        if self._campaign is not None and self._saved:
            done, state, ahead = self._saved[-1]
            self._campaign.load_state_dict(state)
            self._ahead, self._heard = list(ahead), set(self._given)
        else:
            self._campaign, done, self._ahead, self._heard = self._new(), 0, [], set()
            for place, grade in self._known:
                self._go(self._campaign, Step(place, grade))
        self._stale = False
        for number, step in enumerate(self._steps.values(), 1):
            if number <= done:
                (self._given if step.grade is None else self._heard).add(step.place)
            else:
                self._go(self._campaign, step)
                self._save(number)
        return self._campaign

    def _go(self, campaign: Campaign, step: Step) -> None:
        if step.grade is not None:
            if step.place not in self._heard:
                self._heard.add(step.place)
                campaign.judge(step.place[0] - self._first, step.place[1], step.grade)
            return
        if step.place not in self._ahead:
            self._draw(campaign, None if step.by_method else step.place[0])
        if step.place in self._ahead:
            self._ahead.remove(step.place)
        self._given.add(step.place)

    def _draw(self, campaign: Campaign, topic: int | None) -> None:
        while (drawn := campaign.next(None if topic is None else topic - self._first)) is not None:
            place = drawn[0] + self._first, drawn[1]
            if place not in self._given:
                self._ahead.append(place)
                return

    def _offered(self, topic: int | None) -> list[Place]:
        return [place for place in self._ahead if topic is None or place[0] == topic]
