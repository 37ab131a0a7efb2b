"""Records the metrics of a ranker's training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from cluster.config.groups import CHOICES
from cluster.executors.session import connected
from cluster.output.throttle import poll
from cluster.telemetry.metrics import EVERY, record

if TYPE_CHECKING:
    from ranking.training import RankerTraining
    from sampling.staged_training import StagedTraining


def study_of(place: str) -> str:
    """Return the study tag of an output folder: the last part of its path."""
    return PurePath(place).name


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
def watched(
    staged: StagedTraining, tags: Mapping[str, str] | None, measure: str, every: float = EVERY
) -> Iterator[None]:
    """Record the metrics of a training while the block runs."""
    if tags is None or not connected():
        yield
        return
    with poll(TrainingMetrics(staged, tags, measure), every):
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
