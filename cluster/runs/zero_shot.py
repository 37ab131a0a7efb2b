"""Reads other collections, on which a ranker is measured at the end of its run without having learned from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from cluster.config.build import build
from cluster.runs.measured_on import MEAN
from cluster.runs.outcome import Outcome
from ranking.alike import digests, mix
from ranking.encoding import EncodedCollection
from ranking.evaluation.evaluation import Evaluation
from ranking.evaluation.origins import Candidates
from ranking.rankers.ranker import Ranker
from ranking.sources import Sources


@dataclass(frozen=True)
class ZeroShot:
    """A collection to measure on.

    Args:
        encoded: as the ranker reads it.
        candidates: of its test queries (of all where it has no splits), by their origin.
    """

    encoded: EncodedCollection
    candidates: dict[str, Candidates]


def zero_shot(config: dict[str, Any], sources: Sources, read: EncodedCollection) -> ZeroShot:
    """A collection with the candidates of each origin that the run has, but run files, which are of its own queries.

    Args:
        config: of the run.
        sources: the collection, with what first stages rank with.
        read: the collection as the run's ranker reads it.
    """
    split = (read.split >= 0).any()
    queries = read.queries_of("test") if split else np.arange(len(read.queries))
    most = config["limits"]["test"]
    if most is not None and len(queries) > most:
        key = mix(digests(sources.encoded.queries, queries))
        queries = np.sort(queries[np.argsort(key, kind="stable")[:most]])
    nodes = {name: node for name, node in config["origin"].items() if "path" not in node and name != "category"}
    return ZeroShot(read, {name: build(node).candidates(sources, queries) for name, node in nodes.items()})


def measure_zero_shot(config: dict[str, Any], parts: Mapping[str, Any], ranker: Ranker, outcome: Outcome) -> None:
    """Add what a trained ranker reaches on each of the collections, and BM25 beside it."""
    for name, part in parts.items():
        kind, _, collection = name.partition(":")
        if kind != "evaluate":
            continue
        for origin, candidates in part.candidates.items():
            evaluation = Evaluation(part.encoded, candidates, config["measures"])
            own, first = evaluation(ranker), evaluation.of_bm25()
            for measure in config["measures"]:
                row = {"collection": collection, "origin": origin, "measure": measure, "queries": len(own[measure])}
                means = {"value": float(own[measure].mean()), "bm25": float(first[measure].mean())}
                outcome.zero_shot.append(row | means)


def zero_shot_rows(run: str, outcome: Outcome) -> list[pl.DataFrame]:
    """A row a collection, origin and measure, and their means over the collections; no table where there are none.

    Of a cross-validated run they are means over the folds' rankers.
    """
    if not outcome.zero_shot:
        return []
    keys = ["collection", "origin", "measure"]
    each = pl.DataFrame(outcome.zero_shot).group_by(keys, maintain_order=True)
    rows = each.agg(pl.col("queries").first(), pl.col("value", "bm25").mean())
    means = rows.group_by("origin", "measure", maintain_order=True).agg(
        pl.col("queries").sum(), pl.col("value", "bm25").mean()
    )
    means = means.with_columns(collection=pl.lit(MEAN)).select(rows.columns)
    return [pl.concat([rows, means]).select(pl.lit(run).alias("run"), pl.all())]
