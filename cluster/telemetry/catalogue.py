"""Lists every metric: the table that code, documentation and tests read.

`telemetry.metrics.record` reports a value to Ray, which Prometheus scrapes; `telemetry/dashboards` has Grafana panels.
The figures of single runs go to trackers (`telemetry.tracking`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SECONDS = [0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000]
"""Bounds of the histograms, all in seconds."""


@dataclass(frozen=True)
class Metric:
    """A metric.

    Args:
        name: `pyrite_WHAT_UNIT`; a counter's name ends in `_total`. The unit of a share between 0 and 1 is `ratio`,
            that of other numbers without a unit `value`.
        kind: a gauge is a current value, a counter grows, a histogram counts by size.
        tags: names of the tags of its series; each tag has few values.
        description: the text that Prometheus and the documentation show.
    """

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    unit: str
    tags: tuple[str, ...]
    description: str


_STUDY, _TRAINING = ("study",), ("study", "method")
_LEARNING, _INDEX = ("study", "agent"), ("run", "function")

CATALOGUE = {
    metric.name: metric
    for metric in (
        Metric("pyrite_study_trials", "gauge", "trials", (*_STUDY, "state"), "trials of a study by state: "
               "waiting, running, done, failed or stopped"),
        Metric("pyrite_study_retries_total", "counter", "retries", _STUDY, "trials that were lost and tried again"),
        Metric("pyrite_training_steps_total", "counter", "steps", _TRAINING, "optimizer steps of rankers"),
        Metric("pyrite_training_pairs_total", "counter", "pairs", _TRAINING, "pairs of a query and one of its "
               "relevant documents that rankers have learned from"),
        Metric("pyrite_training_loss_value", "gauge", "of the objective", _TRAINING, "mean training loss of the "
               "epoch so far"),
        Metric("pyrite_training_validation_value", "gauge", "of the measure", (*_TRAINING, "measure"),
               "validation measure after the last epoch"),
        Metric("pyrite_learning_episodes_total", "counter", "episodes", _LEARNING, "episodes that have ended"),
        Metric("pyrite_learning_steps_total", "counter", "steps", _LEARNING, "optimizer steps of the rankers in "
               "episodes that have ended"),
        Metric("pyrite_learning_return_value", "gauge", "of the reward", _LEARNING, "reward of an episode, summed, "
               "mean of the last 32"),
        Metric("pyrite_learning_validation_value", "gauge", "of the measure", _LEARNING, "validation measure of an "
               "episode's best epoch, mean of the last 32"),
        Metric("pyrite_learning_action_ratio", "gauge", "share of decisions", (*_LEARNING, "action"), "how often an "
               "action was chosen, mean of the last 32 episodes"),
        Metric("pyrite_index_version_number", "gauge", "number", _INDEX, "version of the index that is served"),
        Metric("pyrite_index_age_steps", "gauge", "steps", _INDEX, "steps of the trainer since the served weights "
               "were its own"),
        Metric("pyrite_index_build_seconds", "histogram", "seconds", _INDEX, "time that a build took"),
        Metric("pyrite_index_queries_total", "counter", "queries", _INDEX, "queries that were answered"),
        Metric("pyrite_index_guarded_documents_total", "counter", "documents", _INDEX, "documents that the guard "
               "dropped from answers"),
        Metric("pyrite_pool_judgements_total", "counter", "judgements", _TRAINING, "judgements that were simulated"),
    )
}  # fmt: skip
"""The metrics by name."""
