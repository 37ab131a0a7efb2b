"""Reduces the judgements of a collection to those that a judging order reaches within a budget."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from pyrite.cluster.config.build import build
from pyrite.cluster.config.compose import compose
from pyrite.pooling.pool import make_pool
from pyrite.pooling.simulation import adjudicator_of, simulate
from pyrite.pooling.systems.inputs import Rerank
from pyrite.pooling.systems.systems import ranked_by_all
from pyrite.pooling.terms import with_terms
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.digest import digest
from pyrite.ranking.errors import BadInput
from pyrite.ranking.whole_file import replace_file

PAIR = ["query", "document"]
FORMAT = 1
"""Number to increase whenever other judgements would remain."""


def partially_judged(
    collection: Collection,
    options: dict[str, Any],
    cache: Path,
    note: Callable[[str], None] = lambda line: None,
    rerank: Rerank | None = None,
) -> Collection:
    """Return the collection as if only `options["budget"]` documents of each query had been judged, in an order.

    The pool consists of the systems of `pyrite.pooling.systems` that need no training, and of rankers trained with
    negatives of `feeders`. These are trained with all judgements of the training queries, since they represent rankers
    from elsewhere. The options are `judging` of conf/config.yaml: order, budget, depth, feeders, of.
    """
    key = digest([FORMAT, collection.fingerprint, options])
    file = cache / "judging" / f"{key}.parquet"
    if not file.exists():
        note(f"judging {options['budget']} documents a query of {collection.name} by {options['order']}")
        judged = _judged(collection, options, rerank)
        with replace_file(file) as temporary:
            judged.write_parquet(temporary)
    left = pl.read_parquet(file)
    fingerprint = hashlib.sha256(f"{collection.fingerprint} {key}".encode()).hexdigest()[:16]
    facts = collection.facts | {"judgements left": f"{len(left):,} of {len(collection.judgements):,}"}
    return collection.changed(judgements=left, fingerprint=fingerprint, facts=facts)


def _judged(collection: Collection, options: dict[str, Any], rerank: Rerank | None) -> pl.DataFrame:
    """Return the judgements within the order's budget."""
    order = options["order"]
    ((_, node),) = compose([f"method={order}"], "pool")["method"].items()
    method = build(node, f"judging.order={order}", trust="composed")
    feeders = {
        f"trained_{function}": [f"function={function}", "ranker=static", "ranker.spread=0", "training.max_epochs=5"]
        for function in options["feeders"]
    }
    qrels = collection.judgements.select(*PAIR, "grade")
    pool = make_pool(ranked_by_all(collection, options["depth"], feeders, rerank), qrels, options["depth"])
    if "texts" in adjudicator_of(method).needs:
        topics = dict(collection.queries.select("id", "text").iter_rows())
        pool = with_terms(pool, collection.documents, topics)
    judged = simulate(method, pool, [0])[0].judged
    reached = pl.concat(
        pl.DataFrame({"query": topic.name, "document": topic.documents.gather(judged(number, options["budget"]))})
        for number, topic in enumerate(pool.topics)
    )
    judgements, others = collection.judgements, collection.judgements.clear()
    if options["of"] != "all":
        if collection.queries["split"].null_count():
            what = f"{collection.name} has no split of its queries"
            raise BadInput(what, f"judging.of={options['of']}", "leave judging.of=all, which judges all alike")
        queries = collection.queries.filter(split=options["of"]).select(query="id")
        others = judgements.join(queries, on="query", how="anti", maintain_order="left")
        judgements = judgements.join(queries, on="query", how="semi", maintain_order="left")
    return pl.concat([others, judgements.join(reached, on=PAIR, how="semi", maintain_order="left")])
