"""Measures the cost of a step with in-batch negatives, and of the same work in sentence-transformers.

    python -m benchmarks.in_batch FOLDER [--only static bi_encoder cached waiting memory] [--batch N] [--steps N] …

- static: `ranker=static` against `StaticEmbedding`, with Adam and with `optimizer=lazy_adam`.
- bi_encoder: `ranker=bi_encoder` against a `SentenceTransformer` of the same checkpoint.
- cached: the same with `training.chunk`, against `CachedMultipleNegativesRankingLoss`.
- waiting: the share of an epoch spent waiting for negatives, drawn on demand and ahead of time, for in-batch negatives
  and for BM25's.
- memory: the peak memory of either side of `cached` above what it has loaded, in a separate process.

The other side is `SentenceTransformerTrainer` with `MultipleNegativesRankingLoss`, on the same batches, without
dropout; each of its steps, including building the batch, is followed by one of ours, including drawing the negatives.
FOLDER is a BEIR folder, for example MedQuAD. One core; a ratio is the median over steps.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.tokenizing import tokenizing
from benchmarks.transformers import Cut, default_checkpoint, redirected
from pyrite.cluster.config.build import build
from pyrite.cluster.config.compose import compose
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.assemble import assemble
from pyrite.cluster.runs.parts import read_encoded
from pyrite.ranking.alike import digests
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.optimization import Optimization
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.static import Static
from pyrite.ranking.training import Batch, RankerTraining
from pyrite.sampling.sampler import Sampler

SMALLEST = [
    "{collection} vectors=random encoding.min_count=1 --checkpoint {small_bert} --layers 1 --length 16 --batch 8 "
    "--steps 5 --chunk 4 --here"
]
WARM = 3
"""First steps, which are not counted."""
Ours = tuple[RankerTraining, Sampler]
Pairs = tuple[list[Batch], list[list[dict[str, str]]]]


def made(chosen: argparse.Namespace, *overrides: str) -> tuple[RankerTraining, Sampler, Any]:
    """A training with in-batch negatives, its sampler, and the collection."""
    config = compose([
        "collection=beir", f"collection.path={chosen.folder}", "function=in_batch", "origin=[bm25]",
        f"training.batch_size={chosen.batch}", f"negatives.in_batch={chosen.batch - 1}", *overrides, *chosen.overrides,
    ])  # fmt: skip
    artifacts = Artifacts()
    parts = artifacts.parts(config)
    training, sampler = assemble(config, parts, 0)
    training.encoded = read_encoded(parts)
    return training, sampler, artifacts.collection(config)


def drawn(
    chosen: argparse.Namespace, training: RankerTraining, collection: Any, cut: Callable[[str, str], str]
) -> Pairs:
    """Return batches without repeated texts and with one relevant document per query, as ids and as texts.

    Sentence-transformers uses every other document of a batch as a negative, so no repeated text may be in one.
    """
    encoded: EncodedCollection = training.encoded
    examples = training.examples.take(training.order)
    single = np.diff(encoded.judgements.relevant().offsets)[examples.queries] == 1
    short = encoded.queries.lengths[examples.queries] < 32
    examples = examples.take(np.flatnonzero(single & short))
    for key in (digests(encoded.queries, examples.queries), digests(encoded.documents, examples.positives)):
        first = np.sort(np.unique(key, return_index=True)[1])
        examples = examples.take(first) if len(first) < len(examples) else examples
    places = np.resize(np.arange(len(examples) // chosen.batch * chosen.batch), chosen.steps * chosen.batch)
    asked, texts = collection.queries["text"], collection.documents["text"]
    batches = [examples.take(rows) for rows in places.reshape(chosen.steps, chosen.batch)]
    rows = [
        [
            {"query": cut("query", asked[int(query)]), "document": cut("document", texts[int(document)])}
            for query, document in zip(batch.queries, batch.positives, strict=True)
        ]
        for batch in batches
    ]
    return batches, rows


def step_of(training: RankerTraining, sampler: Sampler, batch: Batch) -> float:
    """One update on a batch, with drawing its negatives; its loss."""
    return training.update(batch, sampler.negatives(batch, training)).loss


def train_theirs(
    folder: str, rows: list[list[dict[str, str]]], rate: float, mini: int | None, turn: Callable[[int, float], None],
    half: bool = False,
) -> None:  # fmt: skip
    """Train theirs, calling `turn` with the number and the loss of each step behind it; in bfloat16 if `half`."""
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.base.sampler import DefaultBatchSampler
    from sentence_transformers.losses import CachedMultipleNegativesRankingLoss, MultipleNegativesRankingLoss
    from torch.utils.data import SequentialSampler
    from transformers import TrainerCallback

    model = SentenceTransformer(folder, device="cpu")
    losses: list[float] = []
    kind: Any = MultipleNegativesRankingLoss if mini is None else CachedMultipleNegativesRankingLoss

    class Recorded(kind):  # type: ignore[misc]
        def forward(self, *arguments: Any, **named: Any) -> torch.Tensor:
            loss: torch.Tensor = super().forward(*arguments, **named)
            losses.append(loss.item())
            return loss

    class Turns(TrainerCallback):
        def on_step_end(self, *arguments: Any, **named: Any) -> None:
            turn(len(losses) - 1, losses[-1])

    def in_order(dataset: Dataset, batch_size: int, drop_last: bool, **rest: Any) -> DefaultBatchSampler:
        return DefaultBatchSampler(SequentialSampler(dataset), batch_size, drop_last)

    with tempfile.TemporaryDirectory() as output, redirected():
        arguments = SentenceTransformerTrainingArguments(
            output, per_device_train_batch_size=len(rows[0]), max_steps=len(rows), learning_rate=rate,
            lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=0.0, optim="adamw_torch_fused",
            batch_sampler=in_order, use_cpu=True, report_to="none", save_strategy="no", logging_strategy="no",
            disable_tqdm=True, bf16=half,
        )  # fmt: skip
        SentenceTransformerTrainer(
            model=model,
            args=arguments,
            train_dataset=Dataset.from_list([row for batch in rows for row in batch]),
            loss=Recorded(model) if mini is None else Recorded(model, mini_batch_size=mini),
            callbacks=[Turns()],
        ).train()


def side_by_side(
    chosen: argparse.Namespace, folder: str, pairs: Pairs, ours: dict[str, Ours], rate: float, mini: int | None = None
) -> None:
    """Print pairs a second of both sides, and how far the losses are apart."""
    batches, rows = pairs
    seconds: dict[str, list[float]] = {"sentence-transformers": [], **{name: [] for name in ours}}
    losses: dict[str, list[float]] = {name: [] for name in seconds}
    began = [time.process_time()]

    def turn(step: int, loss: float) -> None:
        seconds["sentence-transformers"].append(time.process_time() - began[0] - tokenized.take())
        losses["sentence-transformers"].append(loss)
        for name, side in ours.items():
            started = time.process_time()
            losses[name].append(step_of(*side, batches[step]))
            seconds[name].append(time.process_time() - started)
        began[0] = time.process_time()

    with tokenizing() as tokenized:
        train_theirs(folder, rows, rate, mini, turn, chosen.precision == "bfloat16")
    theirs = np.array(seconds["sentence-transformers"][WARM:])
    for name, times in seconds.items():
        spent = np.array(times[WARM:])
        said = f"  {name:22s} {np.median(chosen.batch / spent):9,.1f} pairs a second"
        if name in ours:
            apart = np.abs(np.array(losses[name]) - losses["sentence-transformers"]).max()
            said += f"; {np.median(theirs / spent):.2f} times theirs; losses differ by {apart:.1e} at most"
        print(said)
    first, last = (np.mean(losses["sentence-transformers"][rows]) for rows in (slice(0, 3), slice(-3, None)))
    print(f"  losses from {first:.4f} to {last:.4f}")


def static(chosen: argparse.Namespace) -> None:
    """Static vectors, what words weigh left as it is: theirs has no such weights."""
    rate = 2e-3
    ours: dict[str, Ours] = {}
    for optimizer in ("adam", "lazy_adam"):
        training, sampler, collection = made(chosen, "ranker=static", f"optimizer={optimizer}", f"optimizer.lr={rate}")
        ranker = training.ranker
        assert isinstance(ranker, Static)
        with torch.no_grad():
            ranker.term_weights.zero_().requires_grad_(False)
        factory = build(compose([f"optimizer={optimizer}", f"optimizer.lr={rate}"])["optimizer"], trust="composed")
        training.optimization = Optimization(ranker, factory, None, chosen.steps)
        ours[optimizer] = training, sampler
    pairs = drawn(chosen, training, collection, lambda kind, text: text)
    print(f"static: {chosen.steps} steps of {chosen.batch} pairs, {tuple(ranker.vectors.shape)} vectors")
    with tempfile.TemporaryDirectory() as folder:
        ranker.save_pretrained(folder)
        side_by_side(chosen, folder, pairs, ours, rate)


def without_noise(chosen: argparse.Namespace, folder: str) -> None:
    """Write the checkpoint's first layers without dropout, for both sides to read."""
    inputs = RankerInputs(torch.Generator().manual_seed(0))
    ranker = BiEncoder(chosen.checkpoint, layers=chosen.layers, max_query=32, max_document=chosen.length).start(inputs)
    config: Any = ranker.query_tower.model.config
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    ranker.save_pretrained(folder)


