"""Opens the pools of a command: of the user's runs, of several collections, or of systems built on the spot."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from cluster.config.groups import option
from cluster.config.refusals import refusal
from cluster.config.schema import PoolSource
from cluster.output.cache import cache_of
from cluster.pools.texts import PoolTexts
from pooling.pool import UNJUDGED_NOTE, Pool, make_pool, with_machine
from pooling.runs import files_of, read_runs
from ranking.collections.faults import Faults
from ranking.errors import BadInput
from ranking.trec_files import read_qrels

HALVES = {"all": slice(None), "even": slice(0, None, 2), "odd": slice(1, None, 2)}
"""Of the topics, by place."""


@dataclass(frozen=True)
class NamedPool:
    """A pool, and what a study writes down of it.

    Args:
        name: short, unique in a study.
        pool: with judgements.
        fingerprint: 16 hex digits of all that is in it.
        files: that it was read from; none of systems that were built on the spot.
    """

    name: str
    pool: Pool
    fingerprint: str
    files: tuple[str, ...] = ()


def open_pools(
    config: dict[str, Any], on_system: Callable[[str, int, int], None], reads_texts: bool = False
) -> list[NamedPool]:
    """The pools of a configuration.

    Args:
        config: of conf/pool.yaml, composed.
        on_system: told of each system that is built, where no runs are given: its name, how many are done, and of how
            many.
        reads_texts: whether a method learns from texts.

    Raises:
        BadInput: where files are missing or broken, or options exclude each other.
    """
    own = {key: config[key] for key in PoolSource.model_fields}
    cache = cache_of(config).expanduser()
    node = config.get("collection")
    if config["pools"] is not None:
        sources = _read_sources(config["pools"], own)
    elif own["runs"] is None:
        texts = PoolTexts(node or option("collection", "pydocs") | {"queries": "topics"}, cache)
        return [_systems(own, texts, cache, on_system, reads_texts, own=node is not None)]
    else:
        sources = {_name(own["runs"]): own}
    texts = PoolTexts(node, cache)
    return [_named(name, source, texts, reads_texts) for name, source in sources.items()]


def _read_sources(path: str, defaults: dict[str, Any]) -> dict[str, dict[str, Any]]:
    try:
        content = yaml.safe_load(Path(path).read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadInput(f"can't be read ({error})", path) from None
    if not isinstance(content, dict) or not all(isinstance(source, dict) for source in content.values()) or not content:
        raise BadInput("is not a mapping of pools", path, "write NAME: {runs: FOLDER, qrels: FILE, depth: 100}")
    sources = {str(name): {**defaults, **source} for name, source in content.items()}
    for name, source in sources.items():
        try:
            PoolSource.model_validate(source)
        except ValidationError as error:
            raise BadInput(f"{name}: {refusal(error).what}", path, refusal(error).remedy) from None
    return sources


def _name(runs: str | list[str]) -> str:
    """Of a pool, by where its runs lie."""
    place = Path(runs if isinstance(runs, str) else next(iter(runs), "")).resolve()
    folder = place if place.is_dir() else place.parent
    return folder.parent.name if folder.name in ("runs", "inputs") else folder.name


def _named(name: str, source: dict[str, Any], texts: PoolTexts, reads_texts: bool) -> NamedPool:
    if source["runs"] is None or source["qrels"] is None:
        missing = "runs" if source["runs"] is None else "qrels"
        raise BadInput(
            f"the pool {name} has no {missing}", remedy=f"give {missing}=…; only `pyrite judge` needs no qrels"
        )
    runs = read_runs(source["runs"], source["order"], source["groups"], source["strict"], source["encoding"])
    faults = Faults(source["strict"])
    qrels = read_qrels(source["qrels"], faults=faults, encoding=source["encoding"])
    chosen = HALVES[source["topics"]]
    if source["most_topics"] is not None:
        first, step = chosen.start or 0, chosen.step or 1
        chosen = slice(first, first + step * source["most_topics"], step)
    beyond = texts.beyond(runs.topics, source["beyond"]) if source["beyond"] else None
    pool = make_pool(runs, qrels, source["depth"], source["relevant_from"], chosen, beyond)
    if source["machine"] is not None:
        pool = with_machine(pool, read_qrels(source["machine"], faults=faults, encoding=source["encoding"]))
    if reads_texts:
        pool = texts.add_terms(pool)
    pool.notes["broken lines of the judgements left out"] = sum(faults.skipped.values())
    return NamedPool(name, pool, fingerprint(pool), tuple(_files(source)))


def _files(source: dict[str, Any]) -> list[str]:
    """What a pool is read from."""
    paths = [source["runs"]] if isinstance(source["runs"], str) else source["runs"]
    tables = [source[key] for key in ("qrels", "machine") if source[key]]
    groups = [source["groups"]] if source["groups"] not in (None, "prefix") else []
    return [*(str(file) for path in paths for file in files_of(path)), *tables, *groups]


def _systems(
    source: dict[str, Any],
    texts: PoolTexts,
    cache: Path,
    on_system: Callable[[str, int, int], None],
    reads_texts: bool,
    own: bool,
) -> NamedPool:
    """The pool of systems that are built over a collection, the user's own or pydocs."""
    from cluster.runs.rerank import rerank
    from pooling.systems.systems import make_systems, pydocs_systems

    if own:
        made = make_systems(texts.collection, cache / "systems", rerank=rerank, on_system=on_system)
        name = texts.collection.name
    else:
        made, name = pydocs_systems(cache, rerank, on_system), "pydocs"
    named = _named(name, {**source, "runs": str(made.runs), "qrels": str(made.qrels)}, texts, reads_texts)
    named = replace(named, files=())
    if not own:
        # A topic is a class or module and its members are the relevant documents: there is nothing left to judge.
        del named.pool.notes[UNJUDGED_NOTE]
    return named


def fingerprint(pool: Pool) -> str:
    """16 hex digits that change with anything that a simulation depends on."""
    digest = hashlib.sha256(repr((pool.runs, pool.teams, pool.depth, pool.relevant_from, pool.highest)).encode())
    for topic in pool.topics:
        digest.update(topic.name.encode())
        # Of the vectors which terms there are: their weights may differ in the last bits between machines.
        terms = topic.pool.terms.starts, topic.pool.terms.columns
        for array in (topic.pool.ranking, topic.pool.teams, topic.grades, topic.judged, topic.pool.machine, *terms):
            digest.update(array.tobytes())
        digest.update("\n".join(topic.documents).encode())
    return digest.hexdigest()[:16]
