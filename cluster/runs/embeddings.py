"""Embeds the test queries of a run by its ranker, for their agreement with categories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from pyrite.analysis.methods import first_runs
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import refuse
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.scoring import represent

MOST = 2000
"""Maximum number of queries whose vectors are kept."""
SCHEMA: dict[str, Any] = {
    "run": pl.String, "collection": pl.String, "query": pl.String, "category": pl.String, "subcategory": pl.String,
    "vector": pl.List(pl.Float32),
}  # fmt: skip
"""Columns of embeddings.parquet."""


@torch.no_grad()
def vectors_of(ranker: Ranker, encoded: EncodedCollection, queries: NDArray[np.integer]) -> NDArray[np.float32]:
    """Return one vector per query [q, dimension]; refuse a ranker with several vectors for a text, or none."""
    vectors = represent(ranker, encoded.queries, queries, queries=True)
    remedy = "choose ranker=dssm, bi_encoder or feed_forward"
    refuse(
        vectors.ndim != 2 or not vectors.is_floating_point(),
        f"{type(ranker).__name__} has no vector for a text",
        "embeddings=true",
        remedy,
    )
    return vectors.float().cpu().numpy()


def embeddings_table(
    trials: pl.DataFrame,
    collections: dict[str, Collection],
    embedded: Sequence[str],
    vectors: Callable[[str], dict[str, NDArray[Any]]],
) -> pl.DataFrame:
    """Return the rows of embeddings.parquet from each method's run of the lowest seed; `vectors` reads a run's."""
    first = first_runs(trials, embedded)
    parts = [pl.DataFrame(schema=SCHEMA)]
    for run, collection in first.select("run", "collection").sort("run").rows():
        embeddings = vectors(run)
        table = collections[run].queries[embeddings["queries"]].with_columns(
            run=pl.lit(run), collection=pl.lit(collection), query=pl.col("id"),
            vector=pl.Series(embeddings["vectors"].tolist(), dtype=SCHEMA["vector"]),
        )  # fmt: skip
        parts.append(table.select(*SCHEMA))
    return pl.concat(parts)


def spread_out(queries: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return at most `MOST` queries, evenly spaced."""
    return queries[:: -(-len(queries) // MOST) or 1]