def transformer(chosen: argparse.Namespace, folder: str, chunk: int | None) -> tuple[Ours, Pairs]:
    """Our training of the checkpoint in a folder, and batches."""
    training, sampler, collection = made(
        chosen, "ranker=bi_encoder", f"ranker.checkpoint={folder}", "ranker.max_query=32",
        f"ranker.max_document={chosen.length}", "optimizer.lr=5e-5", "optimizer.weight_decay=0",
        f"ranker.precision={chosen.precision}",
        f"training.chunk={'null' if chunk is None else chunk}",
    )  # fmt: skip
    cuts = {"query": Cut(folder, 32), "document": Cut(folder, chosen.length)}
    return (training, sampler), drawn(chosen, training, collection, lambda kind, text: cuts[kind](text))


def bi_encoder(chosen: argparse.Namespace, chunk: int | None = None) -> None:
    """A transformer, with or without gradient caching."""
    with tempfile.TemporaryDirectory() as folder:
        without_noise(chosen, folder)
        side, pairs = transformer(chosen, folder, chunk)
        name = "bi_encoder" if chunk is None else f"gradient caching, {chunk} texts at a time"
        print(f"{name}: {chosen.steps} steps of {chosen.batch} pairs, documents up to {chosen.length} subwords")
        side_by_side(chosen, folder, pairs, {"RankerTraining": side}, 5e-5, chunk)


