"""Declares the options of `pyrite rank`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pyrite.cluster.config.schema.kinds import (
    CACHE,
    CheckpointConfig,
    Config,
    Count,
    Measures,
    Name,
    PartConfig,
    Parts,
    Precision,
    Split,
)


class RankConfig(Config):
    collection: PartConfig
    origin: Parts
    """The origin of the candidates that are ranked: bm25, run_file, full (every document), category."""
    checkpoint: str
    """The ranker: a folder of `pyrite train weights=true`, weights, or a checkpoint."""
    ranker: CheckpointConfig | None = None
    """The class of a checkpoint that does not name it: cross_encoder, bi_encoder, …, or {_target_: …}. Options alone,
    as ranker.query_prompt=NAME, are those of the class that its files say."""
    precision: Precision = "auto"
    """The precision of a checkpoint's transformers: float32, bfloat16, float16. auto: bfloat16 if the processor
    multiplies in it, else float32."""
    queries: Split = "test"
    """The split: train, dev, test or all; all if there are no splits."""
    topics: str | None = None
    """A file of other queries than the collection's: TREC topics, JSON lines, or lines of id, tab, text."""
    encoding: str = "utf-8"
    """The encoding of topics."""
    depth: Count = 1000
    """The maximum number of documents of a query."""
    tag: Annotated[str, Field(pattern=r"^\S+$")] | None = None
    """The run's name, in its last column. null: the file's."""
    measures: Measures = ["AP@100", "RR@10", "nDCG@10"]
    """Measures that are shown if queries are judged."""
    relevant_from: Count | None = None
    """The lowest grade that counts as relevant. null: that of the ranker's training; 1 for a checkpoint."""
    cpu: Count = 1
    """Torch threads."""
    strict: bool = True
    """false: skip and count broken input instead of stopping at it."""
    cache: str | None = CACHE
    """A folder, on a cluster one that all machines share. null: the user's cache folder."""
    out: Name | None = None
    """A file or URI, packed if it ends in .gz. null: outputs/rank-<time>.run.
    The judgements of its queries are beside it, as NAME.qrels."""
