"""Declares the options of `pyrite mine`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pyrite.cluster.config.schema.command import CommandConfig
from pyrite.cluster.config.schema.kinds import (
    CheckpointConfig,
    Cores,
    Count,
    Custom,
    Gigabytes,
    Precision,
    Split,
)
from pyrite.cluster.config.schema.run import NegativesConfig


class MineConfig(NegativesConfig, CommandConfig):
    checkpoint: str | None = None
    """The ranker that scores for function=dense and for selectors that need scores: a folder of `pyrite train
    weights=true`, or a checkpoint. null: none."""
    ranker: CheckpointConfig | None = None
    """The class of a checkpoint that does not name it: {_target_: …}; or options of it alone."""
    precision: Precision = "auto"
    """The precision of a checkpoint's transformers: float32, bfloat16, float16. auto: bfloat16 if the processor
    multiplies in it, else float32."""
    count: Count = 4
    """Negatives for each pair of a query and a relevant document."""
    promote: bool = False
    """Documents that guard.ranker scores above the positive become positives, in separate rows."""
    scores: Literal["function", "ranker"] = "function"
    """The scores that are written beside each document: of the function, or of the checkpoint (ranker)."""
    queries: Split = "train"
    """The split: train, dev, test or all."""
    most_queries: Count | None = None
    """The maximum number of queries of a split, drawn by a hash of their texts. null: all."""
    rows: Literal["tuples", "triplets", "labelled_pairs"] = "tuples"
    """tuples: a row per pair; triplets: a row per negative; labelled_pairs: a row per document."""
    with_scores: bool = False
    """Scores are among the texts too, for trainers that distil."""
    format: Literal["parquet", "json", "dataset", "tevatron", "flagembedding", "swift", "nemo"] = "parquet"
    """parquet, json (lines), dataset (what the library datasets loads from disk), or lines as another trainer reads
    them: tevatron, flagembedding, swift, nemo."""
    shard: Count = 1000
    """Queries that are mined at once: this bounds the memory, and is mined again after a loss."""
    batch: Count = 128
    """Pairs that are chosen for together: function=in_batch offers their positives."""
    workers: Count = 1
    """Processes on Ray that mine shards. 1: this process, without Ray."""
    cpu: Cores = 1
    """Cores of each, and torch threads; may be a share of one."""
    gpu: Annotated[float, Field(ge=0)] = 0
    """The share of a GPU of each."""
    memory: Gigabytes | None = None
    """GB that each reserves of a cluster."""
    custom: Custom | None = None
    """Custom resources of the cluster for each, e.g. {rack_a: 0.1}."""
