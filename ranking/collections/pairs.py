"""Reads pairs of a query and a relevant document, with or without negatives and scores, as rankers are trained on."""

from __future__ import annotations

import operator
import os
import shlex
import shutil
import sys
import tempfile
import unicodedata
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from hashlib import blake2b
from itertools import repeat
from pathlib import Path
from typing import Annotated, Any

import polars as pl

from pyrite.ranking.bounds import Between, checked
from pyrite.ranking.collections.arrow_files import batches, write
from pyrite.ranking.collections.candidate_files import each_once
from pyrite.ranking.collections.checks import are_distinct
from pyrite.ranking.collections.faults import Faults, RowFault, refuse_row
from pyrite.ranking.collections.json_rows import JsonPoint
from pyrite.ranking.collections.pair_dialects import BESIDE, COMPARABLE, IN_IDS, OF_IDS, of_one_scorer
from pyrite.ranking.collections.reader import (
    DOCUMENTS,
    GIVEN,
    JUDGEMENTS,
    PROMPTS,
    QUERIES,
    Reader,
    counted,
    frames,
    not_read,
    stamps,
)
from pyrite.ranking.collections.row_files import (
    Row,
    TextOptions,
    check_parts,
    classes_of,
    kind_of,
    read_rows,
    row_files,
    unread_files,
)
from pyrite.ranking.collections.row_forms import Parts, RowForm
from pyrite.ranking.collections.row_values import Document
from pyrite.ranking.collections.splits import TRAIN, split_named, with_test
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.hub import HUB, URI, local_path

MINE_AGAIN = "mine it again, or delete the folder `ids`"
CHUNK = 50_000
"""Documents of a frame."""
ROWS = {
    "query": pl.String, "document": pl.String, "grade": pl.Int32, "score": pl.Float32, "split": pl.Categorical,
    "file": pl.Categorical, "line": pl.UInt32,
}  # fmt: skip
ASKED = {"id": pl.String, "text": pl.String, "file": pl.Categorical, "line": pl.UInt32}


