"""Runs `pyrite audit`: draws a sample of the negatives of studies, and evaluates its judgements."""

from __future__ import annotations

import argparse
import io
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.console import Console

from pyrite.analysis.methods import told_apart, with_methods
from pyrite.analysis.reports import audit_words as words
from pyrite.analysis.statistics.audit_rates import PAIR, scored
from pyrite.cluster.commands.first_folder import absolute, recorded_folder
from pyrite.cluster.config.compose import compose, compose_recorded
from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.config.override import key_of, of_keys, root_of, values_by_key, without
from pyrite.cluster.config.quoting import override_of
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
from pyrite.ranking.collections.pair_dialects import BY_RANKER, COMPARABLE, POSITIVE_SCORES
from pyrite.ranking.collections.reader import Reader
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.trec_files import check_ids, read_qrels, write_run

ORIGIN = ["collection", "fingerprint", "options"]
"""Columns of a negative that say of which collection it is."""
READING = {"strict", *(f"collection.{option.name}" for option in fields(Reader))}
"""Options that leave the ids of a collection as they are."""
RECORDED = r"sampling\.recorded=([^\s']+)"
"""Pattern of the share that a run recorded, in its overrides."""
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
    of_collection = _of_collection(_shown_by(studies), listed(config["collections"] or []), studies)
    every = _of_functions(of_collection, listed(config["functions"] or []))
    shown, reading = every.drop(ORIGIN), [shlex.split(text) for text in every["options"].unique(maintain_order=True)]
    own = of_keys(overrides, {"collections", "functions", "relevant_from"})
    config["relevant_from"] = least = config["relevant_from"] or _relevant_from(studies)
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
        print_commands(storage, studies, "runs", ["method=rank", *_graded(least)], reading[0], own, console)
        return
    judged = _judged(sample, _read_judgements(config, console), config["judgements"], config["relevant_from"])
    report_audit(storage, shown, judged, config["relevant_from"], console)


def _relevant_from(studies: Sequence[str]) -> int:
    """Return the lowest grade that is relevant in studies and minings; refuse several."""
    lines = [line for place in studies for line in _overrides_of(Storage(place))]
    encodings = {shlex.join(of_keys(line, {"encoding"}, root_of)) for line in lines}
    grades = {compose_recorded(shlex.split(line))["encoding"]["relevant_from"] for line in encodings}
    named = " and ".join(map(str, sorted(grades)))
    what = f"documents are relevant from the grades {named} on, by run"
    refuse(len(grades) > 1, what, ", ".join(studies), f"choose one for the audit: relevant_from={min(grades)}")
    return int(min(grades))


def _overrides_of(storage: Storage) -> list[list[str]]:
    """Return the overrides of each run of a study, or of a mining."""
    if not storage.names("ids"):
        return list(map(shlex.split, required_trials(storage)["overrides"].unique()))
    config = read_config(storage) if storage.read(CONFIG) is not None else {}
    return [list(map(str, config.get("overrides", [])))]


def _of_collection(shown: pl.DataFrame, chosen: Sequence[str], studies: Sequence[str]) -> pl.DataFrame:
    """Return the negatives of the chosen collection, or of the only one; refuse a name that no collection has.

    Several are refused: their ids may be equal, and a judgement of a pair of one would count for the other's.
    """
    origins = shown.select(ORIGIN).unique(maintain_order=True)
    names = _names_of(origins)
    known = sorted(set(names))
    missing = [name for name in chosen if name not in known]
    what = f"no negative is of {', '.join(missing)}"
    refuse(missing, what, "collections", f"choose among {', '.join(known)}")
    several = sorted(set(chosen or known))
    what = f"shows negatives of {len(several)} collections ({', '.join(several)}), which may have equal ids"
    remedy = f"audit each alone, with {shlex.quote(override_of('collections', several[0]))} and its own out="
    refuse(len(several) > 1, what, ", ".join(studies), remedy)
    kept = origins.filter(pl.Series([name == several[0] for name in names]))
    return shown.join(kept, on=ORIGIN, how="semi", maintain_order="left")


def _names_of(origins: pl.DataFrame) -> list[str]:
    """Return the name of each origin's collection, with the fingerprint after it if different ones have one name.

    Two origins are of one collection if they have equal content, or if they were read from the same place, with other
    judgements (`relabel`) or other options of reading, which leave the ids as they are.
    """
    sources, first = dict[str, str](), dict[str, tuple[str, str]]()
    for name, fingerprint, options in origins.rows():
        source = sources.setdefault(fingerprint, shlex.join(without(shlex.split(options), READING)))
        first.setdefault(source, (name, fingerprint))
    names = Counter(name for name, _ in first.values())
    labels = {source: name if names[name] == 1 else f"{name}-{of[:8]}" for source, (name, of) in first.items()}
    return [labels[sources[fingerprint]] for fingerprint in origins["fingerprint"]]


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
    storage: Storage, sample: pl.DataFrame, config: Mapping[str, Any], studies: Sequence[str],
    reading: Sequence[Sequence[str]], own: Sequence[str],
) -> list[str]:  # fmt: skip
    """Write the texts of the sample as a table with an empty column for grades, and return the command that reads it.

    A table that is there is left as it is: it may be filled in. Nothing is written if the studies read the collection
    in several ways.
    """
    options, *others = reading
    if others:
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
    name = TO_FILL_IN.format(len(drawn), config["seed"])
    if storage.read(name) is None:
        storage.write_data(name, table.write_csv().encode())
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
    shown: pl.DataFrame, storage: Storage, studies: Sequence[str], config: Mapping[str, Any],
    reading: Sequence[Sequence[str]], own: Sequence[str], console: Console,
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
    print_commands(storage, studies, "arms", judging, reading[0], [*own, "order=bandit"], console)


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


