"""Measures a checkpoint before training at each scale, next to sentence-transformers, a cut checkpoint and BM25.

    python -m benchmarks.before_training OUT [OVERRIDES …] [--pairs N] [--checkpoint FOLDER]

The pairs are the first paragraphs of docstrings and their functions' code, N of them drawn by chance, of `pydocs` with
OVERRIDES; they are written to OUT/pairs.csv. Each row has nDCG@10 over all of their passages, for the same queries. A
scale must not change what a checkpoint scores, and the library must score the same. The checkpoint is MiniLM by
default.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.transformers import default_checkpoint
from pyrite.cluster.config.compose import compose
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.ranking.evaluation.evaluation import Evaluation

SMALLEST = ["{out} collection.packages=[requests] --pairs 30 --checkpoint {small_bert}"]
MEASURE = "nDCG@10"
CUT = ["ranker.layers=1", "ranker.max_query=24", "ranker.max_document=64"]
SCALES = ("full", "small", "tiny")


def write_pairs(path: Path, count: int, overrides: list[str]) -> None:
    """Write a table of a sample of the pairs of `pydocs`."""
    collection = Artifacts().collection(compose(["collection=pydocs", "collection.documents=code", *overrides]))
    texts = collection.documents.select(document="id", passage="text")
    pairs = collection.judgements.join(collection.queries.select(query="id", question="text"), on="query")
    pairs = pairs.join(texts, on="document").select("question", "passage").sort("question", "passage")
    pairs.sample(min(count, len(pairs)), seed=0).write_csv(path)


def config_of(path: Path, checkpoint: str, *options: str) -> dict[str, Any]:
    """Return the configuration of a run over the pairs, whose test queries are the same at every scale."""
    return compose([
        "collection=pairs", f"collection.path={path}", "collection.query=question", "collection.positive=passage",
        "ranker=bi_encoder", f"ranker.checkpoint={checkpoint}", "origin=full", f"measures=[{MEASURE}]",
        "limits.test=null", *options,
    ])  # fmt: skip


def before_training(path: Path, checkpoint: str, *options: str) -> float:
    """Return the mean of a checkpoint over the test queries."""
    config = config_of(path, checkpoint, *options)
    return float(Artifacts().part(config, "untrained:full").values[MEASURE].mean())


def of_library(path: Path, checkpoint: str) -> float:
    """Return the mean of sentence-transformers' scores over the same queries and passages."""
    from sentence_transformers import SentenceTransformer

    config = config_of(path, checkpoint)
    artifacts = Artifacts()
    collection, parts = artifacts.collection(config), artifacts.part(config, "base")
    model, asked = SentenceTransformer(checkpoint, device="cpu"), parts.queries("test")
    queries = model.encode(collection.queries["text"].gather(asked).to_list())
    passages = model.encode(collection.documents["text"].to_list())
    scores = np.round(model.similarity(queries, passages).numpy(), 6)
    gains = []
    for query, row in zip(asked, scores, strict=True):
        documents, grades = parts.encoded.judgements.of(int(query))
        relevant = documents[grades > 0]
        ranks = 1 + (row[None, :] > row[relevant, None]).sum(axis=1)
        ideal = (1 / np.log2(np.arange(2, 2 + min(10, len(relevant))))).sum()
        gains.append((1 / np.log2(1 + ranks[ranks <= 10])).sum() / ideal)
    return float(np.mean(gains))


def of_bm25(path: Path, checkpoint: str) -> float:
    """Return the mean of BM25 over the same queries and passages."""
    config = config_of(path, checkpoint)
    artifacts = Artifacts()
    candidates = artifacts.part(config, "origin:full")
    evaluation = Evaluation(artifacts.part(config, "base").encoded, candidates, [MEASURE])
    return float(evaluation.of_bm25()[MEASURE].mean())


def main(arguments: list[str] | None = None) -> None:
    """Print the mean of each side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--pairs", type=int, default=1500)
    parser.add_argument("--checkpoint", default=None)
    chosen = parser.parse_args(arguments)
    chosen.out.mkdir(parents=True, exist_ok=True)
    path, checkpoint = chosen.out / "pairs.csv", chosen.checkpoint or default_checkpoint()
    write_pairs(path, chosen.pairs, chosen.overrides)
    exact = "ranker.precision=float32"
    rows = {f"before training, scale={scale}": before_training(path, checkpoint, f"scale={scale}") for scale in SCALES}
    rows["before training, float32"] = before_training(path, checkpoint, exact)
    rows["sentence-transformers, float32"] = of_library(path, checkpoint)
    rows[f"cut by {' '.join(CUT)}"] = before_training(path, checkpoint, *CUT)
    rows["BM25"] = of_bm25(path, checkpoint)
    for name, mean in rows.items():
        print(f"{name:75s} {mean:.4f}")


if __name__ == "__main__":
    main()
