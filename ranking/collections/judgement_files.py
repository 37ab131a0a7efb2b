"""Reads judgements and runs in the forms that tools write: TREC's columns, BEIR's and MS MARCO's, CSV and JSON."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.json_rows import json_lines, parsed
from pyrite.ranking.collections.lines import BLANK, QUOTED, lines, tables
from pyrite.ranking.collections.opened import encoding_of, open_bytes, plain_name
from pyrite.ranking.collections.reader import JUDGEMENTS
from pyrite.ranking.errors import BadInput

RUN: Mapping[str, pl.DataType] = {
    "query": pl.String(),
    "_q0": pl.String(),
    "document": pl.String(),
    "rank": pl.Int32(),
    "score": pl.Float64(),
    "tag": pl.String(),
}
QRELS: Mapping[str, pl.DataType] = {
    "query": pl.String(),
    "_iteration": pl.String(),
    "document": pl.String(),
    "grade": pl.Int32(),
}
TYPES: Mapping[str, pl.DataType] = {**RUN, **QRELS, "rank": pl.String()}  # read although it is no whole number
NAMES: Mapping[str, tuple[str, ...]] = {
    "query": ("query", "query-id", "query_id", "queryid", "qid", "q_id", "topic", "topic_id", "q"),
    "document": (
        "document", "corpus-id", "corpus_id", "doc_id", "docid", "doc-id", "docno", "doc", "pid", "passage_id",
    ),
    "grade": ("grade", "rel", "relevance", "label", "judgment", "judgement", "rating", "qrel"),
    "score": ("score",),
    "rank": ("rank",),
    "tag": ("tag", "run", "run_id", "name", "system"),
    "_iteration": ("iter", "iteration", "0"),
    "_q0": ("q0",),
}  # fmt: skip
"""Names of columns in headers of other tools."""
HEADER = frozenset(name for names in NAMES.values() for name in names)
BEIR_QRELS = ["query-id", "corpus-id", "score"]
"""The header of BEIR's judgements."""
READ_RUN = {"query": pl.String, "document": pl.String, "rank": pl.Int32, "score": pl.Float64, "tag": pl.String}
READ_QRELS = {"query": pl.String, "document": pl.String, "grade": pl.Int32}


def qrels_rows(path: str | Path, faults: Faults, encoding: str = "utf-8") -> Iterator[pl.DataFrame]:
    """Yield judgements: query, document (String), grade (Int32) and line (Int64), in the order of the file.

    Args:
        path: a file of TREC's four columns (a fifth is counted and not read), BEIR's three (under a header), the five
            of the Million Query track's prels, CSV or TSV, parquet, or JSON: {query: {document: grade}}, {query:
            [relevant document, …]}, or objects with these names. Plain or compressed; lines that begin with # are
            skipped. A grade may be true or false.
        faults: receives each broken line.

    Raises:
        BadInput: if the file can't be read.
    """
    if plain_name(Path(path)).endswith(".parquet"):
        yield from _parquet(path, "grade", faults)
        return
    head = _head(path, encoding)
    first = head[0][1].strip(" ")
    if first.startswith(("{", "[")):
        yield from _json_rows(path, first, "grade", faults, encoding)
        return
    prels = is_number(next(iter(first.split()[2:]), ""))
    columns, separator, named = _columns(first, {
        3: "query document grade", 4: "query _iteration document grade",
        5: f"query {'document grade _algorithm' if prels else '_iteration document grade'} _more",
    })  # fmt: skip
    typed = {name: TYPES.get(name, pl.String()) for name in columns}
    every = tables(
        path, typed, faults, separator=separator, encoding=encoding, header=named or HEADER, comments=True
    )  # fmt: skip
    for frame in every:
        if columns[3:] == ["grade", "_more"]:
            faults.note("judgements with text in a fifth column, which is not read", len(frame))
        yield _with_ids(frame, path, faults).select([*READ_QRELS, "line"])


def judgements_of(files: Sequence[tuple[str | None, Path]], faults: Faults) -> pl.DataFrame:
    """Return the judgements of files, each of which may belong to a split, as a frame of `JUDGEMENTS`."""
    parts = [pl.DataFrame(schema=JUDGEMENTS)]
    for split, file in files:
        of_file = list(qrels_rows(file, faults))
        faults.note(f"files without judgements ({file.name})", not any(len(rows) for rows in of_file))
        named = (pl.lit(split, pl.String).alias("split"), pl.lit(str(file)).alias("file"))
        parts += [rows.with_columns(named).select(list(JUDGEMENTS)) for rows in of_file]
    return pl.concat(parts, rechunk=True)


