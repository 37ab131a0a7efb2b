"""Runs `pyrite audit`: draws a sample of the negatives of studies, and evaluates its judgements."""

from __future__ import annotations

import argparse
import io
import re
import shlex
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.console import Console

from pyrite.analysis.reports import audit_words as words
from pyrite.analysis.statistics.audit_rates import PAIR, scored
from pyrite.cluster.commands import audited
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.config.override import key_of, of_keys
from pyrite.cluster.config.trust import from_folder
from pyrite.cluster.output.manifest import (
    refuse_other_files,
)
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.tables import read_table, write_table
from pyrite.cluster.output.terminal import counted, print_counts, print_lines
from pyrite.cluster.reports.audit_report import report_audit, write_judgements
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.telemetry.silence_line import silence_shown
from pyrite.pooling.false_negatives import draw, sizes_of
from pyrite.pooling.runs import listed
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.judgement_files import marked, ungraded_lines
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.trec_files import read_qrels, write_run

SAMPLE = "sample"
TO_FILL_IN = "sample_{}_{}.csv"
"""The table that people fill in, by the size and the seed of the sample: one is never written over another."""


def run_verb(chosen: argparse.Namespace, console: Console) -> int:
    """Run `pyrite audit`."""
    with silence_shown(console):
        audit(chosen.overrides, console)
    return 0


def audit(overrides: Sequence[str], console: Console) -> None:
    """Draw the sample if there are no judgements yet; otherwise write tables, figure, qrels and report."""
    config = compose(overrides, "audit")
    config.pop(CHOICES, None)
    storage = Storage(config["out"])
    _refuse_other_order(storage, config["order"])
    studies = listed(config["studies"])
    of_collection = audited.of_collection(audited.shown_by(studies), listed(config["collections"] or []), studies)
    every = audited.of_functions(of_collection, listed(config["functions"] or []))
    reading = shlex.split(every["options"][0])  # others of the same collection have the same ids
    shown = every.drop(audited.ORIGIN)
    own = of_keys(overrides, {"collections", "functions", "relevant_from"})
    config["relevant_from"] = least = config["relevant_from"] or audited.relevant_from(studies)
    print_lines(console, *[words.RELEVANT_FROM.format(least)] * (least > 1))
    if config["order"] == "bandit":
        _by_bandit(shown, storage, studies, config, reading, own, console)
        return
    sample = read_table(storage, SAMPLE)
    if sample is not None:
        _check_sample(sample, shown, config, "budget" in map(key_of, overrides))
    if sample is None or config["judgements"] is None:
        sample = _written_sample(shown, storage, config)
    if config["judgements"] is None:
        to_fill_in = _to_fill_in(storage, sample, config, studies, reading, own)
        print_lines(console, *_drawn(sample, shown), *to_fill_in, words.OR_JUDGE)
        print_commands(storage, studies, "runs", ["method=rank", *_graded(least)], reading, own, console)
        return
    _refuse_ungraded(config["judgements"], config["encoding"])
    judged = _judged(sample, _read_judgements(config, console), config["judgements"], config["relevant_from"])
    report_audit(storage, shown, judged, config["relevant_from"], console)


def _drawn(sample: pl.DataFrame, shown: pl.DataFrame) -> list[str]:
    """Return lines on the size of the sample: how many were drawn of each function, and how to draw of one alone."""
    pairs = shown.select(*PAIR, "function").unique()
    counts = sample.filter("drawn").join(pairs, on=PAIR)["function"].value_counts().sort("count", "function")
    of_each = [f"{count:,} of {name}" for name, count in reversed(counts.rows())]
    drawn = words.DRAWN.format(shown=counted(len(sample), "negative"), drawn=int(sample["drawn"].sum()))
    rarest = pairs["function"].value_counts().sort("count", "function")["function"][0]
    return [drawn, words.OF_EACH.format(", ".join(of_each), rarest)] if pairs["function"].n_unique() > 1 else [drawn]


def _to_fill_in(
    storage: Storage, sample: pl.DataFrame, config: Mapping[str, Any], studies: Sequence[str],
    reading: Sequence[str], own: Sequence[str],
) -> list[str]:  # fmt: skip
    """Write the texts of the sample as a table with an empty column for grades, and return the command that reads it.

    A table that is there is left as it is: it may be filled in.
    """
    with from_folder():
        collection = Artifacts().collection(compose(reading))
    drawn = sample.filter("drawn").select(PAIR)
    queries, documents = (
        frame.filter(pl.col("id").is_in(drawn[column].implode())).select(pl.col("id").alias(column), text)
        for frame, column, text in (
            (collection.queries, "query", pl.col("text").alias("query_text")),
            (collection.documents, "document", pl.col("text")),
        )
    )
    table = drawn.with_columns(grade=pl.lit("")).join(queries, on="query", how="left", maintain_order="left")
    table = table.join(documents, on="document", how="left", maintain_order="left").sort("query", maintain_order=True)
    name = TO_FILL_IN.format(len(drawn), config["seed"])
    if storage.read(name) is None:
        texts = marked(pl.col(*PAIR, "query_text", "text"))
        storage.write_data(name, table.with_columns(texts).write_csv().encode())
    path = storage.path(name)
    asked = ["pyrite", "audit", *studies, *own, f"out={storage}", f"judgements={path}"]
    return [words.FILL_IN.format(path, config["relevant_from"]), f"  {shlex.join(asked)}"]


