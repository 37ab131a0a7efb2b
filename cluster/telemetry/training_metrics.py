"""Records the metrics of a ranker's training, and those of an agent's learning."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.executors.session import connected
from pyrite.cluster.output.throttle import Throttle, poll
from pyrite.cluster.telemetry.metrics import EVERY, record

if TYPE_CHECKING:
    from pyrite.ranking.training import RankerTraining
    from pyrite.sampling.staged_training import StagedTraining

LAST = 32
"""Number of recent episodes whose mean is recorded."""
SHARE = "share:"


def study_of(place: str) -> str:
    """Return the study tag of an output folder: the last part of its path."""
    return PurePath(os.path.abspath(place)).name


def run_tags(place: str, config: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of a run's metrics.

    Seeds and hyperparameters are not part of the method tag, so it has few values even in a study of many runs.
    """
    chosen = config.get(CHOICES, {})
    functions = "+".join(config["function"])
    source = functions if chosen.get("policy") == "fixed" else f"{chosen.get('policy')}({functions})"
    parts = (chosen.get("ranker"), source, chosen.get("selector"), chosen.get("objective"))
    return {"study": study_of(place), "method": " ".join(str(part) for part in parts)}


@contextmanager
def watched(staged: StagedTraining, tags: Mapping[str, str] | None, measure: str) -> Iterator[None]:
    """Record the metrics of a training while the block runs."""
    if tags is None or not connected():
        yield
        return
    with poll(TrainingMetrics(staged, tags, measure), EVERY):
        yield


class TrainingMetrics:
    """Reads the state of a training, and counts the steps since the last reading."""

    def __init__(self, staged: StagedTraining, tags: Mapping[str, str], measure: str) -> None:
        self.staged, self.tags, self.measure = staged, tags, measure
        self._training = staged.training
        self._step = self._training.step

    def __call__(self) -> None:
        """Read the training and record its metrics."""
        self._count()
        if self.staged.training is not self._training:  # the next stage has started
            self._training, self._step = self.staged.training, 0
            self._count()
        training = self._training
        record("pyrite_training_loss_value", training.running_loss, self.tags)
        if training.validations:
            measured = {**self.tags, "measure": self.measure}
            record("pyrite_training_validation_value", training.validations[-1], measured)

    def _count(self) -> None:
        training, before, now = self._training, self._step, self._training.step
        record("pyrite_training_steps_total", now - before, self.tags)
        record("pyrite_training_pairs_total", pairs(training, now) - pairs(training, before), self.tags)
        self._step = now


def pairs(training: RankerTraining, step: int) -> int:
    """Return the number of pairs in the first `step` steps; the last batch of an epoch may have fewer pairs."""
    epochs, batches = divmod(step, training.steps_per_epoch)
    examples = len(training.examples)
    return epochs * examples + min(batches * training.batch_size, examples)


class LearningMetrics:
    """Counts the episodes of the agent and of the random baseline."""

    def __init__(self, study: str, known: int = 0, every: float = EVERY) -> None:
        self.study, self._known, self._throttle = study, known, Throttle(every)

    def record(self, rows: Sequence[Mapping[str, Any]], last: bool = False) -> None:
        """Record the current values, if the interval has passed."""
        if not self._throttle.due() and not last:
            return
        fresh, self._known = _by_agent(rows[self._known :]), len(rows)
        for agent, of_agent in _by_agent(rows).items():
            self._record(agent, fresh.get(agent, []), of_agent[-LAST:])

    def _record(self, agent: str, ended: Sequence[Mapping[str, Any]], recent: Sequence[Mapping[str, Any]]) -> None:
        """Record the episodes of an agent that have ended since, and the means of its recent ones."""
        tags = {"study": self.study, "agent": agent}
        record("pyrite_learning_episodes_total", len(ended), tags)
        record("pyrite_learning_steps_total", sum(row["steps"] for row in ended), tags)
        record("pyrite_learning_return_value", _mean(recent, "return"), tags)
        record("pyrite_learning_validation_value", _mean(recent, "validation"), tags)
        for name in dict.fromkeys(key for row in recent for key in row if key.startswith(SHARE)):
            action = {**tags, "action": name.removeprefix(SHARE)}
            record("pyrite_learning_action_ratio", _mean(recent, name), action)


def _by_agent(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    grouped: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        grouped.setdefault(str(row["agent"]), []).append(row)
    return grouped


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    known = [float(row[name]) for row in rows if name in row and math.isfinite(row[name])]
    return sum(known) / len(known) if known else math.nan
