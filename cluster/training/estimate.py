"""Estimates how long runs take, by a few steps of each method before the first run."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pyrite.cluster.config.agents import checkpoint_of
from pyrite.cluster.config.trainer_option import trains_elsewhere
from pyrite.cluster.index.demand import live_functions, served_functions
from pyrite.cluster.limits import TIMING_S
from pyrite.cluster.runs.artifacts import OpenedParts
from pyrite.cluster.runs.assemble import assemble
from pyrite.ranking.evaluation.origins import Candidates
from pyrite.ranking.scoring import score_candidates
from pyrite.ranking.threads import threads
from pyrite.ranking.training import RankerTraining

STEPS = 10
"""Steps that are timed of each method, after one that is not."""
TEXTS = 48
"""Documents, or pairs, that are read to time the reading."""


@dataclass(frozen=True)
class RunTime:
    """The seconds of a run of one method, and the sizes on which they depend.

    Args:
        step: seconds per step.
        validation, test: seconds to measure the ranker on dev queries once, and on test queries.
        examples, batch, epochs: the examples of an epoch and of a step, and the epochs at most.
        dev, tested: the queries of these measurements; 0 if every document is read for any number of them.
        rankers: the rankers that are trained, one per fold and stage.
    """

    step: float
    validation: float
    test: float
    examples: int
    batch: int
    epochs: int
    dev: int
    tested: int
    rankers: int = 1

    @property
    def seconds(self) -> float:
        """The seconds of the whole run, without early stopping."""
        steps = self.epochs * math.ceil(self.examples / self.batch)
        return self.rankers * (steps * self.step + self.epochs * self.validation + self.test)

    def reduced(self, config: Mapping[str, Any]) -> RunTime:
        """Return the time of the same run with the limits and epochs of another configuration."""
        limits, training = config["limits"], config["training"]
        examples = min(self.examples, *(limits[name] or math.inf for name in ("examples", "train")))
        shares = [
            min(1.0, (limits[name] or math.inf) / count) if count else 1.0
            for name, count in (("dev", self.dev), ("test", self.tested))
        ]
        return replace(
            self,
            examples=int(examples),
            epochs=training["max_epochs"],
            validation=self.validation * shares[0],
            test=self.test * shares[1],
        )


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
        step = _seconds_per_step(training, sampler)
        split, read = parts["base"].splits[0], _ReadClock(training)
        dev = [parts[name].take(split.dev) for name in parts if name.partition(":")[0] == "validation"]
        test = [parts[f"origin:{name}"].take(split.test) for name in config["origin"]]
        queries = [
            0 if training.ranker.reads_apart and any(each.documents is None for each in lists) else len(rows)
            for lists, rows in ((dev, split.dev), (test, split.test))
        ]
        # Weights that were validated over all documents are tested with the same vectors.
        kept = training.ranker.keeps_documents and any(each.documents is None for each in dev)
        validation = math.fsum(map(read.seconds, dev))
        tested = math.fsum(read.seconds(each, kept) for each in test)
        rankers = len(parts["base"].splits) * max(1, len(training.objective.stages()))
        sizes = len(training.examples), training.batch_size, training.max_epochs
        return RunTime(step, validation, tested, *sizes, queries[0], queries[1], rankers)


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


class _ReadClock:
    """Measures how fast a ranker reads documents, or pairs if it reads a query and a document together."""

    def __init__(self, training: RankerTraining) -> None:
        self.ranker, self.encoded = training.ranker, training.encoded
        size = len(self.encoded.documents)
        rows = np.random.default_rng(0).permutation(size)[: min(TEXTS, size)].astype(np.int32)
        queries = training.examples.queries[:1]
        score_candidates(self.ranker, self.encoded, queries, rows[None, :4])
        started = time.perf_counter()
        score_candidates(self.ranker, self.encoded, queries, rows[None])
        self.each = (time.perf_counter() - started) / len(rows)

    def seconds(self, candidates: Candidates, kept: bool = False) -> float:
        """Return the seconds to read what a measurement of candidates reads; `kept`: vectors of all documents exist."""
        documents, size = candidates.documents, len(self.encoded.documents)
        if not self.ranker.reads_apart:
            pairs = len(candidates.queries) * size if documents is None else int((documents >= 0).sum())
            return self.each * pairs
        whole = 0 if kept else size
        distinct = whole if documents is None else len(np.unique(documents[documents >= 0]))
        return self.each * (distinct + len(candidates.queries) / 4)


def whole_seconds(times: Sequence[RunTime | None], at_once: int) -> float | None:
    """Return the seconds of all runs, `at_once` at a time; a run that could not be timed takes the mean of the others.

    None if nothing was timed.
    """
    known = [each.seconds for each in times if each is not None]
    if not known:
        return None
    mean = math.fsum(known) / len(known)
    each = [mean if run is None else run.seconds for run in times]
    return max(math.fsum(each) / max(1, at_once), *each)
