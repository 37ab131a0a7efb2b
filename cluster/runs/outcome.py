"""Holds the outcome of a finished run, and reads and writes it as one file; imports neither Ray nor torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.cluster.output.result_store import ResultStore
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.plan.sweep import Planned

FOLDER = "runs"
"""Folder of the outcomes in the output folder."""
AGAIN = "-again"
"""Ending of the name of a run that repeats another with the same seed, which no table includes."""


@dataclass
class Outcome:
    """The outcome of a run. Queries of several folds are concatenated.

    Args:
        epochs, best_epoch: maximum over folds, of the last ranker if rankers are trained in turn.
        steps, seconds, documents_read: sums over folds and rankers.
        memory: the peak in MiB (`pyrite.cluster.runs.measure`).
        losses, validations, dev_losses: one list per fold, one value per epoch of the last ranker.
        queries: indices of the evaluated queries by origin, int64 [q].
        values: values of the ranker by origin and measure, float64 [q].
        bm25: values of BM25's order of the same candidates.
        untrained: values of the ranker before its training, if it starts from a checkpoint.
        interpolated: values of the ranker's scores interpolated with the first stage's, if candidates are lists.
        interpolation: weight of the ranker in these scores, chosen on dev queries, one per fold.
        decisions: those of policies that compare actions (`SamplingPolicy.taken`), with the fold and the epoch.
        sampler: one row per fold, stage and function (`StagedTraining.report`).
        traces: `pyrite.sampling.shown.Trace.arrays` of each fold's last ranker.
        guarded: documents that functions which rank while rankers train dropped as probable false negatives, one entry
            per fold and function (`pyrite.sampling.guarded_documents.GuardedDocuments`).
        shown: `pyrite.sampling.shown.ShownNegatives.arrays` of each fold's last ranker.
        clusters: agreement of embeddings with categories (`pyrite.ranking.evaluation.clusters`), one list per figure.
        zero_shot: one row per fold, other collection, origin and measure, with the means of the ranker and of BM25.
        embeddings: some test queries of the last fold (`queries`, int64) and their vectors (`vectors`, float32).
        weights: best weights of the last fold's ranker, if requested: by name or, for a pretrained ranker, the files of
            a checkpoint.
        learned: a digest of the weights that a user's own training left; empty for Pyrite's rankers.
        examples, scored_step, refreshes: the pairs that a user's own training read, the step whose weights were
            measured, and the versions of the index after the first one that batches were served; None if unknown.
        scratch: the MiB of the temporary folders of a user's own training at its end.
        made_of: keys of its parts, version and commit (`Artifacts.provenance`).
    """

    epochs: int = 0
    best_epoch: int = 0
    steps: int = 0
    seconds: float = 0.0
    documents_read: int = 0
    memory: float | None = None
    losses: list[list[float]] = field(default_factory=list)
    validations: list[list[float]] = field(default_factory=list)
    dev_losses: list[list[float]] = field(default_factory=list)
    queries: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    values: dict[str, dict[str, NDArray[np.float64]]] = field(default_factory=dict)
    bm25: dict[str, dict[str, NDArray[np.float64]]] = field(default_factory=dict)
    untrained: dict[str, dict[str, NDArray[np.float64]]] = field(default_factory=dict)
    interpolated: dict[str, dict[str, NDArray[np.float64]]] = field(default_factory=dict)
    interpolation: list[float] = field(default_factory=list)
    decisions: list[dict[str, Any]] = field(default_factory=list)
    sampler: list[dict[str, Any]] = field(default_factory=list)
    traces: list[dict[str, NDArray[Any]]] = field(default_factory=list)
    guarded: list[dict[str, Any]] = field(default_factory=list)
    shown: list[dict[str, NDArray[Any]]] = field(default_factory=list)
    clusters: dict[str, list[float]] = field(default_factory=dict)
    embeddings: dict[str, NDArray[Any]] = field(default_factory=dict)
    zero_shot: list[dict[str, Any]] = field(default_factory=list)
    weights: dict[str, Any] | None = None
    learned: str = ""
    examples: int | None = None
    scored_step: int | None = None
    refreshes: int | None = None
    scratch: float | None = None
    made_of: dict[str, str] = field(default_factory=dict)

    @property
    def diverged(self) -> bool:
        """Whether a loss or score of a fold's last ranker was not a number; it is measured with its weights before."""
        return any(value != value for curve in self.validations for value in curve)

    def means(self) -> dict[str, float]:
        """Return the mean of each measure over queries, by origin and measure, as `bm25/AP@10`."""
        return {
            f"{origin}/{measure}": float(values.mean())
            for origin, measures in self.values.items()
            for measure, values in measures.items()
        }


def mean_best(outcome: Outcome) -> float:
    """Return the mean over folds of the best validation, or 0 if a fold diverged before: what a search maximises."""
    return float(np.mean([max((v for v in curve if v == v), default=0.0) for curve in outcome.validations]))


def run_store(
    storage: Storage, runs: Iterable[Planned], built_from: Callable[[dict[str, Any]], Mapping[str, str]]
) -> ResultStore:
    """Return the store of the results of runs; `built_from` is `Artifacts.provenance`."""
    configs = {planned.name: planned.config for planned in runs}
    return ResultStore(storage, FOLDER, lambda name: built_from(configs[name]))


def read_outcome(storage: Storage, name: str) -> Outcome | None:
    """Return the outcome of a finished run; None if there is none, or it is damaged."""
    content = ResultStore(storage, FOLDER).read(name)
    return None if content is None else Outcome(**content)


def write_outcome(storage: Storage, name: str, outcome: Outcome) -> None:
    """Write the outcome of a finished run, whole or not at all."""
    ResultStore(storage, FOLDER, outcome.made_of).write(name, vars(outcome))


@dataclass(frozen=True)
class Stop:
    """A run that was behind the others of its search: it has no result, and is neither failed nor done.

    Args:
        at: epochs before the stop.
        curve: validation by epoch until then.
        best: the value that a search takes for its result: the mean of the best validations of the folds so far, which
            is on the scale of `mean_best`.
        made_of: digest of the data and code of the run; empty for a run of this command.
    """

    at: int
    curve: tuple[float, ...]
    best: float
    made_of: str = ""
