"""Embeds a run's test queries by its ranker, for the map of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from cluster.output.methods import with_methods
from ranking.collections.collection import Collection
from ranking.encoding import EncodedCollection
from ranking.errors import BadInput
from ranking.labels import labels_of
from ranking.rankers.ranker import Ranker
from ranking.scoring import represent

MOST = 2000
"""Queries whose vectors are kept."""
SCHEMA: dict[str, Any] = {
    "run": pl.String, "collection": pl.String, "query": pl.String, "category": pl.String, "subcategory": pl.String,
    "vector": pl.List(pl.Float32),
}  # fmt: skip
"""Columns of embeddings.parquet."""


@torch.no_grad()
def vectors_of(ranker: Ranker, encoded: EncodedCollection, queries: NDArray[np.integer]) -> NDArray[np.float32]:
    """One vector a query [q, dimension].

    Raises:
        BadInput: where the ranker has more than one for a text, or none.
    """
    vectors = represent(ranker, encoded.queries, queries, queries=True)
    if vectors.ndim != 2 or not vectors.is_floating_point():
        name = type(ranker).__name__
        raise BadInput(
            f"{name} has no vector for a text", "embeddings=true", "choose ranker=dssm, bi_encoder or feed_forward"
        )
    return vectors.float().cpu().numpy()


def embeddings_table(
    trials: pl.DataFrame,
    collections: dict[str, Collection],
    embedded: Sequence[str],
    vectors: Callable[[str], dict[str, NDArray[Any]]],
) -> pl.DataFrame:
    """embeddings.parquet: of each method the run with the lowest seed.

    Args:
        trials: the frame of `trials.parquet`.
        collections: by the runs' names.
        embedded: names of the runs that have some.
        vectors: reads `Outcome.embeddings` of a run.
    """
    runs = with_methods(trials).join(trials.select("run", "seed"), on="run").filter(pl.col("run").is_in(list(embedded)))
    first = runs.sort("seed", "run").unique(["collection", "ranker", "method"], keep="first", maintain_order=True)
    parts = [pl.DataFrame(schema=SCHEMA)]
    for run, collection in first.select("run", "collection").sort("run").rows():
        found = vectors(run)
        of_queries = collections[run].queries[found["queries"]]
        parts.append(
            of_queries.select(
                pl.lit(run).alias("run"),
                pl.lit(collection).alias("collection"),
                pl.col("id").alias("query"),
                "category",
                "subcategory",
                pl.Series("vector", found["vectors"].tolist(), pl.List(pl.Float32)),
            )
        )
    return pl.concat(parts)


def spread_out(queries: NDArray[np.integer]) -> NDArray[np.integer]:
    """At most `MOST` of the queries, evenly."""
    return queries[:: -(-len(queries) // MOST) or 1]


def check_vectors(config: dict[str, Any], ranker: Ranker, encoded: EncodedCollection) -> None:
    """See before a run trains that there are vectors to keep, and categories to hold them against.

    Raises:
        BadInput: where there are not.
    """
    if config["embeddings"]:
        labels_of(encoded.queries, "embeddings=true")
        vectors_of(ranker, encoded, np.zeros(1, np.int64))
