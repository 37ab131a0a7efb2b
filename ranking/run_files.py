"""Reads TREC runs as ranked lists over a collection."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import polars as pl

from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.trec_files import read_run

logger = logging.getLogger(__name__)


def lists_of_run(
    paths: Sequence[str], collection: Collection, depth: int | None, strict: bool = True, encoding: str = "utf-8"
) -> RankedLists:
    """Return the lists of one or more runs, one row per query of the collection.

    The order within a query is trec_eval's: score (as float32) descending, then document id descending. Queries of the
    run that the collection lacks are skipped and counted in a line of the log (a run may serve several splits); a
    document that it lacks is an error.

    Args:
        paths: runs, in any form of `pyrite.ranking.collections.judgement_files.run_rows`.
        collection: the collection, for the indices of queries and documents.
        depth: the length of each list. None keeps all, with as many columns as the longest has.
        strict: whether to raise on the first fault; otherwise broken lines and documents that the collection lacks are
            left out and counted in a line of the log.

    Raises:
        BadInput: if a file is broken, or ranks a document that the collection lacks.
    """
    queries = pl.DataFrame({"query": collection.queries["id"]}).with_row_index("q")
    faults = Faults(strict, "strict=false of run_file (such as origin.run_file.strict=false)", "run_file's encoding")
    lines = [_known_lines(path, queries, collection, faults, encoding) for path in paths]
    if faults.skipped:
        skipped = ", ".join(f"{count:,} × {kind}" for kind, count in faults.skipped.items())
        logger.warning("%s: left out: %s", ", ".join(map(str, paths)), skipped)
    runs = (
        pl.concat(lines)
        .sort(["q", "score", "document"], descending=[False, True, True])
        .unique(["q", "d"], keep="first", maintain_order=True)
        .with_columns(rank=pl.int_range(pl.len()).over("q"))
    )
    if depth is None:
        depth = 1 + int(runs["rank"].max() or 0)  # type: ignore[arg-type]
    runs = runs.filter(pl.col("rank") < depth)
    return RankedLists.of_rows(runs, len(queries), depth)


def _known_lines(
    path: str, queries: pl.DataFrame, collection: Collection, faults: Faults, encoding: str
) -> pl.DataFrame:
    """Return the lines of a run over the collection's queries (query, q) and documents, with their indices."""
    score = pl.col("score").cast(pl.Float32)
    run = read_run(path, faults=faults, encoding=encoding).select("query", "document", score)
    what = "the score of {document!r} for query {query!r} is out of range"
    run = faults.only(run, pl.col("score").is_finite(), "score out of range", what, path)
    if len(run) > run["query"].n_unique() == run.select("query", "score").n_unique():
        logger.warning("%s: all scores of a query are equal; its documents are ordered by their ids", path)
    strangers = run.join(queries, on="query", how="anti", maintain_order="left")["query"]
    if len(strangers):
        what = "%s: queries of the run that %s lacks: %d (such as %r), left out"
        logger.warning(what, path, collection.name, strangers.n_unique(), strangers[0])
    run = run.join(queries, on="query", maintain_order="left")
    run = run.with_columns(collection.document_rows(run["document"]).alias("d"))
    unknown = run["d"].null_count()
    return faults.only(
        run,
        pl.col("d").is_not_null(),
        "unknown document",
        "{document!r} of query {query!r}",
        path,
        remedy="is it a run over this collection? strict=false leaves such lines out",
        more=lambda row: f" is not in {collection.name} ({unknown} such lines)",
    )
