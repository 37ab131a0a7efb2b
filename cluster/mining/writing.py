"""Writes mined shards as rows of texts (tuples, triplets, labelled pairs) and of ids, ranks and scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.cluster.config.compose import texts_config
from pyrite.cluster.mining.miner import MinedShard, Miner, Shard
from pyrite.cluster.mining.trainer_rows import FORMATS, rows_for
from pyrite.cluster.output.provenance import code
from pyrite.cluster.output.result_store import ResultStore
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.negative_tables import guarded_rows
from pyrite.ranking.collections.collection import Collection, with_prompts
from pyrite.ranking.collections.pair_dialects import COMPARABLE, IN_IDS, POSITIVE_SCORES
from pyrite.ranking.digest import checkpoints_of, digest, files_of
from pyrite.ranking.threads import threads
from pyrite.ranking.whole_file import as_parquet


def rows_of(
    mined: MinedShard, collection: Collection, names: list[str], form: str, scores: bool
) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """Return the rows of a shard.

    Args:
        form: tuples (elsewhere called n-tuple), triplets or labelled_pairs. Tuples that lack a negative are left out.
        scores: whether the texts get a column of scores.

    Returns:
        The texts, as trainers read them, with labels or scores if there are any. For each of these rows the query's id
        and lists of ids, ranks, scores, functions, scores of the positive by the same function, and whether a score is
        on the scale of the positive's; positives are first (rank 0, no function). The query's own prompt if some have
        one. The number of examples without a row, because they have too few negatives.
    """
    count = mined.negatives.shape[1]
    present = mined.negatives >= 0
    if form == "tuples":
        kept = np.flatnonzero(present.all(axis=1))
        columns = np.broadcast_to(np.arange(1 + count), (len(kept), 1 + count))
    elif form == "triplets":
        kept, column = np.nonzero(present)
        columns = np.stack([np.zeros(len(kept), np.int64), 1 + column], axis=1)
    else:
        kept, column = np.nonzero(np.concatenate([present.any(axis=1, keepdims=True), present], axis=1))
        columns = column[:, None]

    def cells(first: NDArray[Any], others: NDArray[Any]) -> NDArray[Any]:
        """Return the values of each row, those of the positives first."""
        return np.concatenate([first[:, None], others], axis=1)[kept[:, None], columns]

    def lists(values: pl.Series) -> pl.Series:
        return values.reshape(columns.shape).arr.to_list()

    queries = collection.queries[mined.queries[kept]]
    no_function = np.zeros(len(mined.queries), np.int32)
    documents = cells(mined.positives, mined.negatives)
    functions = cells(no_function, mined.functions + 1).ravel().astype(np.uint32)
    ids = pl.DataFrame({
        "query_id": queries["id"],
        "document_ids": lists(collection.gather("id", documents.ravel())),
        "ranks": lists(pl.Series(cells(no_function, mined.ranks).ravel())),
        "scores": lists(pl.Series(mined.scores[kept[:, None], columns].ravel()).fill_nan(None)),
        "functions": lists(pl.Series([None, *names], dtype=pl.String).gather(functions)),
        POSITIVE_SCORES: lists(pl.Series(cells(mined.scores[:, 0], mined.compared()).ravel()).fill_nan(None)),
        COMPARABLE: lists(pl.Series(mined.comparable[kept[:, None], columns].ravel())),
    } | {name: queries[name] for name in IN_IDS if name in queries.columns})  # fmt: skip
    table: dict[str, Any] = {"query": queries["text"]}
    if form == "labelled_pairs":
        table["document"] = collection.gather("text", documents[:, 0])
        table["label"] = (columns[:, 0] == 0).astype(np.int64)
    else:
        negatives = columns.shape[1] - 1
        numbered = ["negative"] if negatives == 1 else [f"negative_{number}" for number in range(1, 1 + negatives)]
        for index, name in enumerate(["positive", *numbered]):
            table[name] = collection.gather("text", documents[:, index])
    texts = pl.DataFrame(table)
    if scores:
        texts = texts.with_columns(ids["scores"].list.first().alias("score") if "label" in table else ids["scores"])
    return texts, ids, len(mined.queries) - len(np.unique(kept))


def counts_of(mined: MinedShard, names: list[str], rows: int, left_out: int) -> dict[str, Any]:
    """Return the shard's totals. They are sums, so shards can be added."""
    counts: dict[str, Any] = {"examples": len(mined.queries), "rows": rows, "left out": left_out, "functions": {}}
    counts["promoted"], counts["lists"] = mined.promoted, mined.lists
    above = (mined.scores[:, 1:] > mined.compared()) & (mined.negatives >= 0)
    counts["above"], counts["above negatives"] = int(above.any(axis=1).sum()), int(above.sum())
    for index, name in enumerate(names):
        asked = mined.functions == index
        supplied = asked & (mined.negatives >= 0)
        scores = mined.scores[:, 1:][supplied]
        scores = scores[~np.isnan(scores)]
        positives = mined.positive_scores[:, index]
        positives = positives[~np.isnan(positives)]
        ranks, times = np.unique(mined.ranks[supplied & (mined.ranks > 0)], return_counts=True)
        counts["functions"][name] = {
            "negatives": int(supplied.sum()),
            "missing": int((asked & ~supplied).sum()),
            "guarded": mined.guarded[name].total,
            "repeats": mined.guarded[name].repeats,
            "unlimited": mined.guarded[name].unlimited,
            "fallback": mined.fallback[name],
            "ranks": dict(zip(map(str, ranks.tolist()), times.tolist(), strict=True)),
            "scores": float(scores.sum(dtype=np.float64)),
            "scored": len(scores),
            "positives' scores": float(positives.sum(dtype=np.float64)),
            "positives scored": len(positives),
        }
    return counts


