"""Writes judgements as TREC qrels, or as a table with assessors and times."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import polars as pl

from pyrite.pooling.judging.copies import spread
from pyrite.pooling.judging.export_files import trec_lines, write
from pyrite.pooling.judging.store import KNOWN, Snapshot
from pyrite.pooling.runs import by_value
from pyrite.ranking.collections.judgement_files import FORMULA, marked

Rule = Literal["highest", "first", "last"]
RULES: Mapping[Rule, Callable[[Sequence[int]], int]] = {
    "highest": max, "first": lambda grades: grades[0], "last": lambda grades: grades[-1],
}  # fmt: skip
"""The grade that counts of several, given in the order of the times at which assessors first gave one."""
SAME_TEXT = "same_text"
"""The column of documents that were judged with a document."""
_ORDINALS = ("first", "second", "third")


def qrels(snapshot: Snapshot, rule: Rule) -> str:
    """Return all judgements as TREC qrels, one line per document, see `grades_of`: topic, 0, document, grade."""
    return trec_lines(grades_of(snapshot, rule)).decode()


def grades_of(snapshot: Snapshot, rule: Rule) -> pl.DataFrame:
    """Return the grade of each document: topic, document, grade.

    Judgements made before are included. If a document was judged before and now, the new grade counts, and if the owner
    resolved a disagreement, the owner's while assessors differ. Documents that were judged once with another one have
    its grade. Topics and documents are in order, numbers by value.
    """
    grades = {(topic, document): [grade] for topic, document, grade in snapshot.known.iter_rows()}
    places = _by_document(snapshot.judgements)
    grades |= {place: [grade for _, grade in by_assessor] for place, by_assessor in places.items()}
    decided = {(topic, document): [grade] for topic, document, grade in snapshot.resolved.iter_rows()}
    grades |= {place: grade for place, grade in decided.items() if _differ(places.get(place, []))}
    grades = spread(grades, snapshot.copies)
    rows = [(topic, document, RULES[rule](grades[topic, document])) for topic, document in _in_order(grades)]
    return pl.DataFrame(rows, KNOWN, orient="row")


def judged_with_others(snapshot: Snapshot) -> int:
    """Return the number of documents whose grade is that of another one, which has the same text."""
    alone = replace(snapshot, copies=snapshot.copies.clear())
    return len(grades_of(snapshot, "first")) - len(grades_of(alone, "first"))


def disagreements(snapshot: Snapshot, rule: Rule) -> str:
    """Return the documents with different grades as a table with tabs: by assessor, and which grade counts.

    Each judge has two columns. Those of a document with fewer judges than others are empty. A text that a spreadsheet
    would take for a formula begins with an apostrophe.
    """
    places = _by_document(snapshot.judgements)
    disputed = [place for place in _in_order(places) if _differ(places[place])]
    judges = max((len(places[place]) for place in disputed), default=2)
    names = [*_ORDINALS, *(f"{number}th" for number in range(len(_ORDINALS) + 1, judges + 1))][:judges]
    rows = [["topic", "document", "grade", *(f"{name} {column}" for name in names for column in ("assessor", "grade"))]]
    resolved = {(topic, document): grade for topic, document, grade in snapshot.resolved.iter_rows()}
    for place in disputed:
        grades = [grade for _, grade in places[place]]
        counts = resolved.get(place, RULES[rule](grades))
        empty = [""] * 2 * (judges - len(grades))
        judged = [text for name, grade in places[place] for text in (plain(name), str(grade))]
        rows.append([*map(plain, place), str(counts), *judged, *empty])
    return "".join("\t".join(row) + "\n" for row in rows)


def table(snapshot: Snapshot) -> str:
    """Return each judgement that was not withdrawn, as CSV: topic, document, grade, assessor, time, note, rationale.

    The time is UTC, that of the last correction if there was one. The grade is empty if the assessor could not judge.
    A text that a spreadsheet would take for a formula begins with an apostrophe. If documents were judged once with
    another one, a last column, `same_text`, names them.
    """
    copies = snapshot.copies.group_by("topic", pl.col("first").alias("document")).agg(
        pl.col("document").sort().str.join(" ").alias(SAME_TEXT)
    )
    same = [SAME_TEXT] if len(copies) else []
    time = pl.from_epoch((pl.col("at") * 1000).round().cast(pl.Int64), "ms").dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ")
    rows = snapshot.judgements.join(copies, on=["topic", "document"], how="left", maintain_order="left").select(
        "topic", "document", "grade", "assessor", time.alias("time"),
        pl.col("note", "rationale", *same).fill_null(""),
    )  # fmt: skip
    texts = ["topic", "document", "assessor", "note", "rationale", *same]
    return rows.with_columns(marked(pl.col(texts))).write_csv()


def write_qrels(snapshot: Snapshot, rule: Rule, path: Path) -> Path | None:
    """Write qrels in the form of the file's name and, if a document has two judgements, the disagreements:
    `PATH.disagreements.tsv`, which is returned.
    """
    write(path, grades_of(snapshot, rule))
    if all(len(by_assessor) < 2 for by_assessor in _by_document(snapshot.judgements).values()):
        return None
    return write(path.with_name(f"{path.name}.disagreements.tsv"), disagreements(snapshot, rule))


def write_machine(snapshot: Snapshot, grades: pl.DataFrame, path: Path) -> Path:
    """Write a machine's grades of documents that no assessor judged into a separate file, `PATH.machine.txt`: they are
    no judgements, and mixing them with these should be a decision.
    """
    judged = grades_of(snapshot, "highest")
    pair = {"query": "topic", "document": "document"}
    left = grades.rename(pair).join(judged, on=["topic", "document"], how="anti", maintain_order="left")
    return write(path.with_name(f"{path.name}.machine.txt"), left.select("topic", "document", "grade"))


def plain(text: str) -> str:
    """Return a text that a spreadsheet does not take for a formula."""
    return f"'{text}" if re.match(FORMULA, text) else text


def _by_document(judgements: pl.DataFrame) -> dict[tuple[str, str], list[tuple[str, int]]]:
    """Return assessors and grades by document, in the order of their first grades, without assessors who could not
    judge.
    """
    places: dict[tuple[str, str], list[tuple[str, int]]] = {}
    graded = judgements.drop_nulls("grade").sort("graded_at", maintain_order=True)
    for topic, document, assessor, grade in graded.select("topic", "document", "assessor", "grade").iter_rows():
        places.setdefault((topic, document), []).append((assessor, grade))
    return places


def _differ(by_assessor: Sequence[tuple[str, int]]) -> bool:
    return len({grade for _, grade in by_assessor}) > 1


def _in_order(places: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return sorted(places, key=lambda place: (by_value(place[0]), place[1].encode()))
