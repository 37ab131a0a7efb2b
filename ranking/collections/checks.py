"""Checks conditions across the files of a collection, in any format."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import polars as pl

from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.reader import DOCUMENTS, EVERYWHERE
from pyrite.ranking.collections.splits import SPLIT_FILES
from pyrite.ranking.errors import BadInput, refuse

PRECEDENCE = pl.col("split").replace_strict({"test": 0, "dev": 1, "train": 2}, default=3, return_dtype=pl.Int32)
"""The order of splits by their value: a query in several is in the first of them."""
TYPES: tuple[Callable[[pl.DataType], bool], ...] = (
    operator.methodcaller("is_integer"), operator.methodcaller("is_numeric"),
    (pl.String, pl.Categorical, pl.Enum).__contains__,
)  # fmt: skip
"""Kinds of types that stand for each other in a column: whole numbers, numbers and texts."""
MERGED = {"max": "the highest grade counts", "mean": "the mean of the grades counts"}
"""What becomes of the grades of a document that is judged more than once for a query."""


def table(rows: object, schema: Mapping[str, pl.DataType], method: str) -> pl.DataFrame:
    """Return what a method of a reader, which may be the user's, has read.

    Raises:
        BadInput: if it is no data frame of polars, lacks a column, has one of another type, or an unknown split.
    """
    frame = "yield polars data frames" if method == "read_documents" else "return a polars data frame"
    needs = f"{frame} with the columns {', '.join(schema)}"
    if not isinstance(rows, pl.DataFrame):
        raise BadInput(f"{method} of the reader gave {type(rows).__name__}", "collection", needs)
    missing = [name for name in schema if name not in rows.columns]
    refuse(missing, f"{method} of the reader gave no column {{}}", "collection", needs)
    _check_types(rows, schema, method)
    splits = rows["split"].drop_nulls().unique().sort().to_list() if "split" in schema else []
    unknown = [repr(split) for split in splits if split not in SPLIT_FILES]
    remedy = f"write {', '.join(SPLIT_FILES)}, or null if there is none"
    refuse(unknown, f"{method} of the reader gave the split {{}}", "collection", remedy)
    return rows


def _check_types(rows: pl.DataFrame, schema: Mapping[str, pl.DataType], method: str) -> None:
    for name, kind in schema.items():
        given = rows.schema[name]
        is_kind = next(is_kind for is_kind in TYPES if is_kind(kind))
        what, remedy = f"{name} as {given}, not {kind}", f"cast it by pl.col({name!r}).cast(pl.{kind})"
        refuse(not is_kind(given) and given != pl.Null, f"{method} of the reader gave {what}", "collection", remedy)


def with_text(read: object, what: str, faults: Faults) -> pl.DataFrame:
    """Return the rows of documents or queries that have an id and a text, in Unicode's composed form, without blanks
    around it.

    Composed (NFC) and decomposed letters look the same, but are other words to a tokenizer.
    """
    rows = table(read, DOCUMENTS, f"read_{'queries' if what == 'query' else 'documents'}")
    rows = rows.with_columns(pl.col("text").str.normalize("NFC").str.strip_chars())
    rows = faults.only(rows, pl.col("id").fill_null("") != "", "broken line", f"a {what} has no id")
    complaint = f"the {what} {{id!r}} has no text"
    return faults.only(rows, pl.col("text").fill_null("") != "", "empty text", complaint)


def documents_with_text(chunks: Iterable[object] | None, faults: Faults) -> Iterator[pl.DataFrame]:
    """Yield the chunks of documents, see `with_text`."""
    for chunk in [None] if chunks is None else chunks:  # None if the user's method neither yields nor returns
        yield with_text(chunk, "document", faults)


def distinct(queries: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    """Return queries without those whose id an earlier one has."""
    complaint = "another query is called {id!r}"
    return faults.only(queries, pl.col("id").is_first_distinct(), "duplicate id", complaint)


def join_repeats(
    queries: pl.DataFrame, judgements: pl.DataFrame, given: pl.DataFrame, within: pl.Expr = EVERYWHERE
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, int]:
    """Join queries whose texts differ only in case and space.

    As separate queries they would leak: a query of the test may have been trained on, and the answer to one would be a
    hard negative of the other.

    Args:
        within: a text of a query; only queries with the same one are joined.

    Returns:
        The queries, the first of each text with its id, in the most valuable split among them (test, then dev); the
        judgements of all of them, the highest grade if several judge one document; what is given with them; and the
        number of queries that were joined to an earlier one.
    """
    text = pl.concat_str(
        within, pl.col("text").str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars(), separator="/"
    )
    if (joined := len(queries) - queries.select(text.n_unique()).item()) == 0:
        return queries, judgements, given, 0
    named = queries.with_columns(
        pl.col("id").first().over(text).alias("first"), pl.col("split").sort_by(PRECEDENCE).first().over(text)
    )
    judgements = judgements.join(named.select(query="id", first="first"), on="query", maintain_order="left")
    judgements = (
        judgements.with_columns(query="first")
        .drop("first")
        .with_columns(pl.col("grade").max().over("query", "document"))
        .filter(pl.struct("query", "document").is_first_distinct())
    )
    names = named.select(query="id", first="first")
    given = given.join(names, on="query", how="left", maintain_order="left")
    given = given.with_columns(query=pl.coalesce("first", "query")).drop("first")
    given = given.unique(["query", "document"], keep="first", maintain_order=True)
    return named.filter(pl.col("id") == pl.col("first")).drop("first"), judgements, given, joined


def sound(
    judgements: pl.DataFrame,
    queries: pl.DataFrame,
    documents: pl.DataFrame,
    faults: Faults,
    repeated: str = "max",
) -> tuple[pl.DataFrame, int]:
    """Return judgements of known documents for known queries, each pair once, each query in one split.

    Args:
        documents: all documents; possibly far more than fit into memory, if mapped from a file.
        faults: receives the others. When not strict, a query in several splits stays in the most valuable one
            (test, then dev).
        repeated: the grade of a document that is judged more than once for a query: the highest (`max`), the mean,
            rounded (halves up), or none (`stop`).

    Returns:
        The judgements, and the number of those that were repeated.

    Raises:
        BadInput: if a judgement is repeated (`stop`), or for a fault if strict.
    """
    wrong = repeated not in (*MERGED, "stop")
    refuse(wrong, f"qrels_repeated is {repeated!r}", "collection.qrels_repeated", "choose max, mean or stop")
    known = known_ids(documents, judgements["document"])
    for name, ids, named in (("query", queries["id"], queries), ("document", known, documents)):
        exists, complaint = pl.col(name).is_in(ids.implode()), f"no {name} is called {{{name}!r}}"
        alike = partial(_alike, name, named)
        judgements = faults.only(judgements, exists, f"unknown {name}", complaint, more=alike)
    complaint = "the query {query!r} has judgements in another split too"
    counts = judgements.select(_hashes("query").n_unique(), splits=_hashes("query", "split").n_unique())
    if counts["query"][0] != counts["splits"][0]:  # otherwise each has one, and no window over them is needed
        foremost = PRECEDENCE.min().over("query") == PRECEDENCE
        judgements = faults.only(judgements, foremost, "query in two splits", complaint)
    pair = ["query", "document"]
    if are_distinct(judgements, pair):
        return judgements, 0
    again = ~judgements.select(pl.struct(pair).is_first_distinct()).to_series()
    if repeated == "stop":
        first = judgements.row(int(again.arg_max() or 0), named=True)
        what = f"document {first['document']!r} is judged again for query {first['query']!r}"
        remedy = "remove all but one, or set collection.qrels_repeated=max or mean"
        raise BadInput(f"{what} ({again.sum():,} such lines)", f"{first['file']}:{first['line']}", remedy)
    return judgements.with_columns(merged_grade(repeated).over(pair)).filter(~again), int(again.sum())


def merged_grade(repeated: str) -> pl.Expr:
    """Return the grade of a document that is judged more than once for a query; `repeated` is a key of `MERGED`."""
    judged = pl.col("grade").filter(pl.col("grade") != -1)  # -1 is no judgement
    grade = judged.max() if repeated == "max" else (judged.mean() + 0.5).floor().cast(pl.Int32)
    return grade.fill_null(-1)


def are_distinct(rows: pl.DataFrame, columns: Sequence[str]) -> bool:
    """Return whether no two rows have the same values in some columns; in eight bytes per row."""
    return rows.select(_hashes(*columns).n_unique()).item() == len(rows) or rows.n_unique(columns) == len(rows)


def _hashes(*columns: str) -> pl.Expr:
    """Return a number for the values of some columns, equal for equal values and for hardly any others."""
    return reduce(operator.xor, (pl.col(name).hash(seed) for seed, name in enumerate(columns)))


def known_ids(documents: pl.DataFrame, ids: pl.Series) -> pl.Series:
    """Return the ids that documents have, in the documents' order.

    Only these ids are hashed, not those of all documents: ten million would take 0.8 GB.
    """
    wanted = ids.unique().rename("id").to_frame().lazy()
    known = documents.lazy().select("id").join(wanted, on="id", how="semi", maintain_order="left")
    return known.collect()["id"]


def _alike(column: str, named: pl.DataFrame, row: Mapping[str, Any]) -> str:
    """Return a hint at an id that differs from a missing one only in its form; an empty text if there is none.

    Args:
        column: the column of the id.
        named: the rows among whose ids it is missing.
        row: the row that has it.
    """
    missing = row[column]
    forms: dict[str, Callable[[pl.Expr], pl.Expr]] = {
        "blanks around it": lambda name: name.str.strip_chars(),
        "leading zeros": lambda name: name.str.strip_chars_start("0"),
        "a point and zeros at its end": lambda name: name.str.replace(r"\.0+$", ""),
        "case": lambda name: name.str.to_lowercase(),
        "its Unicode form": lambda name: name.str.normalize("NFC"),
    }
    for reason, form in forms.items():
        same = named.lazy().select("id").filter(form(pl.col("id")) == form(pl.lit(missing))).head(1).collect()
        if len(same):
            return f" (but {same['id'][0]!r}, which differs in {reason})"
    return ""
