"""Corrects a collection's judgements by those of an audit, or of a second round of judging."""

from __future__ import annotations

import hashlib
from pathlib import Path

import polars as pl

from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.errors import refuse
from pyrite.ranking.trec_files import read_qrels


def relabelled(collection: Collection, path: str | Path, strict: bool = True) -> Collection:
    """Return the collection with the judgements of a file added to its judgements.

    If both judge a pair, the file's grade counts. Lines of queries or documents that the collection lacks, and those of
    -1 (pooled, not judged), are skipped; its facts include the number that was used, and that of the others.

    Args:
        strict: whether to raise on the first broken line; otherwise such lines are skipped and counted.

    Raises:
        BadInput: if the file is broken, or none of its lines belongs to this collection.
    """
    faults = Faults(strict)
    read = read_qrels(path, faults=faults)
    given = read.filter(pl.col("grade") != -1)
    known = given.join(collection.queries.select(query="id"), on="query", how="semi", maintain_order="left")
    known = known.filter(collection.document_rows(known["document"]).is_not_null())
    refuse(not len(known), "has no query and document of the collection", path, f"is it of {collection.name}?")
    kept = collection.judgements.join(known, on=["query", "document"], how="anti", maintain_order="left")
    known = known.select(pl.col(name).cast(kind) for name, kind in collection.judgements.schema.items())
    content = known.sort("query", "document").write_csv()
    fingerprint = hashlib.sha256(f"{collection.fingerprint} {content}".encode()).hexdigest()[:16]
    skipped = len(read) - len(known) + sum(faults.skipped.values())
    corrected = f"{len(known):,} ({skipped:,} other lines left out)" if skipped else f"{len(known):,}"
    facts = collection.facts | {"judgements corrected": corrected}
    return collection.changed(judgements=pl.concat([kept, known]), fingerprint=fingerprint, facts=facts)
