"""Counts how many mined negatives are relevant by judgements that were held back, under each function and guard.

    python -m benchmarks.guard_table OUT FOLDER… [--checkpoint FOLDER] [--documents N] [--count N]

FOLDER is a BEIR folder, MedQuAD's and Cranfield's here. Of each query with several relevant documents one is kept,
drawn by chance, and the others are held back: `pyrite mine` sees a collection in OUT with one relevant document per
query, as labels of companies have it. Negatives come from BM25, from the checkpoint's nearest documents and at random;
guards are none, a margin of 5% by the function's scores, the same with `guard.deepest=100`, and the same by the
checkpoint's scores. The checkpoint is MiniLM by default. It prints the share of negatives that are relevant by what was
held back, and what a guard costs in hardness: the median rank of the negatives in the function's list. A finished row
is not mined again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.transformers import default_checkpoint
from pyrite.cluster.commands.cli import main as pyrite
from pyrite.ranking.collections.beir import Beir
from pyrite.ranking.collections.cache import open_collection

SMALLEST = ["{out} {collection} --checkpoint {small_bert} --count 1"]
MARGIN = "guard.relative=0.05"
GUARDS: dict[str, list[str]] = {
    "none": [],
    "5% margin": [MARGIN],
    "5% margin, `guard.deepest=100`": [MARGIN, "guard.deepest=100"],
}
"""Options of each guard by the function's own scores."""
BY_ENCODER = {"5% margin by the encoder": [MARGIN, "guard.ranker={checkpoint}"]}
FUNCTIONS: dict[str, tuple[list[str], dict[str, list[str]]]] = {
    "random": (["function=random"], {"none": []}),
    "bm25": (["function=bm25", "function.bm25.depth=100"], GUARDS | BY_ENCODER),
    "dense": (["function=dense", "function.dense.depth=100", "checkpoint={checkpoint}"], GUARDS),
}
"""Options of each function, and its guards."""


def hold_back(folder: Path, out: Path, most: int | None) -> pl.DataFrame:
    """Write a BEIR folder that keeps one relevant document per query, and return the others: query and document.

    Args:
        most: the number of documents: the relevant ones, and others drawn by chance; None takes all.
    """
    collection, rng = open_collection(Beir(str(folder)), out.with_name("cache")), np.random.default_rng(0)
    relevant = collection.judgements.filter(pl.col("grade") > 0).select("query", "document").unique(maintain_order=True)
    several = relevant.filter(pl.len().over("query") > 1)
    several = several.with_columns(draw=pl.Series(rng.random(len(several))))
    kept = pl.col("draw") == pl.col("draw").max().over("query")
    documents = collection.documents.select(pl.col("id").alias("_id"), "text")
    needed = documents["_id"].is_in(several["document"].unique().to_list())
    others = documents.filter(~needed)
    if most is not None:
        others = others.sample(min(max(most - int(needed.sum()), 0), len(others)), seed=0)
    queries = collection.queries.select(pl.col("id").alias("_id"), "text")
    (out / "qrels").mkdir(parents=True, exist_ok=True)
    pl.concat([documents.filter(needed), others]).write_ndjson(out / "corpus.jsonl")
    asked = queries["_id"].is_in(several["query"].unique().to_list())
    queries.filter(asked).write_ndjson(out / "queries.jsonl")
    rows = several.filter(kept).select(pl.col("query").alias("query-id"), pl.col("document").alias("corpus-id"))
    rows.with_columns(score=pl.lit(1)).write_csv(out / "qrels" / "train.tsv", separator="\t")
    return several.filter(~kept).select("query", "document")


def mined(folder: Path, out: Path, count: int, options: list[str]) -> pl.DataFrame:
    """Mine into a folder unless that is done, and return one row per negative: query, document and rank."""
    if not (out / "summary.csv").exists():
        arguments = ["mine", "collection=beir", f"collection.path={folder}", "queries=train", f"count={count}"]
        try:
            pyrite([*arguments, "selector=top", *options, f"out={out}"])
        except SystemExit as ended:
            if ended.code:
                raise
    files = sorted((out / "ids").glob("*.parquet"))
    rows = pl.concat([pl.read_parquet(file) for file in files]).with_columns(pl.col("document_ids").list.slice(1))
    rows = rows.select(query="query_id", document="document_ids", rank=pl.col("ranks").list.slice(1))
    return rows.explode("document", "rank").drop_nulls("document")


def table_rows(folder: Path, chosen: argparse.Namespace) -> Iterator[list[str]]:
    """Yield a row of the table for each function and guard over a collection."""
    made = chosen.out / folder.name / "collection"
    held_back = hold_back(folder, made, chosen.documents)
    for function, (of_function, guards) in FUNCTIONS.items():
        for number, (guard, of_guard) in enumerate(guards.items()):
            options = [text.format(checkpoint=chosen.checkpoint) for text in [*of_function, *of_guard]]
            found = mined(made, chosen.out / folder.name / f"{function}{number}", chosen.count, options)
            wrong = found.join(held_back, on=["query", "document"], how="semi")
            share, median = len(wrong) / max(len(found), 1), found["rank"].median()
            rank = "–" if function == "random" or median is None else f"{median:,.0f}"
            yield [folder.name, function, guard, f"{len(found):,}", f"{share:.1%}", rank]


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--checkpoint", default=None)
    parser.add_argument("--documents", type=int, default=None)
    parser.add_argument("--count", type=int, default=4)
    chosen = parser.parse_args(arguments)
    chosen.checkpoint = chosen.checkpoint or default_checkpoint()
    title = ["collection", "function", "guard", "negatives", "relevant (held back)", "rank (median)"]
    rows = (row for folder in chosen.folders for row in table_rows(folder, chosen))
    for row in chain([title, ["---"] * len(title)], rows):
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
