"""Estimates how long runs take, by a few steps of each method before the first run."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pyrite.cluster.config.agents import checkpoint_of
from pyrite.cluster.config.trainer_option import trains_elsewhere
from pyrite.cluster.index.demand import live_functions, served_functions
from pyrite.cluster.limits import TIMING_S
from pyrite.cluster.runs.artifacts import OpenedParts
from pyrite.cluster.runs.assemble import assemble
from pyrite.ranking.evaluation.origins import Candidates
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.scoring import score_candidates
from pyrite.ranking.threads import threads
from pyrite.ranking.training import RankerTraining

STEPS = 10
"""Steps that are timed of each method, after one that is not."""
TEXTS = 48
"""Documents, or pairs, that are read to time the reading."""
CANDIDATES = 100
"""The candidates of a query in a list."""
QUERY = 0.25
"""The time to read a query, in documents."""


@dataclass(frozen=True)
class TextsRead:
    """What a ranker reads to measure some queries once.

    Args:
        queries: the number of queries.
        texts: the distinct documents among their candidates, or all pairs if the ranker reads each pair.
        whole: whether these are all documents, for any number of queries.
    """

    queries: int
    texts: int
    whole: bool = False

    def of_first(self, most: float) -> TextsRead:
        """Return what is read for at most this many of the queries."""
        share = min(1.0, most / max(self.queries, 1))
        texts = self.texts if self.whole else self.texts * share
        return replace(self, queries=int(self.queries * share), texts=math.ceil(texts))

    def of_candidates(self) -> TextsRead:
        """Return what is read for candidates of each query instead of all documents."""
        return replace(self, texts=min(self.texts, self.queries * CANDIDATES), whole=False) if self.whole else self

    @property
    def all_texts(self) -> float:
        """The documents and the queries, which are short, as documents."""
        return self.texts + self.queries * QUERY


@dataclass(frozen=True)
class RunTime:
    """The seconds of a run of one method, and the sizes on which they depend.

    Args:
        step: seconds per step.
        text: seconds to read a document, or a pair if the ranker reads pairs.
        validation: what each validation reads.
        test: what the measurements at the end read.
        examples, batch, epochs: the examples of an epoch and of a step, and the epochs at most.
        every: the steps after which it also validates within an epoch; None only at its end.
        rankers: the rankers that are trained, one per fold and stage.
        share: the share of a core that the timing was given; the rest was used by other programs.
    """

    step: float
    text: float
    validation: Sequence[TextsRead]
    test: Sequence[TextsRead]
    examples: int
    batch: int
    epochs: int
    every: int | None = None
    rankers: int = 1
    share: float = 1.0

    @property
    def training(self) -> float:
        """The seconds of all steps, without early stopping."""
        return self.rankers * self.epochs * self._steps * self.step

    @property
    def reading(self) -> float:
        """The seconds in which validations and tests read texts."""
        validations = self.epochs * math.ceil(self._steps / (self.every or self._steps))
        texts = validations * sum(each.all_texts for each in self.validation)
        return self.rankers * self.text * (texts + sum(each.all_texts for each in self.test))

    @property
    def seconds(self) -> float:
        """The seconds of the whole run, without early stopping."""
        return self.training + self.reading

    @property
    def _steps(self) -> int:
        """The steps of an epoch."""
        return math.ceil(self.examples / self.batch)

    def reduced(self, config: Mapping[str, Any]) -> RunTime:
        """Return the time of the same run with the limits, epochs and origins of another configuration.

        Other origins are lists of candidates.
        """
        limits, epochs = config["limits"], config["training"]["max_epochs"]
        examples = min(self.examples, *(limits[name] or math.inf for name in ("examples", "train")))
        validation, test = (
            [each.of_first(limits[name] or math.inf) for each in readings]
            for name, readings in (("dev", self.validation), ("test", self.test))
        )
        test = test if "full" in config["origin"] else [each.of_candidates() for each in test]
        return replace(self, examples=int(examples), epochs=epochs, validation=validation, test=test)


def can_be_timed(config: Mapping[str, Any]) -> bool:
    """Return whether the steps of a run can be timed alone: without actors, other workers, agents and a trainer of the
    user's."""
    apart = live_functions(config) or served_functions(config) or config["resources"]["workers"] > 1
    apart = apart or trains_elsewhere(config)
    return bool(config["ranker"].get("checkpoint")) and not apart and not checkpoint_of(dict(config))


def time_method(config: dict[str, Any], keys: Mapping[str, str], opened: OpenedParts) -> RunTime:
    """Time a run of a method where runs go: a task's body."""
    return time_run(config, opened.of(config, keys))


