"""Leaves a collection only the judgements that an order of judging would have made within a budget."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import polars as pl

from cluster.config.build import build
from cluster.config.compose import compose
from pooling.pool import Pool, make_pool
from pooling.simulation import adjudicator_of, simulate
from pooling.systems.inputs import Rerank
from pooling.systems.systems import ranked_by_all
from pooling.terms import Texts, with_terms
from ranking.backing import at_hand, publish
from ranking.collections.collection import Collection
from ranking.digest import digest
from ranking.errors import BadInput

PAIR = ["query", "document"]
FORMAT = 1
"""Raised whenever other judgements would be left."""


def partially_judged(
    collection: Collection,
    options: dict[str, Any],
    cache: Path,
    note: Callable[[str], None] = lambda line: None,
    rerank: Rerank | None = None,
) -> Collection:
    """The collection as if `options["budget"]` documents of each query had been judged, in an order, and no others.

    Judged is a pool of the systems of `pooling.systems` that need no training, and of rankers that were trained with
    negatives of `feeders`: with all judgements of the training queries, as they stand for rankers from elsewhere.

    Args:
        collection: with all its judgements.
        options: `judging` of conf/config.yaml: order, budget, depth, feeders, of.
        cache: folder in which the judgements are kept.
        note: told what is being made.
        rerank: trains the feeders.

    Raises:
        BadInput: where there is no such order, or the judgements of a split are asked for and there is no split.
    """
    key = digest([FORMAT, collection.fingerprint, options])
    place = cache / "judging" / f"{key}.parquet"
    if not at_hand(place):
        note(f"judging {options['budget']} documents a query of {collection.name} by {options['order']}")
        _write(_judged(collection, options, rerank), place)
    left = pl.read_parquet(place)
    fingerprint = hashlib.sha256(f"{collection.fingerprint} {key}".encode()).hexdigest()[:16]
    facts = collection.facts | {"judgements left": f"{len(left):,} of {len(collection.judgements):,}"}
    return collection.changed(judgements=left, fingerprint=fingerprint, facts=facts)


def _judged(collection: Collection, options: dict[str, Any], rerank: Rerank | None) -> pl.DataFrame:
    """Those of the collection's judgements that the order comes to."""
    order = options["order"]
    ((_, node),) = compose([f"method={order}"], "pool")["method"].items()
    method = build(node, f"judging.order={order}")
    feeders = {
        f"trained_{function}": [f"function={function}", "ranker=static", "ranker.spread=0", "training.max_epochs=5"]
        for function in options["feeders"]
    }
    qrels = collection.judgements.select(*PAIR, "grade")
    pool = make_pool(ranked_by_all(collection, options["depth"], feeders, rerank), qrels, options["depth"])
    if "texts" in adjudicator_of(method).needs:
        topics = dict(collection.queries.select("id", "text").iter_rows())
        pool = with_terms(pool, Texts(collection.documents, topics))
    reached = _reached(pool, simulate(method, pool, [0])[0].judged, options["budget"])
    judgements = collection.judgements
    if options["of"] != "all":
        if collection.queries["split"].null_count():
            what = f"{collection.name} has no split of its queries"
            raise BadInput(what, f"judging.of={options['of']}", "leave judging.of=all, which judges all alike")
        own = collection.queries.filter(split=options["of"]).select(query="id")
        others = judgements.join(own, on="query", how="anti", maintain_order="left")
        judgements = judgements.join(own, on="query", how="semi", maintain_order="left")
    else:
        others = judgements.clear()
    return pl.concat([others, judgements.join(reached, on=PAIR, how="semi", maintain_order="left")])


def _reached(pool: Pool, judged: Callable[[int, int], Any], budget: int) -> pl.DataFrame:
    tables = [
        pl.DataFrame({"query": topic.name, "document": topic.documents.gather(judged(number, budget))})
        for number, topic in enumerate(pool.topics)
    ]
    return pl.concat(tables)


def _write(table: pl.DataFrame, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_suffix(f".{uuid4().hex[:8]}.part")
    table.write_parquet(part)
    os.replace(part, place)
    publish(place)
