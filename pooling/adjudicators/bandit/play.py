"""Plays a bandit over runs, compiled: choose a run, take its next document, learn from the judgement."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.bandit.index import Arm, ArmIndex, Arms, Stay
from pyrite.pooling.adjudicators.compiled import compiled, kernel
from pyrite.pooling.sentinels import NO_ARM, NO_DOCUMENT, OPEN

ROUND, CURRENT, PLAYED, JUDGED = 0, 1, 2, 3
STAYS: dict[Stay, int] = {"never": 0, "best": 1, "rewarded": 2, "until_missed": 3}
NEVER, BEST, REWARDED, UNTIL_MISSED = STAYS.values()
Ties = Literal["random", "first", "r_sample"]
TIES: dict[Ties, int] = {"random": 0, "first": 1, "r_sample": 2}
RANDOM, FIRST, R_SAMPLE = TIES.values()


class BanditOptions(NamedTuple):
    """The options of `Bandit`, for compiled functions."""

    begin_options: tuple[float, ...]
    index_options: tuple[float, ...]
    stay: int
    holders: bool
    replays: bool
    ties: int
    rate: float
    discount: float
    window: int
    forgets: bool
    in_teams: bool


class BanditState(NamedTuple):
    """The state of one topic.

    Args:
        runs, teams: the evidence for each.
        place: int32 [runs], the next rank that each run supplies.
        left: int32 [runs], the number of plays that it can still supply; 0 means exhausted.
        team_left: int32 [teams], the number of its runs that are not exhausted.
        heard: int64 [teams], the last piece of evidence that the team received.
        history: int32 [documents], the judged ones, in order.
        remembered: float64 [1], plays with a known reward, minus those forgotten.
        listed: int32 [runs], the position of each in the order of their names, case ignored.
        counts: int64 [4], at `ROUND` the plays so far, at `CURRENT` the run played last, at `PLAYED` the document that
            it supplied then, at `JUDGED` the judgements.
        tied: int32 [runs or teams, whichever are more], scratch space.
    """

    runs: Arms
    teams: Arms
    place: NDArray[np.int32]
    left: NDArray[np.int32]
    team_left: NDArray[np.int32]
    heard: NDArray[np.int64]
    taken: NDArray[np.int32]
    rewards: NDArray[np.float64]
    history: NDArray[np.int32]
    remembered: NDArray[np.float64]
    listed: NDArray[np.int32]
    counts: NDArray[np.int64]
    tied: NDArray[np.int32]


# Ranks are int64 wherever a function takes one: Numba compiles it again for each type that it is called with.


@cache
def choose_of(arm: type[ArmIndex]) -> Any:
    name = f"{arm.__module__.rpartition('.')[2]}_{arm.__qualname__}"
    best = compiled(_best, name, begin=arm.begin, index=arm.index)
    return compiled(_choose, name, into_caller=True, best=best)


def _best(arms, left, team_of, team, current, state, options, rng):  # type: ignore[no-untyped-def]
    """Return the arm with the highest index among those not exhausted, of one team unless `team` is negative."""
    tied = state.tied
    now = begin(arms, state.counts[ROUND], state.remembered[0], rng, *options.begin_options)  # type: ignore[name-defined]  # noqa: F821
    count, top = 0, 0.0
    for arm in range(len(left)):
        if left[arm] <= 0 or (team >= 0 and team_of[arm] != team):
            continue
        value = index(_arm(arms, arm), now, rng, *options.index_options)  # type: ignore[name-defined]  # noqa: F821
        if count == 0 or value > top:
            top, count = value, 1
            tied[0] = arm
        elif value == top:
            tied[count] = arm
            count += 1
    if count == 0:
        return NO_ARM
    place = _place_of(current, tied, count)
    if options.stay != NEVER and place < count:
        if _stays(state.rewards[state.counts[PLAYED]], options.stay):
            return current
        if options.stay == UNTIL_MISSED and count > 1:
            count = _without(tied, place, count)
    if options.ties == R_SAMPLE:
        if top == np.inf:  # never played: in the order of the list
            return _first_listed(state.listed, tied, count)
        if count == 1:
            count = _up_to(state.listed, left, tied[0], tied)
    if count == 1 or options.ties == FIRST:
        return tied[0]
    return tied[int(rng.random() * count)]


@kernel
def _place_of(current, tied, count):  # type: ignore[no-untyped-def]
    """Return the place of the current arm among those tied; their number if it is not one of them."""
    for place in range(count):
        if tied[place] == current:
            return place
    return count


@kernel
def _stays(reward, stay):  # type: ignore[no-untyped-def]
    """Return whether the last play is a reason to stay with its arm; the reward is NaN while a document is handed
    out.
    """
    return stay == BEST or reward > 0 or (stay == UNTIL_MISSED and np.isnan(reward))


@kernel
def _without(tied, place, count):  # type: ignore[no-untyped-def]
    """Remove the arm at a place from those tied, and return how many are left."""
    for after in range(place, count - 1):
        tied[after] = tied[after + 1]
    return count - 1


@kernel
def _first_listed(listed, tied, count):  # type: ignore[no-untyped-def]
    first = tied[0]
    for arm in tied[:count]:
        if listed[arm] < listed[first]:
            first = arm
    return first


@kernel
def _up_to(listed, left, last, tied):  # type: ignore[no-untyped-def]
    """Put the runs into `tied` that are listed no later than the last one, and return their number."""
    count = 0
    for arm in range(len(left)):
        if left[arm] > 0 and listed[arm] <= listed[last]:
            tied[count] = arm
            count += 1
    return count


@kernel
def _arm(arms, arm):  # type: ignore[no-untyped-def]
    return Arm(arms.plays[arm], arms.wins[arm], arms.squares[arm], arms.alpha[arm], arms.beta[arm])


def _choose(pool, state, options, rng):  # type: ignore[no-untyped-def]
    counts = state.counts
    while True:
        current, team = counts[CURRENT], NO_ARM
        if options.in_teams:
            home = NO_ARM if current < 0 else pool.teams[current]
            team = best(state.teams, state.team_left, pool.teams, np.int64(NO_ARM), home, state, options, rng)  # type: ignore[name-defined]  # noqa: F821
            if team < 0:
                return NO_DOCUMENT
        run = best(state.runs, state.left, pool.teams, team, current, state, options, rng)  # type: ignore[name-defined]  # noqa: F821
        if run < 0:
            return NO_DOCUMENT
        if options.forgets and current >= 0 and current != run:
            _keep(state.runs, current, 0.0)
        counts[CURRENT] = run
        counts[ROUND] += 1
        if not options.replays:
            while state.taken[pool.ranking[run, state.place[run]]] != OPEN:
                state.place[run] += 1
        document = pool.ranking[run, state.place[run]]
        counts[PLAYED] = document
        state.place[run] += 1
        if options.replays:
            _use_up(pool, state, run)
        if state.taken[document] == OPEN:
            take(pool, state, options, np.int64(document), run)
            return document
        if not np.isnan(state.rewards[document]):  # skip one that is handed out: its grade is unknown
            _hear(state.runs, run, options.rate, state.rewards[document], 1.0)
            _hear(state.teams, np.int64(pool.teams[run]), options.rate, state.rewards[document], 1.0)
            state.remembered[0] += 1.0


@kernel
def take(pool, state, options, document, supplier):  # type: ignore[no-untyped-def]
    state.taken[document] = supplier
    if not options.replays:
        for cell in range(pool.offsets[document], pool.offsets[document + 1]):
            _use_up(pool, state, np.int64(pool.holders[cell]))


@kernel
def _use_up(pool, state, run):  # type: ignore[no-untyped-def]
    state.left[run] -= 1
    if state.left[run] == 0:
        state.team_left[pool.teams[run]] -= 1


@kernel
def learn(pool, state, options, document, reward):  # type: ignore[no-untyped-def]
    state.rewards[document] = reward
    judged = state.counts[JUDGED]
    state.history[judged] = document
    state.counts[JUDGED] = judged + 1
    if options.discount != 1:
        for arm in range(len(state.left)):
            _keep(state.runs, arm, options.discount)
        for arm in range(len(state.team_left)):
            _keep(state.teams, arm, options.discount)
        state.remembered[0] *= options.discount
    state.remembered[0] += 1.0
    _tell(pool, state, options, np.int64(document), 1.0, 2 * judged)
    if 0 < options.window <= judged:  # sums are exact (`pyrite.pooling.rewards`): nothing is left of the oldest
        _tell(pool, state, options, np.int64(state.history[judged - options.window]), -1.0, 2 * judged + 1)
        state.remembered[0] -= 1.0


@kernel
def _tell(pool, state, options, document, sign, stamp):  # type: ignore[no-untyped-def]
    """Add a judgement to the evidence of all runs concerned, or (sign -1) subtract it. A team counts it once."""
    reward = state.rewards[document]
    if options.holders:
        for cell in range(pool.offsets[document], pool.offsets[document + 1]):
            run = np.int64(pool.holders[cell])
            team = np.int64(pool.teams[run])
            _hear(state.runs, run, options.rate, reward, sign)
            if state.heard[team] != stamp:
                state.heard[team] = stamp
                _hear(state.teams, team, options.rate, reward, sign)
    elif state.taken[document] >= 0:
        run = np.int64(state.taken[document])
        _hear(state.runs, run, options.rate, reward, sign)
        _hear(state.teams, np.int64(pool.teams[run]), options.rate, reward, sign)


@kernel
def _hear(arms, arm, rate, reward, sign):  # type: ignore[no-untyped-def]
    """Apply equations 9 and 10."""
    arms.plays[arm] = rate * arms.plays[arm] + sign
    arms.wins[arm] = rate * arms.wins[arm] + sign * reward
    arms.squares[arm] = rate * arms.squares[arm] + sign * reward * reward


@kernel
def _keep(arms, arm, share):  # type: ignore[no-untyped-def]
    arms.plays[arm] *= share
    arms.wins[arm] *= share
    arms.squares[arm] *= share
