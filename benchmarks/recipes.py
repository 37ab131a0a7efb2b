"""Measures the cost of ways of choosing negatives: CPU time and memory of a step, and documents read, side by side.

    python -m benchmarks.recipes FOLDER

The recipes alternate, one step each, in one process; the shortest step of each counts. A step includes drawing the
negatives, the update, and observing it. Memory is the peak of the first four steps above ranker, texts and lists,
including the optimizer's state. The index of function=dense, which is built during a training, is not included.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.two_sides import peak
from pyrite.cluster.config.compose import compose
from pyrite.cluster.mining.miner import give_back
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.assemble import assemble

SMALLEST = ["{collection} vectors=random encoding.min_count=1 ranker.preset=tiny training.batch_size=4 --steps 2"]
ONE = "function=[in_batch,bm25] sampling.negatives=1"
RECIPES = {
    "random": "function=random",
    "bm25": "function=bm25",
    "in_batch": "function=in_batch sampling.negatives=127",
    "in_batch + 1 bm25": ONE,
    "selector.bm25=window": f"{ONE} selector.bm25=window",
    "selector.bm25=simans": f"{ONE} selector.bm25=simans",
    "in_batch.hard=true": f"{ONE} function.in_batch.hard=true",
    "batches=topic_balanced": f"{ONE} batches=topic_balanced",
    "TAS-Balanced": f"{ONE} batches=topic_balanced teacher=bm25 selector.bm25=margin_balanced",
    "distilled": f"{ONE} teacher=bm25 objective=[contrastive,margin_mse]",
    "mixture of 16": "policy=mixture policy.per=negative function=[in_batch,bm25] sampling.negatives=16",
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a BEIR folder, e.g. MedQuAD's")
    parser.add_argument("overrides", nargs="*", help="of the configuration, e.g. ranker=bi_encoder")
    parser.add_argument("--steps", type=int, default=30, help="of each recipe")
    chosen = parser.parse_args(arguments)
    artifacts, runs = Artifacts(), {}
    for name, recipe in RECIPES.items():
        common = ["ranker=static", "collection=beir", f"collection.path={chosen.folder}"]
        config = compose([*common, *recipe.split(), *chosen.overrides])
        runs[name] = assemble(config, artifacts.parts(config), 0)
    memory = {name: held(*run) for name, run in runs.items()}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    read: dict[str, list[int]] = {name: [] for name in runs}
    for _ in range(chosen.steps):
        for name, (training, sampler) in runs.items():
            started = time.process_time()
            documents = step(training, sampler)
            seconds[name].append(time.process_time() - started)
            read[name].append(documents)
    least = min(seconds["bm25"])
    print(f"batches of {training.batch_size}, the shortest of {chosen.steps} steps of each")
    print(f"{'':24s} CPU time   of bm25's   documents read   memory")
    for name, times in seconds.items():
        took = f"{1000 * min(times):5.0f} ms {min(times) / least:9.2f}"
        print(f"{name:24s} {took}   {np.mean(read[name]):10.0f}{memory[name]:14.0f} MiB")


def held(training: Any, sampler: Any) -> float:
    """Return the peak MiB of steps above the memory before them, measured in a fork so that all recipes start equal."""
    fork: Any = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe(duplex=False)

    def work() -> None:
        give_back()  # or what the steps before have freed would be there already
        Path("/proc/self/clear_refs").write_text("5")  # restart the peak
        before = peak()
        for _ in range(4):
            step(training, sampler)
        theirs.send(peak() - before)

    process = fork.Process(target=work)
    process.start()
    theirs.close()  # or a fork that fails would be waited for
    most = float(ours.recv())
    process.join()
    return most


def step(training: Any, sampler: Any) -> int:
    """One step of a training; how many different documents it read."""
    if training.epoch_over:
        training.position = 0
    batch = training.next_batch()
    negatives = sampler.negatives(batch, training)
    result = training.update(batch, negatives, sampler.source_scores)
    training.diverged = False
    sampler.observe(negatives, result)
    return len(np.unique(np.concatenate([batch.positives, negatives[negatives >= 0]])))


if __name__ == "__main__":
    main()