def cached(chosen: argparse.Namespace) -> None:
    """`bi_encoder` with gradient caching on both sides."""
    bi_encoder(chosen, chosen.chunk)


def waiting(chosen: argparse.Namespace) -> None:
    """`RankerTraining.fit` over some steps, in turns with negatives drawn ahead and without."""
    kinds = {
        "static, in-batch": ("ranker=static", "function=in_batch", f"negatives.in_batch={chosen.batch - 1}"),
        "static, BM25": ("ranker=static", "function=bm25"),
        "feed_forward, BM25": ("ranker=feed_forward", "function=bm25"),
    }
    for name, overrides in kinds.items():
        config = compose([
            "collection=beir", f"collection.path={chosen.folder}", "origin=[bm25]",
            f"training.batch_size={chosen.batch}", "training.max_epochs=1", *overrides, *chosen.overrides,
        ])  # fmt: skip
        parts = Artifacts().parts(config)
        shares: dict[bool, list[float]] = {False: [], True: []}
        for ahead in (True, False) * 3:
            source = Timed(*assemble(config, parts, 0), ahead, chosen.steps)
            shares[ahead].append(source.run())
        print(
            f"waiting for negatives, {name}: {min(shares[False]):.1%} of the steps drawn when wanted, "
            f"{min(shares[True]):.1%} drawn ahead"
        )


