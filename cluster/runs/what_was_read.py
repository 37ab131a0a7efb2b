"""Describes the data of a run: its pairs, queries, documents and splits, and what limits leave out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import starmap
from typing import TYPE_CHECKING, Any

import polars as pl

from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.output.terminal import applying, counted
from pyrite.cluster.runs.cut_checkpoints import cut_of, frozen_of, only_cut
from pyrite.cluster.runs.part_options import validation_node, validation_origins
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.reader import NOTED

if TYPE_CHECKING:
    from pyrite.ranking.encoding import EncodedCollection

WHOLE = {"full": "all passages", "category": "all passages of the category"}
"""The documents that origins without lists rank."""
UNITS = {True: ("pair", "passage"), False: ("relevant pair", "document")}
"""What is counted, by whether the collection is a file of pairs."""
SPLITS = ("train", "dev", "test")
REDUCED = ("tiny", "small")
"""Scales that train for fewer epochs, and rankers that start from nothing with narrower widths."""
NARROWED = (("training", "max_epochs"), ("ranker", "preset"))
"""What these reduce besides the limits."""


def sentence(collection: Collection, config: Mapping[str, Any]) -> str:
    """Return the counts of a collection as a run of a configuration uses it.

    `pairs.csv: 4,947 pairs, 2,549 queries, 2,277 passages → train 2,065, dev 229, test 255; columns query, passage`.
    """
    least = config.get("encoding", {}).get("relevant_from", 1)
    counts, source = pairs(collection, least), collection.source
    joined = source.get("joined", 0)
    pair, text = UNITS[bool(source)]
    parts = [counted(counts["pairs"], pair), counted(len(collection.queries), "query"), counted(collection.size, text)]
    parts[0] += f" ({counted(joined, 'duplicate')} joined)" if joined else ""
    split = ", ".join(f"{name} {counts[name]:,}" for name in SPLITS)
    if not any(counts[name] for name in SPLITS):
        split = f"{config['folds']}-fold cross-validation" if "folds" in config else "no splits"
    columns = f"; columns {', '.join(source['columns'])}" if source.get("columns") else ""
    said = f"{source.get('name', collection.name)}: {', '.join(parts)} → {split}{columns}"
    about = [_ranked(config), only_cut(cut_of(config)), frozen_of(config)]
    return "; ".join([said + _unanswered(collection, least) + _cut(counts, config), *filter(None, about)])


def _ranked(config: Mapping[str, Any]) -> str:
    """Return which documents a run ranks for dev and test queries; empty for what is no run."""
    if "validation" not in config or "origin" not in config:
        return ""
    dev = {name: validation_node(config, name) for name in validation_origins(config).values()}
    words = (
        f"{split} queries rank {' and '.join(starmap(_documents_of, nodes.items()))}"
        for split, nodes in (("dev", dev), ("test", config["origin"]))
    )
    return ", ".join(words)


def _documents_of(name: str, node: Mapping[str, Any]) -> str:
    """Return the documents of an origin, as "bm25's first 100"."""
    return WHOLE.get(name) or f"{name}'s first {node['depth']:,}"


def _unanswered(collection: Collection, least: int) -> str:
    """Return the numbers of queries without a document of at least this grade; empty if there are none."""
    left = _splits_unanswered(collection, least)
    if left.is_empty():
        return ""
    counts, unsplit = _by_split(left), left.null_count()
    tested = [f"{counts[name]:,} of {name}" for name in SPLITS[1:] if counts[name]]
    parts = {
        f"{counts['train']:,} of train (not trained on)": counts["train"],
        f"{' and '.join(tested)} (not measured)": tested,
        f"{unsplit:,} (neither trained on nor measured)": unsplit,
    }
    return f"; queries without a relevant document: {', '.join(applying(parts))}"


def not_measured(collection: Collection, least: int) -> list[str]:
    """Return the line that counts the queries of another collection that a ranker is not measured on; none without any.

    They are test queries, or queries of a collection without splits, without a document of at least this grade.
    """
    left, has_splits = _splits_unanswered(collection, least), not collection.queries["split"].is_null().all()
    count = _by_split(left)["test"] if has_splits else len(left)
    return [f"queries without a relevant document in {collection.name} (not measured): {count:,}"] if count else []


def _splits_unanswered(collection: Collection, least: int) -> pl.Series:
    """Return the splits of the queries without a document of at least this grade."""
    relevant = collection.judgements.filter(pl.col("grade") >= least)["query"].unique()
    return collection.queries.filter(~pl.col("id").is_in(relevant.implode()))["split"]


def _by_split(splits: pl.Series) -> dict[str, int]:
    """Return the number of queries per split."""
    return {name: int((splits == name).sum()) for name in SPLITS}


def sentences(used: Iterable[tuple[Collection, Mapping[str, Any]]]) -> dict[str, list[str]]:
    """Return the distinct sentences of several configurations, by the name of the collection."""
    lines: dict[str, list[str]] = {}
    for collection, config in used:
        line = sentence(collection, config)
        if line not in lines.setdefault(collection.name, []):
            lines[collection.name].append(line)
    return lines


def notes(collection: Collection, name: str) -> list[str]:
    """Return lines about what a reader skipped, left out or read by a rule that the user should know of."""
    counts = ", ".join(f"{count} × {kind}" for kind, count in collection.skipped.items())
    facts = [f"{what} in {name}: {count}" for what, count in collection.facts.items() if what.startswith(NOTED)]
    return [f"skipped in {name}: {counts}", *facts] if counts else facts


def pairs(collection: Collection, least: int) -> dict[str, int]:
    """Return the numbers of pairs of at least this grade, of those to train on, and of queries per split."""
    relevant = collection.judgements.filter(pl.col("grade") >= least)
    train = collection.queries.filter(pl.col("split").fill_null("train") == "train")["id"]
    examples = len(relevant.filter(pl.col("query").is_in(train.implode())))
    return _by_split(collection.queries["split"]) | {"pairs": len(relevant), "examples": examples}


def _cut(counts: Mapping[str, int], config: Mapping[str, Any]) -> str:
    """Return what the limits leave of a collection, and what else a scale reduces; empty if it is nothing."""
    limits = config.get("limits") or {}
    less = {name: limits[name] for name in (*SPLITS, "examples") if 0 < (limits.get(name) or 0) < counts[name]}
    scale = config.get(CHOICES, {}).get("scale")
    examples = less.pop("examples", 0)
    epochs, preset = (config.get(part, {}).get(key) if scale in REDUCED else None for part, key in NARROWED)
    words = {f"{name} {count:,}": True for name, count in less.items()} | {
        f"at most {counted(examples, 'pair')} to train on": examples,
        f"at most {counted(epochs or 0, 'epoch')}": epochs,
        f"ranker.preset={preset}": preset,
    }
    said = ", ".join(applying(words))
    return f"; {f'scale={scale}' if scale else 'limits'} takes {said}" if said else ""


def cut_words(encoded: EncodedCollection, encoding: Mapping[str, Any]) -> str:
    """Return a line that counts texts as long as what is read of their words; empty if all are shorter."""
    parts = []
    for name, texts in (("documents", encoded.documents), ("queries", encoded.queries)):
        limit = encoding[{"documents": "max_document", "queries": "max_query"}[name]]
        if count := int((texts.lengths >= limit).sum()):
            parts.append(f"{count:,} of {len(texts):,} {name} have {limit:,} or more")
    return f"words: {' and '.join(parts)}, and no more of them is read" if parts else ""
