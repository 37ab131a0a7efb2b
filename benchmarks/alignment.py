"""Measures whether the dot product of two gradients predicts what an action is worth in the end.

    python -m benchmarks.alignment FOLDER [--bases N] [--replicates N] [--epochs N …] [overrides]

FOLDER is a BEIR folder, for example MedQuAD. A training under a coin per query is forked at the start of some epochs:
each action replaces the coin for two epochs. Half of the dev queries are the sample whose gradient predicts; the other
half measures what the forks were worth in the end. It prints, by epoch, Spearman's correlation over actions between
the two, as a mean over trainings; and the CPU time of a decision as a share of the training's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

from pyrite.cluster.config.compose import compose
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.assemble import assemble
from pyrite.cluster.runs.fork import Fork, base_states, continue_fork
from pyrite.ranking.checkpoint import from_bytes
from pyrite.ranking.splits import Split
from pyrite.sampling.policies.action import Action
from pyrite.sampling.policies.aligned import Aligned

SMALLEST = [
    "{collection} --bases 2 --epochs 0 --length 2 vectors=random encoding.min_count=1 training.max_epochs=2 "
    "training.batch_size=4 sampling.negatives=3 limits.examples=20"
]
ACTIONS = ["in_batch", "bm25:1-4", "bm25:5-20", "bm25:21-100", "bm25@simans", "bm25@dynamic:16", "bm25@dynamic:64"]
SETTING = [
    "ranker=static", "ranker.spread=0", "scale=medium", "limits.examples=6000", "training.patience=99",
    "optimizer.lr=.032", "policy=mixture", "function=[in_batch,bm25]", "sampling.negatives=128", "policy.each=1",
    "policy.weights=[1,1]", "selector=uniform",
]  # fmt: skip


def half(parts: Mapping[str, Any], second: bool) -> dict[str, Any]:
    """The parts of a run with every other dev query."""
    split = parts["base"].splits[0]
    return {
        **parts,
        "base": replace(parts["base"], splits=[Split(split.train, split.dev[int(second) :: 2], split.test)]),
    }


def predicted(config: dict[str, Any], parts: dict[str, Any], state: bytes) -> tuple[dict[str, float], float]:
    """The dot product of each action's gradient with that of the sample at a state, and the CPU seconds of it."""
    policy = Aligned(ACTIONS, each=1, otherwise="in_batch")  # none but these actions
    training, sampler = assemble(config, parts, 0, policy=policy)
    training.load_state_dict(from_bytes(state)[0])
    policy.start_run(sampler.functions, training)
    begun = time.process_time()
    values = policy.alignments(policy.actions or [], sampler.count, training, np.random.default_rng(0))
    means = {name: float(parts.mean()) for name, parts in values.items()}
    return means, time.process_time() - begun


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--bases", type=int, default=3, help="trainings")
    parser.add_argument("--replicates", type=int, default=1, help="forks per action")
    parser.add_argument("--epochs", type=int, nargs="+", default=[0, 2, 3], help="epochs before a fork")
    parser.add_argument("--length", type=int, help="batches that an action lasts; two epochs by default")
    parser.add_argument("overrides", nargs="*")
    chosen, more = parser.parse_known_args(arguments)
    torch.set_num_threads(1)
    overrides = [text for text in (*chosen.overrides, *more) if "=" in text]
    base = compose(["collection=beir", f"collection.path={chosen.folder}", *SETTING, *overrides])
    whole, own = Artifacts().parts(base), ["in_batch", "bm25"]
    sample, measured = half(whole, second=False), half(whole, second=True)
    correlations: dict[int, list[float]] = {epoch: [] for epoch in chosen.epochs}
    deciding, trained = [], []
    for seed in range(chosen.bases):
        config = base | {"seed": seed}
        steps = assemble(config, measured, 0)[0].steps_per_epoch
        length = chosen.length or 2 * steps
        begun = time.process_time()
        states, later = base_states(config, measured, own, [epoch * steps for epoch in chosen.epochs], length)
        trained.append(
            (time.process_time() - begun) / (max(states) + length) * steps * config["training"]["max_epochs"]
        )
        for epoch in chosen.epochs:
            state, at = states[epoch * steps], epoch * steps
            values, seconds = predicted(config, sample, state)
            deciding.append(seconds)
            worth = []
            for text in ACTIONS:
                results = [
                    continue_fork(
                        config, measured, own, state, later.get(at), Fork(0, at, number, Action.parse(text)), length
                    )
                    for number in range(chosen.replicates)
                ]
                worth.append(np.mean([result["final"] for result, _ in results]))
            correlation = spearmanr([values[text] for text in ACTIONS], worth).statistic
            correlations[epoch].append(0.0 if np.isnan(correlation) else float(correlation))
            best, taken = max(worth), worth[int(np.argmax([values[text] for text in ACTIONS]))]
            print(f"training {seed}, epoch {epoch}: Spearman {correlations[epoch][-1]:+.2f}; best {best:.4f}, "
                  f"the largest dot product {max(values, key=values.__getitem__)} {taken:.4f}", flush=True)  # fmt: skip
    for epoch, found in correlations.items():
        print(
            f"epoch {epoch}: mean Spearman {np.mean(found):+.2f} over {len(found)} trainings and {len(ACTIONS)} actions"
        )
    print(f"a decision takes {np.mean(deciding):.2f} s of CPU, a training {np.mean(trained):.2f} s: "
          f"{np.mean(deciding) / np.mean(trained):.0%} of it")  # fmt: skip


if __name__ == "__main__":
    main()