def _written_sample(shown: pl.DataFrame, storage: Storage, config: Mapping[str, Any]) -> pl.DataFrame:
    """Draw the sample, and write it as a table and as a run that can be judged."""
    sample = draw_sample(shown, config["budget"], config["seed"])
    write_table(storage, SAMPLE, sample)
    rank = pl.int_range(1, pl.len() + 1)
    run = sample.filter("drawn").with_columns(rank=rank, score=pl.len() - rank, tag=pl.lit("audit"))
    with storage.writing("runs/audit.run") as stream:
        write_run(stream, run, storage.place)
    return sample


def _refuse_other_order(storage: Storage, order: str) -> None:
    """Refuse a folder with other files, or with an audit in the other order: both would be judged in one folder."""
    orders = {f"{SAMPLE}.parquet": "sample", "arms": "bandit"}
    before = {orders[name] for name in storage.entries() if name in orders}
    refuse_other_files(storage, own=bool(before))
    if before and order not in before:
        (other,) = before
        what = f"holds an audit with order={other}, which one with order={order} would mix with"
        raise BadInput(what, storage.place, f"choose another out=, or give order={other}")


def _check_sample(sample: pl.DataFrame, shown: pl.DataFrame, config: Mapping[str, Any], resized: bool) -> None:
    """Refuse the sample of other negatives, and a budget that is not that of the judged sample."""
    out, drawn = config["out"], int(sample["drawn"].sum())
    refuse(
        not sample.select(PAIR).sort(PAIR).equals(shown.select(PAIR).unique().sort(PAIR)),
        "holds the sample of other negatives",
        out,
        "choose another out=",
    )
    what = f"the sample in {out} has {counted(drawn, 'negative')}"
    refuse(
        config["judgements"] is not None and resized and drawn != min(config["budget"], len(sample)),
        what,
        f"budget={config['budget']}",
        "leave it out, or draw again first, without judgements=",
    )


def _by_bandit(
    shown: pl.DataFrame, storage: Storage, studies: Sequence[str], config: Mapping[str, Any],
    reading: Sequence[str], own: Sequence[str], console: Console,
) -> None:  # fmt: skip
    """Write a run for each method and function, with a query's negatives by their lead over the positive.

    Judging these runs in a bandit's order finds relevant documents soonest. Rates need a sample instead. Runs of other
    negatives in the folder may be judged already, and would be pooled too.
    """
    runs = _arms(shown, storage)
    before = {name: storage.read(f"arms/{name}") for name in storage.names("arms")}
    refuse(before and before != runs, "holds runs of other negatives", f"{storage}/arms", "choose another out=")
    for name, lines in runs.items():
        storage.write(f"arms/{name}", lines)
    if config["judgements"] is not None:
        qrels = _read_judgements(config, console)
        judged = qrels.join(shown.select(PAIR).unique(), on=PAIR, how="semi", maintain_order="left")
        refuse(
            not len(judged), "judges none of the negatives", config["judgements"], f"judge what {storage}/arms lists"
        )
        write_judgements(storage, judged, config["relevant_from"], console)
        return
    print_counts(console, {words.UNSCORED.format(words.LAST): len(shown) - len(scored(shown))})
    print_lines(console, words.BANDIT.format(counted(shown.select(PAIR).n_unique(), "negative")))
    judging = ["method=shared", *_graded(config["relevant_from"])]
    print_commands(storage, studies, "arms", judging, reading, [*own, "order=bandit"], console)


def _graded(relevant_from: int) -> list[str]:
    """Return the options of a judging in which a document can be relevant; none if grade 1 is."""
    grades = ",".join(map(str, range(relevant_from + 1)))
    return [f"grades=[{grades}]", f"relevant_from={relevant_from}"] if relevant_from > 1 else []


