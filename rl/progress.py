"""Describes a ranker's training to a mixture policy by nine numbers without units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import Positive, checked
from pyrite.ranking.errors import BadInput
from pyrite.ranking.training import RankerTraining
from pyrite.sampling.retrieval.function import RetrievalFunction
from pyrite.sampling.retrieval.random import Random

FEATURES = ("one", "spent", "share", "hard", "easy", "change", "gain", "waited", "near")
PROBED = {"hard", "easy", "change", "near"}
TYPICAL = {
    "spent": (0.0, 0.6), "share": (0.3, 0.5), "hard": (-0.8, 0.25), "easy": (-0.8, 0.3), "change": (0.0, 0.3),
    "gain": (0.3, 0.5), "waited": (0.2, 0.3), "near": (0.1, 0.2),
}  # fmt: skip
"""About the mean and the standard deviation of each feature over a training, by which a search weighs them alike."""
NEGATIVES = 8
"""Number of hard and of random negatives per probe."""


@checked
@dataclass(frozen=True)
class ProgressOptions:
    """How a training is described (`state=progress`).

    Each feature is between −1 and 1, or 0 and 1, for any collection, ranker and length of training:

    - `one`: 1.
    - `spent`: the spent share of the budget of batches, from −1 to 1.
    - `share`: the share of the functions but the first in the last decision, from −1 to 1; −1 before the first
      decision.
    - `hard`: the share of hard negatives of fixed probes that the ranker scores above the relevant document, from −1 to
      1. They are drawn from the lists that the last function with lists has then.
    - `easy`: the same of random negatives; 1 if half of them are misranked.
    - `change`: the change of `hard` since the last decision, times ten, cut to −1 … 1.
    - `gain`: the best validation so far relative to the best that the candidates allow, from −1 to 1.
    - `waited`: e / (1 + e), e being the number of epochs since the best one.
    - `near`: the mean score of the hard negatives on a scale on which that of the random ones is 0 and that of the
      relevant documents 1, cut to −1 … 1. It rises if a list has hidden relevant documents, also when the ranker has
      learned to score them below the judged one.

    Args:
        features: the features, in this order. `[one,spent]` sees the clock only: an open-loop schedule.
        probes: number of training queries that are probed, the same in every run.

    Raises:
        BadInput: if a feature is unknown or there is no probe.
    """

    features: Sequence[str] = FEATURES
    probes: Annotated[int, Positive] = 64

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        unknown = [name for name in self.features if name not in FEATURES]
        if unknown or not self.features:
            raise BadInput(
                f"features are {list(self.features)}", "state.features", f"choose among {', '.join(FEATURES)}"
            )


class TrainingProgress:
    """One training as a mixture policy sees it."""

    def __init__(
        self, options: ProgressOptions, functions: dict[str, RetrievalFunction], training: RankerTraining
    ) -> None:
        self.options, self.last_hard = options, -1.0
        ceiling = training.validation.of_ideal()
        self.ceiling = max(float(next(iter(ceiling.values())).mean()), 1e-9)
        self.probed = bool(PROBED & set(options.features))
        if self.probed:
            self._draw_probes(functions, training)

    def _draw_probes(self, functions: dict[str, RetrievalFunction], training: RankerTraining) -> None:
        """Draw the probes, the same for every run: the generator's seed is fixed."""
        rng = np.random.default_rng(0)
        pairs = training.examples
        chosen = np.unique(np.linspace(0, len(pairs) - 1, min(self.options.probes, len(pairs))).astype(int))
        probes = pairs.take(chosen)
        random = Random()
        random.prepare(training.encoded, None)
        hard = next((function for function in reversed(functions.values()) if function.depth), random)
        self.probes, self.hard, self.judgements = probes, hard, training.encoded.judgements
        self.queries, self.positives = probes.queries, probes.positives
        self._drawn(hard, rng)
        self.random = self._drawn(random, rng)

    @property
    def negatives(self) -> list[NDArray[np.int32]]:
        """The hard and the random negatives of the probes.

        The hard ones are at the same ranks of the lists each time. The lists may have changed.
        """
        return [self._drawn(self.hard, np.random.default_rng(0)), self.random]

    def _drawn(self, function: RetrievalFunction, rng: np.random.Generator) -> NDArray[np.int32]:
        documents = function.sample(self.probes, NEGATIVES, rng).documents
        relevant = self.judgements.are_relevant(self.probes.queries, documents)
        return np.where(relevant, -1, documents).astype(np.int32)

    def probe(self, training: RankerTraining) -> tuple[float, float, float]:
        """Return the shares of hard and of random negatives that score at least as high as the positive, and `near`."""
        hard, random = self.negatives
        shown = np.concatenate([self.positives[:, None], hard, random], axis=1)
        scores = training.score(self.queries, shown)
        positive, shares, means = float(scores[:, 0].mean()), [], []
        for part in (slice(1, 1 + hard.shape[1]), slice(1 + hard.shape[1], None)):
            present = shown[:, part] >= 0
            above = (scores[:, part] >= scores[:, :1])[present]
            shares.append(float(above.mean()) if len(above) else 0.0)
            means.append(float(scores[:, part][present].mean()) if len(above) else positive)
        near, random_mean = means
        apart = positive - random_mean
        return shares[0], shares[1], float(np.clip((near - random_mean) / apart, -1, 1)) if apart > 0 else 1.0

    def observe(self, training: RankerTraining, share: float | None) -> NDArray[np.float64]:
        """Return the features before the next batch; `share` is that of the last decision, if there was one."""
        hard, easy, near = self.probe(training) if self.probed else (0.0, 0.0, 0.0)
        known = [value for value in training.validations if value == value]
        waited = max(training.epoch - training.best_epoch, 0) if training.best_epoch else 0
        budget = max(training.steps_per_epoch * training.max_epochs, 1)
        values = {
            "one": 1.0,
            "spent": 2 * min(training.step / budget, 1.0) - 1,
            "share": 2 * (share or 0.0) - 1,
            "hard": 2 * hard - 1,
            "easy": 4 * min(easy, 0.5) - 1,
            "change": 0.0 if self.last_hard < 0 else float(np.clip(10 * (hard - self.last_hard), -1, 1)),
            "gain": 2 * max(known, default=0.0) / self.ceiling - 1,
            "waited": waited / (1 + waited),
            "near": near,
        }
        self.last_hard = hard
        return np.array([values[name] for name in self.options.features])

    def state_dict(self) -> dict[str, Any]:
        """Return what the features of a resumed training need."""
        return {"last_hard": self.last_hard}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        self.last_hard = state["last_hard"]