@checked
@dataclass
class Pairs(Reader):
    """Rows of a query, its positive and its negatives, as other trainers use them and `pyrite mine` writes them.

    A file in parquet, CSV, TSV or JSON, a folder of such files, or a dataset that the library datasets has saved.
    Equal texts are one document, or one query (queries also if they differ only in case and space); documents are those
    of the rows. A document may be a text, a number, messages of a chat, or an object with title, text and id. All
    documents of a query's rows are `Collection.given`, with their scores: `function=given` offers them.

    Files and folders named train, dev (or validation) and test (or eval) are these splits; others are train. If all is
    one split, a share of the queries becomes the test, and a share of the others dev.

    A score is not a label: rows with scores need labels or negatives, `relevant_from`, or `scores=teacher`.

    Args:
        path: the file or folder, or `hf:NAME` for a dataset at the Hugging Face hub.
        query: the column of the query. None takes query, anchor, question, sentence1 or messages.
        positive: the column of the relevant document, or of a list of them. None takes positive, pos, answer, document,
            positive_passages, positive_ctxs and the like.
        negatives: columns of documents or of lists of them. None takes all named negative, negatives, neg, negative_1,
            negative_passages, hard_negative_ctxs and the like.
        scores: a column of one score for each document of the row, positives first, or for each negative; or one column
            for each. `teacher`: the scores are a teacher's, and all documents without a label are relevant. `margin`:
            they are margins between the positive and each negative, also if their column is called label, as in
            sentence-transformers; those to a query's first positive alone are read. None takes scores, score, or
            pos_scores and neg_scores.
        label: a column of grades, of a row's one document or of its list: above 0 is relevant. None takes label or
            labels; with negatives only if each document has one.
        relevant_from: the lowest label or score of a relevant document, if they are not grades.
        test: the share of the queries that becomes the test if the files have no splits.
        separator: the character between the cells of CSV files, or `tab`. None takes a comma, semicolon or tab.
        encoding: the encoding of CSV, TSV and JSON files.
        quote: the character around cells of CSV files; "" for none.
    """

    path: str | Path
    query: str | None = None
    positive: str | None = None
    negatives: str | list[str] | None = None
    scores: str | list[str] | None = None
    label: str | None = None
    relevant_from: float | None = None
    test: Annotated[float, Between(0, 1, exclude="high")] = 0.1
    separator: str | None = None
    encoding: str = "utf-8"
    quote: str | None = None

    version = 10

    @property
    def name(self) -> str:
        named = Path(os.path.expanduser(self.path))
        path = named if URI.match(str(self.path)) or str(self.path).startswith(HUB) else named.resolve()
        return path.name.split(".")[0]

    def sources(self) -> dict[str, str]:
        return stamps([*self._files(), *self._beside()])

    def read_documents(self, faults: Faults) -> Iterator[pl.DataFrame]:
        yield from batches(self._content(faults).documents, CHUNK // 3)

    def read_queries(self, faults: Faults) -> pl.DataFrame:
        return self._content(faults).read("queries")

    def read_judgements(self, faults: Faults) -> pl.DataFrame:
        content = self._content(faults)
        rows = content.read("rows", [name for name in ROWS if name != "score"]).drop_nulls("grade")
        judged = _agreed(rows, faults)
        content.source["joined"] = len(rows) - len(judged)
        content.facts |= _without_zero(judged["grade"], self.relevant_from)
        judged = judged.select(pl.col(name).cast(kind) for name, kind in JUDGEMENTS.items())
        if not set(judged["split"].drop_nulls().unique()) <= {TRAIN}:
            return judged.with_columns(pl.col("split").fill_null(TRAIN))
        return with_test(judged, round(self.test * judged["query"].n_unique()))

    def read_prompts(self, faults: Faults) -> pl.DataFrame:
        return self._content(faults).prompts

    def read_given(self, faults: Faults) -> pl.DataFrame:
        return each_once(self._content(faults).read("rows", list(GIVEN)), faults)

    def facts(self) -> dict[str, str]:
        return self._content(Faults(strict=False)).facts

    def source(self) -> dict[str, Any]:
        return self._content(Faults(strict=False)).source

    def _files(self) -> dict[Path, str | None]:
        folder = local_path(self.path)
        # `pyrite mine` writes config.yaml first and README.md last; a copy of `data` and `ids` alone has neither.
        begun = (folder / "ids").is_dir() and (folder / "config.yaml").is_file()
        remedy = f"finish it with `{shlex.join(['pyrite', 'mine', '--resume', str(folder)])}`"
        refuse(begun and not (folder / "README.md").is_file(), "is not finished", folder, remedy)
        return row_files(folder)

    def _beside(self) -> dict[Path, str | None]:
        """Return the tables with ids and scores of the rows in `data`, which `pyrite mine` writes."""
        folder = local_path(self.path) / "ids"
        return row_files(folder) if folder.is_dir() else {}

    def _content(self, faults: Faults) -> _Content:
        """Read all rows once: their faults are reported the first time."""
        content: _Content | None = vars(self).get("_read")
        if content is None:
            content = vars(self)["_read"] = _Content()
            try:
                self._fill(content, faults)
            except BaseException:
                del vars(self)["_read"]
                raise
        return content

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_read"}

    def _fill(self, content: _Content, faults: Faults) -> None:
        form = RowForm(self.query, self.positive, self.negatives, self.scores, self.label, self.relevant_from)
        files = self._files()
        check_parts(files)
        unnamed = [file.name for file, split in files.items() if split is None]
        if 0 < len(unnamed) < len(files):
            content.facts["files without a split in their name"] = f"{', '.join(unnamed[:3])} read as train"
            files = {file: split or TRAIN for file, split in files.items()}
        content.facts |= not_read(unread_files(local_path(self.path), files))
        content.reads_margins = self.scores == "margin"
        content.write_documents(self._read_files(files, form, content, faults))
        content.finish()
        content.facts |= counted({
            f"columns with texts that are written as lists, {how}": (count, f" (such as {first[:60]})")
            for how, (count, first) in form.lists.items()
        })  # fmt: skip
        lacking = self.scores is not None and not content.scored
        refuse(lacking, "no row has a score", self.path, "leave collection.scores out, or name the column of scores")
        if others := form.unread():
            columns = (f"{', '.join(names)} (collection.{option}= chooses it)" for option, names in others.items())
            content.facts["columns that are not read"] = ", ".join(columns)
        content.source |= {"name": Path(os.path.abspath(self.path)).name, "columns": form.used()}

    def _read_files(
        self,
        files: Mapping[Path, str | None],
        form: RowForm,
        content: _Content,
        faults: Faults,
    ) -> Iterator[tuple[str, str, str, int]]:
        """Add the rows of all files to the content, and yield each document that is new: id, text, file, line."""
        options = TextOptions(self.separator, self.encoding, self.quote)
        tables = {file.name.split(".")[0]: file for file in self._beside()}
        of_one = cache(partial(self._are_of_one_scorer, tables.values()))
        for file, split in files.items():
            form.classes = classes_of(file)
            mined = file.name.split(".")[0] in tables
            rows = _checked(read_rows(file, faults, options, form.names()), form, file, faults, may_be_empty=mined)
            if tables:
                rows = content.comparable(_with_ids(rows, tables.get(file.name.split(".")[0]), file, faults), of_one)
            for line, parts in _taken_apart(rows, form, file, faults):
                yield from content.add(parts, content.split_of(parts.split) or split, str(file), line, faults)

    def _are_of_one_scorer(self, tables: Iterable[Path]) -> bool:
        """Return whether one ranker or function has given all scores of tables of `ids` that don't say it."""
        card = local_path(self.path) / "README.md"
        rows = (row for table in tables for _, row in read_rows(table, Faults(strict=False)))
        scored = (zip(row.get("functions") or (), row.get("scores") or (), strict=False) for row in rows)
        names = (name for pairs in scored for name, score in pairs if None not in (name, score))
        return of_one_scorer(names, card.read_text("utf-8", "replace") if card.is_file() else "")


def _taken_apart(rows: Iterator[Row], form: RowForm, file: Path, faults: Faults) -> Iterator[tuple[int, Parts]]:
    """Yield the rows of a file that are whole, and their parts; all rows of a file have labels, or none."""
    labelled: bool | None = None
    for line, row in rows:
        try:
            parts = form.parts(row)
            refuse_row(labelled not in (None, parts.labelled), "has no label, or those before have none")
        except RowFault as fault:
            faults.report_row(fault, file, line)
            continue
        labelled = parts.labelled
        if parts.empty:
            faults.report("empty text", "a document is empty", file, line, times=parts.empty)
        yield line, parts


def _checked(rows: Iterator[Row], form: RowForm, file: Path, faults: Faults, may_be_empty: bool) -> Iterator[Row]:
    """Yield the rows of a file, and refuse it without the columns that are needed: at its first row, which may be no
    header, or at the end of JSON, whose rows differ.

    Args:
        may_be_empty: whether a file without rows is no fault: a guard may have left a mined shard without a negative.
    """
    names, skipped = dict[str, None](), dict(faults.skipped)
    kind = kind_of(file)
    for line, row in rows:
        if not names and kind != "json":
            _check(form, list(row), file, without_header=kind == "csv")
        if not row.keys() <= names.keys():
            names |= dict.fromkeys(row)
        yield line, row
    if names and kind == "json":
        _check(form, list(names), file)
    if not names and skipped == faults.skipped and not may_be_empty:
        faults.report("empty file", "has no rows", file)


class _Content:
    """Everything that is read of the rows, on disk: documents, queries, and the rows themselves with their ids."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pyrite-pairs-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self.documents = self.folder / "documents.arrow"
        self.facts: dict[str, str] = {}
        self.source: dict[str, Any] = {"rows": 0}
        self.scored = 0  # documents with a score
        self.reads_margins = False
        self.prompts = pl.DataFrame(schema=PROMPTS)
        self.splits = 0  # rows with a column that names their split
        self.other_splits = Counter[str]()  # rows with another value in it
        self._query_ids, self._document_ids = _Ids("query"), _Ids("document")
        self._numbers, self._number = 0, ""  # documents that are whole numbers, and one of them
        self._rows, self._asked = _ChunkedRows(ROWS), _ChunkedRows(ASKED)
        self._prompts: dict[str, str] = {}  # by query
        self._positives: dict[str, str] = {}  # by query, the positive that its margins are to
        self._other_scales = 0  # scores beside the rows that are not on the scale of the positive's
        self._other_margins = 0  # rows with margins to another positive of their query
        self._other_prompts, self._no_prompts = 0, 0  # rows with another prompt of their query, or one that is no text

    def add(
        self, parts: Parts, split: str | None, file: str, line: int, faults: Faults
    ) -> Iterator[tuple[str, str, str, int]]:
        """Add a row, and yield its documents that are new."""
        self.source["rows"] += 1
        text = " ".join(parts.query.lower().split())
        query, is_new = self._query_ids.of(text, parts.query_id, file, line, faults)
        if is_new:
            self._asked.append((query, parts.query, file, line))
        if parts.prompt is not None:
            self._add_prompt(query, parts.prompt)
        is_scored = True
        for number, document in enumerate(parts.documents):
            text = document.text.strip()
            identifier, is_new = self._document_ids.of(text, document.id, file, line, faults)
            if is_new and text.isdecimal():
                self._numbers, self._number = self._numbers + 1, text
            if is_new:
                yield identifier, text, file, line
            if number == 0 and self.reads_margins:
                is_scored = self._are_to_one_positive(query, identifier, parts.documents)
            score = document.score if is_scored else None
            self._rows.append((query, identifier, document.grade, score, split, file, line))

    def comparable(self, rows: Iterator[tuple[int, dict[str, Any]]], of_one: Callable[[], bool]) -> Iterator[Row]:
        """Yield rows without scores that are not on the scale of the positive's, and count these.

        Args:
            of_one: returns whether all scores are on one scale, for tables that don't say it.
        """
        for line, row in rows:
            same, scores = row.pop(COMPARABLE, None), row[BESIDE] or []
            if same is not None or not of_one():
                pairs = zip(scores, same or repeat(False), strict=False)
                row[BESIDE] = [score if is_same else None for score, is_same in pairs]
                self._other_scales += sum(map(operator.ne, scores, row[BESIDE]))
            yield line, row

    def _are_to_one_positive(self, query: str, positive: str, documents: Sequence[Document]) -> bool:
        """Return whether a row has the first positive of its query that has margins, and count the rows with others.

        A score is that of a document and a query, so it can't hold the margins to several.
        """
        if all(document.score is None for document in documents):
            return True
        is_first = self._positives.setdefault(query, positive) == positive
        self._other_margins += not is_first
        return is_first

    def _add_prompt(self, query: str, prompt: Any) -> None:
        """Keep the first prompt of a query, and count the others."""
        if not isinstance(prompt, str) or isinstance(prompt, JsonPoint):
            self._no_prompts += 1
        elif self._prompts.setdefault(query, sys.intern(str(prompt))) != prompt:
            self._other_prompts += 1

    def split_of(self, value: Any) -> str | None:
        """Return the split that a row names; None if it names none, or an unknown one, which is counted."""
        if value is None:
            return None
        split = split_named(value) if isinstance(value, str) else None
        self.splits += split is not None
        self.other_splits[str(value)] += split is None
        return split

    def write_documents(self, documents: Iterator[tuple[str, str, str, int]]) -> None:
        """Write documents as they come."""
        schema = {"id": pl.String(), "text": pl.String(), "file": pl.String(), "line": pl.Int64()}
        write(self.documents, DOCUMENTS, (_filled(part, DOCUMENTS) for part in frames(documents, schema, CHUNK // 10)))

    def read(self, name: str, columns: list[str] | None = None) -> pl.DataFrame:
        """Return the `queries` or the `rows`, once more from the disk, so that none are held meanwhile."""
        return pl.read_ipc(self.folder / f"{name}.arrow", columns=columns)

    def finish(self) -> None:
        """Write what was added."""
        documents = len(self._document_ids.by_digest)
        if self._numbers > documents / 2:
            self.facts["documents that are numbers, read as texts"] = (
                f"{self._numbers:,} of {documents:,} (such as {self._number}); if they are ids, bring the texts: "
                "collection=beir reads corpus.jsonl, queries.jsonl and qrels with ids"
            )
        for kind, ids in (("queries", self._query_ids), ("documents", self._document_ids)):
            self.facts |= counted(
                {f"{kind} with several ids for one text": (ids.others, " rows, read under the first id")}
            )
            ids.by_digest.clear()
        self.prompts = pl.DataFrame(list(self._prompts.items()), PROMPTS, orient="row")
        _filled(self._asked.frame(), QUERIES).write_ipc(self.folder / "queries.arrow")
        rows = self._rows.frame()
        rows.write_ipc(self.folder / "rows.arrow")
        self.scored = rows["score"].count()
        others = +self.other_splits
        unknown = ", ".join(list(others)[:3])
        pair = ["query", "document"]
        negatives = rows.lazy().filter(pl.col("grade").is_null()).select(pair)
        relevant = rows.lazy().filter(pl.col("grade") > 0).select(pair)
        wrong = negatives.join(relevant, on=pair, how="semi").select(pl.len()).collect().item()
        self.facts |= counted({
            "files with a column of splits": (self.splits, " rows name theirs"),
            "rows with margins to another positive than the first of their query": (
                self._other_margins, ", which are not read"
            ),
            "scores of several functions that can't be compared with their positive's": (
                self._other_scales, ", which are not read (`pyrite mine … scores=ranker` gives one scale)"
            ),
            "rows with another prompt than the first of their query": (self._other_prompts, ", which is not read"),
            "rows whose prompt is no text": (self._no_prompts, ", which is not read"),
            "rows whose split is unknown": (others.total(), f" ({unknown}), read as if without one"),
            "candidates given as negatives that are relevant": (wrong, " (relevant counts)"),
        })  # fmt: skip


class _Ids:
    """The ids of texts: that of the first row with the text, if it gives one that is free, or the text's digest."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.by_digest: dict[int, str | None] = {}  # None if the digest is the id
        self.others = 0  # rows that give another id to a text
        self._taken: set[str] = set()

    def of(self, text: str, given: str | None, file: str, line: int, faults: Faults) -> tuple[str, bool]:
        """Return the id of a text that a row gives an id or none, and whether the text is new."""
        composed = unicodedata.normalize("NFC", text).encode("utf-8", "surrogatepass")
        digest = int.from_bytes(blake2b(composed, digest_size=8).digest(), "big")
        if is_new := digest not in self.by_digest:
            if given in self._taken:
                what = f"another {self.kind} is called {given!r}"
                remedy = "fix it, or set strict=false to give it an id by its text, and count such texts"
                faults.report("duplicate id", what, file, line, remedy=remedy)
                given = None
            elif given is not None:
                self._taken.add(given)
            self.by_digest[digest] = given
        identifier = self.by_digest[digest] or f"{digest:016x}"
        self.others += given not in (None, identifier)
        return identifier, is_new


class _ChunkedRows:
    """Rows that become a frame in chunks, which hold less memory than Python's objects."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._frames: list[pl.DataFrame] = [pl.DataFrame(schema=schema)]
        self._rows: list[tuple[Any, ...]] = []

    def append(self, row: tuple[Any, ...]) -> None:
        self._rows.append(row)
        if len(self._rows) >= CHUNK // 5:
            self._flush()

    def frame(self) -> pl.DataFrame:
        """Return all rows, once."""
        self._flush()
        frames, self._frames = self._frames, []
        return pl.concat(frames)

    def _flush(self) -> None:
        if self._rows:
            columns = dict(zip(self._schema, zip(*self._rows, strict=True), strict=True))
            self._frames.append(pl.DataFrame(columns, schema=self._schema, strict=False))
        self._rows = []


def _agreed(judged: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    """Return each pair of a split once: with the highest of labels that contradict each other, which is reported."""
    pair = ["query", "document", "split"]
    if are_distinct(judged, pair):
        return judged
    grades = judged.group_by(pair, maintain_order=True).agg(
        pl.col("grade").max(), pl.col("grade").n_unique().alias("grades"), pl.col("file").last(), pl.col("line").last(),
        first=pl.col("line").first(),
    )  # fmt: skip
    wrong = grades.filter(pl.col("grades") > 1)
    if len(wrong):
        row = wrong.row(0, named=True)
        what = f"the same query and document have another label in line {row['first']}"
        remedy = "fix it, or set strict=false to take the highest label and count such pairs"
        faults.report("contradicting labels", what, row["file"], row["line"], times=len(wrong), remedy=remedy)
    return grades


def _without_zero(grades: pl.Series, relevant_from: float | None) -> dict[str, str]:
    """Return the fact that all labels are above 0, as stars from 1 to 5 are, which makes all pairs relevant."""
    if relevant_from is not None or grades.n_unique() < 2 or int(grades.min() or 0) < 1:  # type: ignore[arg-type]
        return {}
    low, high = grades.min(), grades.max()
    labels = f"{low!s} to {high!s}, none is 0"
    remedy = "collection.relevant_from= sets the lowest relevant one"
    return {"judgements by labels that are all above 0": f"{labels}: all {len(grades):,} pairs are relevant ({remedy})"}


def _check(form: RowForm, columns: Sequence[str], file: Path, without_header: bool = False) -> None:
    """Refuse a table without the columns that are needed, before it is read; it may lack a header."""
    try:
        form.check(columns)
    except RowFault as fault:
        remedy = fault.remedy
        if without_header and any(" " in name for name in columns):
            remedy = "if its first row is no header, write one above: query,positive,negative"
        raise BadInput(fault.what, file, remedy) from None


def _with_ids(
    rows: Iterator[Row], table: Path | None, file: Path, faults: Faults
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield rows with the ids and scores of the table of the same name in `ids`, which has as many."""
    if table is None:
        raise BadInput("no table in the folder `ids` has its name", file, MINE_AGAIN)
    ids = read_rows(table, faults)
    for line, row in rows:
        _, beside = next(ids, (0, {}))
        refuse(not beside, "has more rows than its table in `ids`", file, MINE_AGAIN)
        refuse([name for name in OF_IDS.values() if name not in beside], "has no column {}", table, MINE_AGAIN)
        columns = OF_IDS | {name: name for name in (*IN_IDS, COMPARABLE) if name in beside}
        yield line, dict(row) | {name: beside[column] for name, column in columns.items()}
    refuse(next(ids, None), "has fewer rows than its table in `ids`", file, MINE_AGAIN)


def _filled(rows: pl.DataFrame, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Return the columns of a schema, null if there is none."""
    return rows.select(
        (pl.col(name) if name in rows.columns else pl.lit(None)).cast(kind).alias(name) for name, kind in schema.items()
    )
