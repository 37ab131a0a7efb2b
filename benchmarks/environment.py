"""Measures the cost of the environment: state and reward relative to the bare training step, workers, hosts, copies.

    python -m benchmarks.environment FOLDER [--copies N …] [--workers N …]

FOLDER is a BEIR folder, for example MedQuAD. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pyrite import cluster  # noqa: F401  before ray, which it tells how to authenticate
from pyrite.cluster.config.agents import actions_of
from pyrite.cluster.config.compose import compose
from pyrite.cluster.executors.session import session
from pyrite.cluster.rollouts.backends import FEASIBLE_S, RUNNER_CPUS, in_workers, on_hosts, ranker_hosts
from pyrite.cluster.rollouts.environments import Environments, state_tables_of
from pyrite.cluster.rollouts.train_agent import RolloutBackend
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.rl.agents.random import RandomAgent
from pyrite.rl.environment import SamplingEnvironment

SMALLEST = [
    "{collection} vectors=random encoding.min_count=1 ranker.preset=tiny training.batch_size=8 scale=full "
    "measures=[AP@10] validation.measure=AP@10 --batches 2 --copies 1 2 --workers 1 --updates 1 --turns 1"
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
    environment: Any = Environments(config).make(parts, 0, 1).environments[0]
    assert isinstance(environment, SamplingEnvironment)
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


def steps_a_second(backend: RolloutBackend, config: dict[str, Any], parts: dict[str, Any], updates: int) -> float:
    """Environment steps a second of the random agent."""
    observations, actions = state_tables_of(config, parts).space, actions_of(config).space
    trainer = RandomAgent().build(
        backend.environments,
        observations,
        actions,
        workers=backend.workers,
        copies=config["copies"],
        cpus=backend.cpus,
    )
    for _ in range(3):
        trainer.update()
    before, started = trainer.counters["decisions"], time.perf_counter()
    for _ in range(updates):
        trainer.update()
    speed = (trainer.counters["decisions"] - before) / (time.perf_counter() - started)
    trainer.close()
    return speed


def workers(chosen: argparse.Namespace, parts: dict[str, Any]) -> None:
    """One and more workers, and a host, at eight copies, taken in turn."""
    import ray

    shared = {name: ray.put(part) for name, part in parts.items()}
    speeds: dict[int, list[float]] = {count: [] for count in sorted({1, *chosen.workers})}
    hosted: list[float] = []
    for _ in range(chosen.turns):
        for count, found in speeds.items():
            config = configuration(chosen, f"workers={count}", "copies=8")
            found.append(steps_a_second(in_workers(config, shared), config, parts, chosen.updates))
        config = configuration(chosen, "workers=1", "copies=8", "hosts=1")
        with ranker_hosts(config, 1, f"benchmark-{len(hosted)}", FEASIBLE_S) as (_, names):
            backend = RolloutBackend(partial(on_hosts, names, 8), 1, RUNNER_CPUS)
            hosted.append(steps_a_second(backend, config, parts, chosen.updates))
    best = {count: max(found) for count, found in speeds.items()}
    for count, speed in best.items():
        ratio = f": {speed / best[1]:.2f}x (goal for 2: 1.7x)" if count > 1 else ""
        print(f"8 copies, {count} workers: {speed:.0f} steps a second{ratio}")
    print(f"a ranker host and one worker {max(hosted):.0f}: costs {best[1] / max(hosted) - 1:.0%} (goal: 10% at most)")


def resident() -> int:
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def copies(chosen: argparse.Namespace, parts: dict[str, Any]) -> None:
    """Steps a second and memory by the number of copies, in one process."""
    config = configuration(chosen)
    print("copies   steps a second   MB a copy   of them weights, best weights and optimizer")
    for count in chosen.copies:
        before = resident()
        made = Environments(config).make(parts, 0, count)
        made.reset()
        rng = np.random.default_rng(0)
        for _ in range(2):
            made.step(rng.integers(2, size=count))
        rounds = max(2, 64 // count)
        started = time.perf_counter()
        for _ in range(rounds):
            made.step(rng.integers(2, size=count))
        speed = rounds * count / (time.perf_counter() - started)
        grown = (resident() - before) / count / 1e6
        training: Any = made.environments[0].training  # type: ignore[attr-defined]
        weights = sum(tensor.nbytes for tensor in training.ranker.state_dict().values()) / 1e6
        print(f"{count:6d} {speed:16.0f} {grown:11.1f}   {weights:.1f} + {weights:.1f} + {2 * weights:.1f}")
        del made, training


def main(arguments: Sequence[str] | None = None) -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a BEIR folder, e.g. MedQuAD's")
    parser.add_argument("overrides", nargs="*", help="of the configuration, e.g. vectors=random")
    parser.add_argument("--batches", type=int, default=120, help="steps that are timed")
    parser.add_argument("--copies", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64], help="in one process")
    parser.add_argument("--workers", type=int, nargs="+", default=[2], help="beside one")
    parser.add_argument("--updates", type=int, default=40, help="that workers and host are timed for")
    parser.add_argument("--turns", type=int, default=2, help="of workers and host")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    parts = Artifacts(lambda line: None).parts(configuration(chosen))
    one_copy(chosen, parts)
    copies(chosen, parts)
    with session(dashboard=False):
        workers(chosen, parts)


if __name__ == "__main__":
    main()
