"""Measures a bi-encoder's training and encoding in bfloat16 and float32, next to sentence-transformers.

    python -m benchmarks.precision FOLDER [--checkpoint FOLDER] [--steps N] [--texts N] [--batch N]

FOLDER is a BEIR folder, MedQuAD's here. All sides read the same texts and take turns on one core; a figure is the
median over turns of processor time, so that other processes distort it little. The first turn is not counted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.transformers import default_checkpoint
from pyrite.cluster.config.compose import compose
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.assemble import assemble
from pyrite.ranking.embedding import embed
from pyrite.ranking.precision import best_precision
from pyrite.ranking.rankers.pretrained import read_in

SMALLEST = ["{collection} vectors=random encoding.min_count=1 --checkpoint {small_bert} --steps 2 --texts 8 --batch 4"]
PRECISIONS = ("float32", "bfloat16")


def spent(action: Callable[[], object]) -> float:
    """Return the processor seconds that an action takes."""
    started = time.process_time()
    action()
    return time.process_time() - started


def in_turns(sides: dict[str, Callable[[int], object]], turns: int) -> dict[str, float]:
    """Return the median seconds of each side over all turns but the first; a side is called with the turn."""
    took: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(turns + 1):
        for name, side in sides.items():
            seconds = spent(lambda: side(turn))  # noqa: B023
            took[name] += [seconds] if turn else []
    return {name: float(np.median(times)) for name, times in took.items()}


def trained(chosen: argparse.Namespace, precision: str, *options: str) -> tuple[Callable[[int], object], Any, Any]:
    """Return our step, the batches of all sides, and the collection."""
    config = compose([
        "collection=beir", f"collection.path={chosen.folder}", "ranker=bi_encoder", "function=in_batch", "origin=bm25",
        f"ranker.checkpoint={chosen.checkpoint}", f"ranker.precision={precision}",
        f"training.batch_size={chosen.batch}", *chosen.overrides, *options,
    ])  # fmt: skip
    artifacts = Artifacts()
    training, sampler = assemble(config, artifacts.parts(config), 0)
    batches = []
    for _ in range(chosen.steps + 1):
        batches.append(training.next_batch())
        training.position += chosen.batch
    training.position = 0
    step = lambda turn: training.update(batches[turn], sampler.negatives(batches[turn], training))  # noqa: E731
    return step, batches, artifacts.collection(config)


def theirs(checkpoint: str, batches: Any, collection: Any, precision: str) -> Callable[[int], object]:
    """Return a step of sentence-transformers' MultipleNegativesRankingLoss on the same pairs."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    model = SentenceTransformer(checkpoint, device="cpu").train()
    loss = MultipleNegativesRankingLoss(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    texts = collection.queries["text"], collection.documents["text"]

    def step(turn: int) -> None:
        pairs = [
            [frame[int(row)] for row in rows]
            for frame, rows in zip(texts, (batches[turn].queries, batches[turn].positives), strict=True)
        ]
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            found = loss([model.preprocess(each) for each in pairs], torch.zeros(0))
        found.backward()
        optimizer.step()

    return step


def encoders(chosen: argparse.Namespace, collection: Any) -> dict[str, Callable[[int], object]]:
    """Return what encodes the same texts on each side."""
    from sentence_transformers import SentenceTransformer

    from pyrite.ranking.part import options_of
    from pyrite.ranking.rankers.bi_encoder import BiEncoder
    from pyrite.ranking.rankers.inputs import RankerInputs

    texts = collection.documents["text"][: chosen.texts].to_list()
    rows = np.arange(len(texts))
    sides: dict[str, Callable[[int], object]] = {}
    for precision in PRECISIONS:
        made = BiEncoder(chosen.checkpoint, precision=precision)
        tokens = made.tokenization(**options_of(made)).encode(collection)
        ranker = made.start(RankerInputs(torch.Generator())).eval()
        read_in(ranker, precision)
        sides[f"Pyrite, {precision}"] = lambda turn, ranker=ranker, tokens=tokens: embed(ranker, tokens.documents, rows)
        kind = {"model_kwargs": {"torch_dtype": getattr(torch, precision)}}
        model = SentenceTransformer(chosen.checkpoint, device="cpu", **kind)
        sides[f"sentence-transformers, {precision}"] = lambda turn, model=model: model.encode(texts)
    return sides


def main(arguments: list[str] | None = None) -> None:
    """Print pairs and texts per second of each side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--checkpoint", default=None)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--batch", type=int, default=16)
    chosen = parser.parse_args(arguments)
    chosen.checkpoint = chosen.checkpoint or default_checkpoint()
    torch.set_num_threads(1)
    print(f"auto is {best_precision(gpu=False)} here")
    sides: dict[str, Callable[[int], object]] = {}
    for precision in PRECISIONS:
        step, batches, collection = trained(chosen, precision)
        sides[f"Pyrite, {precision}"] = step
        sides[f"sentence-transformers, {precision}"] = theirs(chosen.checkpoint, batches, collection, precision)
    _show("training, pairs per second", in_turns(sides, chosen.steps), chosen.batch)
    _show("encoding, texts per second", in_turns(encoders(chosen, collection), 3), chosen.texts)


def _show(title: str, seconds: dict[str, float], count: int) -> None:
    print(title)
    slowest = seconds["sentence-transformers, float32"]
    for name, each in seconds.items():
        print(f"  {name:32s} {count / each:8.1f}   {slowest / each:5.2f} times sentence-transformers in float32")


if __name__ == "__main__":
    main()