def run_rows(path: str | Path, faults: Faults, encoding: str = "utf-8") -> Iterator[pl.DataFrame]:
    """Yield a run's lines: query, document, rank (Int32), score (Float64), tag and line, in the order of the file.

    A rank that is not a whole number is null: the order of a run is that of its scores. The three columns of MS MARCO
    (query, passage, rank) get the score −rank, if the first rank is 0 or 1 and all are whole; otherwise the third is
    the score, as Tevatron writes it. A form without a tag gets the file's name.

    Args:
        path: a file of TREC's six columns (text after them is counted and not read), MS MARCO's or Tevatron's three,
            ColBERT's four (query, passage, rank, score), CSV or TSV with a header, parquet, or JSON: {query: {document:
            score}} or {query: [document, …]}. Plain or compressed; lines that begin with # are skipped.
        faults: receives each broken line, and a file of judgements in the place of a run.

    Raises:
        BadInput: if the file can't be read.
    """
    name = Path(path).name.split(".")[0]
    is_parquet = plain_name(Path(path)).endswith(".parquet")
    head = [(1, "")] if is_parquet else _head(path, encoding)
    first = head[0][1].strip(" ")
    if is_parquet:
        rows: Iterator[pl.DataFrame] = _parquet(path, "score", faults)
    elif first.startswith(("{", "[")):
        rows = _json_rows(path, first, "score", faults, encoding)
    else:
        third = "rank" if len(_three(first)) != 3 or _are_ranks(head) else "score"
        forms = {3: f"query document {third}", 4: "query document rank score", 6: " ".join(RUN)}
        columns, separator, named = _columns(first, forms)
        typed = {column: TYPES.get(column, pl.String()) for column in columns}
        looked_at = len(columns) < 6 and (not named or first.split(separator) == BEIR_QRELS)
        if looked_at and (judged := _as_judgements(head, columns, separator)):
            what, line = judged
            remedy = "is this a qrels file? give it as judgements, and keep it apart from the runs"
            faults.report("not a run", what, path, line, remedy=remedy)
            return
        if "score" not in typed or (not named and len(columns) == 4):
            typed["rank"] = pl.Int32()
        rows = tables(
            path, typed, faults, separator=separator, encoding=encoding, header=named or HEADER, comments=True,
            more=True,
        )  # fmt: skip
    for every in rows:
        frame = _with_ids(every, path, faults)
        ranks = pl.col("rank").cast(pl.String).str.replace(r"\.0*$", "").cast(pl.Int32, strict=False)
        rank = ranks if "rank" in frame.columns else pl.lit(None, pl.Int32)
        score = pl.col("score") if "score" in frame.columns else -pl.col("rank").cast(pl.Float64)
        tag = pl.col("tag") if "tag" in frame.columns else pl.lit(name)
        yield frame.select("query", "document", rank.alias("rank"), score.alias("score"), tag.alias("tag"), "line")


def _head(path: str | Path, encoding: str) -> list[tuple[int, str]]:
    """Return the first lines that are neither blank nor comments, with their numbers; an empty one if there is none."""
    every = lines(path, Faults(strict=False), encoding)
    read = ((number, line.strip("\r\n")) for number, line in every if not line.lstrip().startswith("#"))
    return list(itertools.islice(read, 100)) or [(1, "")]


def _are_ranks(head: Sequence[tuple[int, str]]) -> bool:
    """Return whether the third of three columns holds ranks: whole numbers in the first lines, from 0 or 1."""
    thirds = [cells[2] for _, line in head if len(cells := _three(line)) == 3]
    thirds = thirds if not thirds or is_number(thirds[0]) else thirds[1:]  # without a header
    return all(cell.isdecimal() for cell in thirds) and (not thirds or int(thirds[0]) <= 1)


def _three(line: str) -> list[str]:
    """Return the fields of a line: those between two tabs, in which ids may have blanks, or those between blanks."""
    by_tabs = line.strip("\r\n").split("\t")
    return by_tabs if len(by_tabs) == 3 else line.split()


