"""Declares the forms in which tools write runs and judgements as lines of columns, and finds the form of a file."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from pyrite.ranking.collections.faults import SKIP
from pyrite.ranking.collections.lines import BLANK, QUOTED
from pyrite.ranking.collections.names import DOCUMENT_IDS, GRADES, QUERY_IDS, first

NAMES: Mapping[str, Sequence[str]] = {
    "query": QUERY_IDS,
    "document": DOCUMENT_IDS,
    "grade": GRADES,
    "score": ("score",),
    "rank": ("rank",),
    "tag": ("tag", "run", "run_id", "runid", "system", "name"),
    "_iteration": ("iter", "iteration", "0"),
    "_q0": ("q0",),
}
"""Our columns, and their names in headers and in the objects of JSON."""
QREL_NAMES = {**NAMES, "grade": (*GRADES, "score"), "score": ()}
"""The same in judgements, where BEIR calls the grade a score."""
IDS = frozenset((*QUERY_IDS, *DOCUMENT_IDS))
"""Names of columns of which a header has one at least."""
KNOWN = frozenset(name for several in NAMES.values() for name in several if name != "0")
OWN = ["topic", "document", "grade", "assessor", "time", "note"]
"""The header of the table that `pyrite judge --export FILE.csv` writes, without the passages that it may end with."""
TO_FILL_IN = ["query", "document", "grade"]
"""The header of the table that `pyrite audit` writes, without the texts that it ends with."""
BEIR_QRELS = ["query-id", "corpus-id", "score"]
"""The header of BEIR's judgements."""

_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?|nan"
KINDS: Mapping[str, re.Pattern[str]] = {
    kind: re.compile(pattern, re.I | re.S)
    for kind, pattern in {
        "any": r".*",
        "id": r".*\S.*",
        "name": r"(?!Q?0$).*\S.*",  # no iteration
        "zero": r"Q?0",
        "nothing": r"0(\.0*)?",
        "whole": r"[+-]?\d+(\.0*)?",
        "positive": r"[1-9]\d*",
        "share": r"[01](\.\d*)?|0?\.\d+|\d(\.\d*)?e-\d+",
        "rank": r"\d+(\.0*)?",
        "number": _NUMBER,
        "grade": rf"{_NUMBER}|true|false",
        "measure": (
            r"(gm_|set_|relative_)?(runid|relstring|num_(?:q|ret|rel|rel_ret|nonrel_judged_ret)|exact_\w+|utility|yaap|"
            r"11pt_avg|inf_?ap|iprec_at_recall|map|ap|mrr|rr|recip_rank|r-?prec|bpref|n?dcg|r?ndcg|bing|recall|precision|"
            r"success|err|rbp|judged|alpha_?ndcg|[prgf](?=[_@(]))(\([^)]*\))?([_@](cut_|rel_|mult_)?[\w.]+)?"
        ),
    }.items()
}
"""The contents by which a column is recognised."""
_USUAL = {"query": "id", "document": "id", "grade": "grade", "score": "number"}
RISING = 0.9
"""The share of lines in which a column that ascends is higher than in the query's line before."""
TAB, BLANKS = "\t", None
ANY = (TAB, BLANKS, *QUOTED)


@dataclass(frozen=True)
class Dialect:
    """A form of lines without a header.

    Args:
        name: the name in messages.
        columns: its columns, in order, as `NAME` or `NAME:KIND` (of `KINDS`). A name that begins with an underscore is
            not read.
        separators: the characters between columns: a tab, a comma, a semicolon, or None for blanks and tabs.
        begins: a pattern of a column in the first line, by its name.
        ascends: a column of numbers that is higher in a query's next line, in nearly all lines: ranks, where whole
            numbers may be scores too.
        values: columns with the same value in each line.
        least: the share of the lines that must be in this form.
        more: whether text after the last column is left out and counted.
        types: types of columns that differ from the usual ones.
        note: a note on the lines of such a file.
        refused: why such a file is not read, and the remedy.
        is_marked: whether ids have an apostrophe before what a spreadsheet would take for a formula.
    """

    name: str
    columns: str
    separators: Sequence[str | None] = (TAB, BLANKS)
    begins: Mapping[str, str] = field(default_factory=dict)
    ascends: str | None = None
    values: Mapping[str, int] = field(default_factory=dict)
    least: float = 0.0
    more: bool = False
    types: Mapping[str, pl.DataType] = field(default_factory=dict)
    note: str | None = None
    refused: tuple[str, str] | None = None
    is_marked: bool = False

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.partition(":")[0] for column in self.columns.split()]

    @cached_property
    def _kinds(self) -> list[re.Pattern[str]]:
        pairs = (column.partition(":") for column in self.columns.split())
        return [KINDS[kind or _USUAL.get(name, "any")] for name, _, kind in pairs]

    @property
    def is_plain(self) -> bool:
        """Whether it is read, and known by the number of its columns alone."""
        return not (self.begins or self.refused or self.values)

    def share(self, rows: Sequence[Sequence[str]]) -> float:
        """Return the share of rows that are in this form; 0 if it begins otherwise, or lacks some of all."""
        width = len(self.names)
        cut = [row[:width] if self.more else row for row in rows]
        fits = [len(row) == width and all(map(re.Pattern.fullmatch, self._kinds, row)) for row in cut]
        ahead = dict(zip(self.names, cut[0], strict=False))
        begins = all(re.fullmatch(pattern, ahead.get(name, "")) for name, pattern in self.begins.items())
        share = sum(fits) / len(fits)
        if not (begins and share >= self.least):
            return 0.0
        return share * self._rises(
            [dict(zip(self.names, row, strict=True)) for row, fit in zip(cut, fits, strict=True) if fit]
        )

    def _rises(self, rows: Sequence[Mapping[str, str]]) -> bool:
        """Whether the column that ascends does so; a line that repeats the document before it is skipped."""
        if self.ascends is None:
            return True
        before, steps = dict[str, Mapping[str, str]](), list[bool]()
        for row in rows:
            last = before.get(row["query"])
            if last is not None and last["document"] != row["document"]:
                steps.append(float(row[self.ascends]) > float(last[self.ascends]))
            before[row["query"]] = row
        return sum(steps) >= RISING * len(steps)


