"""Measures steps of workers that train one ranker, and what each of them holds of weights, gradients and optimizer.

    python -m benchmarks.workers FOLDER [overrides] [--checkpoint NAME] [--workers N] [--steps N] [--batch N]

The variants are: gradients exchanged after the backward pass, and exchanged during it. Each is run by separate
processes with one thread, joined by gloo on this machine: the cost of a network is not measured, and workers share the
memory's bandwidth. FOLDER is a BEIR folder.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from benchmarks.transformers import default_checkpoint
from pyrite.cluster.config.compose import compose
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.assemble import assemble
from pyrite.cluster.training.all_reduce import AllReduce
from pyrite.cluster.training.attach import attach_workers
from pyrite.ranking.training import RankerTraining

SMALLEST = ["{collection} vectors=random encoding.min_count=1 --checkpoint {small_bert} --steps 2 --batch 4"]
WAYS = ("behind the backward pass", "during the backward pass")
WARM = 2
"""First steps, which are not counted."""


class AtTheEnd(AllReduce):
    """Exchanges gradients when the backward pass is over."""

    def last_backward(self, parameters: Any) -> Any:
        return nullcontext()


def held(training: RankerTraining) -> float:
    """Megabytes of weights, gradients and the optimizer's moments in this process."""
    tensors: list[Tensor] = list(training.ranker.parameters())
    tensors += [each.grad for each in training.ranker.parameters() if each.grad is not None]
    tensors += [each for state in training.optimizer.state.values() for each in state.values() if each.dim()]
    return sum({each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in tensors}.values()) / 1e6


def work(rank: int, file: str, way: str, chosen: argparse.Namespace, told: Any) -> None:
    """Run one worker: report the seconds of its steps and the megabytes it holds."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=chosen.workers)
    config = configured(chosen)
    training, sampler = assemble(config, Artifacts().parts(config), 0)
    attach_workers(training, sampler)
    if way == WAYS[0]:
        training.gradient_sync = AtTheEnd()
    seconds = []
    for _ in range(WARM + chosen.steps):
        if training.epoch_over:
            training.position = 0
        batch = training.next_batch()
        negatives = sampler.negatives(batch, training)
        dist.barrier()
        started = time.perf_counter()
        training.update(batch, negatives)
        seconds.append(time.perf_counter() - started)
    told.put((float(np.median(seconds[WARM:])), held(training)))
    dist.destroy_process_group()


def configured(chosen: argparse.Namespace) -> dict[str, Any]:
    return compose([
        "collection=beir", f"collection.path={chosen.folder}", "ranker=bi_encoder",
        f"ranker.checkpoint={chosen.checkpoint}", "function=random", "sampling.negatives=1", "optimizer=adamw",
        f"training.batch_size={chosen.batch}", f"resources.workers={chosen.workers}",
        *chosen.overrides,
    ])  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--checkpoint", default=None, help="MiniLM's where none is named")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=16)
    chosen = parser.parse_args(arguments)
    chosen.checkpoint = chosen.checkpoint or default_checkpoint()
    Artifacts().parts(configured(chosen))  # once, for all processes
    context = multiprocessing.get_context("spawn")
    for way in WAYS:
        told: Any = context.Queue()
        with tempfile.TemporaryDirectory() as folder:
            asked = (str(Path(folder) / "store"), way, chosen, told)
            processes = [context.Process(target=work, args=(rank, *asked)) for rank in range(chosen.workers)]
            for process in processes:
                process.start()
            found = [told.get(timeout=600) for _ in processes]
            for process in processes:
                process.join()
        seconds, megabytes = (max(each) for each in zip(*found, strict=True))
        print(f"{chosen.workers} workers, {way:24s}: {seconds:6.2f} s a step, {megabytes:7.1f} MB held by the fullest")


if __name__ == "__main__":
    main()
