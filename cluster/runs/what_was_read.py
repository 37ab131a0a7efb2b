"""Describes the data of a run: its pairs, queries, documents and splits, and what limits leave out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from cluster.config.groups import CHOICES
from ranking.collections.collection import Collection

SPLITS = ("train", "dev", "test")


def sentence(collection: Collection, config: Mapping[str, Any]) -> str:
    """Return the counts of a collection as a run of a configuration uses it.

    `pairs.csv: 4,947 pairs, 2,549 queries, 2,277 passages → train 2,065, dev 229, test 255; columns query, passage`.

    Args:
        config: a configuration with `limits` and `folds`, or without either for all of it.
    """
    counts = pairs(collection)
    source = collection.source
    joined = source.get("rows", 0) - len(collection.judgements) if "rows" in source else 0
    parts = [f"{counts['pairs']:,} {'pairs' if source else 'relevant pairs'}"]
    parts[0] += f" ({joined:,} duplicates joined)" if joined > 0 else ""
    parts += [f"{len(collection.queries):,} queries", f"{collection.size:,} {'passages' if source else 'documents'}"]
    split = ", ".join(f"{name} {counts[name]:,}" for name in SPLITS)
    if not any(counts[name] for name in SPLITS):
        split = f"{config['folds']}-fold cross-validation" if "folds" in config else "no splits"
    text = f"{source.get('name', collection.name)}: {', '.join(parts)} → {split}"
    if columns := source.get("columns"):
        text += f"; columns {', '.join(columns)}"
    return text + _cut(counts, config)


def sentences(used: Iterable[tuple[Collection, Mapping[str, Any]]]) -> dict[str, list[str]]:
    """Return the distinct sentences of several configurations, by the name of the collection."""
    lines: dict[str, list[str]] = {}
    for collection, config in used:
        line = sentence(collection, config)
        if line not in lines.setdefault(collection.name, []):
            lines[collection.name].append(line)
    return lines


def pairs(collection: Collection) -> dict[str, int]:
    """Return the numbers of relevant pairs, of pairs to train on, and of queries per split."""
    relevant = collection.judgements.filter(pl.col("grade") > 0)
    train = collection.queries.filter(pl.col("split").fill_null("train") == "train")["id"]
    counts = {name: int((collection.queries["split"] == name).sum()) for name in SPLITS}
    examples = len(relevant.filter(pl.col("query").is_in(train.implode())))
    return counts | {"pairs": len(relevant), "examples": examples}


def _cut(counts: Mapping[str, int], config: Mapping[str, Any]) -> str:
    """Return what the limits leave of a collection; empty if it is all of it."""
    limits = config.get("limits") or {}
    has = {name: counts[name] for name in SPLITS if counts[name]} | {"examples": counts["examples"]}
    less = {name: limits[name] for name in has if limits.get(name) and limits[name] < has[name]}
    if not less:
        return ""
    scale = config.get(CHOICES, {}).get("scale")
    words = [f"{name} {count:,}" for name, count in less.items() if name != "examples"]
    words += [f"at most {less['examples']:,} pairs to train on"] if "examples" in less else []
    return f"; {f'scale={scale}' if scale else 'limits'} takes {', '.join(words)}"
