"""Pools runs: the documents that they offer for judging, per topic."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.pooling.runs import OnProgress, Runs, no_progress
from pyrite.pooling.sentinels import NO_DOCUMENT, NO_GRADE
from pyrite.ranking.collections.judgement_files import READ_QRELS
from pyrite.ranking.errors import BadInput, refuse

UNJUDGED_NOTE = "pooled documents without a judgement (taken as not relevant)"
"""Name of a note."""
BEYOND = "beyond"
"""Name of the run that holds documents of the collection that no system's run has."""


class Terms(NamedTuple):
    """tf·idf vectors of a topic's documents, rows of a sparse matrix, and after them the topic's vector; or none.

    Args:
        starts: int32 [documents + 2]; row r is in `columns` and `values` from starts[r] to starts[r + 1].
        columns: int32 [cells], terms.
        values: float64 [cells].
    """

    starts: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: NDArray[np.float64]


NO_TERMS = Terms(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0))
"""The terms of a topic without texts."""
NO_GRADES = np.zeros(0, np.int32)
"""The grades of a topic without a machine's grades."""
for _array in (*NO_TERMS, NO_GRADES):
    _array.flags.writeable = False


class TopicPool(NamedTuple):
    """One topic's pool as arrays, which compiled loops read. Documents are numbered in the order of their ids.

    The arrays are read-only, here as in Ray's object store: Numba compiles again for writable arrays.

    Args:
        ranking: int32 [runs, depth], the document at each rank, `NO_DOCUMENT` beyond the end of a run.
        lengths: int32 [runs], documents that each run has.
        offsets: int32 [documents + 1]; document d is in `holders` and `ranks` from offsets[d] to offsets[d + 1].
        holders: int32 [cells], the runs that hold the document, ascending.
        ranks: int32 [cells], the document's rank in each of them, from 0.
        teams: int32 [runs], the team of each run, numbered from 0.
        terms: the texts' terms (`pyrite.pooling.terms`).
        machine: int32 [documents], the grade that a machine gave, `NO_GRADE` if it gave none; empty if there are no
            machine's grades.
    """

    ranking: NDArray[np.int32]
    lengths: NDArray[np.int32]
    offsets: NDArray[np.int32]
    holders: NDArray[np.int32]
    ranks: NDArray[np.int32]
    teams: NDArray[np.int32]
    terms: Terms = NO_TERMS
    machine: NDArray[np.int32] = NO_GRADES

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.offsets) - 1


def topic_pool(ranking: NDArray[np.int32], size: int, teams: NDArray[np.int32] | None = None) -> TopicPool:
    """Build a topic's pool from its rankings.

    Args:
        ranking: int32 [runs, depth], documents from 0 to size - 1, `NO_DOCUMENT` after the last one of a run; a run
            holds a document once.
        size: number of documents.
        teams: int32 [runs]; None makes each run a team.
    """
    run, rank = np.nonzero(ranking != NO_DOCUMENT)
    document = ranking[run, rank]
    by_document = np.argsort(document, kind="stable")  # within a document by run: nonzero returns rows in order
    offsets = np.concatenate([[0], np.cumsum(np.bincount(document, minlength=size))])
    pool = TopicPool(
        np.array(ranking, np.int32, order="C"),
        (ranking != NO_DOCUMENT).sum(1, dtype=np.int32),
        offsets.astype(np.int32),
        run[by_document].astype(np.int32),
        rank[by_document].astype(np.int32),
        np.arange(len(ranking), dtype=np.int32) if teams is None else teams.astype(np.int32),
    )
    for array in pool[:6]:
        array.flags.writeable = False
    return pool


@dataclass(frozen=True)
class Topic:
    """A topic's pool with its names and, if they are known, its judgements.

    Args:
        name: id of the topic.
        pool: the pool as arrays.
        documents: ids in byte order; a document's number is its position here.
        grades: int32 [documents]; 0 if it was not judged.
        judged: bool [documents].
        relevant: number of relevant documents that the judgements know of, in the pool or not.
    """

    name: str
    pool: TopicPool
    documents: pl.Series
    grades: NDArray[np.int32]
    judged: NDArray[np.bool_]
    relevant: int = 0


