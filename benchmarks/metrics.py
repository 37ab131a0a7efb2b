"""Measures what metrics cost the training that they describe, as a share of a step.

    python -m benchmarks.metrics FOLDER [--turns N]

FOLDER is a BEIR folder, for example MedQuAD. Trains f_FF small alternately with and without a thread that reads the
training every five seconds, and compares the CPU time of a step. The difference is smaller than the variation between
turns, so a single read is also timed, as a share of five seconds; the last line is the share at every step.
"""

from __future__ import annotations

from pyrite import cluster  # noqa: F401  # isort: skip  # says how to authenticate, which Ray reads when it is imported

import argparse
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

from pyrite.cluster.config.compose import compose
from pyrite.cluster.executors.session import session
from pyrite.cluster.output.throttle import poll
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.assemble import assemble
from pyrite.cluster.telemetry.metrics import EVERY
from pyrite.cluster.telemetry.training_metrics import TrainingMetrics, run_tags

SMALLEST = [
    "{collection} vectors=random encoding.min_count=1 ranker.preset=tiny training.batch_size=8 scale=full "
    "--turns 2 --seconds 0.05 --looks 3"
]


def steps(training: Any, sampler: Any, seconds: float) -> float:
    """Return the CPU seconds per step, over `seconds` seconds of an endless epoch."""
    started, used, made = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - started < seconds:
        if training.epoch_over:
            training.position = 0  # without the validation, which both sides have
        batch = training.next_batch()
        negatives = sampler.negatives(batch, training)
        sampler.observe(negatives, training.update(batch, negatives))
        made += 1
    return (time.process_time() - used) / made


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a BEIR folder, e.g. MedQuAD's")
    parser.add_argument("overrides", nargs="*", help="of the configuration, e.g. vectors=random")
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=2 * EVERY, help="of a turn")
    parser.add_argument("--looks", type=int, default=2000, help="that are timed by themselves")
    chosen = parser.parse_args(arguments)
    collection = ["collection=beir", f"collection.path={chosen.folder}", "ranker=feed_forward"]
    method = ["policy=fixed", "function=bm25", "selector=uniform"]
    config = compose([*collection, *method, "scale=small", *chosen.overrides])
    training, sampler = assemble(config, Artifacts().parts(config), 0)
    training.validations.append(0.5)  # something to report
    staged: Any = SimpleNamespace(training=training)
    steps(training, sampler, min(5, chosen.seconds))
    with session(dashboard=False):
        look = TrainingMetrics(staged, run_tags("benchmark", config), config["validation"]["measure"])
        ratios, bare = [], []
        for turn in range(chosen.turns):
            sides = {}
            for watched in (True, False) if turn % 2 else (False, True):
                with poll(look, EVERY) if watched else nullcontext():
                    sides[watched] = steps(training, sampler, chosen.seconds)
            ratios.append(sides[True] / sides[False])
            bare.append(sides[False])
        started = time.thread_time()
        for _ in range(chosen.looks):
            training.step += 1  # something to report each time
            look()
        each = (time.thread_time() - started) / chosen.looks
    step = median(bare)
    turns = ", ".join(f"{ratio:.3f}" for ratio in sorted(ratios))
    print(f"a step takes {step * 1e3:.2f} ms; with a look every {EVERY:g} s {median(ratios):.4f} of that ({turns})")
    print(f"a look takes {each * 1e6:.0f} µs, which is {each / EVERY:.6%} of the steps of {EVERY:g} s")
    print(f"at every step it would be {each / step:.2%}")


if __name__ == "__main__":
    main()
