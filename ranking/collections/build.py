"""Reads a collection, checks it and writes it as Arrow files, with the documents passing through in chunks."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pyrite.ranking.collections import checks, pieces, splits
from pyrite.ranking.collections.arrow_files import batches, mapped, write
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.ids import id_files, write_ids
from pyrite.ranking.collections.pieces import Run, in_turn, mapped_pieces, piece_file, piece_files, write_pieces
from pyrite.ranking.collections.reader import GIVEN, JUDGEMENTS, Reader, counted
from pyrite.ranking.errors import BadInput, refuse

MANY = 100
"""A quarter of the relevant pairs is worth a line if it is as many as this."""
_CHUNK = 50_000  # rows
STORED: Mapping[str, Mapping[str, pl.DataType]] = {
    "documents": {name: pl.String() for name in ("id", "text", "category", "subcategory")},
    "queries": {name: pl.String() for name in ("id", "text", "split", "category", "subcategory")},
    "judgements": {"query": pl.String(), "document": pl.String(), "grade": pl.Int32()},
}
ABOUT = "collection.json"
"""The file that is written last: a folder with it is whole."""
GIVEN_FILE = "given.arrow"
"""The file of documents given with queries; only for formats that have them."""


def build(reader: Reader, folder: Path, faults: Faults, run: Run = in_turn) -> None:
    """Read a collection, check it, and write it into an empty folder.

    Args:
        folder: the folder for one file per table of `STORED`, `GIVEN_FILE` if documents are given, and
            `collection.json` with everything else.
        run: runs the tasks of documents in several pieces.

    Raises:
        BadInput: for a fault that can't be skipped, such as a truncated file, or if nothing is left.
    """
    # The small files first: most faults are found before the documents, which take long.
    queries = checks.distinct(checks.with_text(reader.read_queries(faults), "query", faults), faults)
    _refuse_nothing(queries, "not one query", reader, faults)
    judgements = checks.table(reader.read_judgements(faults), JUDGEMENTS, "read_judgements")
    documents = _write_documents(reader, folder, faults, run)
    judgements, repeated = checks.sound(judgements, queries, documents, faults, reader.qrels_repeated)
    _refuse_nothing(judgements, "not one judgement of a known document for a known query", reader, faults)
    judged = judgements.select(pl.col("query"), "split").unique("query")
    unjudged = len(queries) - len(judged)
    queries = queries.join(judged, left_on="id", right_on="query", how="inner", maintain_order="left")
    read = reader.read_given(faults)
    queries, judgements, read, joined = checks.join_repeats(queries, judgements, read, reader.within)
    final = _prompted(splits.usable(queries), reader.read_prompts(faults))
    columns = {name: pl.String() for name in final.columns if name in (*STORED["queries"], "prompt")}
    write(folder / "queries.arrow", {**STORED["queries"], **columns}, [final])
    write(folder / "judgements.arrow", STORED["judgements"], [judgements])
    given = _known_candidates(read, queries, documents, reader)
    unscored = given["score"].null_count() % max(1, len(given))  # of some, not of all
    facts = {
        **reader.facts(),
        **counted({
            "judgements given again": (repeated, f" ({checks.MERGED.get(reader.qrels_repeated)})"),
            "queries without judgements": (unjudged, " left out"),
        }),
        **counted({what: (count, "") for what, count in faults.notes.items()}),
        **counted({"queries with the text of another": (joined, " joined to it, with their judgements")}),
        **_of_splits(queries),
        **_dominant(judgements),
        **counted({"queries with a prompt of their own": (_with_prompt(final), f" of {len(final):,}")}),
        **counted({
            "candidates of queries or documents that are not there": (len(read) - len(given), " left out"),
            "candidates without a score, where others have one": (unscored, f" of {len(given):,}"),
        }),
    }  # fmt: skip
    if len(given):
        write(folder / GIVEN_FILE, GIVEN, [given])
    fingerprint = _fingerprint(_tables(folder, documents.columns), facts)
    facts |= _of_test(queries, final)  # not in the fingerprint, which the splits of the queries are in
    about = {
        "name": reader.name,
        "fingerprint": fingerprint,
        "skipped": faults.skipped,
        "facts": facts,
        "source": reader.source(),
        "given": bool(len(given)),
        "documents": {file.name: len(mapped(file)) for file in piece_files(folder)},
        "ids": [file.name for file in id_files(folder)],
        "empty": [name for name in documents.columns if documents[name].null_count() == len(documents)],
    }
    (folder / ABOUT).write_text(json.dumps(about, ensure_ascii=False, indent=1), encoding="utf-8")


def _tables(folder: Path, columns: list[str]) -> Iterator[tuple[list[str], Iterator[pl.DataFrame]]]:
    """Yield the columns of each table of a collection and its parts, the documents first."""
    yield columns, itertools.chain.from_iterable(batches(file, _CHUNK // 5) for file in piece_files(folder))
    files = (folder / name for name in ("queries.arrow", "judgements.arrow", GIVEN_FILE))
    for table in map(mapped, filter(Path.exists, files)):
        yield table.columns, table.iter_slices(_CHUNK // 5)


def _prompted(queries: pl.DataFrame, prompts: pl.DataFrame) -> pl.DataFrame:
    """Return queries with the column `prompt`, if there is any; a blank separates it from the text."""
    if prompts.is_empty():
        return queries
    first = prompts.drop_nulls().unique("query", keep="first", maintain_order=True)
    spaced = pl.when(pl.col("prompt").str.contains(r"(^|\s)$")).then(pl.col("prompt")).otherwise(pl.col("prompt") + " ")
    return queries.join(first.with_columns(spaced), left_on="id", right_on="query", how="left", maintain_order="left")


def _dominant(judgements: pl.DataFrame) -> dict[str, str]:
    """Return the fact that one query has a quarter of many relevant pairs, which batches then repeat."""
    relevant = judgements.lazy().filter(pl.col("grade") > 0)
    hashes = relevant.select(pl.col("query").hash()).collect().to_series()
    if (total := len(hashes)) < 4 * MANY or 4 * hashes.value_counts(sort=True)["count"][0] < total:
        return {}
    query, pairs = relevant.group_by("query").len("pairs").sort("pairs", "query").collect().row(-1)
    return {"queries with a quarter of the relevant pairs": (
        f"1 ({query}: {pairs:,} of {total:,}), which batches repeat, and its pairs are no negatives of each other "
        "(batches=distinct spreads them)"
    )}  # fmt: skip


def _with_prompt(queries: pl.DataFrame) -> int:
    return int(queries["prompt"].count()) if "prompt" in queries.columns else 0


def _of_splits(queries: pl.DataFrame) -> dict[str, str]:
    """Return the fact that a collection lacks splits."""
    facts: dict[tuple[str | None, ...], tuple[str, str]] = {
        (splits.TEST,): (splits.TEST_ONLY, f"{len(queries):,} queries, which are cross-validated"),
        (splits.DEV, splits.TEST): (splits.NO_TRAINING, f"{(queries['split'] == splits.DEV).sum():,}"),
    }
    return dict([facts[key]] if (key := _splits_in(queries)) in facts else [])


def _of_test(queries: pl.DataFrame, final: pl.DataFrame) -> dict[str, str]:
    """Return the fact that dev is the test, if a collection has no other."""
    if _splits_in(queries) != (splits.DEV, splits.TRAIN) or final["split"].null_count():
        return {}
    tested, dev = ((final["split"] == split).sum() for split in (splits.TEST, splits.DEV))
    return {splits.NO_TEST: f"{tested:,} ({dev:,} of train are dev)"}


def _splits_in(queries: pl.DataFrame) -> tuple[str | None, ...]:
    """Return the splits of queries, in the order of their names; None is for those without one."""
    return tuple(sorted(queries["split"].unique(), key=str))


def _known_candidates(
    given: pl.DataFrame, queries: pl.DataFrame, documents: pl.DataFrame, reader: Reader
) -> pl.DataFrame:
    """Return the candidates whose query and document are there."""
    of_queries = _known(given, "query", queries["id"])
    known_ones = _known(of_queries, "document", checks.known_ids(documents, of_queries["document"]))
    what = "no candidate is of a known query and document"
    refuse(len(given) and not len(known_ones), what, reader.name, "are its ids those of the files?")
    return known_ones


def _known(rows: pl.DataFrame, column: str, ids: pl.Series) -> pl.DataFrame:
    """Return the rows whose id in a column is among some, without a copy if all are."""
    is_known = rows.select(pl.col(column).is_in(ids.implode())).to_series()
    return rows if is_known.all() else rows.filter(is_known)


def _refuse_nothing(rows: pl.DataFrame, what: str, reader: Reader, faults: Faults) -> None:
    """Refuse a collection of which nothing is left."""
    skipped = ", ".join(f"{count:,} × {kind}" for kind, count in faults.skipped.items())
    refuse(rows.is_empty() and skipped, f"{what} is left: {skipped}", reader.name, "strict=true names the first")
    if rows.is_empty():
        files = ", ".join(Path(source).name for source in reader.sources())
        raise BadInput(what, reader.name, f"it was read from {files}")


def _write_documents(reader: Reader, folder: Path, faults: Faults, run: Run) -> pl.DataFrame:
    if not _written_by_tasks(reader, folder, run):
        _write_one_by_one(reader, folder, faults)
    files = piece_files(folder)
    if len(files) > 1:
        write_ids(folder, files, run)
    return mapped_pieces(files)


def _written_by_tasks(reader: Reader, folder: Path, run: Run) -> bool:
    """Write the documents of large files portion by portion; return False if they must be read from the start, because
    there is too little to share, or a fault to be named.
    """
    portions = reader.portions(pieces.PIECE)
    if len(portions) < 2:
        return False
    run(partial(portion_to_piece, reader, portions, folder), len(portions))
    written = piece_files(folder)
    documents = mapped_pieces(written) if len(written) == len(portions) else pl.DataFrame()
    if not documents.is_empty() and _repeated(documents).is_empty():
        return True
    for file in written:
        file.unlink()
    return False


def portion_to_piece(reader: Reader, portions: Sequence[Any], folder: Path, number: int) -> None:
    """Write the documents of a portion as a piece; leave none if it has a fault."""
    faults, file = Faults(strict=False), folder / piece_file(number)
    documents = checks.documents_with_text(reader.read_portion(portions[number], faults), faults)
    write(file, STORED["documents"], documents)
    if faults.skipped:
        file.unlink()


def _write_one_by_one(reader: Reader, folder: Path, faults: Faults) -> None:
    chunks = checks.documents_with_text(reader.read_documents(faults), faults)
    write_pieces(folder, STORED["documents"], chunks)
    documents = mapped_pieces(piece_files(folder))
    _refuse_nothing(documents, "not one document", reader, faults)
    again = _repeated(documents)
    if len(again):
        file, line = _file_and_line(reader, int(again[0])) if faults.strict else ("", None)
        what = f"another document is called {documents['id'][int(again[0])]!r}"
        faults.report("duplicate id", what, file, line, times=len(again))
        numbered = documents.with_row_index("row")
        kept = (part.filter(~pl.col("row").is_in(again.implode())) for part in numbered.iter_slices(_CHUNK))
        distinct = folder / "distinct"
        distinct.mkdir()
        write_pieces(distinct, STORED["documents"], kept)
        for written in piece_files(folder):
            written.unlink()
        for written in piece_files(distinct):
            written.rename(folder / written.name)
        distinct.rmdir()


def _repeated(documents: pl.DataFrame) -> pl.Series:
    """Return the rows of documents whose id an earlier document has.

    Equal ids have equal hashes, of eight bytes: ids are only compared if their hashes repeat, which is rare.
    """
    hashes = np.sort(documents["id"].hash().to_numpy())
    suspects = pl.Series(np.unique(hashes[1:][hashes[1:] == hashes[:-1]]), dtype=pl.UInt64)
    if suspects.is_empty():
        return pl.Series(dtype=pl.UInt32)
    rows = documents.select("id").with_row_index("row").filter(documents["id"].hash().is_in(suspects.implode()))
    return rows.filter(~pl.col("id").is_first_distinct())["row"]


def _file_and_line(reader: Reader, row: int) -> tuple[str, int | None]:
    """Return the file and line of a document by reading up to it again: they are not kept, because faults are rare."""
    for chunk in reader.read_documents(Faults(strict=False)):
        if row < len(chunk):
            return chunk["file"][row], chunk["line"][row]
        row -= len(chunk)
    raise RuntimeError("the documents changed while they were read")


def _fingerprint(tables: Iterable[tuple[list[str], Iterator[pl.DataFrame]]], facts: Mapping[str, str]) -> str:
    """Return a digest of the columns and parts of tables; documents are read, not mapped, so that memory is bounded."""
    digest = blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=8)
    for columns, parts in tables:
        digest.update(f"\n{columns}\n".encode())
        for part in parts:
            digest.update(part.write_csv(include_header=False).encode())
    return digest.hexdigest()
