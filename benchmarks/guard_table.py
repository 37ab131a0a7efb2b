"""Counts how many mined negatives are relevant by judgements that were held back, under each function and guard.

    python -m benchmarks.guard_table OUT FOLDER… --taught FOLDER [--checkpoint FOLDER] [--queries N] [--documents N]

FOLDER is a BEIR folder, MedQuAD's and Cranfield's here. Of each query with several relevant documents one is kept,
drawn by chance, and the others are held back: `pyrite mine` sees a collection in OUT with one relevant document per
query, as labels of companies have it. Negatives come from BM25, from the checkpoint's nearest documents and at random.
Guards are none, a margin of 5% by the function's scores, the same with `guard.deepest=100`, the same by the
checkpoint's scores, and a margin of 1 by a cross-encoder. `pyrite train` makes it of the checkpoint first (up to 32 +
96 subwords), from the queries of `--taught` that have one relevant document: none of them is a query of the table. The
checkpoint is MiniLM by default. It prints how well the cross-encoder ranks, then the share of negatives that are
relevant by what was held back, and what a guard costs in hardness: the median rank of the negatives in the function's
list. What is finished is not done again.
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
from pyrite.ranking.collections.collection import Collection

SMALLEST = ["{out} {several} --taught {collection} --checkpoint {small_bert} --count 1 --examples 8"]
MARGIN = "guard.relative=0.05"
GUARDS: dict[str, list[str]] = {
    "none": [],
    "5% margin": [MARGIN],
    "5% margin, `guard.deepest=100`": [MARGIN, "guard.deepest=100"],
}
"""Options of each guard by the function's own scores."""
BY_RANKERS = {
    "5% margin by the encoder": [MARGIN, "guard.ranker={checkpoint}"],
    "margin of 1 by the cross-encoder": ["guard.absolute=1", "guard.ranker={cross_encoder}"],
}
FUNCTIONS: dict[str, tuple[list[str], dict[str, list[str]]]] = {
    "random": (["function=random"], {"none": []}),
    "bm25": (["function=bm25", "function.bm25.depth=20"], GUARDS | BY_RANKERS),
    "dense": (["function=dense", "function.dense.depth=20", "checkpoint={checkpoint}"], GUARDS),
}
"""Options of each function, and its guards."""


def run(folder: Path, *arguments: str) -> Path:
    """Run a command that leaves a folder unless it did, and return the folder."""
    if not (folder / "summary.csv").exists():
        try:
            pyrite([*arguments, f"out={folder}"])
        except SystemExit as ended:
            if ended.code:
                raise
    return folder


def relevant_pairs(collection: Collection) -> pl.DataFrame:
    """Return each query's relevant documents, and how many a query has."""
    pairs = collection.judgements.filter(pl.col("grade") > 0).select("query", "document").unique(maintain_order=True)
    return pairs.with_columns(count=pl.len().over("query"))


def write(
    collection: Collection, pairs: pl.DataFrame, needed: pl.Series, most: int | None, out: Path, *others: int
) -> None:
    """Write a BEIR folder of queries with one relevant document each.

    Args:
        others: the queries for dev and for test; all others are for training.
        needed: the ids of documents that are written.
        most: the number of documents: those that are needed, and others drawn by chance; None takes all.
    """
    documents = collection.documents.select(pl.col("id").alias("_id"), "text")
    is_needed = documents["_id"].is_in(needed.unique().to_list())
    rest = documents.filter(~is_needed)
    if most is not None:
        rest = rest.sample(min(max(most - int(is_needed.sum()), 0), len(rest)), seed=0)
    queries = collection.queries.select(pl.col("id").alias("_id"), "text")
    (out / "qrels").mkdir(parents=True, exist_ok=True)
    pl.concat([documents.filter(is_needed), rest]).write_ndjson(out / "corpus.jsonl")
    queries.filter(queries["_id"].is_in(pairs["query"].to_list())).write_ndjson(out / "queries.jsonl")
    rows = pairs.select(pl.col("query").alias("query-id"), pl.col("document").alias("corpus-id"), score=pl.lit(1))
    starts = [0, *np.cumsum(others).tolist()]
    for split, start, end in zip(("dev", "test", "train")[3 - len(starts) :], starts, [*starts[1:], None], strict=True):
        rows[start:end].write_csv(out / "qrels" / f"{split}.tsv", separator="\t")


