"""Writes mined shards into the output folder, and reads their counts."""

from __future__ import annotations

from typing import Any

import polars as pl

from cluster.config.compose import texts_config
from cluster.mining.miner import Miner
from cluster.mining.rows import counts_of, guarded_rows, rows_of
from cluster.mining.shards import Shard
from cluster.output.provenance import code
from cluster.output.result_store import ResultStore
from cluster.output.storage import Storage
from cluster.output.tables import as_parquet
from cluster.runs.artifacts import Artifacts
from cluster.runs.file_contents import checkpoints_of, files_of
from ranking.digest import digest

ENDINGS = {"parquet": ".parquet", "json": ".jsonl", "dataset": ".parquet"}
"""Endings of the files of texts, by `format`. A data set on disk is converted from parquet at the end."""
ROWS = 250
"""Rows of texts per row group: a thousand took 11 MiB more."""


def shard_store(config: dict[str, Any], storage: Storage, artifacts: Artifacts) -> ResultStore:
    """Return the store of mined shards.

    Shards depend on the texts, on the files that functions and the guard read, on the ranker, and on the code.

    Args:
        config: conf/mine.yaml, composed.
        storage: the output folder.
        artifacts: opens the collection.
    """
    base = artifacts.keys(texts_config(config))["base"]
    nodes = {"guard": [config["guard"]], "ranker": [{"checkpoint": config["checkpoint"]}]}
    nodes["function"] = list(config["function"].values())
    files = {name: [file for node in nodes[name] for file in _contents(node)] for name in nodes}
    read = {name: digest(contents) for name, contents in files.items() if contents}
    built_from = {"base": base, **read, **code("ranking", "sampling", "cluster/mining", "cluster/runs")}
    return ResultStore(storage, "shards", built_from, ".json")


def _contents(node: dict[str, Any]) -> list[str]:
    return checkpoints_of(node) or files_of(node)


def mine_shard(miner: Miner, shard: Shard, store: ResultStore) -> dict[str, Any]:
    """Mine a shard and write its files. The body of a task: `miner` is opened once per process.

    Returns:
        The shard's counts.
    """
    import torch

    config, threads = miner.config, torch.get_num_threads()
    torch.set_num_threads(max(1, int(config["cpu"])))
    try:
        mined = miner.mine(shard)
    finally:
        torch.set_num_threads(threads)
    texts, beside, left_out = rows_of(mined, miner.collection, miner.names, config["rows"], config["with_scores"])
    dropped = [guarded_rows(record, miner.collection, name) for name, record in mined.guarded.items()]
    files = {
        f"data/{shard.name}{ENDINGS[config['format']]}": _content(texts, config["format"]),
        f"ids/{shard.name}.parquet": as_parquet(beside),
    }
    if miner.guard.active:
        files[f"guarded/{shard.name}.parquet"] = as_parquet(pl.concat(dropped))
    counts = counts_of(mined, miner.names, len(texts), left_out)
    store.write(shard.name, counts, files)
    return counts


def _content(texts: pl.DataFrame, format: str) -> bytes:
    return texts.write_ndjson().encode() if format == "json" else as_parquet(texts, ROWS)
