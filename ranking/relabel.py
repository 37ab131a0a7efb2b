"""Corrects a collection's judgements by those of an audit, or of a second round of judging."""

from __future__ import annotations

import hashlib
from pathlib import Path

import polars as pl

from ranking.collections.collection import Collection
from ranking.errors import BadInput
from ranking.trec_files import read_qrels


def relabelled(collection: Collection, path: str | Path) -> Collection:
    """Return the collection with the judgements of a file added to its judgements.

    If both judge a pair, the file's grade counts. Lines of queries or documents that the collection lacks are skipped;
    its facts include the number that was used.

    Args:
        collection: the collection to correct.
        path: a qrels file.

    Raises:
        BadInput: if the file is broken, or none of its lines belongs to this collection.
    """
    given = read_qrels(path).unique(["query", "document"], keep="last", maintain_order=True)
    known = given.join(collection.queries.select(query="id"), on="query", how="semi", maintain_order="left")
    known = known.filter(collection.document_rows(known["document"]).is_not_null())
    if not len(known):
        raise BadInput("has no query and document of the collection", path, f"is it of {collection.name}?")
    kept = collection.judgements.join(known, on=["query", "document"], how="anti", maintain_order="left")
    known = known.select(pl.col(name).cast(kind) for name, kind in collection.judgements.schema.items())
    content = known.sort("query", "document").write_csv()
    fingerprint = hashlib.sha256(f"{collection.fingerprint} {content}".encode()).hexdigest()[:16]
    facts = collection.facts | {"judgements corrected": f"{len(known):,}"}
    return collection.changed(judgements=pl.concat([kept, known]), fingerprint=fingerprint, facts=facts)