def _as_judgements(
    head: Sequence[tuple[int, str]], columns: Sequence[str], separator: str | None
) -> tuple[str, int] | None:
    """Return why a file seems to hold judgements, and the number of a line that shows it; None if it may be a run.

    Judgements of three columns look like ranks, except for their header. Of four columns, the first lines are read.
    """
    rows = [(number, [cell.strip(' "\r') for cell in line.split(separator)]) for number, line in head]
    rows = [(number, cells) for number, cells in rows if len(cells) == len(columns)]
    if rows and {_our_name(cell, "") for cell in rows[0][1]} >= {"query", "document", "grade"}:
        return "its header names grades and no scores", rows[0][0]
    if rows and rows[0][1] == BEIR_QRELS:
        what = "its header is that of BEIR's judgements, and the scores are whole numbers"
        return (what, rows[0][0]) if all(cells[2].isdecimal() for _, cells in rows[1:]) else None
    if rows and not any(map(is_number, rows[0][1])) and HEADER & {cell.lower() for cell in rows[0][1]}:
        rows = rows[1:]
    if len(columns) != 4 or not rows:
        return None
    said = "its columns should be query, document, rank and score, and"
    number, (_, first, rank, _) = rows[0]
    if not re.fullmatch(r"\d+(\.0*)?", rank):
        return f"{said} the rank is {rank[:40]!r}", number
    pairs = {(query, document) for _, (query, document, _, _) in rows}
    if len(pairs) < len(rows) and len({document for _, document in pairs}) == 1:  # the iteration, where ids are numbers
        return f"{said} each document is {first[:40]!r}", number
    return None


def is_number(text: str) -> bool:
    """Return whether a text writes a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _our_name(name: str, otherwise: str) -> str:
    """Return our name of a column of another tool."""
    return next((ours for ours, theirs in NAMES.items() if name.lower() in theirs), otherwise)


def _columns(first: str, forms: Mapping[int, str]) -> tuple[list[str], str | None, bool]:
    """Return a file's columns, the separator (None for blanks), and whether its first line names them."""
    for separator in ("\t", *QUOTED):
        fields = first.split(separator)
        named = [_our_name(field.strip(' "'), "_other") for field in fields]
        value = "score" if any("rank" in form for form in forms.values()) else "grade"
        if value == "grade":
            named = ["grade" if name == "score" and "grade" not in named else name for name in named]
        named = _once(named, fields)
        if len(fields) > 2 and {"query", "document"} <= set(named) and value in named:
            return [f"_{number}" if name == "_other" else name for number, name in enumerate(named)], separator, True
    by_tabs, by_blanks = first.split("\t"), re.split(rf"{BLANK}+", first.strip())
    tabs, count = len(by_tabs), len(by_blanks)
    if tabs in forms and (tabs == 3 or tabs != count):  # between tabs, ids may have blanks
        form = forms.get(min(count, 6) if 6 in forms else count, "")
        iterated = form == forms.get(4) and "_iteration" in form and by_blanks[1].upper() in ("0", "Q0")
        # Tabs here, blanks there.
        mixed = _has_value(form, by_blanks) and (iterated or not _has_value(forms[tabs], by_tabs))
        return (form.split(), None, False) if mixed else (forms[tabs].split(), "\t", False)
    if count == 1:
        for separator in QUOTED:
            if (cells := len(first.split(separator))) in forms:
                return forms[cells].split(), separator, False
    most = max(forms)
    default = 6 if 6 in forms else 4
    return forms.get(min(count, most) if most == 6 else count, forms[default]).split(), None, False


def _has_value(form: str, fields: Sequence[str]) -> bool:
    """Return whether the score, rank or grade of a line of a form is a number."""
    names = form.split()
    value = next((name for name in ("score", "grade", "rank") if name in names), None)
    return value is not None and is_number(fields[names.index(value)])


def _with_ids(frame: pl.DataFrame, path: str | Path, faults: Faults) -> pl.DataFrame:
    """Return the rows whose query and document are not empty, as a field between two tabs may be; others are broken."""
    empty = frame.filter(pl.any_horizontal(pl.col("query", "document").str.strip_chars() == ""))
    if len(empty):
        name = "query" if not empty["query"][0].strip() else "document"
        faults.report("broken line", f"the {name}'s id is empty", path, empty["line"][0], times=len(empty))
    return frame.filter(pl.all_horizontal(pl.col("query", "document").str.strip_chars() != ""))


def _once(named: list[str], fields: list[str]) -> list[str]:
    """Return the columns with one of each name: PyTerrier writes docid (a number) and docno, qid and query (a text)."""
    best = {"query": ("qid", "query_id", "query-id"), "document": ("docno", "doc_id", "doc-id", "corpus-id")}
    lowered = [field.strip(' "').lower() for field in fields]
    for name, telling in best.items():
        places = [place for place, column in enumerate(named) if column == name]
        first = places[0] if places else None
        kept = next((place for one in telling for place in places if lowered[place] == one), first)
        named = ["_other" if place in places and place != kept else column for place, column in enumerate(named)]
    return named


