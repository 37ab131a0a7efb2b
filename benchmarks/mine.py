"""`pyrite mine` against sentence-transformers' `mine_hard_negatives`: the same encoder, margin and rows.

    python -m benchmarks.mine FOLDER --checkpoint FOLDER [--queries N] [--turns N]

Each side works in a process of its own, on one core, from texts that are there (a list, or Pyrite's cache) to parquet,
encoding included; they take turns. Memory is the peak of the whole process (VmHWM), libraries included. Ours runs a
second time with a tenth of the queries, to show how memory grows with them. FOLDER is a BEIR folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.mining import peak

SMALLEST = ["{collection} --checkpoint {small_bert} --queries 20 --here"]
NEGATIVES, DEPTH, MARGIN, WORDS = 4, 100, 0.05, 128


def options_of(chosen: argparse.Namespace, queries: int, out: str) -> list[str]:
    """Ours, as overrides of `pyrite mine`."""
    ranker = f"{{_target_: ranking.rankers.bi_encoder.BiEncoder, _partial_: true, checkpoint: '{chosen.checkpoint}'"
    return [
        "collection=beir", f"collection.path={chosen.folder}", "vectors=random", "queries=all", f"count={NEGATIVES}",
        f"checkpoint={chosen.checkpoint}", f"ranker={ranker}, max_query: {WORDS}, max_document: {WORDS}}}",
        "function=dense", f"function.dense.depth={DEPTH}", f"guard.relative={MARGIN}", f"most_queries={queries}",
        f"out={out}",
    ]  # fmt: skip


def ours(chosen: argparse.Namespace, queries: int, out: str) -> dict[str, Any]:
    """Rows, seconds and memory of `pyrite mine`."""
    import torch

    import pyrite

    torch.set_num_threads(1)
    started = time.perf_counter()
    mined = pyrite.mine(options_of(chosen, queries, out))
    seconds, most = time.perf_counter() - started, peak()
    return {"rows": mined.rows.rows(), "seconds": seconds, "peak": most}


def theirs(chosen: argparse.Namespace, queries: int, out: str) -> dict[str, Any]:
    """The same of `mine_hard_negatives`."""
    import faiss
    import torch
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import mine_hard_negatives

    texts, pairs = pairs_of(chosen, queries)
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    started = time.perf_counter()
    model = SentenceTransformer(chosen.checkpoint, device="cpu")
    model.max_seq_length = WORDS + 2
    asked, answers = (list(each) for each in zip(*pairs, strict=True))
    mined = mine_hard_negatives(
        Dataset.from_dict({"query": asked, "positive": answers}), model, corpus=texts, num_negatives=NEGATIVES,
        range_max=DEPTH, relative_margin=MARGIN, output_format="n-tuple", use_faiss=True, verbose=False,
    )  # fmt: skip
    mined.to_parquet(f"{out}.parquet")
    seconds, most = time.perf_counter() - started, peak()
    return {"rows": [tuple(row.values()) for row in mined], "seconds": seconds, "peak": most}


def pairs_of(chosen: argparse.Namespace, queries: int) -> tuple[list[str], list[tuple[str, str]]]:
    """All distinct texts of documents, and the pairs that ours mines for."""
    from cluster.config.compose import compose
    from cluster.config.texts import texts_config
    from cluster.mining.shards import shards_of
    from cluster.runs.artifacts import Artifacts
    from cluster.runs.parts import Base

    config = compose(options_of(chosen, queries, "unused"), "mine")
    artifacts, run = Artifacts(), texts_config(config)
    collection, base = artifacts.collection(run), artifacts.part(run, "base")
    assert isinstance(base, Base)
    of_query = dict(collection.queries.select("id", "text").rows())
    of_document = dict(collection.documents.select("id", "text").rows())
    shards = shards_of(base.encoded, config)
    shards = shards_of(base.encoded, config)
    wanted = {collection.queries["id"][int(each)] for shard in shards for each in shard.queries}
    rows = collection.judgements.filter(collection.judgements["grade"] > 0).select("query", "document").rows()
    pairs = [(of_query[query], of_document[document]) for query, document in rows if query in wanted]
    return list(dict.fromkeys(of_document.values())), pairs


SIDES = {"ours": ours, "theirs": theirs}


def result_of(chosen: argparse.Namespace, side: str, queries: int) -> dict[str, Any]:
    """What a side finds and spends: in this process, or in one of its own."""
    with tempfile.TemporaryDirectory() as folder:
        if chosen.here or chosen.side:
            return SIDES[side](chosen, queries, f"{folder}/out")
        path = Path(folder) / "result.json"
        command = [sys.executable, "-m", "benchmarks.mine", str(chosen.folder), "--checkpoint", chosen.checkpoint]
        command += ["--queries", str(queries), "--side", side, "--result", str(path)]
        alone = os.environ | {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
        done = subprocess.run(command, env=alone, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        found: dict[str, Any] = json.loads(path.read_text())
        return found


def shared(mine: Sequence[Sequence[str]], other: Sequence[Sequence[str]]) -> float:
    """The share of our rows' negatives that their row of the same pair has too."""
    there = {tuple(row[:2]): set(row[2:]) for row in other}
    rows = [(set(row[2:]), there[tuple(row[:2])]) for row in mine if tuple(row[:2]) in there]
    return float(np.mean([len(one & two) / len(one) for one, two in rows])) if rows else 0.0


def conduct(chosen: argparse.Namespace) -> None:
    """Both sides in turn, and what comes of it."""
    pairs_of(chosen, chosen.queries)  # reads the collection into the cache
    found: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    for _ in range(chosen.turns):
        for side, results in found.items():
            results.append(result_of(chosen, side, chosen.queries))
    few = result_of(chosen, "ours", max(1, chosen.queries // 10))
    least = {side: {key: min(each[key] for each in results) for key in ("seconds", "peak")}
             for side, results in found.items()}  # fmt: skip
    mine, other = least["ours"], least["theirs"]
    print(f"{NEGATIVES} negatives for each of {chosen.queries:,} queries, one core, {chosen.turns} turns")
    for name, side in (("mine_hard_negatives", "theirs"), ("pyrite mine", "ours")):
        rows = len(found[side][0]["rows"])
        print(f"  {name:20s} {least[side]['seconds']:7.1f} s, peak {least[side]['peak']:6.0f} MiB, {rows:,} rows")
    print(f"  {other['seconds'] / mine['seconds']:.2f} times as fast (goal: 1.2), ", end="")
    print(f"memory {mine['peak'] / other['peak']:.2f} of theirs (goal: 0.5 at most)")
    print(f"  memory with ten times the queries: {mine['peak'] / few['peak']:.2f} times that with a tenth")
    same = shared(found["ours"][0]["rows"], found["theirs"][0]["rows"])
    print(f"  {same:.1%} of our negatives are theirs too")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a BEIR folder, e.g. MedQuAD's")
    parser.add_argument("--checkpoint", required=True, help="a folder of sentence-transformers")
    parser.add_argument("--queries", type=int, default=12_000, help="of each split, at most")
    parser.add_argument("--turns", type=int, default=1, help="of each side")
    parser.add_argument("--here", action="store_true", help="both sides in this process, whose memory they share")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.side is None:
        conduct(chosen)
        return
    chosen.result.write_text(json.dumps(result_of(chosen, chosen.side, chosen.queries)))


if __name__ == "__main__":
    main()
