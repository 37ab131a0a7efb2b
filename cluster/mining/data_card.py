"""Makes one data set of mined shards: its card, its tables, and what people see of it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import yaml
from rich.table import Table

from cluster.mining.shards import Shard
from cluster.mining.writing import ENDINGS
from cluster.output.result_store import ResultStore
from cluster.output.storage import Storage
from cluster.output.tables import read_table, write_table
from ranking.errors import BadInput


def summary_of(
    store: ResultStore, shards: Sequence[Shard], names: Sequence[str]
) -> tuple[dict[str, int], pl.DataFrame]:
    """What was mined, added up.

    Returns:
        How many examples and rows there are, and examples without a row; and a row a function, with the means of its
        ranks and scores and of the positives' scores.
    """
    whole = {"examples": 0, "rows": 0, "left out": 0, "positives scored": 0, "positives' scores": 0.0}
    each = {name: dict.fromkeys(COUNTED, 0.0) for name in names}
    for shard in shards:
        counts = store.read(shard.name) or {}
        for key in whole:
            whole[key] += counts[key]
        for name, sums in each.items():
            for key in COUNTED:
                sums[key] += counts["functions"][name][key]
    positives = _mean(whole.pop("positives' scores"), whole.pop("positives scored"))
    rows = [
        {
            "function": name, "negatives": int(sums["negatives"]), "missing": int(sums["missing"]),
            "guarded": int(sums["guarded"]), "rank": _mean(sums["ranks"], sums["ranked"]),
            "score of positives": positives, "of negatives": _mean(sums["scores"], sums["scored"]),
        }
        for name, sums in each.items()
    ]  # fmt: skip
    kinds = {"rank": pl.Float64, "score of positives": pl.Float64, "of negatives": pl.Float64}
    return {key: int(value) for key, value in whole.items()}, pl.DataFrame(rows, schema_overrides=kinds)


COUNTED = ("negatives", "missing", "guarded", "ranks", "ranked", "scores", "scored")


def _mean(total: float, count: float) -> float | None:
    return total / count if count else None


def shown(whole: dict[str, int], functions: pl.DataFrame) -> Table:
    """The table on screen."""
    title = f"{whole['rows']:,} rows of {whole['examples']:,} pairs; {whole['left out']:,} had too few negatives"
    table = Table(title=title, title_justify="left")
    for column in functions.columns:
        table.add_column(column, justify="left" if column == "function" else "right")
    for row in functions.iter_rows():
        table.add_row(*("" if value is None else f"{value:,.2f}" if isinstance(value, float) else
                        f"{value:,}" if isinstance(value, int) else value for value in row))  # fmt: skip
    return table


def finish(
    store: ResultStore, shards: Sequence[Shard], config: dict[str, Any], command: str, about: dict[str, str]
) -> tuple[dict[str, int], pl.DataFrame]:
    """Write the table of what was guarded, the summary and the data set's card; and the data set on disk, if asked for.

    Args:
        store: the shards' results.
        shards: all of them, finished.
        config: conf/mine.yaml, composed.
        command: that mined them.
        about: what the card says besides: of the collection.
    """
    storage = store.storage
    whole, functions = summary_of(store, shards, list(config["function"]))
    storage.write("summary.csv", functions.write_csv().encode())
    dropped = [table for shard in shards if (table := read_table(storage, f"guarded/{shard.name}")) is not None]
    if dropped:
        write_table(storage, "guarded", pl.concat(dropped))
    storage.write("README.md", _card(shards, config, command, about, whole, functions, bool(dropped)).encode())
    if config["format"] == "dataset":
        _save_dataset(storage, shards, config)
    return whole, functions


def _card(
    shards: Sequence[Shard],
    config: dict[str, Any],
    command: str,
    about: dict[str, str],
    whole: dict[str, int],
    functions: pl.DataFrame,
    guarded: bool,
) -> str:
    """The data set's card, whose head tells `load_dataset` which files are what."""
    ending = ENDINGS[config["format"]]
    splits = list(dict.fromkeys(shard.split for shard in shards))

    def files(folder: str, ends: str) -> list[dict[str, str]]:
        return [
            {"split": {"dev": "validation"}.get(split, split), "path": f"{folder}/{split}-*{ends}"} for split in splits
        ]

    configs: list[dict[str, Any]] = [
        {"config_name": "default", "default": True, "data_files": files("data", ending)},
        {"config_name": "ids", "data_files": files("ids", ".parquet")},
    ]
    if guarded:
        configs.append({"config_name": "guarded", "data_files": "guarded.parquet"})
    head = yaml.safe_dump({"configs": configs, "tags": ["sentence-transformers", "hard-negatives"]}, sort_keys=False)
    lines = [f"| {' | '.join(functions.columns)} |", f"|{'---|' * functions.width}"]
    for row in functions.iter_rows():
        cells = ("" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value) for value in row)
        lines.append(f"| {' | '.join(cells)} |")
    said = "\n".join(f"- {key}: {value}" for key, value in about.items())
    return (
        f"---\n{head}---\n\n# Mined negatives\n\nMined by Pyrite:\n\n```\n{command}\n"
        f"```\n\n{said}\n- {whole['rows']:,} rows of {whole['examples']:,} pairs; "
        f"{whole['left out']:,} pairs had too few negatives for one\n\n" + "\n".join(lines) + "\n\n"
        "`default` has the texts. `ids` stands beside it row by row: ids, ranks in the function's list, scores and "
        "functions, the positive first.\n"
    )


def _save_dataset(storage: Storage, shards: Sequence[Shard], config: dict[str, Any]) -> None:
    """What the library datasets loads by `load_from_disk`, beside the parquet files that it is made of."""
    try:
        import datasets
    except ImportError:
        remedy = "pip install datasets, or choose format=parquet"
        raise BadInput("the library datasets is not installed", "format=dataset", remedy) from None
    if not storage.local:
        raise BadInput("a data set can be saved on a local disk alone", storage.place, "choose format=parquet")
    root = Path(storage.path(""))
    files: dict[str, list[str]] = {}
    for shard in shards:
        files.setdefault(shard.split, []).append(storage.path(f"data/{shard.name}.parquet"))
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory(dir=root) as folder:
        found = datasets.load_dataset("parquet", data_files=files, cache_dir=folder)
        whole = found if len(files) > 1 else next(iter(found.values()))
        whole.save_to_disk(str(root / "dataset"))
