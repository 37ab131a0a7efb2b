"""Reads pairs of a query and a relevant document, with or without negatives and scores: what rankers are trained on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

import polars as pl

from ranking.collections.faults import Faults
from ranking.collections.reader import DOCUMENTS, GIVEN, JUDGEMENTS, QUERIES, Reader, stamps
from ranking.collections.row_files import chunks, column_names, row_files
from ranking.collections.splits import TEST, TRAIN, shuffled
from ranking.errors import BadInput

USUAL: Mapping[str, tuple[str, ...]] = {
    "query": ("query", "anchor", "question", "sentence1"),
    "positive": ("positive", "pos", "positives", "answer", "document", "documents", "passage", "response", "sentence2"),
    "label": ("label", "labels"),
}
"""What others call these columns."""
USUAL_NEGATIVES = r"^(negative|negatives|neg)(_?\d+)?$"
USUAL_SCORES = (("scores",), ("score",), ("pos_scores", "neg_scores"))
BESIDE = "scores beside"
"""The column of the scores that `ids` gives."""
TEXTS = pl.List(pl.String())


@dataclass
class Pairs(Reader):
    """Rows of a query, its positive and its negatives, as other trainers take them and `pyrite mine` writes them.

    A file in parquet, CSV or JSON lines, a folder of such files, or a dataset that the library datasets has saved.
    Texts that are equal are one document, or one query (there without regard to case and space); documents are those
    of the rows. What stands with a query in any row is `Collection.given`, with its score: `function=given` offers it.

    Files and folders called train, dev (or validation) and test are these splits. Where all is one split, a share of
    the queries becomes the test, and a share of the others dev.

    Args:
        path: the file or folder.
        query: the query's column; null: query, anchor, question or sentence1, whichever there is.
        positive: the column of its relevant document, or of a list of them; null: positive, pos, answer, document …
        negatives: columns of documents or of lists of them; null: all called negative, negatives, neg, negative_1 …
        scores: a column of one score for each document of the row, positives first, or for each negative; or a column
            each. null: scores, score, or pos_scores and neg_scores.
        label: a column of grades, of a row's one document or of its list: above 0 is relevant. null: label or labels.
        test: share of the queries that becomes the test where the files know no splits.
    """

    path: str | Path
    query: str | None = None
    positive: str | None = None
    negatives: str | list[str] | None = None
    scores: str | list[str] | None = None
    label: str | None = None
    test: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.test < 1:
            raise BadInput(f"test is {self.test}", "collection.test", "choose a share from 0 to below 1")

    @property
    def name(self) -> str:
        return Path(self.path).expanduser().resolve().name.split(".")[0]

    def sources(self) -> dict[str, str]:
        return stamps([file for _, file in [*self._files(), *self._beside()]])

    def read_documents(self, faults: Faults) -> Iterator[pl.DataFrame]:
        seen: set[int] = set()
        for rows in self._rows(Faults(strict=False)):
            new = rows.select("file", "line", text="document", id="document_id").unique("id", maintain_order=True)
            hashes = new["id"].hash().to_list()
            new = new.filter(pl.Series([key not in seen for key in hashes], dtype=pl.Boolean))
            seen.update(hashes)
            yield _filled(new, DOCUMENTS)

    def read_queries(self, faults: Faults) -> pl.DataFrame:
        parts = [
            rows.select("file", "line", text="query", id="query_id").unique("id", maintain_order=True)
            for rows in self._rows(faults)
        ]
        parts = [pl.DataFrame(schema=QUERIES), *(_filled(part, QUERIES) for part in parts)]
        return pl.concat(parts).unique("id", keep="first", maintain_order=True)

    def read_judgements(self, faults: Faults) -> pl.DataFrame:
        judged = [
            _filled(rows.drop("query", "document").rename({"query_id": "query", "document_id": "document"}), JUDGEMENTS)
            for rows in self._rows(Faults(strict=False))
        ]
        found = pl.concat([pl.DataFrame(schema=JUDGEMENTS), *judged]).drop_nulls("grade")
        found = found.unique(["query", "document", "split"], keep="first", maintain_order=True)
        if not set(found["split"].drop_nulls()) <= {TRAIN}:
            return found
        queries = shuffled(found["query"].unique())
        tested = pl.Series(queries[: round(self.test * len(queries))], dtype=pl.String)
        if tested.is_empty():
            return found.with_columns(split=pl.lit(None, pl.String))
        split = pl.when(pl.col("query").is_in(tested.implode())).then(pl.lit(TEST)).otherwise(pl.lit(TRAIN))
        return found.with_columns(split=split)

    def read_given(self, faults: Faults) -> pl.DataFrame:
        parts = [
            rows.select("score", query="query_id", document="document_id").select(list(GIVEN))
            for rows in self._rows(Faults(strict=False))
        ]
        found = pl.concat([pl.DataFrame(schema=GIVEN), *parts])
        return found.unique(["query", "document"], keep="first", maintain_order=True)

    def _files(self) -> list[tuple[str | None, Path]]:
        return row_files(Path(self.path).expanduser())

    def _beside(self) -> list[tuple[str | None, Path]]:
        """Tables whose rows say ids and scores of those in `data`, row by row: `pyrite mine` writes them."""
        folder = Path(self.path).expanduser() / "ids"
        return row_files(folder) if folder.is_dir() else []

    def _rows(self, faults: Faults) -> Iterator[pl.DataFrame]:
        """A row for each query and document, by chunks: query, query_id, document, document_id, grade (null: it is a
        negative), score, split, file, line."""
        for split, file, long in self._long(faults):
            place = (pl.lit(split, pl.String).alias("split"), pl.lit(str(file)).alias("file"))
            yield _identified(long, self._known_ids).with_columns(place)

    def _long(self, faults: Faults) -> Iterator[tuple[str | None, Path, pl.DataFrame]]:
        """The rows of each chunk, a row for each query and document; with them what `ids` says."""
        beside = [frame for _, file in self._beside() for frame, _ in chunks(file, faults)]
        ids, passed = (pl.concat(beside) if beside else None), 0
        for split, file in self._files():
            columns = self._columns(file)
            for frame, first in chunks(file, faults, [columns.query, columns.positive, *columns.negatives]):
                if ids is not None:
                    frame = _with_ids(frame, ids[passed : passed + len(frame)], file)
                    passed += len(frame)
                yield split, file, columns.long(frame, first, file, faults)

    @cached_property  # four tables are read off the rows
    def _known_ids(self) -> Mapping[str, pl.DataFrame]:
        """The ids that rows name, by a digest of the text: of an equal text the first counts."""
        names = {name for _, file in [*self._files(), *self._beside()] for name in column_names(file)}
        if not names & {"query_id", "document_ids"}:
            return {}
        found: dict[str, list[pl.DataFrame]] = {"query": [], "document": []}
        for _, _, long in self._long(Faults(strict=False)):
            rows = _identified(long, {})
            for kind, parts in found.items():
                parts.append(rows.select(key=f"{kind}_id", id=f"named_{kind}").drop_nulls().unique("key", keep="first"))
        return {kind: pl.concat(parts).unique("key", keep="first") for kind, parts in found.items()}

    def _columns(self, file: Path) -> _Columns:
        names = column_names(file)

        def column(kind: str, given: str | None, needed: bool = True) -> str | None:
            usual = [name for name in USUAL[kind] if name in names]
            found = given if given is not None else next(iter(usual), None)
            if found in names or (found is None and not needed):
                return found
            there = f"it has {', '.join(names)}" if names else "it is empty"
            what = f"has no column {found!r}" if found else f"has no column of the {kind} by a usual name"
            raise BadInput(what, file, f"{there}; name one by collection.{kind}=COLUMN")

        query, positive = column("query", self.query), column("positive", self.positive)
        negatives = _listed(self.negatives)
        if negatives is None:
            negatives = (
                pl.Series(names, dtype=pl.String).filter(pl.Series(names).str.contains(USUAL_NEGATIVES)).to_list()
            )
        scores = _listed(self.scores)
        if scores is None:
            scores = next((list(usual) for usual in USUAL_SCORES if set(usual) <= set(names)), [])
        for option, asked in (("negatives", negatives), ("scores", scores)):
            for name in asked:
                if name not in names:
                    raise BadInput(
                        f"has no column {name!r}", file, f"it has {', '.join(names)}; see collection.{option}"
                    )
        assert query is not None
        assert positive is not None
        return _Columns(query, positive, negatives, scores, column("label", self.label, needed=False))


@dataclass(frozen=True)
class _Columns:
    """The columns of a file, by what they hold."""

    query: str
    positive: str
    negatives: Sequence[str]
    scores: Sequence[str]
    label: str | None

    def long(self, frame: pl.DataFrame, first: int, file: Path, faults: Faults) -> pl.DataFrame:
        """A row for each query and document of a chunk, with the ids that it names (null where it names none)."""
        there = frame.columns
        scores = self.scores or [name for name in (BESIDE,) if name in there]
        rows = frame.select(
            line=pl.int_range(first, first + len(frame), dtype=pl.Int64),
            query=pl.col(self.query).cast(pl.String),
            positives=_joined(frame, [self.positive], pl.String()),
            negatives=_joined(frame, self.negatives, pl.String()),
            score=_joined(frame, scores, pl.Float64()),
            grade=_joined(frame, [self.label] if self.label else [], pl.Float64()),
            named_query=pl.col("query_id").cast(pl.String) if "query_id" in there else pl.lit(None, pl.String),
            named_document=_joined(frame, ["document_ids"] if "document_ids" in there else [], pl.String()),
        )
        ahead, behind = pl.col("positives").list.len(), pl.col("negatives").list.len()

        def nothing(count: pl.Expr) -> pl.Expr:
            return pl.lit(None, pl.Float64).repeat_by(count)

        relevant = pl.concat_list(pl.lit(1.0, pl.Float64).repeat_by(ahead), nothing(behind))
        scored, named = pl.col("score").list.len(), pl.col("named_document").list.len()
        of_negatives = (scored == behind) & (scored > 0) & (ahead > 0)
        rows = rows.with_columns(
            document=pl.concat_list("positives", "negatives"),
            score=pl.when(scored == 0).then(nothing(ahead + behind))
            .when(of_negatives).then(pl.concat_list(nothing(ahead), "score")).otherwise("score"),
            grade=pl.when(pl.lit(self.label is not None)).then("grade").otherwise(relevant),
            named_document=pl.when(named == 0).then(nothing(ahead + behind).cast(TEXTS)).otherwise("named_document"),
        ).drop("positives", "negatives")  # fmt: skip
        for column, what in (("score", "scores"), ("grade", "labels"), ("named_document", "ids")):
            fits = pl.col(column).list.len() == pl.col("document").list.len()
            rows = _only(rows, fits, f"not as many {what} as documents", file, faults)
        rows = rows.explode("document", "score", "grade", "named_document").filter(pl.col("document").is_not_null())
        whole = pl.col("grade").is_null() | (pl.col("grade") == pl.col("grade").round())
        rows = _only(rows, whole, "a label is no whole number: is it a score?", file, faults)
        return rows.with_columns(
            pl.col("grade").cast(pl.Int32), pl.col("score").cast(pl.Float32), pl.col("document").str.strip_chars()
        )


def _joined(frame: pl.DataFrame, names: Sequence[str], kind: pl.DataType) -> pl.Expr:
    """One list a row, of columns of values and of lists; nulls are left out of columns, not of lists."""
    nothing = pl.lit([], pl.List(kind))
    return pl.concat_list([nothing, *(_as_list(frame, name, kind) for name in names)])


def _as_list(frame: pl.DataFrame, name: str, kind: pl.DataType) -> pl.Expr:
    """A column as lists: of one, of what it has, or of nothing where it is null."""
    nothing = pl.lit([], pl.List(kind))
    if frame.schema[name].is_nested():
        return pl.col(name).cast(pl.List(kind)).fill_null(nothing)
    value = pl.col(name).cast(kind)
    return pl.when(value.is_null()).then(nothing).otherwise(pl.concat_list(value))


def _only(rows: pl.DataFrame, good: pl.Expr, what: str, file: Path, faults: Faults) -> pl.DataFrame:
    passed = rows.select(good.fill_null(False)).to_series()
    if not passed.all():
        faults.report("broken line", what, file, rows["line"][int(passed.arg_min() or 0)], times=int((~passed).sum()))
    return rows.filter(passed)


def _identified(rows: pl.DataFrame, known: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The rows with ids of query and document: those that are named for their texts, or else digests of the texts."""
    plain = pl.col("query").str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars()
    rows = rows.with_columns(plain.alias("_query"))
    for kind, text in (("query", "_query"), ("document", "document")):
        texts = rows[text].unique()
        keys = [None if each is None else blake2b(each.encode(), digest_size=8).hexdigest() for each in texts]
        table = pl.DataFrame({text: texts, "key": pl.Series(keys, dtype=pl.String)})
        if kind in known:
            table = table.join(known[kind], on="key", how="left", maintain_order="left")
            table = table.select(text, pl.coalesce("id", "key").alias(f"{kind}_id"))
        rows = rows.join(table.rename({"key": f"{kind}_id"}, strict=False), on=text, how="left", maintain_order="left")
    return rows.drop("_query")


def _filled(rows: pl.DataFrame, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """The columns of a schema, null where there is none."""
    return rows.select(
        (pl.col(name) if name in rows.columns else pl.lit(None)).cast(kind).alias(name) for name, kind in schema.items()
    )


def _with_ids(frame: pl.DataFrame, ids: pl.DataFrame, file: Path) -> pl.DataFrame:
    if len(ids) != len(frame):
        raise BadInput("has more rows than the tables in `ids`", file, "mine it again, or delete the folder `ids`")
    named = ids.select("query_id", "document_ids", pl.col("scores").alias(BESIDE))
    return frame.drop("query_id", "document_ids", strict=False).hstack(named)


def _listed(option: str | Sequence[str] | None) -> list[str] | None:
    return option if option is None else [option] if isinstance(option, str) else list(option)
