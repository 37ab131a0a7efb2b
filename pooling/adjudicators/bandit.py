"""Runs as the arms of a bandit: a play takes the run's next document (Losada et al. 2016, section 2)."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pooling.adjudicators.adjudicator import OPEN, Adjudicator
from pooling.adjudicators.arms import Arm, ArmIndex, Arms
from pooling.adjudicators.compiled import compiled, kernel
from pooling.pool import NOTHING, TopicPool
from pooling.rewards import Reward
from ranking.errors import BadInput

ROUND, CURRENT, JUDGED = 0, 1, 2


class Options(NamedTuple):
    """Of `Bandit`, for compiled functions."""

    parameters: tuple[float, ...]
    stays: bool
    holders: bool
    replays: bool
    random_ties: bool
    rate: float
    discount: float
    window: int
    forgets: bool
    in_teams: bool


class State(NamedTuple):
    """Of one topic.

    Args:
        runs, teams: what is known of each.
        place: int32 [runs], the next rank that each run supplies.
        left: int32 [runs], the plays that it can still supply; 0: exhausted.
        team_left: int32 [teams], runs of it that are not exhausted.
        heard: int64 [teams], the last piece of evidence that the team took in.
        taken, rewards: as every adjudicator has them.
        history: int32 [documents], those judged, in order.
        counts: int64 [3], at `ROUND` the plays so far, at `CURRENT` the run played last, at `JUDGED` the judgements.
        tied: int32 [runs], room to work in.
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
    counts: NDArray[np.int64]
    tied: NDArray[np.int32]


class Bandit(Adjudicator):
    """Plays the run with the highest index; what the paper leaves open about a play is an option.

    Equations 7 to 10: a run's evidence is `jret`, the judged documents that it holds, and `jrel`, the relevant among
    them; with each new document both are first multiplied by `rate`: 1 remembers all, 0 the last document alone (the
    NS forms of section 3.3).

    Args:
        arm: the index.
        evidence: who hears of a judgement: all `holders` of the document within the pool's depth (section 2.1.4), or
            the `played` run.
        judged: what a play does with a document that is judged already: `skip` it, or `replay` it, which costs no
            judgement: its known reward is evidence for the played run, which may be left for it.
        ties: `random`, or `first` in the order of the runs' names. An index whose arm stays prefers the run played
            last before either.
        rate: what is kept of a run's evidence when it hears something new.
        discount: what every run keeps of its evidence at each judgement (discounted bandits: Garivier and Moulines
            2011; Raj and Kalyani 2017).
        window: judgements that are remembered, 0 for all (sliding windows: Garivier and Moulines 2011; Trovò et al.
            2020).
        forget: a run that is left loses its evidence.
        teams: choose the team first and then one of its runs, by the same index (section 6). A document counts once
            for a team.
        reward: what is heard of a judgement.

    Raises:
        BadInput: where an option is out of range, or two exclude each other.
    """

    def __init__(
        self,
        arm: ArmIndex,
        evidence: Literal["holders", "played"] = "holders",
        judged: Literal["skip", "replay"] = "skip",
        ties: Literal["random", "first"] = "random",
        rate: float = 1.0,
        discount: float = 1.0,
        window: int = 0,
        forget: bool = False,
        teams: bool = False,
        reward: Reward | None = None,
    ) -> None:
        super().__init__(reward)
        if rate < 0 or not 0 < discount <= 1 or window < 0:
            raise BadInput(
                f"rate is {rate}, discount {discount} and window {window}",
                remedy="give rate ≥ 0, 0 < discount ≤ 1 and window ≥ 0",
            )
        if window and (rate != 1 or discount != 1 or forget or judged == "replay"):
            raise BadInput(
                "a window is given beside another way to forget, or to replays",
                remedy="with window, leave rate=1, discount=1, forget=false and judged=skip",
            )
        self.arm, self._teams = arm, teams
        self._options = Options(
            arm.parameters(), arm.stays, evidence == "holders", judged == "replay", ties == "random",
            float(rate), float(discount), int(window), forget, teams,
        )  # fmt: skip
        self.choose, self.take, self.learn = _choose_of(type(arm)), _take, _learn

    def options(self) -> Options:
        return self._options

    def start(self, pool: TopicPool, rng: np.random.Generator, runs: list[str]) -> State:
        alpha, beta = self.arm.prior(pool, runs)
        count, teams = len(pool.lengths), int(pool.teams.max(initial=-1)) + 1
        members = np.bincount(pool.teams, minlength=teams)
        of_team = (np.bincount(pool.teams, prior, teams) / members for prior in (alpha, beta))
        return State(
            _nothing_known(alpha, beta),
            _nothing_known(*of_team),
            np.zeros(count, np.int32),
            pool.lengths.copy(),
            np.bincount(pool.teams[pool.lengths > 0], minlength=teams).astype(np.int32),
            np.full(teams, -1, np.int64),
            np.full(pool.size, OPEN, np.int32),
            np.full(pool.size, np.nan),
            np.empty(pool.size, np.int32),
            np.array([0, NOTHING, 0], np.int64),
            np.empty(max(count, teams), np.int32),
        )


def _nothing_known(alpha: NDArray[np.float64], beta: NDArray[np.float64]) -> Arms:
    return Arms(np.zeros(len(alpha)), np.zeros(len(alpha)), np.zeros(len(alpha)), alpha, beta)


