"""Measures a step of sentence-transformers' trainer next to an index of its model, without one, and in `sync`.

    python -m benchmarks.trainer_steps MODEL [--steps N] [--every N] [--package NAME]

MODEL is a folder in sentence-transformers' layout. Each training has one more negative per pair: from BM25, or from an
index of the documents that is built every `--every` steps. A step is timed from the end of the first one on.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import torch
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.losses import MultipleNegativesRankingLoss
from transformers import TrainerCallback

from pyrite import BM25, Collection, Dense, InBatch
from pyrite.sampling.retrieval.dense import Refresh
from pyrite.torch import Negatives

SMALLEST = ["{small_bert} --steps 4 --every 2 --batch 4 --length 8 --package requests"]


class StepClock(TrainerCallback):
    """The times at the end of each step: of the clock, and of this process."""

    def __init__(self) -> None:
        self.times: list[tuple[float, float]] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Record the end of a step."""
        self.times.append((time.perf_counter(), time.process_time()))

    def seconds_per_step(self) -> tuple[float, float]:
        """Return the mean seconds of a step after the first one, by the clock and of this process."""
        (start, used), (end, used_at_end) = self.times[0], self.times[-1]
        steps = len(self.times) - 1
        return (end - start) / steps, (used_at_end - used) / steps


def measure(name: str, added: Any, chosen: argparse.Namespace) -> None:
    """Train, and print the seconds of a step."""
    model = SentenceTransformer(chosen.model, device="cpu")
    model.max_seq_length = chosen.length
    negatives = Negatives(Collection.pydocs(packages=[chosen.package]), InBatch() + added, model=model)
    clock = StepClock()
    with tempfile.TemporaryDirectory() as folder:
        arguments = SentenceTransformerTrainingArguments(
            folder, max_steps=chosen.steps, per_device_train_batch_size=chosen.batch, batch_sampler="no_duplicates",
            report_to="none", save_strategy="no", disable_tqdm=True, use_cpu=True,
        )  # fmt: skip
        loss = MultipleNegativesRankingLoss(model)
        trainer = SentenceTransformerTrainer(model, arguments, negatives.dataset, loss=loss, callbacks=[clock])
        negatives.attach(trainer)
        before = os.times()
        trainer.train()
        after, report = os.times(), negatives.report()
    beside = after.children_user + after.children_system - before.children_user - before.children_system
    wall, used = clock.seconds_per_step()
    print(
        f"{name:24s} {wall:6.2f} s a step, {used:6.2f} s of the trainer's process; {beside:6.2f} s of others in all; "
        f"waited {report.waited:.2f} s; {report.refreshes} refreshes served"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each way in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--every", type=int, default=5, help="steps between two refreshes")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=32, help="subwords of a text")
    parser.add_argument("--package", default="numpy", help="whose docstrings are read")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    ways = {
        "without (BM25)": BM25(1),
        "index beside (lagged)": Dense(1, refresh=Refresh("lagged", every=chosen.every)),
        "index in sync": Dense(1, refresh=Refresh("sync", every=chosen.every)),
    }
    for name, added in ways.items():
        measure(name, added, chosen)


if __name__ == "__main__":
    main()
