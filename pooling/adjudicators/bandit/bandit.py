"""Chooses runs as the arms of a bandit: a play takes the run's next document (Losada et al. 2016, section 2)."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.adjudicator import Adjudicator
from pyrite.pooling.adjudicators.bandit.index import ArmIndex, Arms
from pyrite.pooling.adjudicators.bandit.play import (
    STAYS,
    TIES,
    BanditOptions,
    BanditState,
    Ties,
    choose_of,
    learn,
    take,
)
from pyrite.pooling.adjudicators.compiled import options_of
from pyrite.pooling.pool import TopicPool
from pyrite.pooling.rewards import GradeReward
from pyrite.pooling.sentinels import NO_ARM, OPEN
from pyrite.ranking.bounds import Between, Fraction, NonNegative, checked
from pyrite.ranking.errors import BadInput, refuse


class Bandit(Adjudicator):
    """Play the run with the highest index. What the paper leaves open about a play is an option.

    Equations 7 to 10: a run's evidence is `jret`, the number of judged documents that it holds, and `jrel`, the number
    of relevant ones among them. With each new document both are first multiplied by `rate`: 1 remembers all, 0 only the
    last document (the NS forms of section 3.3).

    Args:
        arm: the index that rates a run; `Bandit` itself has no default.
        evidence: which runs learn from a judgement: all `holders` of the document within the pool's depth (section
            2.1.4), or the `played` run.
        judged: how a play treats a document that is already judged: `skip` it, or `replay` it, which costs no
            judgement: its known reward is evidence for the played run, which may be left because of it.
        ties: `random`, or `first` in the order of the runs' names. An index may prefer the run played last
            (`ArmIndex.stay`). `r_sample` is no recommended rule, it reproduces the published figures (docs/pooling.md):
            R's `sample(x, 1)` with a single number k for x draws from 1 … k, so that instead of a *unique* best run any
            of those listed no later is played. Ties are drawn correctly, runs are listed by name, case ignored, and
            those never played are played in that order.
        rate: share of its evidence that a run keeps when it learns something new: 1 is all, 0 only the last document.
        discount: factor on every run's evidence at each judgement (discounted bandits: Garivier and Moulines 2011; Raj
            and Kalyani 2017).
        window: number of judgements that are remembered, 0 for all (sliding windows: Garivier and Moulines 2011; Trovò
            et al. 2020).
        forget: whether a run that is left loses its evidence.
        teams: whether to choose the team first and then one of its runs, by the same index (section 6). A document
            counts once for a team.
    """

    @checked
    def __init__(
        self,
        arm: ArmIndex | None = None,
        evidence: Literal["holders", "played"] = "holders",
        judged: Literal["skip", "replay"] = "skip",
        ties: Ties = "random",
        rate: Annotated[float, Fraction] = 1.0,
        discount: Annotated[float, Between(0, 1, exclude="low")] = 1.0,
        window: Annotated[int, NonNegative] = 0,
        forget: bool = False,
        teams: bool = False,
        reward: GradeReward | None = None,
    ) -> None:
        super().__init__(reward)
        if arm is None:
            raise BadInput("a bandit needs an index", "arm", "give one, as MaxMean(), or choose a method, as MM()")
        refuse(ties == "r_sample" and teams, "ties=r_sample is given with teams=true", remedy="leave out one of them")
        refuse(
            window and (rate != 1 or discount != 1 or forget or judged == "replay"),
            "a window is given beside another way to forget, or to replays",
            remedy="with window, leave rate=1, discount=1, forget=false and judged=skip",
        )
        self.arm, self.evidence, self.judged, self.ties = arm, evidence, judged, ties
        self.rate, self.discount, self.window, self.forget, self.teams = rate, discount, window, forget, teams
        self._options = BanditOptions(
            begin_options=options_of(arm.begin, arm, 4),
            index_options=options_of(arm.index, arm, 3),
            stay=STAYS[arm.stay],
            holders=evidence == "holders",
            replays=judged == "replay",
            ties=TIES[ties],
            rate=float(rate),
            discount=float(discount),
            window=int(window),
            forgets=forget,
            in_teams=teams,
        )
        self.choose, self.take, self.learn = choose_of(type(arm)), take, learn

    def options(self) -> BanditOptions:
        return self._options

    def start(self, pool: TopicPool, rng: np.random.Generator, runs: list[str]) -> BanditState:
        alpha, beta = self.arm.prior(pool, runs)
        count, teams = len(pool.lengths), int(pool.teams.max(initial=-1)) + 1
        members = np.bincount(pool.teams, minlength=teams)
        of_team = (np.bincount(pool.teams, prior, teams) / members for prior in (alpha, beta))
        return BanditState(
            runs=_nothing_known(alpha, beta),
            teams=_nothing_known(*of_team),
            place=np.zeros(count, np.int32),
            left=pool.lengths.copy(),
            team_left=np.bincount(pool.teams[pool.lengths > 0], minlength=teams).astype(np.int32),
            heard=np.full(teams, -1, np.int64),
            taken=np.full(pool.size, OPEN, np.int32),
            rewards=np.full(pool.size, np.nan),
            history=np.empty(pool.size, np.int32),
            remembered=np.zeros(1),
            listed=_listed(tuple(runs)).copy(),
            counts=np.array([0, NO_ARM, 0, 0], np.int64),
            tied=np.empty(max(count, teams), np.int32),
        )


@lru_cache(maxsize=8)
def _listed(runs: tuple[str, ...]) -> NDArray[np.int32]:
    """Return the position of each run in the list of all, by name without regard to case."""
    ordered = sorted(range(len(runs)), key=lambda run: (runs[run].casefold(), runs[run]))
    return np.argsort(ordered).astype(np.int32)


def _nothing_known(alpha: NDArray[np.float64], beta: NDArray[np.float64]) -> Arms:
    size = len(alpha)
    return Arms(plays=np.zeros(size), wins=np.zeros(size), squares=np.zeros(size), alpha=alpha, beta=beta)
