"""Measures the cost of DSSM's steps and searches, compared with dense bags of trigrams.

    python -m benchmarks.dssm FOLDER [--only steps shared search memory]

- steps: training pairs per second, with Adam and with `optimizer=lazy_adam`, against plain torch with Adam and dense
  input vectors as wide as the trigrams, on the same batches and negatives, step by step; and the share of the
  matrix-multiply rate that the step reaches.
- shared: a step with 200 negatives shared by the batch against one with 10.
- search: ranks of all test questions' answers within their category, and over everything.
- memory: ranks among a million random answers, in a separate process.

FOLDER is a BEIR folder, for example QUEST. Both sides alternate on one core; a ratio is the median over steps.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.scoring import matmul_rate
from pyrite.cluster.config.compose import compose
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.assemble import assemble
from pyrite.cluster.runs.parts import read_encoded
from pyrite.ranking.encoding import EncodedCollection, Judgements
from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.rankers.dssm import DSSM
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.ranks import ranks_in
from pyrite.ranking.texts import Texts
from pyrite.ranking.training import Batch, RankerTraining
from pyrite.sampling.sampler import Sampler

SMALLEST = ["{collection} --steps 1 --negatives 4 --answers 300 --questions 20 --here"]
PARTS = ("steps", "shared", "search", "memory")
WARM = 3
"""First steps, which are not counted."""


def made(folder: str, *overrides: str) -> tuple[RankerTraining, Sampler, dict[str, Any], dict[str, Any]]:
    """Training and sampler of a DSSM of the published widths, with the configuration and its parts."""
    config = compose([
        "collection=beir", f"collection.path={folder}", "ranker=dssm", "function=random", "origin=[category,full]",
        "origin.full.depth=null", "measures=[R@1,R@5,RR]", "validation.origin=category", "validation.measure=RR",
        *overrides,
    ])  # fmt: skip
    parts = Artifacts().parts(config)
    return *assemble(config, parts, 0), config, parts


class DenseBags(nn.Module):
    """The same tower over bags as dense vectors, [texts, trigrams]."""

    def __init__(self, ranker: DSSM) -> None:
        super().__init__()
        tower: Any = ranker.towers[0]
        rows, width = tower.trigrams.shape
        self.first = nn.Linear(rows, width)
        with torch.no_grad():
            self.first.weight.copy_(tower.trigrams.T)
            self.first.bias.copy_(tower.bias)
        self.rest = nn.ModuleList()
        for layer in tower.rest:
            copied = nn.Linear(layer.in_features, layer.out_features)
            copied.load_state_dict(layer.state_dict())
            self.rest.append(copied)
        self.scale = ranker.scale

    def forward(self, queries: Texts, documents: Texts) -> Tensor:
        state = torch.tanh(self.first(bags(queries.followed_by(documents), self.first.in_features)))
        for layer in self.rest:
            state = torch.tanh(layer(state))
        vectors = F.normalize(state, dim=1)
        of_documents = vectors[len(queries) :].view(len(queries), -1, vectors.shape[1])
        return self.scale * torch.matmul(of_documents, vectors[: len(queries), :, None])[..., 0]


def bags(texts: Texts, width: int) -> Tensor:
    """Counts of each trigram, dense."""
    rows = torch.from_numpy(np.repeat(np.arange(len(texts)), texts.lengths))
    counts = torch.zeros(len(texts), width)
    return counts.index_put_((rows, torch.from_numpy(texts.tokens.astype(np.int64))), torch.ones(()), accumulate=True)


def endless_batch(training: RankerTraining) -> Batch:
    """The next batch of an epoch that begins again without a validation."""
    if training.epoch_over:
        training.position = 0
    return training.next_batch()


def steps(folder: str, negatives: int, count: int) -> None:
    """Print pairs a second of all sides, and what share of the machine's rate the sparse one reaches."""
    training, sampler, _, _ = made(folder, f"sampling.negatives={negatives}")
    lazy, *_ = made(folder, f"sampling.negatives={negatives}", "optimizer=lazy_adam")
    ranker = training.ranker
    assert isinstance(ranker, DSSM)
    plain = DenseBags(ranker)
    optimizer = torch.optim.Adam(plain.parameters(), lr=1e-3, fused=True)
    seconds: dict[str, list[float]] = {"sparse": [], "lazy": [], "dense": []}
    work, furthest = [], 0.0
    for _ in range(count + WARM):
        batch = endless_batch(training)
        shown = sampler.negatives(batch, training)
        started = time.perf_counter()
        step = training.update(batch, shown)
        seconds["sparse"].append((time.perf_counter() - started) / len(batch))
        started = time.perf_counter()
        lazy.update(batch, shown)
        seconds["lazy"].append((time.perf_counter() - started) / len(batch))
        block = np.concatenate([batch.positives[:, None], shown], 1)
        queries, documents = training.encoded.queries.take(batch.queries), training.encoded.documents
        started = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        scores = plain(queries, documents.take(block.ravel()))
        loss = -torch.log_softmax(scores, 1)[:, 0].mean()
        loss.backward()
        optimizer.step()
        seconds["dense"].append((time.perf_counter() - started) / len(batch))
        furthest = max(furthest, abs(loss.item() - step.loss))
        work.append(multiplications(ranker, queries, documents.take(np.unique(block))) / len(batch))
    each = {side: float(np.median(values[WARM:])) for side, values in seconds.items()}
    share = float(np.median(work[WARM:])) / each["sparse"] / matmul_rate()
    print(
        f"{negatives:3d} negatives: {1 / each['sparse']:,.0f} pairs/s, with lazy_adam {1 / each['lazy']:,.0f}, "
        f"dense {1 / each['dense']:,.0f}; ratios {each['dense'] / each['sparse']:.1f} and "
        f"{each['dense'] / each['lazy']:.1f}; losses differ by {furthest:.1e} at most; "
        f"{share:.0%} of the matrix-multiply rate"
    )


