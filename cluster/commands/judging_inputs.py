"""Reads what a judging needs, runs, documents, topics and qrels, and opens it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import polars as pl
from rich.console import Console

from pyrite.cluster.config.build import build
from pyrite.cluster.output.terminal import counted, print_counts, print_lines
from pyrite.cluster.pools.sources import fingerprint, shown_progress
from pyrite.pooling.adjudicators.sampled import Sampled
from pyrite.pooling.judging.copies import NO_COPIES, find_copies, merged_runs, with_firsts
from pyrite.pooling.judging.documents import pooled, read_texts, write_texts
from pyrite.pooling.judging.labels import labelled
from pyrite.pooling.judging.opening import Judging, open_judging
from pyrite.pooling.judging.options import Options
from pyrite.pooling.judging.store import FILE, events_of, read
from pyrite.pooling.judging.topics import TopicText, read_topics, topics_of
from pyrite.pooling.pool import Pool, make_pool, with_machine
from pyrite.pooling.runs import OnProgress, Runs, listed, no_progress, read_runs
from pyrite.pooling.simulation import adjudicator_of, needs_of
from pyrite.pooling.terms import with_terms
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.lines import lines
from pyrite.ranking.collections.reader import Reader
from pyrite.ranking.digest import digest
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.trec_files import read_qrels

OF_DUPLICATES: Mapping[str, Mapping[str, str]] = {
    "merge": {"duplicates": "merge"}, "near": {"duplicates": "near"}, "keep": {},
}  # fmt: skip
"""Part of what identifies a judging; folders of older versions kept documents with the same text."""
LISTED = 5
"""Topics without a run that a line names."""
OF_A_SAMPLE = (
    "the judgements are a sample of the pool: qrels do not say with which probability each document was drawn, so that "
    "nothing can be estimated from them, and measures by them take all other documents as not relevant"
)
SIGNS = ("\t", ";", ",", " ")
"""The characters between a topic and what a file says of it; the first one that a line has counts."""


def opened(config: dict[str, Any], console: Console, grow: bool = False) -> Judging:
    """Read what the configuration names, and open the judging; say what is in the pool and what was left out."""
    of_files = {"owners": _owners(config), "budget": _budget(config)}
    grades, names = labelled(config["labels"], config["grades"])
    plain = {key: config[key] for key in Options.__dataclass_fields__ if key != "names"}
    options = Options(**plain | of_files | {"grades": grades, "names": names})
    hosts = _hosts(config)
    faults = Faults(config["strict"])
    by_file = isinstance(config["topics"], str)
    given = read_topics(config["topics"], config["encoding"], faults) if by_file else None
    qrels, gold = (_judgements(config, key, faults) for key in ("qrels", "gold"))
    runs, pool = _pooled(config, console)
    if (machine := _judgements(config, "machine", faults)) is not None:
        pool = with_machine(pool, machine)
    reader = build(config["collection"], "collection", trust="composed")
    of_collection = reader.faults(config["strict"])
    with _documents(config, pool, reader, of_collection, console) as texts:
        topics = topics_of(reader.read_queries(of_collection)) if given is None else given
        ((named, node),) = config["method"].items()
        method = build(node, f"method.{named}", trust="composed")
        whole = pool = _described(pool, method, texts, topics)
        near, copies = config["duplicates"] == "near", NO_COPIES
        if config["duplicates"] != "keep":
            copies = find_copies(pool, texts, *_before(config), near=near)
        if len(copies):
            pool = _described(_judged_once(config, runs, machine, copies), method, texts, topics)
        console.print("[dim]preparing the order; at the first use of a method it is compiled …[/]")
        judging = open_judging(
            config["out"], pool, method, texts, topics, options,
            of={
                "pool": fingerprint(whole),
                "method": f"{named} {json.dumps(node, sort_keys=True)}", **OF_DUPLICATES[config["duplicates"]],
            },
            qrels=qrels, gold=gold,
            collection=(lambda: reader.read_documents(reader.faults(config["strict"]))) if config["search"] else None,
            stemming=config["stemming"], title=config["title"],
            hosts=hosts, encrypted=str(config["url"]).startswith("https:"), grow=grow, copies=copies,
        )  # fmt: skip
    documents, runs_pooled = counted(pool.size, "document"), counted(len(pool.runs), "run")
    console.print(f"{counted(len(pool.topics), 'topic')}, {documents} of {runs_pooled} in the pool")
    if isinstance(adjudicator_of(method), Sampled):
        print_lines(console, OF_A_SAMPLE)
    if given is not None:
        _print_without_runs(sorted(set(topics) - set(runs.topics)), console)
    skipped = Counter(faults.skipped) + Counter(of_collection.skipped)
    print_counts(console, judging.notes | runs.notes | skipped | faults.notes | of_collection.notes)
    if done := len(judging.session.state.judgements):
        console.print(f"continuing after {counted(done, 'judgement')}")
    return judging


def _hosts(config: Mapping[str, Any]) -> list[str]:
    """Return the names under which the page may be asked for, that in `url` included."""
    hosts = [*config["hosts"], config["host"]]
    if config["url"] is None:
        return hosts
    url = urlsplit(config["url"])
    named = url.hostname or ""
    addressed = url.scheme in ("http", "https") and named
    remedy = "write it as https://judging.example.org"
    refuse(not addressed, "is no address of a page", f"url={config['url']}", remedy)
    return [*hosts, named]


def _judgements(config: Mapping[str, Any], key: str, faults: Faults) -> pl.DataFrame | None:
    """Return the judgements in the file that an option names; None if it names none."""
    if config[key] is None:
        return None
    return read_qrels(config[key], faults=faults, encoding=config["encoding"], repeated=config["qrels_repeated"])


def _pooled(config: Mapping[str, Any], console: Console) -> tuple[Runs, Pool]:
    """Read the runs, and pool them."""
    refuse(
        Path(config["out"]).resolve() in (Path(folder).resolve() for folder in listed(config["runs"])),
        "is the folder of the runs",
        config["out"],
        "its files would be read as runs; give another out=",
    )
    with shown_progress(console) as on_progress:
        runs = read_runs(
            config["runs"], config["order"], config["groups"], config["strict"], config["encoding"], config["depth"],
            config["order_precision"], on_progress,
        )  # fmt: skip
        return runs, _pool(config, runs, on_progress)


def _pool(config: Mapping[str, Any], runs: Runs, on_progress: OnProgress = no_progress) -> Pool:
    named = config["topics"]
    chosen = list(map(str, named)) if isinstance(named, list) else slice(None)
    return make_pool(runs, None, config["depth"], config["relevant_from"], chosen, on_progress=on_progress)


def _described(pool: Pool, method: Any, texts: pl.DataFrame, topics: Mapping[str, TopicText]) -> Pool:
    """Return the pool with the vectors of its texts, if the method reads them."""
    if "texts" not in needs_of(method):
        return pool
    return with_terms(pool, texts, {name: " ".join(filter(None, each)) for name, each in topics.items()})


def _judged_once(config: Mapping[str, Any], runs: Runs, machine: pl.DataFrame | None, copies: pl.DataFrame) -> Pool:
    """Return the pool in which each text of a topic is one document."""
    pool = _pool(config, merged_runs(runs, copies))
    if machine is None:
        return pool
    # Of several grades the last counts: that of the document that is shown.
    return with_machine(pool, pl.concat([with_firsts(machine, copies, "query"), machine]))


def _before(config: Mapping[str, Any]) -> tuple[list[tuple[str, str]], pl.DataFrame]:
    """Return the topics and documents that assessors were shown, and the copies of a judging that has begun."""
    folder = Path(config["out"])
    with suppress(BadInput):  # a damaged file is refused when it is opened
        if (folder / FILE).is_file() and (events := events_of(folder)):
            shown = [(each.topic, each.document) for each in events if each.topic and each.document]
            return shown, read(folder).copies
    return [], NO_COPIES


@contextmanager
def _documents(
    config: Mapping[str, Any], pool: Pool, reader: Reader, faults: Faults, console: Console
) -> Iterator[pl.DataFrame]:
    """Give the pooled documents, kept in the folder; if the judging can't be opened, newly read ones are removed."""
    path = Path(config["out"]) / f"documents-{digest([config['collection'], fingerprint(pool)])}.arrow"
    kept = read_texts(path)
    if kept is not None:
        yield kept
        return
    try:
        console.print("[dim]reading the documents …[/]")
        yield write_texts(path, pooled(reader.read_documents(faults), pool))
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _print_without_runs(lacking: Sequence[str], console: Console) -> None:
    """Print how many topics no run has, and the first of them."""
    if lacking:
        named = ", ".join(lacking[:LISTED]) + (", …" if len(lacking) > LISTED else "")
        console.print(f"topics that no run has: {len(lacking):,} ({named})", markup=False)


