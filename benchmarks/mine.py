"""Measures `pyrite mine` against sentence-transformers' `mine_hard_negatives`: the same encoder, margin and rows.

    python -m benchmarks.mine FOLDER --checkpoint FOLDER [--queries N] [--turns N]

Each side runs in a separate process on one core, from texts in memory (a list, or Pyrite's cache) to Parquet, including
encoding and without imports; they alternate. Time is CPU time, memory the peak of the whole process (VmHWM) including
libraries. Ours runs again with a tenth of the queries, to show how memory grows with them. FOLDER is a BEIR folder; the
checkpoint is a transformer or a `StaticEmbedding`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.two_sides import TwoSides, peak

SMALLEST = ["{collection} --checkpoint {small_bert} --queries 20 --here"]
NEGATIVES, MARGIN, WORDS = 4, 0.05, 128
DEPTH = 100
"""How far either looks for them."""
IMPORTED = (
    "pyrite.cluster.commands.mine",
    "pyrite.ranking.rankers.bi_encoder",
    "pyrite.ranking.rankers.static",
)


def options_of(chosen: argparse.Namespace, out: str) -> list[str]:
    """Ours, as overrides of `pyrite mine`."""
    ranker = f"{{_target_: pyrite.ranking.rankers.bi_encoder.BiEncoder, checkpoint: '{chosen.checkpoint}'"
    read = [] if is_static(chosen.checkpoint) else [f"ranker={ranker}, max_query: {WORDS}, max_document: {WORDS}}}"]
    return [
        "collection=beir", f"collection.path={chosen.folder}", "vectors=random", "queries=train", f"count={NEGATIVES}",
        f"checkpoint={chosen.checkpoint}", "function=dense", f"function.dense.depth={NEGATIVES}",
        f"guard.relative={MARGIN}", f"guard.deepest={DEPTH}", f"most_queries={chosen.queries}", f"out={out}", *read,
    ]  # fmt: skip


def is_static(checkpoint: str) -> bool:
    """Return whether a sentence-transformers folder has a table of vectors instead of a transformer."""
    modules = Path(checkpoint) / "modules.json"
    return modules.is_file() and "StaticEmbedding" in modules.read_text()


def ours(chosen: argparse.Namespace) -> dict[str, Any]:
    """Rows, seconds and memory of `pyrite mine`."""
    import torch

    import pyrite
    from pyrite.ranking.alike import digests
    from pyrite.ranking.texts import Texts

    for each in (*IMPORTED, *([] if is_static(chosen.checkpoint) else ["transformers"])):
        importlib.import_module(each)  # as theirs are, before the clock starts
    # Numba imports the rest of itself when the first function of a cache is loaded.
    digests(Texts.of_arrays([np.zeros(1, np.int32)]), np.zeros(1, np.int64))

    torch.set_num_threads(1)
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        mined = pyrite.mine(options_of(chosen, f"{folder}/out"))
        seconds, most = time.process_time() - started, peak()
        return {"rows": mined.rows.rows(), "seconds": seconds, "peak": most}


def theirs(chosen: argparse.Namespace) -> dict[str, Any]:
    """The same of `mine_hard_negatives`."""
    import faiss
    import torch
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import mine_hard_negatives

    texts, pairs = json.loads(chosen.texts.read_text())
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    started = time.process_time()
    model = SentenceTransformer(chosen.checkpoint, device="cpu")
    if not is_static(chosen.checkpoint):
        model.max_seq_length = WORDS + 2
    asked, answers = (list(each) for each in zip(*pairs, strict=True))
    mined = mine_hard_negatives(
        Dataset.from_dict({"query": asked, "positive": answers}), model, corpus=texts, num_negatives=NEGATIVES,
        range_max=DEPTH, relative_margin=MARGIN, output_format="n-tuple", use_faiss=True, verbose=False,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        mined.to_parquet(f"{folder}/out.parquet")
    seconds, most = time.process_time() - started, peak()
    return {"rows": [tuple(row.values()) for row in mined], "seconds": seconds, "peak": most}


def pairs_of(chosen: argparse.Namespace) -> tuple[list[str], list[tuple[str, str]]]:
    """All distinct texts of documents, and the pairs that ours mines for."""
    from pyrite.cluster.config.compose import compose, texts_config
    from pyrite.cluster.mining.miner import shards_of
    from pyrite.cluster.runs.artifacts import Artifacts
    from pyrite.cluster.runs.parts import Base

    config = compose(options_of(chosen, "unused"), "mine")
    artifacts, run = Artifacts(), texts_config(config)
    collection, base = artifacts.collection(run), artifacts.part(run, "base")
    assert isinstance(base, Base)
    of_query = dict(collection.queries.select("id", "text").rows())
    of_document = dict(collection.documents.select("id", "text").rows())
    shards = shards_of(base.encoded, config)
    wanted = {collection.queries["id"][int(each)] for shard in shards for each in shard.queries}
    rows = collection.judgements.filter(collection.judgements["grade"] > 0).select("query", "document").rows()
    pairs = [(of_query[query], of_document[document]) for query, document in rows if query in wanted]
    return list(dict.fromkeys(of_document.values())), pairs


BOTH = TwoSides("benchmarks.mine", {"ours": ours, "theirs": theirs})


def shared(mine: Sequence[Sequence[str]], other: Sequence[Sequence[str]]) -> float:
    """The share of our rows' negatives that their row of the same pair has too."""
    there = {tuple(row[:2]): set(row[2:]) for row in other}
    rows = [(set(row[2:]), there[tuple(row[:2])]) for row in mine if tuple(row[:2]) in there]
    return float(np.mean([len(one & two) / len(one) for one, two in rows])) if rows else 0.0


def conduct(chosen: argparse.Namespace) -> None:
    """Both sides in turn, and what comes of it."""
    with tempfile.TemporaryDirectory() as folder:
        texts = Path(folder) / "texts.json"
        texts.write_text(json.dumps(pairs_of(chosen)))  # and reads the collection into the cache
        found = BOTH.in_turns(chosen, texts=texts)
    few = BOTH.run(chosen, "ours", queries=max(1, chosen.queries // 10))
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
    known = BOTH.parser(__doc__)
    known.add_argument("--texts", type=Path, help=argparse.SUPPRESS)
    known.add_argument("--queries", type=int, default=12_000, help="of the train split, at most")
    BOTH.conduct(known, arguments, conduct)


if __name__ == "__main__":
    main()