def time_run(config: dict[str, Any], parts: dict[str, Any]) -> RunTime:
    """Time a few steps of a run, and the reading of a few texts; nothing of the run is changed by it."""
    with threads(config["resources"]["cpu"]):
        training, sampler = assemble(config, parts, 0)
        started, busy = time.perf_counter(), time.thread_time()
        step, text = _seconds_per_step(training, sampler), _seconds_per_text(training)
        share = (time.thread_time() - busy) / (time.perf_counter() - started)
    rankers = len(parts["base"].splits) * max(1, len(training.objective.stages()))
    validation, test = _readings(config, parts, training)
    gpu = training.ranker.device.type != "cpu"
    return RunTime(
        step, text, validation, test, len(training.examples), training.batch_size, training.max_epochs,
        training.validate_every, rankers, 1.0 if gpu else share,
    )  # fmt: skip


def _readings(
    config: Mapping[str, Any], parts: Mapping[str, Any], training: RankerTraining
) -> tuple[list[TextsRead], list[TextsRead]]:
    """Return what each validation of a run reads, and what its measurements at the end read."""
    split, ranker = parts["base"].splits[0], training.ranker
    read = partial(_texts_read, ranker, len(training.encoded.documents))
    dev = [parts[name].take(split.dev) for name in parts if name.partition(":")[0] == "validation"]
    test = [parts[f"origin:{name}"].take(split.test) for name in config["origin"]]
    # Weights that were validated over all documents are tested with the same vectors.
    kept = ranker.keeps_documents and any(each.documents is None for each in dev)
    listed = any(each.documents is not None for each in test)
    weighed = [read(parts["validation"].take(split.dev))] if listed else []  # to interpolate with BM25
    return [*map(read, dev)], [*weighed, *(read(each, kept) for each in test)]


def _texts_read(ranker: Ranker, size: int, candidates: Candidates, kept: bool = False) -> TextsRead:
    """Return what a ranker reads to rank candidates.

    Args:
        size: the number of all documents.
        kept: whether it has the vectors of all documents.
    """
    documents, queries = candidates.documents, len(candidates.queries)
    if not ranker.reads_apart:
        return TextsRead(queries, queries * size if documents is None else int((documents >= 0).sum()))
    if documents is not None:
        return TextsRead(queries, len(np.unique(documents[documents >= 0])))
    return TextsRead(queries, 0 if kept else size, whole=True)


def _seconds_per_step(training: RankerTraining, sampler: Any) -> float:
    """Return the median seconds of a step; the first one, which warms up, counts only if it is the only one."""
    count = min(STEPS, training.steps_per_epoch - 2)  # before a validation
    seconds: list[float] = []
    started = time.perf_counter()
    for _ in training.steps(sampler):
        seconds.append(time.perf_counter() - started)
        if len(seconds) > count or sum(seconds) > TIMING_S:
            break
        started = time.perf_counter()
    return float(np.median(seconds[1:] or seconds))


def _seconds_per_text(training: RankerTraining) -> float:
    """Return the seconds to read a document, or a pair if the ranker reads a query and a document together."""
    ranker, encoded = training.ranker, training.encoded
    size = len(encoded.documents)
    rows = np.random.default_rng(0).permutation(size)[: min(TEXTS, size)].astype(np.int32)
    queries = training.examples.queries[:1]
    score_candidates(ranker, encoded, queries, rows[None, :4])
    started = time.perf_counter()
    score_candidates(ranker, encoded, queries, rows[None])
    return (time.perf_counter() - started) / len(rows)


@dataclass(frozen=True)
class Estimate:
    """The time of all runs.

    Args:
        times: that of each run; None for one that could not be timed, which takes the mean of the others.
        at_once: the runs that are trained at once.
    """

    times: Sequence[RunTime | None]
    at_once: int

    @property
    def seconds(self) -> float | None:
        """The seconds of all runs; None if nothing was timed."""
        known = [each.seconds for each in self._known]
        if not known:
            return None
        mean = math.fsum(known) / len(known)
        each = [mean if run is None else run.seconds for run in self.times]
        return max(math.fsum(each) / max(1, self.at_once), *each)

    @property
    def reading(self) -> float:
        """The share of the time in which validations and tests read texts."""
        return math.fsum(each.reading for each in self._known) / math.fsum(each.seconds for each in self._known)

    @property
    def reads_all(self) -> bool:
        """Whether every document is read, for any number of queries."""
        return any(reading.whole for each in self._known for reading in (*each.validation, *each.test))

    @property
    def examples(self) -> int:
        """The examples of an epoch, of the runs with most."""
        return max(each.examples for each in self._known)

    @property
    def share(self) -> float:
        """The share of a core that the timing was given."""
        return min(1.0, *(each.share for each in self._known))

    def reduced(self, configs: Sequence[Mapping[str, Any]]) -> Estimate:
        """Return the estimate of the same runs with the limits and epochs of other configurations."""
        pairs = zip(self.times, configs, strict=True)
        return replace(self, times=[time and time.reduced(config) for time, config in pairs])

    @property
    def _known(self) -> list[RunTime]:
        return [each for each in self.times if each is not None]
