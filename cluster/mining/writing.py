"""Writes mined shards into the output folder, and says which are there."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from cluster.mining.miner import Miner
from cluster.mining.rows import counts_of, guarded_rows, rows_of
from cluster.mining.shards import Shard
from cluster.output.storage import Storage
from cluster.output.tables import as_parquet

ENDINGS = {"parquet": ".parquet", "json": ".jsonl", "dataset": ".parquet"}
"""Of the files of texts, by `format`; a data set on disk is made of parquet at the end."""
ROWS = 250
"""Rows of texts that are written at once: a thousand took 11 MiB more."""


def mine_shard(miner: Miner, shard: Shard, storage: Storage) -> dict[str, Any]:
    """Mine a shard and write its files, the one that says that it is done last.

    Returns:
        Its counts.
    """
    config = miner.config
    mined = miner.mine(shard)
    texts, beside, left_out = rows_of(mined, miner.collection, miner.names, config["rows"], config["with_scores"])
    dropped = [guarded_rows(record, miner.collection, name) for name, record in mined.guarded.items()]
    storage.write(f"data/{shard.name}{ENDINGS[config['format']]}", _content(texts, config["format"]))
    storage.write(f"ids/{shard.name}.parquet", as_parquet(beside))
    if miner.guard.active:
        storage.write(f"guarded/{shard.name}.parquet", as_parquet(pl.concat(dropped)))
    counts = counts_of(mined, miner.names, len(texts), left_out)
    storage.write(f"shards/{shard.name}.json", json.dumps(counts).encode())
    return counts


def finished(storage: Storage) -> set[str]:
    """The names of the shards that are done."""
    return {name.removesuffix(".json") for name in storage.names("shards")}


def read_counts(storage: Storage, name: str) -> dict[str, Any]:
    """What `mine_shard` counted."""
    content = storage.read(f"shards/{name}.json")
    found: dict[str, Any] = json.loads(content or b"{}")
    return found


def _content(texts: pl.DataFrame, format: str) -> bytes:
    return texts.write_ndjson().encode() if format == "json" else as_parquet(texts, ROWS)
