"""Opens a folder of judgements and builds the page for it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
from starlette.applications import Starlette

from pyrite.pooling.across_topics import AcrossTopics
from pyrite.pooling.campaign import Campaign
from pyrite.pooling.judging.access import Link, links_of, secret_of
from pyrite.pooling.judging.copies import NO_COPIES
from pyrite.pooling.judging.documents import CollectionSearch, PooledDocuments
from pyrite.pooling.judging.log_check import check_log
from pyrite.pooling.judging.options import Options
from pyrite.pooling.judging.progress import TopicProgress
from pyrite.pooling.judging.requests import LONGEST_ID
from pyrite.pooling.judging.server import application
from pyrite.pooling.judging.session import OF_OTHER_TOPICS, Session
from pyrite.pooling.judging.store import FILE, Store, damaged, digest_of
from pyrite.pooling.judging.topics import TopicText
from pyrite.pooling.judging.view import View
from pyrite.pooling.pool import Pool
from pyrite.pooling.simulation import Method
from pyrite.ranking.errors import BadInput
from pyrite.ranking.trec_files import check_ids


@dataclass(frozen=True)
class Judging:
    """A pool that is ready for judging.

    Args:
        store: records the assessors' events. Close it to let another process have the folder.
        app: the page.
        links: the owner's, then the assessors'.
        notes: counts that the owner should know of before judging begins, by description.
        words: the grades by their names in lower case, and by their numbers.
    """

    session: Session
    store: Store
    app: Starlette
    links: list[Link]
    notes: dict[str, int]
    words: Mapping[str, int]


def open_judging(
    out: str | Path,
    pool: Pool,
    method: Method,
    documents: pl.DataFrame,
    topics: Mapping[str, TopicText],
    options: Options | None = None,
    *,
    of: Mapping[str, str],
    qrels: pl.DataFrame | None = None,
    gold: pl.DataFrame | None = None,
    collection: Callable[[], Iterable[pl.DataFrame]] | None = None,
    stemming: str | None = "english",
    title: str = "Relevance judgements",
    hosts: Iterable[str] = (),
    encrypted: bool = False,
    grow: bool = False,
    copies: pl.DataFrame = NO_COPIES,
) -> Judging:
    """Start to judge a pool, or continue.

    Args:
        documents: id, text: those of a collection, or only the pooled ones.
        options: options of judging. Seed and grades of a folder are fixed; the others may change from start to start.
        of: values by name that identify the pool and the method, so that a folder refuses others.
        qrels: query, document, grade: judgements made before. Those of the pool's topics are taken over.
        gold: query, document, grade: pooled documents with known grades, to test assessors.
        collection: returns all documents (id, text), for the search; None disables the search.
        stemming, title: see `pyrite.pooling.judging.view.View`.
        hosts, encrypted: see `pyrite.pooling.judging.access.AccessControl`.
        grow: whether the pool may differ from the one that the folder was made with, as runs or depth were added. All
            judgements, assessors, notes and skips are kept, and `qrels` and `gold` of new topics are added.
        copies: documents that the pool leaves out, as another one of their topic has the same text
            (`pyrite.pooling.judging.copies`): its judgements are theirs.
    """
    options = options or Options()
    _check_ids(pool)
    known, tried = (None if grades is None else _of_topics(grades, pool) for grades in (qrels, gold))
    settings = {**of, "seed": options.seed, "grades": list(options.grades)}
    settings["qrels"] = "" if known is None else digest_of(known)
    if tried is not None:
        settings["gold"] = digest_of(tried)
    folder = Path(out)
    store = Store(folder, settings, known, grow=grow, copies=copies, gold=tried)
    try:
        check_log(store.events(), options.grades, folder / FILE)
        search = None if collection is None else CollectionSearch(collection, stemming)
        holds = _nothing_else if search is None else search.holds
        session = Session(pool, method, store, options, tried, holds, copies)
        outside = session.state.outside()
        if outside and collection is not None:
            found = [frame.select("id", "text").filter(pl.col("id").is_in(sorted(outside))) for frame in collection()]
            documents = pl.concat([documents, *found], how="diagonal")
        texts = PooledDocuments(documents)
        links = links_of(secret_of(folder), session.assessors)
        view = View(session, topics, texts, stemming, title, search)
        app = application(session, view, folder, links, hosts, encrypted)
        _rehearse(session, method)
    except BaseException as error:
        store.close()
        if isinstance(error, sqlite3.Error):
            raise damaged(error, folder / FILE) from None
        raise
    lacking, blank = texts.missing(pool)
    before = pl.DataFrame(schema={"query": pl.String, "grade": pl.Int32}) if qrels is None else qrels
    notes = {
        "judgements taken over": len(session.known),
        f"judgements {OF_OTHER_TOPICS}, which are neither taken over nor exported": int(
            (~before["query"].is_in([topic.name for topic in pool.topics])).sum()
        ),
        "judgements of -1 (pooled, not judged), which are not taken over": int((before["grade"] == -1).sum()),
        "pooled documents with the text of another one of their topic, which are judged with it": len(copies),
        "pooled documents that the collection lacks": lacking,
        "pooled documents with nothing to read in them": blank,
        "topics without a text": sum(not any(topics.get(topic.name, ())) for topic in pool.topics),
    }
    return Judging(session, store, app, links, notes, view.words)


def _nothing_else(document: str) -> bool:
    """Return whether a document that no run has may be judged on a page without a search."""
    return False


def _rehearse(session: Session, method: Method) -> None:
    """Do with one topic what the first requests of the first assessor do, and discard the result.

    What is compiled or imported at first use may take a minute, for which no assessor should wait.
    """
    pool, grades, rule = session.pool, session.options.grades, session.options.rule
    campaign = Campaign(replace(pool, topics=pool.topics[:1]), method, session.options.seed)
    topic = None if session.by_method else 0
    guarded = method.least if isinstance(method, AcrossTopics) else 0
    for step in range(guarded + 2):
        place = campaign.next(topic)
        if place is not None:
            campaign.judge(*place, grades[-1] if step else grades[0])
    progress = TopicProgress()
    progress.set(0, True)
    progress.ahead(1)
    if rule is not None:
        progress.recall(2, 0, rule)


def _of_topics(qrels: pl.DataFrame, pool: Pool) -> pl.DataFrame:
    names = [topic.name for topic in pool.topics]
    rows = qrels.filter(pl.col("query").is_in(names), pl.col("grade") != -1).unique(["query", "document"], keep="last")
    return rows.select(topic="query", document="document", grade="grade").sort("topic", "document")


def _check_ids(pool: Pool) -> None:
    """Refuse ids that can't be exported because of a blank in them, or that are too long for a request of the page."""
    check_ids(pl.Series([topic.name for topic in pool.topics], dtype=pl.String), "topic", "runs")
    documents = pl.concat([pl.Series("document", topic.documents, pl.String) for topic in pool.topics])
    check_ids(documents, "document", "runs")
    if (longest := int(documents.str.len_bytes().max() or 0)) > LONGEST_ID:  # type: ignore[arg-type]
        raise BadInput(f"a document has an id of {longest:,} bytes", "runs", "shorten it")
