"""What stacking saves: updates a second of many rankers one by one and in one batch of kernels, and kernels an update.

    python -m benchmarks.stacked [FOLDER] [--ranker feed_forward] [--preset small] [--copies 1 2 4 8 16] [--threads N]

An update is one ranker's; negatives are drawn beforehand. On a GPU the kernels are those that torch's profiler saw. On
a CPU they are the operators that torch dispatches to the device, each of them one or a few kernels on a GPU, in double
precision, which takes the path of a GPU and not our compiled loop. FOLDER is a BEIR folder; pydocs without.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

from cluster.config.compose import compose
from cluster.runs.artifacts import Artifacts
from cluster.runs.assemble import assemble
from ranking.stacked import can_stack, stacked_update
from ranking.training import Batch, RankerTraining

SMALLEST = [
    "{collection} vectors=random encoding.min_count=1 training.batch_size=8 --preset tiny --copies 1 2 --steps 1"
]
Minibatch = tuple[Batch, np.ndarray]
Update = Callable[[list[RankerTraining], list[Minibatch]], object]


def singly(trainings: list[RankerTraining], minibatches: list[Minibatch]) -> None:
    for training, minibatch in zip(trainings, minibatches, strict=True):
        training.update(*minibatch)


def stacked(trainings: list[RankerTraining], minibatches: list[Minibatch]) -> None:
    batches, negatives = zip(*minibatches, strict=True)
    stacked_update(trainings, batches, negatives)


class Copies:
    """Trainings of many seeds, each with minibatches that are drawn beforehand."""

    def __init__(self, config: dict[str, Any], parts: dict[str, Any], count: int, dtype: torch.dtype, steps: int):
        self.trainings, drawn = [], []
        for seed in range(count):
            training, sampler = assemble(config | {"seed": seed}, parts, 0)
            training.ranker.to(dtype)
            self.trainings.append(training)
            batches = [training.examples.take(rows) for rows in whole_batches(training)[:steps]]
            drawn.append([(batch, sampler.negatives(batch, training)) for batch in batches])
        self.minibatches = [list(step) for step in zip(*drawn, strict=True)]

    def rate(self, update: Update) -> float:
        """Updates a second over all minibatches, each copy's update counted."""
        update(self.trainings, self.minibatches[0])
        wait()
        started = time.perf_counter()
        for minibatches in self.minibatches:
            update(self.trainings, minibatches)
        wait()
        return len(self.minibatches) * len(self.trainings) / (time.perf_counter() - started)

    def kernels(self, update: Update) -> float:
        """Kernels for one update of one copy."""
        for minibatches in self.minibatches[:2]:  # the first makes the optimizers' states
            update(self.trainings, minibatches)
        step = partial(update, self.trainings, self.minibatches[0])
        launched = of_profiler(step) if torch.cuda.is_available() else of_dispatcher(step)
        return launched / len(self.trainings)


def whole_batches(training: RankerTraining) -> np.ndarray:
    """An epoch's examples, batch by batch, without the short last one."""
    whole = len(training.order) // training.batch_size
    return training.order[: whole * training.batch_size].reshape(whole, training.batch_size)


def of_profiler(step: Callable[[], object]) -> int:
    """Kernels that a GPU ran, mere copies not counted."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        step()
        wait()
    ran = [event.name for event in profiled.events() if event.device_type == DeviceType.CUDA]
    return sum(not name.startswith(("Memcpy", "Memset")) for name in ran)


def of_dispatcher(step: Callable[[], object]) -> int:
    """Operators that reach the device, but for views, copies and what only takes memory."""
    with Dispatched() as dispatched:
        step()
    return sum(dispatched.counts.values())


class Dispatched(TorchDispatchMode):
    """Counts operators below autograd and vmap, where each is one or a few kernels."""

    quiet = ("aten::empty", "aten::new_empty", "aten::_to_copy", "aten::_local_scalar_dense", "aten::_unsafe_view")

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = operator.name()
        if name.startswith("aten::") and not operator.is_view and not name.startswith(self.quiet):
            self.counts[name] += 1
        return operator(*args, **(kwargs or {}))


def wait() -> None:
    """Until the GPU has done what it was given."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="a BEIR folder, e.g. MedQuAD's")
    parser.add_argument("overrides", nargs="*", help="of the configuration, e.g. vectors=random")
    parser.add_argument("--ranker", default="feed_forward")
    parser.add_argument("--preset", default="small")
    parser.add_argument("--copies", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--steps", type=int, default=10, help="updates of each copy that are timed")
    chosen = parser.parse_args(arguments)
    collection = [] if chosen.folder is None else ["collection=beir", f"collection.path={chosen.folder}"]
    overrides = [*collection, f"ranker={chosen.ranker}", f"ranker.preset={chosen.preset}", *chosen.overrides]
    artifacts = Artifacts()
    parts = artifacts.parts(compose(overrides))
    torch.set_num_threads(chosen.threads)
    for device in ["cpu"] + ["cuda"] * torch.cuda.is_available():
        config = compose([*overrides, f"resources.gpu={int(device == 'cuda')}"])
        print(f"{chosen.ranker} {chosen.preset} on {device}, {chosen.threads} threads")
        print("copies   updates/s singly   stacked          kernels/update singly   stacked   fewer by")
        for count in chosen.copies:
            copies = Copies(config, parts, count, torch.float32, chosen.steps)
            assert can_stack(copies.trainings, forced=True)
            one, many = copies.rate(singly), copies.rate(stacked)
            counted = Copies(config, parts, count, torch.float32 if device == "cuda" else torch.float64, 2)
            launches = counted.kernels(singly), counted.kernels(stacked)
            print(
                f"{count:6d} {one:18.1f} {many:9.1f} {many / one:6.2f}x {launches[0]:24.1f} {launches[1]:9.1f} "
                f"{launches[0] / launches[1]:6.1f}x"
            )


if __name__ == "__main__":
    main()