def _owners(config: Mapping[str, Any]) -> dict[str, str] | Literal["first"] | None:
    """Return the assessor of each topic, from a file with one topic and assessor per line."""
    path = config["owners"]
    if path is None or path == "first":
        return path
    return _by_topic(path, config["encoding"], "an assessor")


def _budget(config: Mapping[str, Any]) -> dict[str, int] | int | None:
    """Return the documents to judge: of each topic, or from a file with one topic and number per line."""
    path = config["budget"]
    if not isinstance(path, str):
        return path
    budgets = _by_topic(path, config["encoding"], "a number")
    if wrong := next((topic for topic, text in budgets.items() if not text.isdecimal()), None):
        what = f"{budgets[wrong]!r} is no number of documents for topic {wrong}"
        raise BadInput(what, path, "write lines of a topic, a tab and a number")
    return {topic: int(text) for topic, text in budgets.items()}


def _by_topic(path: str, encoding: str, what: str) -> dict[str, str]:
    """Return what a file says of each topic, in lines of a topic, a tab (comma, semicolon or blank) and a text."""
    found: dict[str, str] = {}
    for number, line in lines(path, Faults(), encoding):
        sign = next(filter(line.strip().__contains__, SIGNS), SIGNS[0])
        topic, _, text = line.strip().partition(sign)
        refuse(not topic or not text.strip(), f"broken line: not a topic, a tab and {what}", f"{path}:{number}")
        refuse(topic in found, f"topic {topic} is given twice", f"{path}:{number}")
        found[topic] = text.strip()
    return found
