"""Opens the pools of a command: from the user's runs, from several collections, or from systems that it builds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from pydantic import ValidationError
from rich.console import Console
from rich.markup import escape

from pyrite.cluster.config.build import build
from pyrite.cluster.config.groups import option
from pyrite.cluster.config.refusals import refusal
from pyrite.cluster.config.schema.pool import PoolSourceConfig
from pyrite.cluster.config.yaml_file import read_yaml
from pyrite.cluster.limits import READING_LINE_EVERY_S
from pyrite.cluster.output.cache import cache_of
from pyrite.cluster.output.throttle import Throttle
from pyrite.pooling.pool import UNJUDGED_NOTE, Pool, make_pool, with_machine
from pyrite.pooling.runs import OnProgress, files_of, listed, read_runs
from pyrite.pooling.systems.systems import make_systems, pydocs_systems
from pyrite.pooling.terms import with_terms
from pyrite.ranking.bm25 import Bm25, Bm25Options
from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.digest import contents
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.trec_files import read_qrels

HALVES = {"all": slice(0, None, 1), "even": slice(0, None, 2), "odd": slice(1, None, 2)}
"""Slices of the topics, by option."""
LISTED = 3
"""Number of changed files that a message names."""


class PoolTexts:
    """The texts of a pool's documents and topics, read at first use; `node` is None if there are none."""

    def __init__(self, node: dict[str, Any] | None, cache: Path) -> None:
        self._node, self._cache = node, cache

    @cached_property
    def collection(self) -> Collection:
        """The whole collection."""
        if self._node is None:
            what = "the texts of documents and topics are not given"
            raise BadInput(what, remedy="give collection.path=FOLDER, or collection=NAME")
        return open_collection(build(self._node, "collection", trust="composed"), self._cache / "collections")

    def beyond(self, topics: list[str], count: int) -> pl.DataFrame:
        """Return the best documents of the collection for each topic by BM25: topic, document, place."""
        queries = self.collection.queries.select(pl.col("id").alias("topic")).with_row_index("row")
        known = pl.DataFrame({"topic": topics}).join(queries, on="topic", maintain_order="left")
        what = "none of the topics is a query of the collection"
        refuse(known.is_empty(), what, "beyond", "are they of the same one?")
        rows = known["row"].to_numpy().astype(np.int64)
        lists, _ = self._index.search(rows, min(count, self.collection.size))
        row, place = np.nonzero(lists.documents >= 0)
        documents = self.collection.documents["id"].gather(lists.documents[row, place])
        return pl.DataFrame({"topic": known["topic"].gather(row), "document": documents, "place": place})

    @cached_property
    def _index(self) -> Bm25:
        return Bm25(self.collection, Bm25Options())


@dataclass(frozen=True)
class NamedPool:
    """A pool with judgements, and the facts about it that a study records.

    Args:
        name: a short name, unique in a study.
        files: the files that it was read from; none for systems that were built by the command.
    """

    name: str
    pool: Pool
    fingerprint: str
    files: tuple[str, ...] = ()


@contextmanager
def shown_progress(console: Console) -> Iterator[OnProgress]:
    """Show how far the runs are read and pooled: on a line of the terminal, elsewhere in a line every few seconds."""
    lines = Throttle(READING_LINE_EVERY_S)
    lines.due()  # what is done at once needs no line
    with console.status("reading runs and judgements") as status:

        def show(what: str, done: int, total: int) -> None:
            text = f"{what}: {done:,} of {total:,}"
            status.update(escape(text))
            if not console.is_terminal and lines.due():
                console.print(text, soft_wrap=True, markup=False)

        yield show


def open_pools(
    config: dict[str, Any], on_progress: OnProgress, reads_texts: bool = False, judged: bool = True
) -> list[NamedPool]:
    """Return the pools of a configuration.

    Args:
        config: the options of `PoolingConfig`, composed.
        on_progress: called with the runs that are read, the topics that are pooled and, without runs, the systems that
            are built.
        reads_texts: whether a method learns from texts.
        judged: whether the pools must have judgements; if not, none are read.
    """
    source = {key: config[key] for key in PoolSourceConfig.model_fields}
    own = config.get("collection")
    if config["pools"] is None and source["runs"] is None:
        return [_built(source, own, cache_of(config), reads_texts, on_progress)]
    texts = PoolTexts(own, cache_of(config))
    sources = {_name(source["runs"]): source} if config["pools"] is None else _read_sources(config["pools"], source)
    return [_named(name, each, texts, reads_texts, on_progress, judged) for name, each in sources.items()]


def _built(
    source: dict[str, Any], own: dict[str, Any] | None, cache: Path, reads_texts: bool, on_progress: OnProgress
) -> NamedPool:
    """Return the pool of systems that are built over a collection: the user's, or pydocs."""
    from pyrite.cluster.runs.rerank import rerank

    def on_system(system: str, done: int, total: int) -> None:
        on_progress(f"building systems to pool: {system}", done, total)

    texts = PoolTexts(own or option("collection", "pydocs") | {"queries": "topics"}, cache)
    if own is None:
        name, systems = "pydocs", pydocs_systems(cache, rerank, on_system)
    else:
        name = texts.collection.name
        systems = make_systems(texts.collection, cache / "systems", rerank=rerank, on_system=on_system)
    found = {**source, "runs": str(systems.runs), "qrels": str(systems.qrels)}
    pool = _named(name, found, texts, reads_texts, on_progress, judged=True)
    if own is None:  # a topic is a class or module, and its members are the relevant documents: all are known
        del pool.pool.notes[UNJUDGED_NOTE]
    return replace(pool, files=())