QRELS_FILE = "is this a qrels file? give it as judgements, and keep it apart from the runs"
MEASURES = ("its lines are measures, as trec_eval prints them", "keep results apart from the runs")
RUN_DIALECTS = (
    Dialect("trec_eval's output", "_measure:measure query _value", refused=MEASURES),
    Dialect("ir_measures' output", "query _measure:measure _value:number", refused=MEASURES),
    Dialect("ir_measures' means", "_measure:measure _value:number", refused=MEASURES),
    Dialect("TREC", "query _q0 document rank score tag", (TAB, BLANKS), more=True),
    Dialect("TREC", "query _q0 document rank score tag", QUOTED),
    Dialect(
        "judgements", "query _iteration:zero document grade:whole",
        refused=("its columns are those of judgements (query, 0, document, grade)", QRELS_FILE),
    ),
    Dialect("ColBERT", "query document rank:rank score", begins={"rank": r"[01](\.0*)?"}, types={"rank": pl.Int32()}),
    Dialect(
        "judgements", "query _iteration document grade:whole",
        refused=("its columns are those of judgements (query, iteration, document, grade), and none is a rank from 1",
                 QRELS_FILE),
    ),
    Dialect(
        "MS MARCO", "query document rank:rank", ANY,
        begins={"rank": "[01]"}, ascends="rank", types={"rank": pl.Int32()},
    ),
    Dialect("Tevatron", "query document score", ANY),
)  # fmt: skip
"""The forms of runs, in the order in which they are preferred."""
QREL_DIALECTS = (
    Dialect(
        "SMART", "query document:name _zero:zero _value:nothing", (BLANKS,), values={"grade": 1}, least=1,
        note="judgements in SMART's form (all documents in it are relevant)",
    ),
    Dialect("TREC", "query _iteration document grade", (TAB,)),
    Dialect("TREC", "query _iteration:zero document grade", (BLANKS,)),
    Dialect("BEIR", "query document grade", (TAB,)),
    Dialect("TREC", "query _iteration document grade", (BLANKS, *QUOTED)),
    Dialect("BEIR", "query document grade", (BLANKS, *QUOTED)),
    Dialect(
        "a sample", "query _iteration:zero document _stratum:positive grade:whole", ANY,
        note="judgements of a sample (the fourth column is its stratum, the fifth the grade)",
    ),
    Dialect("prels", "query document:name grade _algorithm:whole _probability:share", ANY),
    Dialect(
        "TREC with a fifth column", "query _iteration document grade _fifth", ANY,
        note="judgements with text in a fifth column, which is not read",
    ),
    Dialect(
        "a run", "query _q0 document _rank:rank _score:number _tag", more=True,
        refused=("its columns are those of a run (query, Q0, document, rank, score, tag)", "give it as a run"),
    ),
)  # fmt: skip
"""The forms of judgements, in the order in which they are preferred."""
TREC_COLUMNS = {"score": 6, "grade": 4}
"""The number of columns of TREC's runs and judgements."""
HEADED = Dialect("a table with a header", "")
GRADED = Dialect("judgements", "", refused=("its header names grades and no scores", QRELS_FILE))
BEIR = Dialect(
    "judgements", "",
    refused=("its header is that of BEIR's judgements, and the scores are whole numbers", QRELS_FILE),
)  # fmt: skip
OF_PYRITE = Dialect("a table of `pyrite judge --export`", "", types={"grade": pl.String()}, is_marked=True)
FILLED_IN = Dialect("a table of `pyrite audit`", "", is_marked=True)
RELEVANT = Dialect(
    "pairs of ids", "", values={"grade": 1}, note="judgements without a grade, each of which is relevant"
)