def _parquet(path: str | Path, value: str, faults: Faults) -> Iterator[pl.DataFrame]:
    try:
        frame = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise BadInput(f"can't be read ({str(error).splitlines()[0][:200]})", path, "is it whole?") from None
    names = {name: _our_name(name, name) for name in frame.columns}
    frame = frame.rename({name: ours for name, ours in names.items() if ours not in frame.columns})
    if value == "grade" and "grade" not in frame.columns and "score" in frame.columns:
        frame = frame.rename({"score": "grade"})
    if missing := {"query", "document", value} - set(frame.columns):
        raise BadInput(f"has no column {sorted(missing)[0]}", path, f"it has {', '.join(frame.columns)}")
    rows = (
        (row["query"], row["document"], row[value], number) for number, row in enumerate(frame.iter_rows(named=True), 1)
    )
    yield from _checked(rows, value, path, faults)


def _json_rows(path: str | Path, first: str, value: str, faults: Faults, encoding: str) -> Iterator[pl.DataFrame]:
    entry = parsed(first)
    if entry and isinstance(entry, dict) and not any(isinstance(value, (dict, list)) for value in entry.values()):
        rows = _of_objects(json_lines(Path(path), faults, encoding, parse=_parse), value, path, faults)
    else:
        try:
            with open_bytes(path) as stream:
                content = _parse(stream.read().decode(encoding_of(path, encoding)))
        except (ValueError, RecursionError) as error:
            raise BadInput(f"can't be read as JSON ({error})", path) from None
        if isinstance(content, _Object):
            rows = _of_queries(content, value, path)
        else:
            rows = _of_objects(enumerate(content, 1), value, path, faults)
    yield from _checked(rows, value, path, faults)


def _of_objects(
    entries: Iterable[tuple[int, Any]], value: str, path: str | Path, faults: Faults
) -> Iterator[tuple[Any, Any, Any, int]]:
    """Yield query, document, value and line of objects with these names."""
    for number, pairs in entries:
        try:
            entry = dict(pairs)
            names = {_our_name(name, name): name for name in entry}
            fields = [entry[names[name]] for name in ("query", "document", value if value in names else "score")]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"not a JSON object of query, document and {value} ({error})"
            faults.report("broken line", what, path, number)
        else:
            yield *fields, number


def _of_queries(content: _Object, value: str, path: str | Path) -> Iterator[tuple[Any, Any, Any, int]]:
    """Yield query, document, value and line of an object of queries: the values of documents, or a list of these."""
    for query, documents in content:
        if isinstance(documents, list) and all(isinstance(document, str) for document in documents):
            # Relevant documents, or a ranking.
            yield from ((query, document, -n if value == "score" else 1, 1) for n, document in enumerate(documents))
        elif isinstance(documents, _Object):
            yield from ((query, document, number, 1) for document, number in documents)
        else:
            raise BadInput(f"the query {query!r} has no documents", path, f"write {{query: {{document: {value}}}}}")


class _Object(list[tuple[str, Any]]):
    """A JSON object, whose names may be there more than once."""


def _parse(text: str) -> Any:
    """Parse JSON; numbers stay as they are written."""
    return json.loads(text, parse_int=str, parse_float=str, object_pairs_hook=_Object)


def _checked(
    rows: Iterator[tuple[Any, Any, Any, int]], value: str, path: str | Path, faults: Faults
) -> Iterator[pl.DataFrame]:
    """Yield rows with the types that they must have."""
    good: list[tuple[str, str, int | float, int]] = []
    for query, document, number, line in rows:
        ids = [_id(query), _id(document)]
        read = _number(number, whole=value == "grade")
        if None in ids:
            name, wrong = ("query", query) if ids[0] is None else ("document", document)
            faults.report("broken line", f"the {name} {wrong!r} is no id: write it as a text", path, line)
        elif read is None:
            kind = "a whole number of 32 bits" if value == "grade" else "a number"
            faults.report("broken line", f"{value} {str(number)[:40]!r} is not {kind}", path, line)
        else:
            good.append((str(ids[0]), str(ids[1]), read, line))
    schema = {"query": pl.String(), "document": pl.String(), value: TYPES[value], "line": pl.Int64()}
    yield pl.DataFrame(good, schema, orient="row")


def _id(value: Any) -> str | None:
    """Return an id as a text: a number as it is written. None if it is none, as an empty cell or a float."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (str, int)) and value != "" else None


def _number(value: Any, whole: bool) -> int | float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    if math.isnan(number) or (whole and (not number.is_integer() or abs(number) >= 2**31)):
        return None
    return int(number) if whole else number