def _read_sources(path: str, defaults: dict[str, Any]) -> dict[str, dict[str, Any]]:
    content = read_yaml(path, names=["topics"])
    refuse(
        not isinstance(content, dict)
        or not all(isinstance(source, dict) for source in content.values())
        or not content,
        "is not a mapping of pools",
        path,
        "write NAME: {runs: FOLDER, qrels: FILE, depth: 100}",
    )
    sources = {str(name): {**defaults, **source} for name, source in content.items()}
    for name, source in sources.items():
        try:
            PoolSourceConfig.model_validate(source)
        except ValidationError as error:
            raise BadInput(f"{name}: {refusal(error).what}", path, refusal(error).remedy) from None
    return sources


def _name(runs: str | list[str]) -> str:
    path = Path(next(iter(listed(runs)), "")).resolve()
    folder = path if path.is_dir() else path.parent
    return folder.parent.name if folder.name in ("runs", "inputs") else folder.name


def _named(
    name: str, source: dict[str, Any], texts: PoolTexts, reads_texts: bool, on_progress: OnProgress, judged: bool
) -> NamedPool:
    for key in ("runs", "qrels") if judged else ("runs",):
        refuse(
            source[key] is None,
            f"the pool {name} has no {key}",
            remedy=f"give {key}=…; only `pyrite judge` needs no qrels",
        )
    runs = read_runs(
        source["runs"], source["order"], source["groups"], source["strict"], source["encoding"],
        precision=source["order_precision"], on_progress=on_progress,
    )  # fmt: skip
    faults = Faults(source["strict"])
    read = partial(read_qrels, faults=faults, encoding=source["encoding"])
    qrels = read(source["qrels"], repeated=source["qrels_repeated"]) if judged else None
    beyond = texts.beyond(runs.topics, source["beyond"]) if source["beyond"] else None
    pool = make_pool(runs, qrels, source["depth"], source["relevant_from"], _topics(source), beyond, on_progress)
    if qrels is not None:
        _check_relevant(pool, qrels, source)
    if source["machine"] is not None:
        pool = with_machine(pool, read(source["machine"]))
    if reads_texts:
        queries = texts.collection.queries
        topics = dict(zip(queries["id"], queries["text"], strict=True))
        pool = with_terms(pool, texts.collection.documents, topics)
    pool.notes["broken lines of the judgements left out"] = sum(faults.skipped.values())
    pool.notes.update(faults.notes)
    return NamedPool(name, pool, fingerprint(pool), tuple(_files(source)))


def _topics(source: Mapping[str, Any]) -> slice | list[str]:
    """Return which topics are simulated: all, or those of one half, or those that are named; and the first of them."""
    topics, most = source["topics"], source["most_topics"]
    if not isinstance(topics, str):
        return list(map(str, topics))[:most]
    half = HALVES[topics]
    return half if most is None else slice(half.start, half.start + half.step * most, half.step)


def _check_relevant(pool: Pool, qrels: pl.DataFrame, source: Mapping[str, Any]) -> None:
    """Refuse a least grade that no judgement of the pool's topics has."""
    least, highest = source["relevant_from"], qrels["grade"].max()
    what = f"no judgement of these topics has grade {least} or more, and the highest of all is {highest!r}"
    refuse(
        source["relevant_from"] > 1 and not any(topic.relevant for topic in pool.topics),
        what,
        source["qrels"],
        "choose a lower relevant_from=, or leave it out",
    )


def _files(source: dict[str, Any]) -> list[str]:
    tables = filter(None, (source["qrels"], source["machine"]))
    groups = [source["groups"]] if source["groups"] not in (None, "prefix") else []
    return [*(str(file) for path in listed(source["runs"]) for file in files_of(path)), *tables, *groups]


def fingerprint(pool: Pool) -> str:
    """Return 16 hex digits that change with everything that a simulation and its figures depend on."""
    digest = hashlib.sha256(repr((pool.runs, pool.teams, pool.depth, pool.relevant_from, pool.highest)).encode())
    for topic in pool.topics:
        digest.update(topic.name.encode())
        # Only the terms of the vectors: their weights may differ in the last bits between machines.
        terms = topic.pool.terms.starts, topic.pool.terms.columns
        for array in (topic.pool.ranking, topic.pool.teams, topic.grades, topic.judged, topic.pool.machine, *terms):
            digest.update(array.tobytes())
        # A byte per relevant document outside the pool, which recall counts; a judging has none.
        digest.update(bytes(topic.relevant - int(pool.is_relevant(topic).sum())))
        digest.update("\n".join(topic.documents).encode())
    return digest.hexdigest()[:16]


def file_digests(files: Sequence[str]) -> dict[str, str]:
    """Return a digest of each file's content, in twelve hex digits."""
    return {file: content[:12] for file, content in zip(files, contents(files), strict=True)}


def changed_files(before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """Return how two results of `file_digests` differ, in a few words; None if they are equal."""
    was, is_now = (
        pl.DataFrame({"file": [*digests], name: [*digests.values()]}, {"file": pl.String, name: pl.String})
        for name, digests in {"was": before, "is": now}.items()
    )
    files = was.join(is_now, on="file", how="full", coalesce=True, maintain_order="left_right")
    changes = {
        ("differs", "differ"): files.filter(pl.col("was") != pl.col("is"))["file"],
        ("is gone", "are gone"): files.filter(pl.col("is").is_null())["file"],
        ("is new", "are new"): files.filter(pl.col("was").is_null())["file"],
    }
    return ", ".join(f"{_listed(each)} {words[len(each) > 1]}" for words, each in changes.items() if len(each)) or None


def _listed(files: pl.Series) -> str:
    """Return the first files, and how many more there are."""
    return ", ".join(files[:LISTED]) + (f" and {len(files) - LISTED} more" if len(files) > LISTED else "")
