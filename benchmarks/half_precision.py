"""Measures how half precision changes negatives: how many of the top 10 and 100 of an index stay the same.

    python -m benchmarks.half_precision FOLDER [--checkpoint NAME] [--documents N] [--queries N] [--length N]

FOLDER is a BEIR folder. Its first documents are encoded and kept in float32; the results are compared with those of
encoding in another precision (`function.dense.precision`) or keeping vectors in one (`function.dense.index.precision`).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np
import torch

from benchmarks.transformers import default_checkpoint
from pyrite.cluster.config.compose import compose
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.ranking.embedding import embed
from pyrite.ranking.index import IndexOptions, VectorIndex
from pyrite.ranking.index_versions import in_precision
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.pretrained import read_in
from pyrite.ranking.tokenization import Subwords

SMALLEST = ["{collection} --checkpoint {small_bert} --documents 110 --queries 5 --length 16"]
DEPTHS = 10, 100
WAYS = [(read, "float32") for read in ("float32", "bfloat16", "float16")] + [
    (read, "float16") for read in ("float32", "bfloat16", "float16")
]
"""How texts are read, and how vectors are kept."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--checkpoint", default=None, help="MiniLM's where none is named")
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--length", type=int, default=64, help="subwords read of a document")
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(chosen.threads)
    checkpoint = chosen.checkpoint or default_checkpoint()
    collection = Artifacts().collection(compose(["collection=beir", f"collection.path={chosen.folder}"]))
    texts = Subwords(checkpoint, 32, chosen.length).encode(collection)
    rows, asked = (
        np.arange(min(chosen.documents, len(texts.documents))),
        np.arange(min(chosen.queries, len(texts.queries))),
    )
    vectors, seconds = {}, {}
    for read, _ in WAYS[:3]:
        ranker = BiEncoder(checkpoint, max_query=32, max_document=chosen.length)
        ranker.start(RankerInputs(torch.Generator())).eval()
        read_in(ranker, read)  # for good: weights that are rounded stay so
        started = time.perf_counter()
        vectors[read] = embed(ranker, texts.queries, asked, queries=True), embed(ranker, texts.documents, rows)
        seconds[read] = time.perf_counter() - started
    exact = {}
    for read, kept in WAYS:
        queries, documents = vectors[read]
        index = VectorIndex.build(in_precision(documents, kept), IndexOptions(precision=kept))
        found = {depth: index.search(queries, min(depth, len(rows)))[0] for depth in DEPTHS}
        exact = exact or found
        said = [f"{len(rows)} documents read in {read:8s} ({seconds[read]:6.1f} s) and kept in {kept}:"]
        for depth, best in found.items():
            shares = [np.isin(mine, theirs).mean() for mine, theirs in zip(best, exact[depth], strict=True)]
            said.append(f"{np.mean(shares):.4f} of the top {depth}")
        off = np.abs(vectors[read][1] - vectors["float32"][1]).max()
        print(said[0], ", ".join(said[1:]), f"are the same; a number of a vector differs by {off:.1e} at most")


if __name__ == "__main__":
    main()