@dataclass(frozen=True)
class Form:
    """The form of a file.

    Args:
        columns: its columns, in order.
        separator: the character between them, or None for blanks and tabs.
        dialect: what else is known of it.
        header: whether its first line names the columns.
        remedy: what to do with a line that is in another form.
    """

    columns: Sequence[str]
    separator: str | None
    dialect: Dialect
    header: bool = False
    remedy: str = SKIP


def cells_of(line: str, separator: str | None) -> list[str]:
    """Return the cells of a line."""
    if separator is None:
        return re.split(rf"{BLANK}+", line.strip(" \t\x0b\x0c\r"))
    if separator in QUOTED:
        return next(csv.reader([line.strip("\r")], delimiter=separator, skipinitialspace=True), [])
    return line.strip("\r").split(separator)


def form_of(
    head: Sequence[str], dialects: Sequence[Dialect], names: Mapping[str, Sequence[str]], needs: Sequence[str]
) -> Form:
    """Return the form of a file: that of its header, or the dialect of most of its first lines.

    Args:
        head: lines that are neither blank nor comments, one at least.
        dialects: the forms that it may have without a header.
        names: our names of columns, and those of other tools.
        needs: the columns of which a header must name one, in addition to query and document: a grade; a score or rank.
    """
    headed = (_by_header(head, separator, names, needs) for separator in (TAB, *QUOTED, BLANKS))
    return next(filter(None, headed), None) or _without_header(head, dialects, needs)


def _without_header(head: Sequence[str], dialects: Sequence[Dialect], needs: Sequence[str]) -> Form:
    """Return the dialect of most lines; if they are in none, one with as many columns, whose reader reports a fault."""
    rows = {separator: [cells_of(line, separator) for line in head] for separator in ANY}
    forms = [(dialect, separator) for dialect in dialects for separator in dialect.separators]
    shares = [dialect.share(rows[separator]) for dialect, separator in forms]
    if best := max(shares):
        dialect, separator = forms[shares.index(best)]
        return Form(dialect.names, separator, dialect)
    plain = {len(dialect.names): dialect for dialect in reversed(dialects) if dialect.is_plain}
    width = len(rows[BLANKS][0])
    if width in plain:
        return Form(plain[width].names, BLANKS, plain[width])
    usual = plain[TREC_COLUMNS[needs[0]]]
    return Form(usual.names, BLANKS, usual, remedy=_header_to_write(width, needs))


def _header_to_write(width: int, needs: Sequence[str]) -> str:
    """Return the remedy for lines with a number of columns that no form has."""
    if width < 3 and "grade" not in needs:
        return f"a run has a query, a document and a {' or '.join(needs)} in each line; {SKIP}"
    names = ", ".join(["query", "document", needs[0]][:width])
    others = "; call the others as you like" if width > 3 else ""
    return (
        f"write a first line that names the {width} columns ({names}{others}), or set strict=false to skip such lines"
    )


def _by_header(
    head: Sequence[str], separator: str | None, names: Mapping[str, Sequence[str]], needs: Sequence[str]
) -> Form | None:
    """Return the form of a file whose first line names its columns; None if it does not."""
    cells = [cell.strip(' "').lower() for cell in cells_of(head[0], separator)]
    columns = named_columns(cells, names)
    missing = [name for name in ("query", "document") if name not in columns]
    dialect = None if missing else _headed(cells, columns, needs, [cells_of(line, separator)[-1] for line in head[1:]])
    if dialect is not None:
        return Form(columns, separator, dialect, header=True)
    others = set(cells) - KNOWN - {"0"}
    if not IDS & set(cells) or any(map(KINDS["grade"].fullmatch, others)):
        return None
    lacks = [*missing, needs[0]][0]
    what = f"the header has no column of the {lacks} (such as {', '.join(names[lacks][:3])})"
    unread = Dialect("a header", "", refused=(what, f"it has {', '.join(cells)}; call one of them {lacks}"))
    return Form(columns, separator, GRADED if "grade" in columns else unread, header=True)


def _headed(cells: list[str], columns: Sequence[str], needs: Sequence[str], last: Sequence[str]) -> Dialect | None:
    """Return the dialect of a header with a query and a document; None without a value. `last` is the last column."""
    if not set(needs) & set(columns):
        return RELEVANT if len(columns) == 2 and "grade" in needs else None
    judged = cells == BEIR_QRELS and "rank" in needs and all(map(KINDS["whole"].fullmatch, last))
    if judged:
        return BEIR
    ours = ((OWN, OF_PYRITE), (TO_FILL_IN, FILLED_IN))
    return next((dialect for header, dialect in ours if cells[: len(header)] == header), HEADED)


def named_columns(cells: Sequence[str], names: Mapping[str, Sequence[str]]) -> list[str]:
    """Return our names of columns, each once; one that is not read begins with an underscore."""
    chosen = {first(theirs, cells): ours for ours, theirs in names.items()}
    return [chosen.get(cell, f"_{number}") for number, cell in enumerate(cells)]
