"""Tunes an open-loop schedule of a mixture by Bayesian optimisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import AtLeast, checked
from pyrite.ranking.errors import BadInput
from pyrite.rl.agents.search import PolicySearch, Search


class ScheduleSearch(PolicySearch):
    """Optuna's Gaussian process or TPE over `pyrite.rl.mixture.ScheduleRule`: tunes what a person would tune by hand.

    It is the fair rival of a policy with feedback. The result is chosen in the last generations: the best candidates so
    far are trained again with new seeds, and the one with the best mean over all its trainings wins, since the best of
    many noisy returns is mostly luck.

    Args:
        candidates: candidates per generation. The budget is `episodes`: trainings in all.
        sampler: `gp`, a Gaussian process, or `tpe`.
        finalists: number of best candidates that are trained again.
        rounds: number of generations at the end that train them.
    """

    rule = "schedule"

    @checked
    def __init__(
        self,
        candidates: Annotated[int, AtLeast(2)] = 8,
        seeds: Annotated[int, AtLeast(1)] = 1,
        sampler: Literal["gp", "tpe"] = "gp",
        finalists: Annotated[int, AtLeast(1)] = 8,
        rounds: Annotated[int, AtLeast(0)] = 2,
    ) -> None:
        super().__init__(candidates, seeds)
        if finalists > candidates:
            raise BadInput(f"finalists is {finalists}", "agent.finalists", "choose 1 up to agent.candidates")
        self.sampler, self.finalists, self.rounds = sampler, finalists, rounds

    def start(self, size: int, generations: int, seed: int, features: Sequence[str] = ()) -> Search:
        rounds = min(self.rounds, generations - 1)
        return _Tuned(size, self.candidates, generations - rounds, self.sampler, self.finalists, seed)


class _Tuned(Search):
    def __init__(self, size: int, candidates: int, explored: int, sampler: str, finalists: int, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        optuna_sampler: Any = (
            optuna.samplers.GPSampler(seed=seed, n_startup_trials=2 * candidates)
            if sampler == "gp"
            else optuna.samplers.TPESampler(seed=seed, constant_liar=True, n_startup_trials=2 * candidates)
        )
        self.study = optuna.create_study(direction="maximize", sampler=optuna_sampler)
        self.space = {f"{number:02d}": optuna.distributions.FloatDistribution(0, 1) for number in range(size)}
        self.candidates, self.explored, self.finalists = candidates, explored, finalists
        self.requested: list[Any] = []
        self.known: list[tuple[NDArray[np.float64], list[float]]] = []
        self.generation = 0

    def ask(self) -> NDArray[np.float64]:
        if self.generation >= self.explored:
            return np.stack([one for one, _ in self._best()[: self.finalists]])
        self.requested = [self.study.ask(dict(self.space)) for _ in range(self.candidates)]
        return np.array([[trial.params[name] for name in self.space] for trial in self.requested])

    def tell(self, candidates: NDArray[np.float64], returns: NDArray[np.float64]) -> None:
        if self.generation < self.explored:
            for trial, one, value in zip(self.requested, candidates, returns, strict=True):
                self.study.tell(trial, float(value))
                self.known.append((one, [float(value)]))
        else:
            for one, value in zip(candidates, returns, strict=True):
                next(values for known, values in self.known if np.array_equal(known, one)).append(float(value))
        self.generation += 1

    def _best(self) -> list[tuple[NDArray[np.float64], list[float]]]:
        """Return candidates by their mean return, best first; those with the most trainings come first."""
        most = max(len(values) for _, values in self.known)
        finals = [(one, values) for one, values in self.known if len(values) == most] or self.known
        return sorted(finals, key=lambda final: -float(np.mean(final[1])))

    def result(self) -> NDArray[np.float64]:
        return self._best()[0][0]
