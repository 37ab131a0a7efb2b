"""Tunes an open-loop schedule of a mixture by Bayesian optimisation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranking.errors import BadInput
from rl.agents.search import PolicySearch, Search


class ScheduleSearch(PolicySearch):
    """Optuna's Gaussian process or TPE over `rl.mixture.ScheduleRule`: what a person would tune, tuned.

    It is the fair rival of a policy with feedback. What it keeps is found in the last generations: the best candidates
    so far are trained again with fresh seeds, and the one with the best mean over all its trainings wins, since the
    best of many noisy returns is mostly luck.

    Args:
        candidates: of a generation.
        seeds: rankers that each candidate trains.
        sampler: `gp` or `tpe`.
        finalists: candidates that are trained again.
        rounds: generations at the end for that.
    """

    rule = "schedule"

    def __init__(
        self, candidates: int = 8, seeds: int = 1, sampler: str = "gp", finalists: int = 8, rounds: int = 2
    ) -> None:
        super().__init__(candidates, seeds)
        if sampler not in ("gp", "tpe"):
            raise BadInput(f"no sampler {sampler!r}", "agent.sampler", "choose gp or tpe")
        if not 1 <= finalists <= candidates:
            raise BadInput(f"finalists is {finalists}", "agent.finalists", "choose 1 up to agent.candidates")
        if rounds < 0:
            raise BadInput(f"rounds is {rounds}", "agent.rounds", "choose a whole number from 0 up")
        self.sampler, self.finalists, self.rounds = sampler, finalists, rounds

    def start(self, size: int, generations: int, seed: int) -> Search:
        rounds = min(self.rounds, generations - 1)
        return _Tuned(size, self.candidates, generations - rounds, self.sampler, self.finalists, seed)


class _Tuned(Search):
    def __init__(self, size: int, candidates: int, explored: int, sampler: str, finalists: int, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        made: Any = (
            optuna.samplers.GPSampler(seed=seed, n_startup_trials=2 * candidates)
            if sampler == "gp"
            else optuna.samplers.TPESampler(seed=seed, constant_liar=True, n_startup_trials=2 * candidates)
        )
        self.study = optuna.create_study(direction="maximize", sampler=made)
        self.space = {f"{number:02d}": optuna.distributions.FloatDistribution(0, 1) for number in range(size)}
        self.candidates, self.explored, self.finalists = candidates, explored, finalists
        self.asked: list[Any] = []
        self.known: list[tuple[NDArray[np.float64], list[float]]] = []
        self.generation = 0

    def ask(self) -> NDArray[np.float64]:
        if self.generation >= self.explored:
            return np.stack([one for one, _ in self._best()[: self.finalists]])
        self.asked = [self.study.ask(dict(self.space)) for _ in range(self.candidates)]
        return np.array([[trial.params[name] for name in self.space] for trial in self.asked])

    def tell(self, candidates: NDArray[np.float64], returns: NDArray[np.float64]) -> None:
        if self.generation < self.explored:
            for trial, one, value in zip(self.asked, candidates, returns, strict=True):
                self.study.tell(trial, float(value))
                self.known.append((one, [float(value)]))
        else:
            for one, value in zip(candidates, returns, strict=True):
                next(values for known, values in self.known if np.array_equal(known, one)).append(float(value))
        self.generation += 1

    def _best(self) -> list[tuple[NDArray[np.float64], list[float]]]:
        """Candidates by their mean return; those that were trained as often as any come first."""
        most = max(len(values) for _, values in self.known)
        finals = [each for each in self.known if len(each[1]) == most] or self.known
        return sorted(finals, key=lambda each: -float(np.mean(each[1])))

    def result(self) -> NDArray[np.float64]:
        return self._best()[0][0]