class Timed:
    """A sampler that measures how long the training waits for it.

    Args:
        training, sampler: the parts of a run.
        ahead: whether negatives are drawn ahead.
        steps: number of steps after which it stops.
    """

    def __init__(self, training: RankerTraining, sampler: Sampler, ahead: bool, steps: int) -> None:
        self.training, self.sampler, self.ahead, self.steps, self.waited = training, sampler, ahead, steps, 0.0

    def negatives(self, batch: Batch, training: RankerTraining) -> NDArray[np.int32]:
        started = time.perf_counter()
        negatives = self.sampler.negatives(batch, training)
        self.waited += time.perf_counter() - started
        return negatives

    def run(self) -> float:
        """The share of the steps' time in which the trainer waited."""
        training, began = self.training, 0.0
        steps = min(self.steps, training.steps_per_epoch)
        for step in range(steps):
            if step == min(WARM, steps - 1):  # what is compiled is ready
                began, self.waited = time.perf_counter(), 0.0
            batch = training.next_batch()
            negatives = self.negatives(batch, training)
            following = training.following_batch()
            if self.ahead and following is not None:
                self.sampler.prepare(following, training)
            self.sampler.observe(negatives, training.update(batch, negatives, self.sampler.source_scores))
        return self.waited / (time.perf_counter() - began)


def memory(chosen: argparse.Namespace) -> None:
    """Measure both sides of `cached`, each in a separate process."""
    more: dict[str, NDArray[np.float64] | float] = {}
    for side in ("ours", "theirs"):
        if chosen.here:
            more[side] = most_held(chosen, side)
            continue
        options = [value for value in sys.argv[1:] if value]
        told = subprocess.run(
            [sys.executable, "-m", "benchmarks.in_batch", *options, "--side", side],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        more[side] = float(told.split()[-1])
    print(
        f"memory of {chosen.batch} pairs, {chosen.chunk} texts at a time, beside what is loaded: RankerTraining "
        f"{more['ours']:,.0f} MiB, sentence-transformers {more['theirs']:,.0f} MiB"
    )


def most_held(chosen: argparse.Namespace, side: str) -> float:
    """Return the peak MiB of a side's steps above the memory before the first step."""
    with tempfile.TemporaryDirectory() as folder:
        without_noise(chosen, folder)
        (training, sampler), (batches, rows) = transformer(chosen, folder, chosen.chunk)
        before: list[float] = []

        def held() -> float:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

        if side == "ours":
            before.append(held())
            for batch in batches[:2]:
                step_of(training, sampler, batch)
        else:
            del training, sampler
            before.append(held())
            train_theirs(folder, rows[:2], 5e-5, chosen.chunk, lambda step, loss: None)
        return held() - before[0]


PARTS = {"static": static, "bi_encoder": bi_encoder, "cached": cached, "waiting": waiting, "memory": memory}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a BEIR folder, e.g. MedQuAD's")
    parser.add_argument("overrides", nargs="*", help="of the configuration, e.g. vectors=random")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--checkpoint", default=default_checkpoint(), help="of a BERT; MiniLM by default")
    parser.add_argument("--layers", type=int, default=None, help="of the transformer; all of them by default")
    parser.add_argument("--length", type=int, default=128, help="subwords of a document, of the transformer")
    parser.add_argument("--batch", type=int, default=64, help="pairs a step")
    parser.add_argument("--chunk", type=int, default=32, help="texts that gradient caching reads at a time")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32", help="of transformers")
    parser.add_argument("--side", choices=("ours", "theirs"), help="measure the memory of one side, in this process")
    parser.add_argument("--here", action="store_true", help="memory of both sides in this process")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if chosen.side:
        print(most_held(chosen, chosen.side))
        return
    for name in chosen.only:
        PARTS[name](chosen)


if __name__ == "__main__":
    main()