def _arms(shown: pl.DataFrame, storage: Storage) -> dict[str, bytes]:
    """Return the runs of the methods and functions, by the names of their files.

    Mined negatives without a score, or whose positive has none on its scale, have no margin: they come last, with a
    score below the query's others.
    """
    runs: dict[str, bytes] = {}
    margin = pl.col("margin").fill_nan(None)
    score = margin.fill_null(margin.min().over("query") - 1).fill_null(0.0)
    for (method, function), own in shown.partition_by("method", "function", as_dict=True).items():
        arm = re.sub(r"[^\w.-]", "_", f"{method}-{function}")
        while f"{arm}.run" in runs:  # of a method whose name differs in other signs
            arm += "_"
        ranked = own.with_columns(score=score).sort("query", "score", descending=[False, True], maintain_order=True)
        rank = pl.int_range(1, pl.len() + 1).over("query")
        run = ranked.with_columns(rank=rank, score=pl.col("score").round(6), tag=pl.lit(arm))
        content = io.BytesIO()
        write_run(content, run, storage.place)
        runs[f"{arm}.run"] = content.getvalue()
    return runs


def _read_judgements(config: Mapping[str, Any], console: Console) -> pl.DataFrame:
    """Return the judgements: query, document, grade. Those of -1 (pooled, not judged) are left out, and counted."""
    faults = Faults(config["strict"])
    qrels = read_qrels(config["judgements"], encoding=config["encoding"], faults=faults)
    unjudged = qrels["grade"] == -1
    counts = faults.skipped | faults.notes | {"judgements of -1 (pooled, not judged) left out": int(unjudged.sum())}
    print_counts(console, counts)
    return qrels.filter(~unjudged)


def _refuse_ungraded(path: str, encoding: str) -> None:
    """Refuse a table that is not filled in to its end, with the first line that is not."""
    lines, rows = ungraded_lines(path, encoding)
    what = f"{rows - len(lines)} of {counted(rows, 'grade')} are filled in, and this is the first that is not"
    refuse(lines, what, f"{path}:{[*lines, 0][0]}", "fill in all, with 0 for what nobody can judge")


def exposures_of(shown: pl.DataFrame, pairs: pl.DataFrame) -> dict[str, NDArray[np.float64]]:
    """Return how often each method showed each pair: float64 [pairs] by method."""
    exposures = {}
    for (method,), own in shown.partition_by("method", as_dict=True, maintain_order=True).items():
        counts = own.group_by(PAIR).agg(pl.col("times").sum())
        times = pairs.select(PAIR).join(counts, on=PAIR, how="left", maintain_order="left")["times"]
        exposures[str(method)] = times.fill_null(0).to_numpy().astype(np.float64)
    return exposures


def draw_sample(shown: pl.DataFrame, budget: int, seed: int) -> pl.DataFrame:
    """Return all pairs in the order of judging: query, document, inclusion (probability), drawn (in the sample)."""
    pairs = shown.select(PAIR).unique().sort(PAIR)
    exposures = list(exposures_of(shown, pairs).values())
    drawn = draw(sizes_of(exposures), budget, np.random.default_rng(seed))
    table = pairs.with_columns(inclusion=pl.Series(drawn.inclusion))[drawn.order]
    return table.with_columns(drawn=pl.int_range(pl.len()) < budget)


def print_commands(
    storage: Storage, studies: Sequence[str], runs: str, judged_by: Sequence[str], reading: Sequence[str],
    order: Sequence[str], console: Console,
) -> None:  # fmt: skip
    """Print the commands that judge runs in the audit's folder and evaluate the judgements.

    Args:
        judged_by: the options of the judging.
        reading: the options of the collection.
    """
    judging, judged = storage.path("judging"), storage.path("judged.txt")
    print_lines(
        console,
        f"  pyrite judge {quote(f'runs={storage.path(runs)}')} {shlex.join([*judged_by, *reading])} "
        f"{quote(f'out={judging}')}",
        f"  {shlex.join(['pyrite', 'judge', '--export', judged, f'out={judging}'])}",
        f"  {shlex.join(['pyrite', 'audit', *studies, *order, f'out={storage}', f'judgements={judged}'])}",
    )


def _judged(sample: pl.DataFrame, qrels: pl.DataFrame, path: str, relevant_from: int) -> pl.DataFrame:
    """Return the sample with its judgements: grade, and relevant (1 or 0), null if it is not judged."""
    table = sample.join(qrels, on=PAIR, how="left", maintain_order="left")
    # Only the sample counts, since other judgements were not drawn at random.
    table = table.with_columns(grade=pl.when(pl.col("drawn")).then(pl.col("grade")))
    lacking = table.filter("drawn", pl.col("grade").is_null())
    missing = len(lacking)
    refuse(
        missing == int(table["drawn"].sum()),
        "judges none of the sample",
        path,
        "judge what audit's runs/audit.run lists",
    )
    first = next((f"{row['document']} for {row['query']}" for row in lacking.iter_rows(named=True)), "")
    what = f"lacks {counted(missing, 'judgement')} of the sample (the first: {first})"
    remedy = "judge all, adding a grade of 0 by hand for what nobody can judge; or draw fewer (budget=…)"
    refuse(missing, what, path, remedy)
    return table.with_columns(relevant=(pl.col("grade") >= relevant_from).cast(pl.Float64))
