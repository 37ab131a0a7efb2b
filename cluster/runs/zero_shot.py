"""Evaluates rankers on other collections, which they have not learned from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.analysis.methods import MEAN
from pyrite.cluster.config.build import build
from pyrite.cluster.runs.outcome import Outcome
from pyrite.ranking.alike import digests, mix
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import refuse
from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.evaluation.origins import Candidates
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.sources import Sources
from pyrite.ranking.texts import Texts


@dataclass(frozen=True)
class ZeroShot:
    """Another collection to evaluate a ranker on, encoded for the ranker, and candidates of its queries by origin."""

    encoded: EncodedCollection
    candidates: dict[str, Candidates]


def zero_shot(config: dict[str, Any], sources: Sources, read: EncodedCollection) -> ZeroShot:
    """Return a collection with candidates of each origin of the run, except run files, which have other queries.

    The candidates are those of test queries, or of all queries without splits, that have a relevant document.

    Raises:
        BadInput: if none has one.
    """
    queries = read.queries_of("test") if (read.split >= 0).any() else np.arange(len(read.queries))
    queries = queries[read.judgements.answered()[queries]]
    what = "no query to be measured has a relevant document"
    refuse(not len(queries), what, f"evaluate, {sources.collection.name}", "check its test queries and their grades")
    queries = at_most(config["limits"]["test"], sources.encoded.queries, queries)
    nodes = {name: node for name, node in config["origin"].items() if "path" not in node and name != "category"}
    return ZeroShot(read, {name: build(node, trust="composed").of(sources, queries) for name, node in nodes.items()})


def at_most(most: int | None, texts: Texts, queries: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return at most `most` queries, chosen by a hash of their texts, so that a smaller choice is part of a larger."""
    if most is None or len(queries) <= most:
        return queries
    key = mix(digests(texts, queries))
    return np.sort(queries[np.argsort(key, kind="stable")[:most]])


def measure_zero_shot(config: dict[str, Any], parts: Mapping[str, Any], ranker: Ranker, outcome: Outcome) -> None:
    """Add the measures of a trained ranker on each of the collections to the outcome, and BM25's."""
    for name, part in parts.items():
        kind, _, collection = name.partition(":")
        if kind != "evaluate":
            continue
        for origin, candidates in part.candidates.items():
            evaluation = Evaluation(part.encoded, candidates, config["measures"])
            values, bm25 = evaluation(ranker), evaluation.of_bm25()
            for measure in config["measures"]:
                row = {"collection": collection, "origin": origin, "measure": measure, "queries": len(values[measure])}
                means = {"value": float(values[measure].mean()), "bm25": float(bm25[measure].mean())}
                outcome.zero_shot.append(row | means)


def data_set_rows(run: str, outcome: Outcome, collection: Collection) -> list[pl.DataFrame]:
    """Return the measures on the test queries of each collection of a mixture; no table if it is none."""
    names = collection.source.get("mixed", [])
    rows = []
    for origin, queries in outcome.queries.items() if names else ():
        owners = collection.queries["id"].gather(queries.astype(np.uint32)).str.split("/").list.first()
        for name in names:
            inside = (owners == name).to_numpy()
            for measure, values in outcome.values[origin].items():
                row = {
                    "run": run,
                    "collection": name,
                    "origin": origin,
                    "measure": measure,
                    "queries": int(inside.sum()),
                }
                means = {"value": values[inside], "bm25": outcome.bm25[origin][measure][inside]}
                rows.append(row | {key: float(part.mean()) if len(part) else None for key, part in means.items()})
    return [pl.DataFrame(rows, infer_schema_length=None)] if rows else []


def zero_shot_rows(run: str, outcome: Outcome) -> list[pl.DataFrame]:
    """Return one row per collection, origin and measure, and their means over collections; no table if there are none.

    For a cross-validated run, the values are means over the rankers of the folds.
    """
    if not outcome.zero_shot:
        return []
    keys = ["collection", "origin", "measure"]
    groups = pl.DataFrame(outcome.zero_shot).group_by(keys, maintain_order=True)
    rows = groups.agg(pl.col("queries").first(), pl.col("value", "bm25").mean())
    means = rows.group_by("origin", "measure", maintain_order=True)
    mean = means.agg(pl.col("queries").sum(), pl.col("value", "bm25").mean(), collection=pl.lit(MEAN))
    return [pl.concat([rows, mean.select(rows.columns)]).select(pl.lit(run).alias("run"), pl.all())]