ENDINGS = {"parquet": ".parquet", "json": ".jsonl", "dataset": ".parquet", **dict.fromkeys(FORMATS, ".jsonl")}
"""Endings of the files of texts, by `format`. A data set on disk is converted from parquet at the end."""
ROWS = 250
"""Rows of texts per row group: a thousand took 11 MiB more."""


def shard_store(config: dict[str, Any], storage: Storage, artifacts: Artifacts) -> ResultStore:
    """Return the store of mined shards.

    Shards depend on the texts, on the files that functions and the guard read, on the ranker, and on the code.
    """
    base = artifacts.keys(texts_config(config))["base"]
    nodes = {"guard": [config["guard"]], "ranker": [{"checkpoint": config["checkpoint"]}]}
    nodes["function"] = list(config["function"].values())
    files = {name: [file for node in nodes[name] for file in checkpoints_of(node) or files_of(node)] for name in nodes}
    read = {name: digest(contents) for name, contents in files.items() if contents}
    built_from = {"base": base, **read, **code("ranking", "sampling", "cluster/mining", "cluster/runs")}
    return ResultStore(storage, "shards", built_from, ".json")


def mine_shard(miner: Miner, shard: Shard, store: ResultStore) -> dict[str, Any]:
    """Mine a shard and write its files. The body of a task: `miner` is opened once per process."""
    config = miner.config
    with threads(config["cpu"]):
        mined = miner.mine(shard)
    texts, beside, left_out = rows_of(mined, miner.collection, miner.names, config["rows"], config["with_scores"])
    if config["format"] in FORMATS:  # other trainers read texts alone
        prompts = {name: beside[name] for name in IN_IDS if name in beside.columns}
        texts, beside = with_prompts(texts.with_columns(**prompts), "query"), beside.drop(IN_IDS, strict=False)
    content = _content(config, texts, beside)
    files = {f"data/{shard.name}{ENDINGS[config['format']]}": content, f"ids/{shard.name}.parquet": as_parquet(beside)}
    if miner.guard.active:
        dropped = [
            guarded_rows(record, miner.collection).select(pl.lit(name).alias("function"), pl.all())
            for name, record in mined.guarded.items()
        ]
        renamed = pl.concat(dropped).rename({"query": "query_id", "document": "document_id"})
        files[f"guarded/{shard.name}.parquet"] = as_parquet(renamed)
    counts = counts_of(mined, miner.names, len(texts), left_out)
    unscored = beside["scores"].list.drop_nulls().list.len() < beside["scores"].list.len()
    counts["without scores"] = int(unscored.sum()) if config["with_scores"] else 0
    store.write(shard.name, counts, files)
    return counts


def _content(config: dict[str, Any], texts: pl.DataFrame, ids: pl.DataFrame) -> bytes:
    """Return the content of a shard's file of texts in the configured format."""
    form = config["format"]
    if form in FORMATS:
        return rows_for(form, texts, ids, config["with_scores"])
    return texts.write_ndjson().encode() if form == "json" else as_parquet(texts, row_group_size=ROWS)
