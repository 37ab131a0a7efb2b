"""Measures the cost of the environment: state and reward relative to the bare training step, workers, copies.

    python -m benchmarks.environment FOLDER [--copies N …] [--workers N …] [--only workers]

FOLDER is a BEIR folder, for example MedQuAD. Run it on a quiet machine. Workers are measured while an agent learns,
with the learner's updates; all sides take turns.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from pyrite import cluster  # noqa: F401  before ray, which it tells how to authenticate
from pyrite.cluster.config.agents import actions_of
from pyrite.cluster.config.build import build
from pyrite.cluster.config.compose import compose
from pyrite.cluster.executors.session import session
from pyrite.cluster.rollouts.environments import Environments, gamma_of, state_tables_of
from pyrite.cluster.runs.artifacts import Artifacts

SMALLEST = [
    "{collection} vectors=random encoding.min_count=1 ranker.preset=tiny training.batch_size=8 scale=full "
    "measures=[AP@10] validation.measure=AP@10 --batches 2 --copies 1 2 --workers 1 --seconds 1 --turns 1"
]


def configuration(chosen: argparse.Namespace, *overrides: str) -> dict[str, Any]:
    """A learning of f_FF small over a BEIR folder."""
    collection = ["collection=beir", f"collection.path={chosen.folder}"]
    return compose([*collection, "ranker=feed_forward", "scale=small", *chosen.overrides, *overrides], "learn")


def seconds(body: Callable[[], object], times: int) -> float:
    """Seconds a call, the best of three rounds: what else the machine does can only add."""
    rounds = []
    for _ in range(3):
        started = time.perf_counter()
        for _ in range(times):
            body()
        rounds.append((time.perf_counter() - started) / times)
    return min(rounds)


def one_copy(chosen: argparse.Namespace, parts: dict[str, Any]) -> None:
    """A step of the environment against a bare training step, and rewards scored a pair at a time."""
    config = configuration(chosen)
    (environment,) = Environments(config)([0])
    environment.reset()

    def bare() -> None:
        training, sampler = environment.training, environment.sampler
        batch = training.next_batch()
        negatives = sampler.negatives(batch, training)
        sampler.observe(negatives, training.update(batch, negatives))
        if training.epoch_over:  # without the validation, which both have
            training.position = 0

    every = config["validation_sample"]["every"]
    for _ in range(20):
        bare()
    step = seconds(bare, chosen.batches)
    state = seconds(environment._observe, chosen.batches)
    sample = seconds(lambda: environment.sample(environment.training.ranker), 20)
    evaluation = environment.sample.evaluation
    queries, documents = evaluation.candidates.queries, evaluation.candidates.documents
    training = environment.training

    def pair_by_pair() -> None:
        scores = np.full(documents.shape, -np.inf, np.float32)
        with torch.no_grad():
            for row, query in enumerate(queries):
                text = training.encoded.queries.take(np.array([query]))
                for column in np.flatnonzero(documents[row] >= 0):
                    one = training.encoded.documents.take(documents[row, column : column + 1])
                    scores[row, column] = training.ranker(text, one).item()
        evaluation.of_scores(scores)

    slow = seconds(pair_by_pair, 1)
    share = (state + sample / every) / step
    print(f"bare training step {step * 1e3:.2f} ms; state {state * 1e3:.2f} ms")
    print(f"reward: {sample * 1e3:.1f} ms for {len(queries)} queries, {sample / every * 1e3:.2f} ms a batch")
    print(f"state and reward on top of a bare step: {share:.0%} (goal: 50% at most)")
    print(f"the same reward a pair at a time {slow * 1e3:.0f} ms: {slow / sample:.0f}x (goal: 8x)")


def steps_a_second(environments: Environments, workers: int, seconds: float) -> float:
    """Return the environment steps per second of a learning, updates included."""
    config = environments.config
    algorithm = build(config["agent"], trust="composed").build(
        environments,
        state_tables_of(config, environments.parts()).space,
        actions_of(config).space,
        gamma=gamma_of(config),
        workers=workers,
        copies=config["copies"],
        cpus=config["resources"]["cpu"],
    )
    algorithm.train()
    before, started = algorithm.counters["decisions"], time.perf_counter()
    while time.perf_counter() < started + seconds:
        algorithm.train()
    speed = (algorithm.counters["decisions"] - before) / (time.perf_counter() - started)
    algorithm.stop()
    return speed


def workers(chosen: argparse.Namespace, parts: dict[str, Any]) -> None:
    """No worker, one and more, at eight copies, taken in turn."""
    import ray

    shared = {name: ray.put(part) for name, part in parts.items()}
    speeds: dict[int, list[float]] = {count: [] for count in sorted({0, 1, *chosen.workers})}
    environments = Environments(configuration(chosen, "copies=8"), shared)
    for _ in range(chosen.turns):
        for count, measured in speeds.items():
            measured.append(steps_a_second(environments, count, chosen.seconds))
            print(f"  {count} workers: {measured[-1]:.1f} steps per second", flush=True)
    for count in chosen.workers:
        for base, name, goal in ((0, "in process", 1.3), (1, "with one worker", 1.6)):
            ratios = [many / one for many, one in zip(speeds[count], speeds[base], strict=True)]
            print(f"8 copies, {count} workers: {median(ratios):.2f}× the steps {name} (goal for 2: {goal}×)")
    print(f"steps per second by workers: { {count: round(median(found)) for count, found in speeds.items()} }")


def resident() -> int:
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def copies(chosen: argparse.Namespace, parts: dict[str, Any]) -> None:
    """Steps a second and memory by the number of copies, in one process."""
    config = configuration(chosen)
    print("copies   steps a second   MB a copy   of them weights, best weights and optimizer")
    for count in chosen.copies:
        before = resident()
        made, rng = Environments(config)(range(count)), np.random.default_rng(0)
        for environment in made:
            environment.reset()
            for _ in range(2):
                environment.step(rng.integers(2))
        rounds = max(2, 64 // count)
        started = time.perf_counter()
        for _ in range(rounds):
            for environment in made:
                environment.step(rng.integers(2))
        speed = rounds * count / (time.perf_counter() - started)
        grown = (resident() - before) / count / 1e6
        training = made[0].training
        weights = sum(tensor.nbytes for tensor in training.ranker.state_dict().values()) / 1e6
        print(f"{count:6d} {speed:16.0f} {grown:11.1f}   {weights:.1f} + {weights:.1f} + {2 * weights:.1f}")
        del made, environment, training


def main(arguments: Sequence[str] | None = None) -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a BEIR folder, e.g. MedQuAD's")
    parser.add_argument("overrides", nargs="*", help="of the configuration, e.g. vectors=random")
    parser.add_argument("--batches", type=int, default=120, help="steps that are timed")
    parser.add_argument("--copies", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64], help="in one process")
    parser.add_argument("--workers", type=int, nargs="+", default=[2], help="beside one")
    parser.add_argument("--seconds", type=float, default=20, help="that workers are timed for")
    parser.add_argument("--turns", type=int, default=3, help="of workers")
    parser.add_argument("--only", choices=["workers"], help="measure workers alone")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    parts = Artifacts(lambda line: None).parts(configuration(chosen))
    if chosen.only is None:
        one_copy(chosen, parts)
        copies(chosen, parts)
    with session(dashboard=False):
        workers(chosen, parts)


if __name__ == "__main__":
    main()