def hold_back(folder: Path, out: Path, chosen: argparse.Namespace) -> pl.DataFrame:
    """Write a BEIR folder that keeps one relevant document per query, and return the others: query and document."""
    collection, rng = open_collection(Beir(str(folder)), out.with_name("cache")), np.random.default_rng(0)
    several = relevant_pairs(collection).filter(pl.col("count") > 1)
    asked = several["query"].unique(maintain_order=True)
    asked = asked.sample(min(chosen.queries or len(asked), len(asked)), seed=0)
    several = several.filter(several["query"].is_in(asked.to_list()))
    several = several.with_columns(draw=pl.Series(rng.random(len(several))))
    kept = pl.col("draw") == pl.col("draw").max().over("query")
    write(collection, several.filter(kept), several["document"], chosen.documents, out)
    return several.filter(~kept).select("query", "document")


def cross_encoder(chosen: argparse.Namespace) -> Path:
    """Train a cross-encoder on queries that have one relevant document, and return the folder of its weights."""
    taught = chosen.out / "taught"
    collection = open_collection(Beir(str(chosen.taught)), taught / "cache")
    one = relevant_pairs(collection).filter(pl.col("count") == 1)
    dev, test = max(chosen.examples // 20, 4), max(chosen.examples // 10, 4)
    one = one.sample(min(chosen.examples + dev + test, len(one)), seed=0)
    write(collection, one, one["document"], chosen.documents, taught / "collection", dev, test)
    folder = run(
        chosen.out / "cross_encoder", "train", "collection=beir", f"collection.path={taught / 'collection'}",
        "ranker=cross_encoder", f"ranker.checkpoint={chosen.checkpoint}", "ranker.max_query=32",
        "ranker.max_document=96", "objective=softmax", "function=bm25", "selector=uniform", "sampling.negatives=3",
        "training.batch_size=8", "training.max_epochs=1", "origin=bm25", "origin.bm25.depth=20", "measures=[RR@10]",
        "validation.measure=RR@10", "weights=true",
    )  # fmt: skip
    return next(path.parent for path in (folder / "weights").rglob("config.json"))


def mined(folder: Path, out: Path, count: int, options: list[str]) -> pl.DataFrame:
    """Mine into a folder unless that is done, and return one row per negative: query, document and rank."""
    collection = ["collection=beir", f"collection.path={folder}", "queries=train"]
    try:
        run(out, "mine", *collection, f"count={count}", "selector=top", *options)
    except SystemExit:  # the guard left too few negatives of every query, which was printed
        return pl.DataFrame(schema={"query": pl.String, "document": pl.String, "rank": pl.Int64})
    files = sorted((out / "ids").glob("*.parquet"))
    rows = pl.concat([pl.read_parquet(file) for file in files]).with_columns(pl.col("document_ids").list.slice(1))
    rows = rows.select(query="query_id", document="document_ids", rank=pl.col("ranks").list.slice(1))
    return rows.explode("document", "rank").drop_nulls("document")


def table_rows(folder: Path, chosen: argparse.Namespace) -> Iterator[list[str]]:
    """Yield a row of the table for each function and guard over a collection."""
    made = chosen.out / folder.name / "collection"
    held_back = hold_back(folder, made, chosen)
    for function, (of_function, guards) in FUNCTIONS.items():
        for number, (guard, of_guard) in enumerate(guards.items()):
            options = [text.format(**vars(chosen)) for text in [*of_function, *of_guard]]
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
    parser.add_argument("--taught", type=Path, required=True, help="whose other queries train the cross-encoder")
    parser.add_argument("--checkpoint", default=None)
    parser.add_argument("--queries", type=int, default=None, help="of each folder, drawn by chance")
    parser.add_argument("--examples", type=int, default=480, help="pairs that train the cross-encoder")
    parser.add_argument("--documents", type=int, default=None)
    parser.add_argument("--count", type=int, default=4)
    chosen = parser.parse_args(arguments)
    chosen.checkpoint = chosen.checkpoint or default_checkpoint()
    chosen.cross_encoder = cross_encoder(chosen)
    title = ["collection", "function", "guard", "negatives", "relevant (held back)", "rank (median)"]
    rows = (row for folder in chosen.folders for row in table_rows(folder, chosen))
    for row in chain([title, ["---"] * len(title)], rows):
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