@dataclass(frozen=True)
class Pool:
    """The union of the top `depth` of each run, per topic.

    Args:
        topics: the topics in the order of their ids (numbers by value).
        runs: names, in byte order; a run's number is its position here.
        teams: name of each run's team.
        depth: documents taken from each run.
        relevant_from: lowest grade that counts as relevant.
        highest: highest grade of the judgements of all topics, chosen or not, at least `relevant_from`.
        notes: counts that the user should know of before trusting the pool, by description.
    """

    topics: list[Topic]
    runs: list[str]
    teams: list[str]
    depth: int
    relevant_from: int = 1
    highest: int = 1
    notes: dict[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of documents, over all topics."""
        return int(self.offsets[-1])

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """The first document of each topic if those of all topics are numbered on: int64 [topics + 1]."""
        return np.cumsum([0, *(topic.pool.size for topic in self.topics)])

    @cached_property
    def relevant(self) -> NDArray[np.bool_]:
        """Relevant documents: bool [documents of all topics]; topic t's begin at offsets[t]."""
        return np.concatenate([np.zeros(0, bool), *map(self.is_relevant, self.topics)])

    @cached_property
    def cells(self) -> NDArray[np.int32]:
        """The runs of all topics: int32 [topics, runs, depth], documents numbered on as in `offsets`; the number of
        documents beyond the end of a run.
        """
        ranking, last = np.stack([topic.pool.ranking for topic in self.topics]), self.offsets[-1]
        return np.where(ranking == NO_DOCUMENT, last, ranking + self.offsets[:-1, None, None]).astype(np.int32)

    @cached_property
    def of_one_team(self) -> NDArray[np.bool_]:
        """Documents that only the runs of one team hold: bool [documents of all topics]."""
        alone = []
        for pool in (topic.pool for topic in self.topics):
            teams, starts = pool.teams[pool.holders], pool.offsets[:-1]
            alone.append(np.minimum.reduceat(teams, starts) == np.maximum.reduceat(teams, starts))
        return np.concatenate(alone)

    def is_relevant(self, topic: Topic) -> NDArray[np.bool_]:
        """Return which of a topic's documents are relevant: bool [documents]."""
        return topic.grades >= self.relevant_from

    def only(self, topics: Sequence[str]) -> Pool:
        """Return the same pool with only these topics."""
        kept = set(topics)
        return replace(self, topics=[topic for topic in self.topics if topic.name in kept])


def make_pool(
    runs: Runs,
    qrels: pl.DataFrame | None,
    depth: int = 100,
    relevant_from: int = 1,
    chosen: slice | Sequence[str] = slice(None),
    beyond: pl.DataFrame | None = None,
    on_progress: OnProgress = no_progress,
) -> Pool:
    """Pool runs.

    The topics are those that both the runs and the judgements have; without judgements, those of the runs.

    Args:
        runs: ordered runs (`pyrite.pooling.runs.read_runs`).
        qrels: query, document, grade (`pyrite.ranking.trec_files.read_qrels`); None if nothing is judged yet. A pooled
            document without a judgement counts as not relevant.
        depth: documents taken from each run. More than the longest list has is the same as its length.
        relevant_from: lowest grade that counts as relevant.
        chosen: the topics to keep: a slice of these, or names.
        beyond: topic, document, place: documents of a collection to pool too, all of them, as the last run, `BEYOND`, a
            separate team; those of other topics are ignored.
        on_progress: called with the topics that are done.
    """
    refuse(
        depth < 1 or relevant_from < 1, f"depth is {depth} and relevant_from {relevant_from}", remedy="give 1 or more"
    )
    known: set[str] = set() if qrels is None else set(qrels["query"])
    names = [name for name in runs.topics if qrels is None or name in known]
    if not names:
        raise _no_common_topic(runs.topics, known)
    common, names = names, _chosen(names, chosen)
    on_progress("pooling topics", 0, len(names))
    table = runs.table.filter(pl.col("place") < depth)
    if beyond is not None:
        what = f"a run is called {BEYOND!r}, as the documents are that beyond= adds"
        refuse(BEYOND in runs.names, what, "runs", "give that run another name, or leave beyond= out")
        more = beyond.with_columns(run=pl.lit(len(runs.names), pl.UInt32), place=pl.col("place").cast(pl.UInt32))
        table = pl.concat([table, more.select(table.columns)])
        runs = replace(runs, names=[*runs.names, BEYOND], teams=[*runs.teams, BEYOND])
    table = table.filter(pl.col("topic").is_in(names))
    pooled = table.select("topic", "document").unique().sort("topic", "document")
    pooled = pooled.with_columns(number=pl.int_range(pl.len(), dtype=pl.Int32).over("topic"))
    lines = _by_topic(table.join(pooled, on=["topic", "document"], how="left"))
    judged = pl.DataFrame(schema=READ_QRELS) if qrels is None else qrels
    # -1 marks a pooled document that was not judged, as for trec_eval and infAP.
    known_grades = judged.filter(pl.col("grade") != -1).unique(["query", "document"], keep="last", maintain_order=True)
    # Of all topics: which ones are chosen changes no order.
    highest = max(relevant_from, int(known_grades["grade"].to_numpy().max(initial=0)))
    of_topics = known_grades.filter(pl.col("query").is_in(names)).rename({"query": "topic"})
    relevant = dict(of_topics.filter(pl.col("grade") >= relevant_from).group_by("topic").len().iter_rows())
    pooled = pooled.join(of_topics, on=["topic", "document"], how="left", maintain_order="left")
    check_unicode(pooled, of_topics)
    grade = pl.col("grade")
    documents = _by_topic(pooled.with_columns(grade.fill_null(0).cast(pl.Int32), judged=grade.is_not_null()))
    teams = team_numbers(runs.teams)
    longest = int(table["place"].to_numpy().max(initial=0)) + 1
    topics = []
    for name in names:
        topics.append(_topic(name, lines[name], documents[name], relevant.get(name, 0), teams, longest))
        on_progress("pooling topics", len(topics), len(names))
    notes = {
        **runs.notes,
        "judgements of -1 (pooled, not judged)": len(judged.filter(grade == -1)),
        UNJUDGED_NOTE: _over(topics, lambda topic: ~topic.judged) if qrels is not None else 0,
        "relevant documents outside the pool": sum(topic.relevant for topic in topics)
        - _over(topics, lambda topic: topic.grades >= relevant_from),
        "topics of the runs that the judgements lack": len(runs.topics) - len(common),
        "topics left out by topics= and most_topics=": len(common) - len(names),
        "topics of the judgements that the runs lack": len(known - set(runs.topics)),
        "topics that a run lacks": _over(topics, lambda topic: topic.pool.lengths == 0),
        "lists shorter than the pool's depth": _over(
            topics, lambda topic: (topic.pool.lengths > 0) & (topic.pool.lengths < depth)
        ),
    }
    return Pool(topics, runs.names, runs.teams, depth, relevant_from, highest, notes)


def _over(topics: Sequence[Topic], which: Callable[[Topic], NDArray[np.bool_]]) -> int:
    """Count something over topics."""
    return sum(int(which(topic).sum()) for topic in topics)


def team_numbers(teams: Sequence[str]) -> NDArray[np.int32]:
    """Number the team of each run, from 0 in the order in which teams first occur: int32 [runs]."""
    numbers = {team: number for number, team in enumerate(dict.fromkeys(teams))}
    return np.array([numbers[team] for team in teams], np.int32)


def with_machine(pool: Pool, grades: pl.DataFrame) -> Pool:
    """Return the same pool with a machine's grades of its documents: query, document, grade, from any model."""
    by_topic = grades.unique(["query", "document"], keep="last").partition_by("query", as_dict=True)
    topics, missing = [], 0
    for topic in pool.topics:
        of_topic = by_topic.get((topic.name,), grades.clear()).select("document", "grade")
        covered = pl.DataFrame({"document": topic.documents}).join(
            of_topic, on="document", how="left", maintain_order="left"
        )
        missing += covered["grade"].null_count()
        machine = covered["grade"].fill_null(NO_GRADE).to_numpy().astype(np.int32)
        machine.flags.writeable = False
        topics.append(replace(topic, pool=topic.pool._replace(machine=machine)))
    refuse(
        missing == pool.size,
        "the machine's grades have no document of the pool",
        "machine",
        "are they of the same topics?",
    )
    return replace(pool, topics=topics, notes=pool.notes | {"pooled documents that the machine did not grade": missing})


def _chosen(names: list[str], chosen: slice | Sequence[str]) -> list[str]:
    if isinstance(chosen, slice):
        if left := names[chosen]:
            return left
        raise BadInput(f"none of the {len(names)} topics is left", remedy="choose other topics")
    if unknown := [name for name in chosen if name not in names]:
        few = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        raise BadInput(f"{unknown[0]!r} is none of the {len(names)} topics ({few})", "topics", "give names of topics")
    return [name for name in names if name in chosen]


def _no_common_topic(of_runs: Sequence[str], judged: set[str]) -> BadInput:
    """Return the error for runs and judgements without a common topic, with an example and the likely reason."""
    remedy = "are they of the same collection?"
    forms: dict[str, Callable[[str], str]] = {
        "leading zeros": lambda name: name.lstrip("0"),
        "what follows the first point": lambda name: name.split(".")[0],
        "letters before the number": lambda name: re.sub(r"^\D+", "", name),
    }
    pair = next(iter(of_runs), ""), min(judged, default="")
    for reason, form in forms.items():
        judged_as = {form(name): name for name in sorted(judged) if form(name)}
        same = next(((name, judged_as[form(name)]) for name in of_runs if form(name) in judged_as), None)
        if same is not None:
            pair, remedy = same, f"they differ in {reason}: write them alike, trec_eval finds nothing in common either"
            break
    what = f"runs and judgements have no topic in common: the runs have {pair[0]!r}, the judgements {pair[1]!r}"
    return BadInput(what, remedy=remedy)


def _by_topic(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return the rows of each topic. Slices of one table cost far less than a table per topic."""
    ordered = rows.sort("topic", maintain_order=True)
    runs = ordered["topic"].rle().struct.unnest()
    stops = runs["len"].cum_sum()
    return {
        name: ordered.slice(stop - length, length)
        for name, length, stop in zip(runs["value"], runs["len"], stops, strict=True)
    }


def check_unicode(pooled: pl.DataFrame, judged: pl.DataFrame) -> None:
    """Refuse ids of runs and judgements that look the same and differ in their Unicode form, as those of macOS may.

    Args:
        pooled: topic, document, grade: documents of runs, with a null grade if they are not judged.
        judged: topic, document: the judgements.
    """
    form = pl.col("document").str.normalize("NFC").alias("form")
    other = pooled.filter(
        pl.col("grade").is_null(), pl.col("document").str.len_bytes() > pl.col("document").str.len_chars()
    )
    same = other.with_columns(form).join(judged.with_columns(form), on=["topic", "form"]) if len(other) else other
    if len(same):
        row = same.sort("topic", "document").row(0, named=True)
        what = f"document {row['document']!a} of topic {row['topic']} is {row['document_right']!a} in the judgements"
        raise BadInput(
            f"{what}, another Unicode form", remedy="convert one of the files, for example with uconv -x nfc"
        )


def _topic(
    name: str, lines: pl.DataFrame, documents: pl.DataFrame, relevant: int, teams: NDArray[np.int32], longest: int
) -> Topic:
    """Return a topic of its lines (run, place, number) and its documents (document, grade, judged)."""
    ranking = np.full((len(teams), longest), NO_DOCUMENT, np.int32)
    ranking[lines["run"].to_numpy(), lines["place"].to_numpy()] = lines["number"].to_numpy()
    ids, grades, judged = documents["document"], documents["grade"].to_numpy(), documents["judged"].to_numpy()
    return Topic(name, topic_pool(ranking, len(ids), teams), ids, grades, judged, relevant)