def multiplications(ranker: DSSM, queries: Texts, documents: Texts) -> int:
    """Multiply-adds of a step: each distinct trigram of each text, the layers, and twice as much for gradients."""
    tower: Any = ranker.towers[0]
    distinct = sum(len(np.unique(texts.tokens[a:b])) for texts in (queries, documents)
                   for a, b in zip(texts.offsets[:-1], texts.offsets[1:], strict=True))  # fmt: skip
    layers = sum(layer.weight.numel() for layer in tower.rest)
    return 2 * distinct * tower.trigrams.shape[1] + 3 * (len(queries) + len(documents)) * layers


def shared(folder: str, count: int) -> None:
    """Print the cost of a step with 200 shared negatives relative to one with 10."""
    sides = {n: made(folder, f"sampling.negatives={n}", "selector=shared")[:2] for n in (10, 200)}
    seconds: dict[int, list[float]] = {n: [] for n in sides}
    for _ in range(count + WARM):
        for n, (training, sampler) in sides.items():
            batch = endless_batch(training)
            started = time.perf_counter()
            training.update(batch, sampler.negatives(batch, training))
            seconds[n].append(time.perf_counter() - started)
    few, many = (float(np.median(values[WARM:])) for values in seconds.values())
    print(
        f"shared by the batch: 10 negatives {few * 1e3:.0f} ms a step, 200 {many * 1e3:.0f} ms; ratio {many / few:.2f}"
    )


def search(folder: str) -> None:
    """Print seconds and recall of both search spaces."""
    training, _, config, parts = made(folder)
    encoded = read_encoded(parts)
    for origin in config["origin"]:
        evaluation = Evaluation(encoded, parts[f"origin:{origin}"], config["measures"])
        evaluation(training.ranker)
        started = time.perf_counter()
        values = evaluation(training.ranker)
        took, number = time.perf_counter() - started, len(evaluation.candidates.queries)
        print(f"{origin}: {number} test questions among {len(encoded.documents):,} answers in {took:.2f} s "
              f"(untrained, R@5 {values['R@5'].mean():.3f})")  # fmt: skip


def memory(answers: int, questions: int, words: int = 40, categories: int = 26) -> None:
    """Rank one answer per question among `count` random ones, and print the memory used."""
    rng = np.random.default_rng(0)

    def texts(count: int, length: int) -> Texts:
        tokens = rng.integers(1, 30_001, count * length, dtype=np.int32)
        labels = np.stack([np.arange(count) % categories, np.full(count, -1)], 1).astype(np.int32)
        return Texts(tokens, np.arange(count + 1, dtype=np.int64) * length, labels)

    documents, queries = texts(answers, words * 6), texts(questions, 60)
    right = np.arange(questions, dtype=np.int32)
    judgements = Judgements(np.arange(questions + 1), right, np.ones(questions, np.int32))
    keys, split = np.arange(answers, dtype=np.int32), np.full(questions, 2, np.int8)
    encoded = EncodedCollection(documents, queries, np.ones(1, np.float32), judgements, split, keys)
    ranker = DSSM().start(RankerInputs(torch.Generator().manual_seed(0)))
    ranks_in(ranker, encoded, np.arange(2), right[:2, None], np.arange(100))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    started = time.perf_counter()
    asked = np.arange(questions)
    everywhere = ranks_in(ranker, encoded, asked, right[:, None], np.arange(answers))
    took = time.perf_counter() - started
    inside = np.zeros(questions, np.int64)
    for category in range(categories):
        of = np.flatnonzero(asked % categories == category)
        space = np.arange(category, answers, categories)
        inside[of] = ranks_in(ranker, encoded, of, right[of, None], space)[:, 0]
    assert (inside <= everywhere[:, 0]).all()
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
    print(
        f"{questions:,} questions among {answers:,} answers of {words} words: {took:.0f} s over all, "
        f"{more:,.0f} MiB more than the {before:,.0f} that texts and libraries take; their scores would take "
        f"{questions * answers * 4 / 2**20:,.0f} MiB, all vectors {answers * 128 * 4 / 2**20:,.0f}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="a BEIR folder with categories")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--answers", type=int, default=1_000_000)
    parser.add_argument("--questions", type=int, default=2_000)
    parser.add_argument("--negatives", type=int, nargs="+", default=[4, 10, 50], help="of steps")
    parser.add_argument("--here", action="store_true", help="measure memory in this process, not in one of its own")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if "steps" in chosen.only:
        for negatives in chosen.negatives:
            steps(chosen.folder, negatives, chosen.steps)
    if "shared" in chosen.only:
        shared(chosen.folder, chosen.steps)
    if "search" in chosen.only:
        search(chosen.folder)
    if "memory" in chosen.only and chosen.here:
        memory(chosen.answers, chosen.questions)
    elif "memory" in chosen.only:
        rest = ["--only", "memory", "--here", f"--answers={chosen.answers}", f"--questions={chosen.questions}"]
        subprocess.run([sys.executable, "-m", "benchmarks.dssm", chosen.folder, *rest], check=True)


if __name__ == "__main__":
    main()
