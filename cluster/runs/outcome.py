"""Holds what a finished run showed, and reads and writes it as one file; needs neither Ray nor torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster.output.result_store import ResultStore
from cluster.output.storage import Storage

FOLDER = "runs"
"""Folder of the outcomes in the output folder."""


@dataclass
class Outcome:
    """What a run showed. With folds the queries of all folds stand together.

    Args:
        epochs, best_epoch, steps, seconds: of the training; with folds the largest, the largest, sums. Where rankers
            are trained in turn, epochs are of the last, steps and seconds of all.
        losses, validations, dev_losses: a list a fold, a value an epoch of the last ranker.
        queries: by origin, int64 [q], indices of the evaluated queries.
        values: by origin and measure, float64 [q], of the ranker.
        bm25: the same of BM25's own order of the same candidates.
        interpolated: the same of the ranker's scores interpolated with the first stage's, where candidates are lists.
        interpolation: the ranker's weight in them, chosen on dev queries, a fold each.
        sampler: a row a fold, stage and function (`StagedTraining.report`).
        traces: a fold's `Sampler.traced`, of its last ranker.
        guarded: what functions that rank while rankers train dropped as probable false negatives, one a fold and
            function (`sampling.guarded_documents.GuardedDocuments`).
        shown: a fold's `sampling.shown.ShownNegatives.arrays`, of its last ranker.
        clusters: how embeddings agree with categories (`ranking.evaluation.clusters`), a list of each figure by fold.
        zero_shot: a row a fold, other collection, origin and measure: the ranker's mean and BM25's.
        embeddings: some test queries of the last fold (`queries`, int64) and their vectors (`vectors`, float32).
        weights: the ranker's best weights, of the last fold, where asked for: by name or, of a pretrained ranker, the
            files of a checkpoint.
        made_of: keys of its parts, version and commit (`Artifacts.provenance`).
    """

    epochs: int = 0
    best_epoch: int = 0
    steps: int = 0
    seconds: float = 0.0
    losses: list[list[float]] = field(default_factory=list)
    validations: list[list[float]] = field(default_factory=list)
    dev_losses: list[list[float]] = field(default_factory=list)
    queries: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    values: dict[str, dict[str, NDArray[np.float64]]] = field(default_factory=dict)
    bm25: dict[str, dict[str, NDArray[np.float64]]] = field(default_factory=dict)
    interpolated: dict[str, dict[str, NDArray[np.float64]]] = field(default_factory=dict)
    interpolation: list[float] = field(default_factory=list)
    sampler: list[dict[str, Any]] = field(default_factory=list)
    traces: list[dict[str, NDArray[Any]]] = field(default_factory=list)
    guarded: list[dict[str, Any]] = field(default_factory=list)
    shown: list[dict[str, NDArray[Any]]] = field(default_factory=list)
    clusters: dict[str, list[float]] = field(default_factory=dict)
    embeddings: dict[str, NDArray[Any]] = field(default_factory=dict)
    zero_shot: list[dict[str, Any]] = field(default_factory=list)
    weights: dict[str, Any] | None = None
    made_of: dict[str, str] = field(default_factory=dict)

    @property
    def diverged(self) -> bool:
        """Whether the training of any fold's last ranker ended in a loss or a score that is not a number.

        Its best weights from before are what was measured, or where it never had any, the first ones.
        """
        return any(value != value for curve in self.validations for value in curve)

    def means(self) -> dict[str, float]:
        """Each measure's mean over the queries, by origin and measure: `bm25/AP@10`."""
        return {
            f"{origin}/{measure}": float(values.mean())
            for origin, measures in self.values.items()
            for measure, values in measures.items()
        }


def mean_best(outcome: Outcome) -> float:
    """The best validation of each fold, averaged: what a search over hyperparameters maximises.

    A fold that diverged before it was ever measured counts as 0.
    """
    return float(np.mean([max((v for v in curve if v == v), default=0.0) for curve in outcome.validations]))


def read_outcome(storage: Storage, name: str) -> Outcome | None:
    """Return the outcome of a finished run; None if there is none, or it is damaged."""
    content = ResultStore(storage, FOLDER).read(name)
    return None if content is None else Outcome(**content)


def write_outcome(storage: Storage, name: str, outcome: Outcome) -> None:
    """Write the outcome of a finished run, whole or not at all."""
    ResultStore(storage, FOLDER, outcome.made_of).write(name, vars(outcome))
