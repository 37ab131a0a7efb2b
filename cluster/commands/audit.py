"""Runs `pyrite audit`: draws a sample of the negatives of studies, and evaluates its judgements."""

from __future__ import annotations

import argparse
import io
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.console import Console

from pyrite.analysis.methods import told_apart, with_methods
from pyrite.analysis.reports import audit_words as words
from pyrite.analysis.statistics.audit_rates import PAIR
from pyrite.cluster.commands.first_folder import absolute, recorded_folder
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.config.override import key_of, of_keys, root_of, values_by_key
from pyrite.cluster.config.trust import from_folder
from pyrite.cluster.output.manifest import (
    CONFIG,
    read_config,
    refuse_other_files,
    refuse_repeated,
    resume_command,
    verb_of,
)
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.tables import read_table, required_table, required_trials, write_table
from pyrite.cluster.output.terminal import counted, print_counts, print_lines
from pyrite.cluster.reports.audit_report import report_audit, write_judgements
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.negative_tables import SHOWN
from pyrite.cluster.telemetry.silence_line import silence_shown
from pyrite.pooling.false_negatives import draw, sizes_of
from pyrite.pooling.runs import listed
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.trec_files import check_ids, read_qrels, write_run

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
    shown = _of_functions(_shown_by(studies), listed(config["functions"] or []))
    own = [text for text in overrides if key_of(text) == "functions"]
    if config["order"] == "bandit":
        _by_bandit(shown, storage, studies, config, own, console)
        return
    sample = read_table(storage, SAMPLE)
    if sample is not None:
        _check_sample(sample, shown, config, "budget" in map(key_of, overrides))
    if sample is None or config["judgements"] is None:
        sample = _written_sample(shown, storage, config)
    if config["judgements"] is None:
        to_fill_in = _to_fill_in(storage, sample, config["seed"], studies, own)
        print_lines(console, *_drawn(sample, shown), *to_fill_in, words.OR_JUDGE)
        print_commands(storage, studies, "runs", "method=rank", own, console)
        return
    judged = _judged(sample, _read_judgements(config, console), config["judgements"], config["relevant_from"])
    report_audit(storage, shown, judged, config["relevant_from"], console)


def _of_functions(shown: pl.DataFrame, functions: Sequence[str]) -> pl.DataFrame:
    """Return the negatives of some functions, or of all if none is named; refuse a function that showed none."""
    known = sorted(shown["function"].unique())
    missing = [name for name in functions if name not in known]
    what = f"no negative is of {', '.join(missing)}"
    refuse(missing, what, "functions", f"choose among {', '.join(known)}")
    return shown.filter(pl.col("function").is_in(functions or known))


def _drawn(sample: pl.DataFrame, shown: pl.DataFrame) -> list[str]:
    """Return lines on the size of the sample: how many were drawn of each function, and how to draw of one alone."""
    pairs = shown.select(*PAIR, "function").unique()
    counts = sample.filter("drawn").join(pairs, on=PAIR)["function"].value_counts().sort("count", "function")
    of_each = [f"{count:,} of {name}" for name, count in reversed(counts.rows())]
    drawn = words.DRAWN.format(shown=counted(len(sample), "negative"), drawn=int(sample["drawn"].sum()))
    rarest = pairs["function"].value_counts().sort("count", "function")["function"][0]
    return [drawn, words.OF_EACH.format(", ".join(of_each), rarest)] if pairs["function"].n_unique() > 1 else [drawn]


def _to_fill_in(
    storage: Storage, sample: pl.DataFrame, seed: int, studies: Sequence[str], own: Sequence[str]
) -> list[str]:
    """Write the texts of the sample as a table with an empty column for grades, and return the command that reads it.

    A table that is there is left as it is: it may be filled in. Nothing is written if the studies have several
    collections.
    """
    options, *others = map(collection_options, studies)
    if not options or any(other != options for other in others):
        return []
    with from_folder():
        collection = Artifacts().collection(compose(options))
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
    name = TO_FILL_IN.format(len(drawn), seed)
    if storage.read(name) is None:
        storage.write_data(name, table.write_csv().encode())
    path = storage.path(name)
    asked = ["pyrite", "audit", *studies, *own, f"out={storage}", f"judgements={path}"]
    return [words.FILL_IN.format(path), f"  {shlex.join(asked)}"]


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


def _shown_by(studies: Sequence[str]) -> pl.DataFrame:
    """Return the negatives that the studies showed; refuse none, and ids that a run can't hold."""
    refuse(not studies, "names no study", "studies", "give one folder or more")
    refuse_repeated(list(map(Storage, studies)))
    names = told_apart(studies) if len(studies) > 1 else {}
    shown = pl.concat([read_shown(place, names.get(place)) for place in studies])
    refuse(shown.is_empty(), "holds no negative", ", ".join(studies), "there is nothing to judge")
    for column in PAIR:
        check_ids(shown[column].unique(maintain_order=True), column, ", ".join(studies))
    return shown


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
    shown: pl.DataFrame, storage: Storage, studies: Sequence[str], config: Mapping[str, Any], own: Sequence[str],
    console: Console,
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
    print_lines(console, words.BANDIT.format(counted(shown.select(PAIR).n_unique(), "negative")))
    print_commands(storage, studies, "arms", "method=shared", [*own, "order=bandit"], console)


