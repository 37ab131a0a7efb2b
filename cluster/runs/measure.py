"""Measures a trained ranker over the test queries of a fold, and the memory of its run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pyrite.cluster.runs.before_training import BeforeTraining
from pyrite.cluster.runs.embeddings import spread_out, vectors_of
from pyrite.cluster.runs.outcome import Outcome
from pyrite.cluster.runs.parts import read_encoded
from pyrite.cluster.runs.zero_shot import measure_zero_shot
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.evaluation.clusters import agreement
from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.evaluation.interpolation import best_weight, interpolate
from pyrite.ranking.labels import labels_of
from pyrite.ranking.lora import merged
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.splits import Split
from pyrite.sampling.staged_training import StagedTraining

NOTHING = np.zeros(0)


def measure(config: dict[str, Any], parts: dict[str, Any], fold: int, staged: StagedTraining, outcome: Outcome) -> None:
    """Add a finished fold to the outcome."""
    training = staged.training
    _add_training(fold, staged, outcome)
    if config["weights"]:
        outcome.weights = kept_weights(merged(training.ranker))
    split, encoded = parts["base"].splits[fold], read_encoded(parts)
    queries = split.test
    if config["embeddings"]:
        _add_embeddings(training.ranker, encoded, queries, outcome)
    weight = _best_weight(config, parts, split, training.ranker)
    outcome.interpolation += [] if weight is None else [weight]
    for origin in config["origin"]:
        training.restore_best(origin)
        evaluation = Evaluation(encoded, parts[f"origin:{origin}"].take(queries), config["measures"])
        _add_measures(origin, evaluation, training.ranker, weight, outcome)
        append_queries(outcome, origin, queries, parts.get(f"untrained:{origin}"))
    training.restore_best()
    measure_zero_shot(config, parts, training.ranker, outcome)


def _best_weight(config: dict[str, Any], parts: dict[str, Any], split: Split, ranker: Ranker) -> float | None:
    """Return the ranker's weight beside BM25, chosen on dev queries; None if no origin has lists, so that it weighs
    nothing."""
    if all(parts[f"origin:{origin}"].documents is None for origin in config["origin"]):
        return None
    validation = Evaluation(read_encoded(parts), parts["validation"].take(split.dev), [config["validation"]["measure"]])
    return best_weight(validation, ranker)


def _add_training(fold: int, staged: StagedTraining, outcome: Outcome) -> None:
    """Add what the training of a fold has recorded."""
    training = staged.training
    outcome.losses.append(training.losses)
    outcome.validations.append(training.validations)
    outcome.dev_losses.append(training.dev_losses)
    outcome.epochs = max(outcome.epochs, training.epoch)
    outcome.best_epoch = max(outcome.best_epoch, training.best_epoch)
    outcome.steps += staged.steps + training.step
    outcome.documents_read += staged.documents_read + training.documents_read
    for decision in staged.sampler.policy.taken:
        epoch = decision["step"] // training.steps_per_epoch + 1
        outcome.decisions.append({"fold": fold, "epoch": epoch, **decision})
    outcome.sampler += [{"fold": fold, **row} for row in staged.report()]
    outcome.traces.append(staged.sampler.trace.arrays())
    outcome.shown.append(staged.sampler.shown.arrays())
    for name, function in staged.sampler.functions.items():
        record = function.guarded_documents()
        if record is not None and len(record.documents):
            outcome.guarded.append({"fold": fold, "function": name, **vars(record)})


def _add_embeddings(ranker: Ranker, encoded: EncodedCollection, queries: NDArray[np.integer], outcome: Outcome) -> None:
    """Add the vectors of some test queries, and how well the clusters of all agree with their categories."""
    vectors = vectors_of(ranker, encoded, queries)
    for name, figure in agreement(vectors, labels_of(encoded.queries, "embeddings=true")[queries, 0]).items():
        outcome.clusters.setdefault(name, []).append(figure)
    kept = spread_out(np.arange(len(queries)))
    outcome.embeddings = {"queries": queries[kept], "vectors": vectors[kept]}


def _add_measures(origin: str, evaluation: Evaluation, ranker: Ranker, weight: float | None, outcome: Outcome) -> None:
    """Add the measures over an origin: the ranker's, those of BM25's order, and of both interpolated."""
    scores = evaluation.scores(ranker)
    append_values(outcome.values, origin, evaluation(ranker) if scores is None else evaluation.of_scores(scores))
    append_values(outcome.bm25, origin, evaluation.of_bm25())
    if scores is not None and weight is not None:
        append_values(outcome.interpolated, origin, evaluation.of_scores(interpolate(evaluation, scores, weight)))


def append_queries(outcome: Outcome, origin: str, queries: NDArray[np.integer], before: BeforeTraining | None) -> None:
    """Append the test queries of a fold, and their values before the training if they are known."""
    if before is not None and before.values:
        append_values(outcome.untrained, origin, before.of(queries))
    outcome.queries[origin] = np.concatenate([outcome.queries.get(origin, NOTHING), queries]).astype(np.int64)


def append_values(
    table: dict[str, dict[str, NDArray[np.float64]]], origin: str, values: Mapping[str, NDArray[np.float64]]
) -> None:
    """Append the values of a fold to those of the folds before."""
    before = table.setdefault(origin, {})
    for name, value in values.items():
        before[name] = np.concatenate([before.get(name, NOTHING), value])


def kept_weights(ranker: Ranker) -> dict[str, Any]:
    """Return weights by name; for a pretrained ranker, the files of a checkpoint as bytes."""
    save: Callable[[str], None] | None = getattr(ranker, "save_pretrained", None)
    if save is None or getattr(ranker, "categories", None):  # a checkpoint's folder can't hold them
        # Copies: the best weights of other origins do not overwrite them, and safetensors takes none that share memory.
        return {name: weight.contiguous().clone() for name, weight in ranker.state_dict().items()}
    with tempfile.TemporaryDirectory() as folder:
        save(folder)
        files = (file for file in sorted(Path(folder).rglob("*")) if file.is_file())
        return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


MIB = 1 << 20
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class PeakMemory:
    """The peak from its construction on: the process's resident memory (libraries and the collection among it) or, with
    a GPU, what the run has allocated there."""

    def __init__(self) -> None:
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        with suppress(OSError):  # then it is the peak of the process
            RESET.write_text("5")  # sets the peak to what is resident now

    def mib(self) -> float | None:
        """Return the peak in MiB; None if this system does not record it."""
        if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
            return torch.cuda.max_memory_allocated() / MIB
        try:
            lines = STATUS.read_text().splitlines()
        except OSError:
            return None
        return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), None)