@cache
def _choose_of(arm: type[ArmIndex]) -> Any:
    name = f"{arm.__module__.rpartition('.')[2]}_{arm.__qualname__}"
    best = compiled(_best, name, begin=arm.begin, index=arm.index)
    return compiled(_choose, name, best=best)


def _best(arms, left, team_of, team, current, turn, options, tied, rng):  # type: ignore[no-untyped-def]
    """The arm with the highest index among those not exhausted, of one team unless `team` is negative."""
    now = begin(arms, turn, options.parameters, rng)  # type: ignore[name-defined]  # noqa: F821
    count, top = 0, 0.0
    for arm in range(len(left)):
        if left[arm] <= 0 or (team >= 0 and team_of[arm] != team):
            continue
        value = index(_arm(arms, arm), now, options.parameters, rng)  # type: ignore[name-defined]  # noqa: F821
        if count == 0 or value > top:
            top, count = value, 1
            tied[0] = arm
        elif value == top:
            tied[count] = arm
            count += 1
    if count == 0:
        return NOTHING
    if options.stays:
        for arm in tied[:count]:
            if arm == current:
                return arm
    if count == 1 or not options.random_ties:
        return tied[0]
    return tied[int(rng.random() * count)]


@kernel
def _arm(arms, arm):  # type: ignore[no-untyped-def]
    return Arm(arms.plays[arm], arms.wins[arm], arms.squares[arm], arms.alpha[arm], arms.beta[arm])


def _choose(pool, state, options, rng):  # type: ignore[no-untyped-def]
    counts, tied = state.counts, state.tied
    while True:
        current, team, turn = counts[CURRENT], NOTHING, counts[ROUND]
        if options.in_teams:
            home = NOTHING if current < 0 else pool.teams[current]
            team = best(state.teams, state.team_left, pool.teams, NOTHING, home, turn, options, tied, rng)  # type: ignore[name-defined]  # noqa: F821
            if team < 0:
                return NOTHING
        run = best(state.runs, state.left, pool.teams, team, current, turn, options, tied, rng)  # type: ignore[name-defined]  # noqa: F821
        if run < 0:
            return NOTHING
        if options.forgets and current >= 0 and current != run:
            _keep(state.runs, current, 0.0)
        counts[CURRENT] = run
        counts[ROUND] += 1
        if not options.replays:
            while state.taken[pool.ranking[run, state.place[run]]] != OPEN:
                state.place[run] += 1
        document = pool.ranking[run, state.place[run]]
        state.place[run] += 1
        if options.replays:
            _use_up(pool, state, run)
        if state.taken[document] == OPEN:
            _take(pool, state, options, document, run)
            return document
        if not np.isnan(state.rewards[document]):  # one that is out is passed over: nothing is known of it yet
            _hear(state.runs, run, options.rate, state.rewards[document], 1.0)
            _hear(state.teams, pool.teams[run], options.rate, state.rewards[document], 1.0)


@kernel
def _take(pool, state, options, document, supplier):  # type: ignore[no-untyped-def]
    state.taken[document] = supplier
    if not options.replays:
        for cell in range(pool.offsets[document], pool.offsets[document + 1]):
            _use_up(pool, state, pool.holders[cell])


@kernel
def _use_up(pool, state, run):  # type: ignore[no-untyped-def]
    state.left[run] -= 1
    if state.left[run] == 0:
        state.team_left[pool.teams[run]] -= 1


@kernel
def _learn(pool, state, options, document, reward):  # type: ignore[no-untyped-def]
    state.rewards[document] = reward
    judged = state.counts[JUDGED]
    state.history[judged] = document
    state.counts[JUDGED] = judged + 1
    if options.discount != 1:
        for arm in range(len(state.left)):
            _keep(state.runs, arm, options.discount)
        for arm in range(len(state.team_left)):
            _keep(state.teams, arm, options.discount)
    _tell(pool, state, options, document, 1.0, 2 * judged)
    if 0 < options.window <= judged:  # sums of rewards are exact (`pooling.rewards`): what is taken back leaves nothing
        _tell(pool, state, options, state.history[judged - options.window], -1.0, 2 * judged + 1)


@kernel
def _tell(pool, state, options, document, sign, stamp):  # type: ignore[no-untyped-def]
    """Give a judgement to whom it concerns, or (sign -1) take it back; a team hears of it once."""
    reward = state.rewards[document]
    if options.holders:
        for cell in range(pool.offsets[document], pool.offsets[document + 1]):
            run = pool.holders[cell]
            team = pool.teams[run]
            _hear(state.runs, run, options.rate, reward, sign)
            if state.heard[team] != stamp:
                state.heard[team] = stamp
                _hear(state.teams, team, options.rate, reward, sign)
    elif state.taken[document] >= 0:
        run = state.taken[document]
        _hear(state.runs, run, options.rate, reward, sign)
        _hear(state.teams, pool.teams[run], options.rate, reward, sign)


@kernel
def _hear(arms, arm, rate, reward, sign):  # type: ignore[no-untyped-def]
    """Equations 9 and 10."""
    arms.plays[arm] = rate * arms.plays[arm] + sign
    arms.wins[arm] = rate * arms.wins[arm] + sign * reward
    arms.squares[arm] = rate * arms.squares[arm] + sign * reward * reward


@kernel
def _keep(arms, arm, share):  # type: ignore[no-untyped-def]
    arms.plays[arm] *= share
    arms.wins[arm] *= share
    arms.squares[arm] *= share
