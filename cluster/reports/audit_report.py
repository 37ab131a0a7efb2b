"""Writes the results of an audit: each policy's false negatives, what guards would have dropped, new judgements."""

from __future__ import annotations

from shlex import quote

import polars as pl
from rich.console import Console

from pyrite.analysis.reports import audit_words as words
from pyrite.analysis.reports.audit_rates import rates_figure, rates_table
from pyrite.analysis.reports.canvas import png
from pyrite.analysis.statistics.audit_rates import PAIR, guards_of, rates_of, scored
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.tables import write_table
from pyrite.cluster.output.terminal import print_counts, print_lines
from pyrite.ranking import trec_files


def report_audit(
    storage: Storage, shown: pl.DataFrame, judged: pl.DataFrame, relevant_from: int, console: Console
) -> None:
    """Write rates.csv, guards.csv, qrels.txt, false_negatives.png and audit.parquet; print the rates.

    A line counts the negatives without a margin, which guards.csv leaves out. Others say which methods recorded a part
    of the queries.
    """
    negatives = shown.join(judged.select(*PAIR, "inclusion", "grade", "relevant"), on=PAIR, how="left")
    rates = rates_of(negatives)
    write_table(storage, "audit", negatives)
    storage.write("rates.csv", rates.write_csv().encode())
    storage.write("guards.csv", guards_of(negatives).write_csv().encode())
    storage.write("false_negatives.png", png(rates_figure(rates)))
    console.print(rates_table(rates), crop=False)
    print_lines(console, *_of_some_queries(shown))
    print_counts(console, {words.UNSCORED.format(words.LEFT_OUT): len(negatives) - len(scored(negatives))})
    write_judgements(storage, judged.drop_nulls("grade"), relevant_from, console)


def _of_some_queries(shown: pl.DataFrame) -> list[str]:
    """Return a line per share of the queries that was recorded, or that is not known, with its methods."""
    of_methods = shown.group_by("method", maintain_order=True).agg(pl.col("recorded").fill_null(0.0).min())
    by_share = of_methods.filter(pl.col("recorded") < 1).group_by("recorded", maintain_order=True).agg("method")
    return [
        (words.SAMPLED if share else words.UNKNOWN).format(", ".join(methods), 100 * share)
        for share, methods in by_share.iter_rows()
    ]


def write_judgements(storage: Storage, judged: pl.DataFrame, relevant_from: int, console: Console) -> None:
    """Write the judgements of negatives, for `pyrite study --relabel`: query, document, grade."""
    pairs = judged.select(*PAIR, "grade").unique(PAIR, keep="last").sort(PAIR)
    with storage.writing("qrels.txt") as stream:
        trec_files.write_qrels(stream, pairs, storage.place)
    path, relevant = storage.path("qrels.txt"), int((pairs["grade"] >= relevant_from).sum())
    judged_line = words.JUDGED.format(relevant=relevant, judged=len(pairs), path=path)
    print_lines(console, judged_line, words.RELABEL.format(quote(path)))
