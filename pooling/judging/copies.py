"""Finds pooled documents with the same text, so that assessors judge each text of a topic once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import polars as pl
from sklearn.feature_extraction.text import HashingVectorizer

from pyrite.pooling.pool import Pool
from pyrite.pooling.runs import Runs
from pyrite.ranking.contents import content_ids, text_hashes

COPIES = {"topic": pl.String(), "document": pl.String(), "first": pl.String()}
"""Documents that are not shown, and the one with the same text that is shown instead."""
NO_COPIES = pl.DataFrame(schema=COPIES)
VISIBLE = r"[^\p{Z}\p{Cc}\p{Cf}]"
"""A character that can be seen. Texts without one have nothing in common."""
NEAR, SHINGLE = 0.9, 3
"""Texts are nearly the same if they share so much of all their runs of so many words (resemblance; Broder 1997)."""


def find_copies(
    pool: Pool,
    texts: pl.DataFrame,
    begun: Iterable[tuple[str, str]] = (),
    before: pl.DataFrame = NO_COPIES,
    near: bool = False,
) -> pl.DataFrame:
    """Return the pooled documents that have the text of another one of their topic: `COPIES`.

    Texts are the same if they differ only in case, white space or Unicode composition
    (`pyrite.ranking.contents.normalized`). The one that is shown is the first of the collection.

    Args:
        texts: id, text, in the order of the collection.
        begun: topics and documents that assessors were shown. They are shown, not their copies.
        before: the copies that were found when the judging began, or last grew. They remain those of the same
            documents, as long as both are pooled: what is shown since decides only about documents that came later.
        near: whether texts are copies also if they are nearly the same (`NEAR`).
    """
    if texts["id"].is_duplicated().any():
        texts = texts.unique("id", keep="first", maintain_order=True)
    documents = texts.select(
        pl.col("id").alias("document"), pl.Series("content", content_ids(text_hashes(texts["text"].fill_null("")))),
        pl.col("text").str.contains(VISIBLE).fill_null(False).alias("readable"), pl.int_range(pl.len()).alias("row"),
    ).filter("readable")  # fmt: skip
    shown = pl.DataFrame(list(begun), {"topic": pl.String, "document": pl.String}, orient="row").unique()
    pooled = pl.concat(
        [
            topic.documents.alias("document").to_frame().select(pl.lit(topic.name).alias("topic"), "document")
            for topic in pool.topics
        ]
    )
    place = ["topic", "document"]
    kept = before.join(pooled, on=place, how="semi").join(shown, on=place, how="anti")
    kept = kept.join(pooled, left_on=["topic", "first"], right_on=place, how="semi")
    shown = pl.concat([shown, kept.select("topic", document="first")]).unique()
    groups = (
        pooled.join(kept, on=place, how="anti")
        .join(documents, on="document")
        .join(shown.with_columns(begun=pl.lit(True)), on=place, how="left")
    )
    order = [pl.col("begun").is_null(), pl.col("row")]
    if near:
        groups = _with_near(groups.sort("topic", *order), texts)
    ordered = groups.sort("topic", "content", *order).with_columns(
        pl.col("document").first().over("topic", "content").alias("first")
    )
    new = ordered.filter(pl.col("begun").is_null(), pl.col("document") != pl.col("first"))
    return pl.concat([kept, new.select(list(COPIES))])


def _with_near(groups: pl.DataFrame, texts: pl.DataFrame) -> pl.DataFrame:
    """Return pooled documents with one content for those of a topic that are nearly the same.

    In the order of the rows, each document takes the content of the first one that it is near to and that took no
    other's: so no chain of small differences joins two that differ much.
    """
    shingles = HashingVectorizer(
        token_pattern=r"\w+", ngram_range=(SHINGLE, SHINGLE), binary=True, norm=None, alternate_sign=False
    )
    contents = []
    for _, topic in groups.join(texts.select("id", "text"), left_on="document", right_on="id", how="left",
                                maintain_order="left").group_by("topic", maintain_order=True):  # fmt: skip
        bags = shingles.transform(topic["text"].to_list())
        shared = (bags @ bags.T).tocoo()
        sizes = np.asarray(bags.sum(axis=1)).ravel()
        near = shared.data >= NEAR * (sizes[shared.row] + sizes[shared.col] - shared.data)
        earlier = near & (shared.col < shared.row)
        content = topic["content"].to_numpy(writable=True)
        leads = np.ones(len(content), bool)
        for row, lead in sorted(zip(shared.row[earlier].tolist(), shared.col[earlier].tolist(), strict=True)):
            if leads[row] and leads[lead]:
                content[row], leads[row] = content[lead], False
        contents.append(content)
    return groups.with_columns(pl.Series("content", np.concatenate([np.zeros(0, np.int32), *contents])))


def with_firsts(frame: pl.DataFrame, copies: pl.DataFrame, topic: str = "topic") -> pl.DataFrame:
    """Return rows with the documents that are shown instead of theirs, in their order.

    Args:
        topic: the name of the column of topics.
    """
    joined = frame.join(
        copies, left_on=[topic, "document"], right_on=["topic", "document"], how="left", maintain_order="left"
    )
    return joined.with_columns(pl.coalesce("first", "document").alias("document")).select(frame.columns)


def merged_runs(runs: Runs, copies: pl.DataFrame) -> Runs:
    """Return runs in which each text of a topic is one document, at the best place of its copies."""
    ordered = with_firsts(runs.table, copies).sort("run", "topic", "place", maintain_order=True)
    once = ordered.unique(["run", "topic", "document"], keep="first", maintain_order=True)
    places = pl.int_range(pl.len(), dtype=pl.UInt32).over("run", "topic").cast(runs.table.schema["place"])
    return replace(runs, table=once.with_columns(place=places).select(runs.table.columns))


def spread(grades: dict[tuple[str, str], list[int]], copies: pl.DataFrame) -> dict[tuple[str, str], list[int]]:
    """Return grades by topic and document, with those of documents that were judged once with others.

    Args:
        copies: `COPIES`. The grade of the one that is shown counts for its copies, or the grade of a copy that was
            judged before for the others. A document with a grade keeps it.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for topic, document, first in copies.iter_rows():
        groups.setdefault((topic, first), [first]).append(document)
    shared: dict[tuple[str, str], list[int]] = {}
    for (topic, _), documents in groups.items():
        places = [(topic, document) for document in documents]
        judged = [grades[place] for place in places if place in grades]
        shared |= dict.fromkeys(places, judged[0]) if judged else {}
    return grades | shared | grades