def read_shown(place: str, name: str | None = None) -> pl.DataFrame:
    """Return the negatives that a study showed, or that were mined; refuse a folder that recorded none.

    Returns:
        method (in front of it the name of the study, if it has one among several), query, document, function,
        collection, fingerprint, options (those of the collection, as one line), times, margin, score, scale (the
        function whose scores the margins are; "all" if all are on one scale), recorded (the share of the training
        queries whose negatives these are; null if it is not known).
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
    trials = required_trials(storage)
    origins = trials.select(
        "run", "collection", "fingerprint", options=pl.Series(_reading(storage, trials["overrides"]), dtype=pl.String),
        recorded=pl.col("overrides").str.extract(RECORDED).cast(pl.Float64, strict=False),
    )  # fmt: skip
    methods = with_methods(trials).select("run", "method").join(origins, on="run")
    table = table.join(methods, on="run", how="left")
    if name is not None:
        table = table.with_columns(method=pl.lit(f"{name}: ") + pl.col("method"))
    totals = pl.col("times").sum()
    return table.group_by("method", *PAIR, "function", *ORIGIN, maintain_order=True).agg(
        totals, margin=(pl.col("margin") * pl.col("times")).sum() / totals, score=pl.col("score").mean(),
        scale=pl.lit("all"), recorded=pl.col("recorded").min(),
    )  # fmt: skip


def _reading(storage: Storage, overrides: Iterable[str | None]) -> list[str]:
    """Return, for each line of overrides, those that read the collection: its options, and whether faults are skipped.

    Paths that exist, as seen from the folder in which the study was started, are absolute.
    """
    folder = recorded_folder(read_config(storage))
    lines = [shlex.join(of_keys(shlex.split(line or ""), {"collection", "strict"}, root_of)) for line in overrides]
    known = {line: shlex.join(_named(absolute(shlex.split(line), folder))) for line in set(lines)}
    return [known[line] for line in lines]


def _named(options: Sequence[str]) -> list[str]:
    """Return options of a collection with its name, which is the default of a run if they have none."""
    named = of_keys(options, {"collection"}, root_of)
    return [*options] if named else [f"collection={compose([])[CHOICES]['collection']}", *options]


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
    config = read_config(storage)
    [(fingerprint, collection), *_] = (config.get("collections") or {storage.place: name}).items()
    [options] = _reading(storage, [shlex.join(config.get("overrides", []))])
    files = [name.removesuffix(".parquet") for name in storage.names("ids")]
    ids = pl.concat([required_table(storage, f"ids/{name}") for name in sorted(files)])
    rows = ids.explode([name for name, kind in ids.schema.items() if kind == pl.List])
    # Negatives come after their positive, which no function has supplied, in one row or in several.
    rows = rows.with_columns(pair=pl.col("functions").is_null().cum_sum())
    score, margin = pl.col("scores"), pl.col("margin")
    known = rows.filter(pl.col("functions").is_not_null() & score.is_not_nan())
    if POSITIVE_SCORES in rows.columns:
        positive, of_one = pl.col(POSITIVE_SCORES), bool(known[COMPARABLE].all())
    else:  # of an earlier version, which kept one score of a positive: that of the first function that scores positives
        of_one = known["functions"].n_unique() < 2 or BY_RANKER.encode() in (storage.read("README.md") or b"")
        positive = score.first().over("pair") if of_one else pl.lit(None, pl.Float32)
    rows = rows.with_columns(margin=score - positive)
    scale = pl.lit("all") if of_one else pl.col("function")
    return (
        rows.filter(pl.col("functions").is_not_null())
        .group_by(pl.lit(name).alias("method"), query="query_id", document="document_ids",
                  function="functions", collection=pl.lit(collection), fingerprint=pl.lit(fingerprint),
                  options=pl.lit(options), maintain_order=True)
        .agg(pl.len().cast(pl.Int64).alias("times"), margin=margin.mean().cast(pl.Float64), score=score.mean())
        .with_columns(scale=scale, recorded=pl.lit(1.0))
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
    first = f" (document {lacking['document'][0]} of query {lacking['query'][0]})" if missing else ""
    what = f"lacks {counted(missing, 'judgement')} of the sample{first}"
    remedy = "judge all: one that nobody can judge counts by the grade that you add for it, 0 for not relevant"
    refuse(missing, what, path, f"{remedy}; or draw fewer (budget=…)")
    return table.with_columns(relevant=(pl.col("grade") >= relevant_from).cast(pl.Float64))