def _arms(shown: pl.DataFrame, storage: Storage) -> dict[str, bytes]:
    """Return the runs of the methods and functions, by the names of their files.

    Mined negatives of a function without scores have no margin: they come last, with a score below the query's others.
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


def read_shown(place: str, name: str | None = None) -> pl.DataFrame:
    """Return the negatives that a study showed, or that were mined; refuse a folder that recorded none.

    Returns:
        method (in front of it the name of the study, if it has one among several), query, document, function, times,
        margin, score.
    """
    what = "is no folder" if Path(place).exists() else "no such folder"
    refuse(
        "://" not in place and not Path(place).is_dir(),
        what,
        place,
        "name the out= of a `pyrite study` or a `pyrite mine`",
    )
    storage = Storage(place)
    if storage.names("ids"):
        return _read_mined(storage, name or Path(place).name)
    table = read_table(storage, SHOWN)
    if table is None or not len(table):
        raise _no_record(storage)
    methods = with_methods(required_trials(storage)).select("run", "method")
    table = table.join(methods, on="run", how="left")
    if name is not None:
        table = table.with_columns(method=pl.lit(f"{name}: ") + pl.col("method"))
    totals = pl.col("times").sum()
    return table.group_by("method", *PAIR, "function", maintain_order=True).agg(
        totals, margin=(pl.col("margin") * pl.col("times")).sum() / totals, score=pl.col("score").mean()
    )


def _no_record(storage: Storage) -> BadInput:
    """Return why a folder has no record of negatives: it is no study's, or not finished, or did not record them."""
    if storage.read(CONFIG) is None:
        return BadInput("holds no study", storage.place, "name the out= of a `pyrite study` or a `pyrite mine`")
    config = read_config(storage)
    verb, options = verb_of(config), values_by_key(config.get("overrides", []))
    if verb not in ("study", "mine"):
        return BadInput(f"holds results of `pyrite {verb}`", storage.place, "audit takes those of a study or a mining")
    if verb == "mine" or options.get("sampling.recorded", "0") != "0":
        return BadInput("is not finished", storage.place, f"finish it with `{resume_command(verb, storage.place)}`")
    what = "has no record of the negatives that its runs showed"
    return BadInput(what, storage.place, "run it with sampling.recorded=1")


def _read_mined(storage: Storage, name: str) -> pl.DataFrame:
    """Return the negatives of `pyrite mine`; one that several pairs of a query have counts for each of them."""
    files = [name.removesuffix(".parquet") for name in storage.names("ids")]
    ids = pl.concat([required_table(storage, f"ids/{name}") for name in sorted(files)])
    rows = ids.explode("document_ids", "ranks", "scores", "functions")
    # Negatives come after their positive, which no function has supplied, in one row or in several.
    rows = rows.with_columns(pair=pl.col("functions").is_null().cum_sum())
    score, margin = pl.col("scores"), pl.col("margin")
    rows = rows.with_columns(margin=score - score.first().over("pair"))
    return (
        rows.filter(pl.col("functions").is_not_null())
        .group_by(pl.lit(name).alias("method"), query="query_id", document="document_ids",
                  function="functions", maintain_order=True)
        .agg(pl.len().cast(pl.Int64).alias("times"), margin=margin.mean().cast(pl.Float64), score=score.mean())
    )  # fmt: skip


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
    storage: Storage, studies: Sequence[str], runs: str, method: str, order: Sequence[str], console: Console
) -> None:
    """Print the commands that judge runs in the audit's folder and evaluate the judgements."""
    judging, judged = storage.path("judging"), storage.path("judged.txt")
    print_lines(
        console,
        f"  pyrite judge {quote(f'runs={storage.path(runs)}')} {method} {collection_of(studies[0])} "
        f"{quote(f'out={judging}')}",
        f"  {shlex.join(['pyrite', 'judge', '--export', judged, f'out={judging}'])}",
        f"  {shlex.join(['pyrite', 'audit', *studies, *order, f'out={storage}', f'judgements={judged}'])}",
    )


def collection_of(place: str) -> str:
    """Return the options of the collection of a study or a mining, for a command; "collection=…" if it has several."""
    return shlex.join(collection_options(place)) or "collection=…"


def collection_options(place: str) -> list[str]:
    """Return the options of the collection of a study or a mining, and whether faults in it are skipped; none if it has
    several.

    Those of a study are in the overrides of its runs: an experiment's file may name them.
    """
    storage = Storage(place)
    config, trials = read_config(storage), read_table(storage, "trials")
    lines = [config.get("overrides", [])] if trials is None else map(shlex.split, trials["overrides"].drop_nulls())
    known = {shlex.join(of_keys(map(str, line), {"collection", "strict"}, root_of)) for line in lines}
    if len(known) != 1:
        return []
    options = absolute(shlex.split(known.pop()), recorded_folder(config))
    named = of_keys(options, {"collection"}, root_of)
    return options if named else [f"collection={compose([])[CHOICES]['collection']}", *options]


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
    first = f" (document {lacking['document'][0]} of query {lacking['query'][0]})" if missing else ""
    what = f"lacks {counted(missing, 'judgement')} of the sample{first}"
    remedy = "judge all: one that nobody can judge counts by the grade that you add for it, 0 for not relevant"
    refuse(missing, what, path, f"{remedy}; or draw fewer (budget=…)")
    return table.with_columns(relevant=(pl.col("grade") >= relevant_from).cast(pl.Float64))
