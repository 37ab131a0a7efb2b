"""Runs `pyrite compare`: reports what differs between studies, and whether their methods differ, paired by seed."""

from __future__ import annotations

import argparse
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
from polars import selectors as cs
from rich.console import Console

from pyrite.analysis.methods import (
    AGENTS,
    METHOD,
    SWEPT,
    column_of,
    evaluations,
    factors,
    measurements,
    told_apart,
    with_methods,
)
from pyrite.analysis.reports import analysis_sections, columns
from pyrite.analysis.reports import comparison_words as words
from pyrite.analysis.reports.labels import Letters
from pyrite.analysis.reports.report import Report, Section, Table, items, verbatim
from pyrite.analysis.reports.result_sections import measures_of, origin_name, results, side_by_side
from pyrite.analysis.reports.verdict_section import verdict_section
from pyrite.analysis.statistics.comparison import MethodRuns, methods_of, named_baseline, unit_of
from pyrite.analysis.statistics.crossed import crossed_difference
from pyrite.analysis.statistics.paired import LEAST_PAIRS, agent_cells, differences, mean_difference
from pyrite.analysis.study_comparison import Comparison
from pyrite.cluster.commands.taken import Taken
from pyrite.cluster.config.compose import recorded_or_none
from pyrite.cluster.config.override import key_of, of_keys, root_of, without
from pyrite.cluster.config.quoting import option_value
from pyrite.cluster.output.manifest import read_config_of, refuse_other_files, refuse_repeated
from pyrite.cluster.output.result_store import BUILT_FROM, ResultStore
from pyrite.cluster.output.storage import Storage, output_place
from pyrite.cluster.output.tables import required_scan, required_trials
from pyrite.cluster.output.terminal import applying
from pyrite.cluster.plan.shared_options import OF_STUDIES, UNTRAINED, refuse_unlike_measurement
from pyrite.cluster.reports.publish import publish
from pyrite.cluster.reports.study_results import test_limit
from pyrite.ranking.errors import BadInput, refuse

OPTIONS = Taken(("out", "baseline"), "there is no option {key}", "compare takes folders, baseline= and out=")
NOT_COMPARED = {*METHOD, "seed"}
"""Keys that name a method or a repetition of it, not a difference between studies."""


@dataclass(frozen=True)
class Compared:
    """A study that is compared."""

    name: str
    trials: pl.DataFrame
    queries: pl.LazyFrame
    config: Mapping[str, Any]
    versions: str


def run_verb(chosen: argparse.Namespace, console: Console) -> int:
    """Print the comparison, and write it as a page."""
    given = {key: value.strip("'") for key, value in OPTIONS.read(chosen.overrides).items()}
    refuse(len(chosen.words) < 2, "two folders are needed", remedy="write pyrite compare FOLDER FOLDER")
    folders = [Storage(folder) for folder in chosen.words]
    refuse_repeated(folders)
    storage = Storage(output_place(given.get("out"), "compare"))
    page = storage.content("report.html")
    refuse_other_files(storage, own=f"<title>{words.TITLE}".encode() in page[:1000])
    report = compare(folders, given.get("baseline"))
    publish(report, storage, console)
    return 0


def compare(folders: Sequence[Storage], baseline: str | None = None) -> Report:
    """Report what differs between studies, and compare their methods: by seed if they have a collection in common,
    else those that all have, over their collections.
    """
    studies = read_studies(folders)
    common = set.intersection(*map(collections_of, studies))
    measured = common_evaluations(studies)
    options = differing_options(studies)
    rows = [[key, *values] for key, values in [*facts(studies), *options.items()]]
    head = ["option", *(study.name for study in studies)]
    differences = Table(head, rows, words=len(head), caption=words.DIFFERENCES)
    if common:
        sections = over_seeds(studies, measured, options, common, baseline, [differences] if rows else [])
    else:
        shown = Section("", [differences], [differences]).if_any(rows)
        sections = [*over_places(folders, studies, measured, options, baseline), *shown]
    commands = "\n".join(str(study.config.get("command", "")) for study in studies)
    return Report(f"{words.TITLE} {', '.join(head[1:])}", [*sections, Section(words.COMMANDS, [verbatim(commands)])])


def collections_of(study: Compared) -> set[str]:
    """Return the fingerprints of the collections of a study."""
    return set(study.trials["fingerprint"].drop_nulls())


def common_evaluations(studies: Sequence[Compared]) -> list[str]:
    """Return the columns of evaluations that all studies have, in the order of the first study's."""
    made = [[f"{origin}:{measure}" for origin, measure in evaluations(study.trials)] for study in studies]
    of_all = set.intersection(*map(set, made))
    common = [name for name in made[0] if name in of_all]
    named = "; ".join(f"{study.name}: {', '.join(names)}" for study, names in zip(studies, made, strict=True))
    refuse(not common, f"the studies have no measure over the same candidates in common ({named})")
    return common


def over_seeds(
    studies: Sequence[Compared],
    measured: Sequence[str],
    options: Mapping[str, Sequence[str]],
    common: set[str],
    baseline: str | None,
    differences: Sequence[Table],
) -> list[Section]:
    """Compare studies that have collections in common, paired by seed."""
    compared = [key for key in options if key not in UNTRAINED]
    trials, repeated = pool(studies, compared, common)
    trials = trials.select(*measured, pl.exclude(*measured))  # a comparison leads with the first
    unread = _refuse_unlike(trials)
    others, ignored = other_results(studies), set.union(*map(collections_of, studies)) - common
    said = {
        words.SAME: not differences,
        words.REPEATED.format(repeated): repeated,
        words.OTHERS.format(others): others,
        words.UNREAD.format(unread): unread,
        words.LEFT_OUT.format(len(ignored)): ignored,
    }
    lines = applying(said)
    sections = [Section("", [*differences, items(lines)], [*differences, *lines])]
    if compared and (paired := paired_table(trials, compared)).lines:
        sections.append(Section(words.PAIRED, [paired], [paired]))
    comparison = Comparison(trials, queries_once(studies))
    summary = comparison.summary(baseline)
    methods = side_by_side(summary, measures_of(summary)[0])
    conclusion = comparison.verdict(summary, test_limit=test_limit)
    verdict = verdict_section(conclusion, summary, comparison.trials.clear(), Letters())
    return [verdict, *sections, *(replace(section, terminal=[methods]) for section in results(summary))]


def _refuse_unlike(trials: pl.DataFrame) -> int:
    """Refuse methods of studies that are measured over other candidates, test queries or judgements.

    Returns:
        The number of runs whose options this version does not read, which are not checked.
    """
    rows = trials.select("overrides", "fingerprint").unique().sort("overrides", "fingerprint").iter_rows()
    lines = Counter((shlex.join(without(shlex.split(line), {"seed"})), collection) for line, collection in rows)
    known = {line: recorded_or_none(line[0]) for line in lines}
    # The same files elsewhere are the same collection.
    configs = [{**config, "collection": line[1]} for line, config in known.items() if config is not None]
    refuse_unlike_measurement(configs, OF_STUDIES, "compare", "compare studies that are measured alike")
    return sum(count for line, count in lines.items() if known[line] is None)


def queries_once(studies: Sequence[Compared]) -> pl.LazyFrame:
    """Return the values per query of all runs, those of a run that several studies have from the first."""
    known: set[str] = set()
    frames = []
    for study in studies:
        done = set(study.trials.filter(status="done")["run"]) - known
        frames.append(study.queries.filter(pl.col("run").is_in(sorted(done))))
        known |= done
    return pl.concat(frames, how="diagonal_relaxed")


def over_places(
    folders: Sequence[Storage],
    studies: Sequence[Compared],
    measured: Sequence[str],
    options: Mapping[str, Sequence[str]],
    baseline: str | None,
) -> list[Section]:
    """Compare the methods that studies on different collections have in common, over their collections.

    The options that differ between studies are not part of the methods here.
    """
    swept = pl.concat([study.trials.select(swept_without(())) for study in studies])["swept"]
    swept_keys = set(swept.explode().drop_nulls().struct.field("key"))
    left_out = {*options, *of_keys(swept_keys, {"collection"}, root_of)}
    frames, queries = [], []
    for folder, study in zip(folders, studies, strict=True):
        name = f"{study.name}:"
        runs = required_trials(folder).filter(status="done")
        frames.append(runs.with_columns(swept_without(left_out), run=name + pl.col("run")))
        scanned = required_scan(folder, "queries")
        queries.append(scanned.with_columns(run=name + pl.col("run")))
    trials = pl.concat(frames, how="diagonal_relaxed").select(*measured, pl.exclude(*measured))
    methods = with_methods(trials).select("method", *METHOD, *map(column_of, factors(trials))).unique()
    if baseline is not None:
        baseline, _ = named_baseline(methods, baseline)
    elif (common := common_baseline(studies)) is not None:
        with suppress(BadInput):  # it names an option that differs between the studies
            baseline, _ = named_baseline(methods, common)
    frame = Comparison(trials, pl.concat(queries, how="diagonal_relaxed")).across(baseline)
    named = "; ".join(map(_named_collections, studies))
    run = pl.col("run").str
    of_studies = [with_methods(trials).filter(run.starts_with(f"{study.name}:"))["method"] for study in studies]
    alike = len(set.intersection(*map(set, of_studies))) > 1
    what = "the methods in common have fewer than two seeds in common with each other in every study"
    remedy = "continue the studies: pyrite study --resume FOLDER seeds=3"
    refuse(frame.is_empty() and alike, f"{what} ({named})", remedy=remedy)
    refuse(frame.is_empty(), f"the studies have neither a collection nor two methods in common ({named})")
    shown = analysis_sections.across_terminal(frame)
    return [replace(section, terminal=shown) for section in analysis_sections.across(frame)]


def common_baseline(studies: Sequence[Compared]) -> str | None:
    """Return the baseline of the studies, if all name the same."""
    first, *others = {(study.config.get("study") or {}).get("baseline") for study in studies}
    return None if others else first


def swept_without(keys: Collection[str]) -> pl.Expr:
    """Return the swept pairs of runs, without those of some keys; a study without a sweep has none."""
    pairs = pl.col("swept").cast(SWEPT).fill_null([])
    return pairs.list.eval(pl.element().filter(~pl.element().struct.field("key").is_in(list(keys))))


def _named_collections(study: Compared) -> str:
    collections = study.trials.select("collection", "fingerprint").drop_nulls().unique().sort(pl.all())
    return f"{study.name}: {', '.join(map(' '.join, collections.iter_rows()))}"


def read_studies(folders: Sequence[Storage]) -> list[Compared]:
    """Read the studies, named by as much of their paths as distinguishes them.

    Runs are named by their overrides: two studies may have the same run under names of different versions, or measured
    by other measures.
    """
    names, studies = told_apart([folder.place for folder in folders]), []
    for folder in folders:
        config = read_config_of("study", folder)
        trials = required_trials(folder)
        overrides = map(shlex.split, trials["overrides"])
        runs = [shlex.join(sorted(without(texts, UNTRAINED))) for texts in overrides]
        renamed = dict(zip(trials["run"], runs, strict=True))
        queries = required_scan(folder, "queries").with_columns(pl.col("run").replace(renamed))
        trials = trials.with_columns(run=pl.Series(runs, dtype=pl.String))
        studies.append(Compared(names[folder.place], trials, queries, config, versions_of(folder)))
    return studies


def versions_of(folder: Storage) -> str:
    """Return the versions of Pyrite that made the first and the last result of a study."""
    store = ResultStore(folder, "runs")
    keys = store.keys()
    versions = []
    for key in dict.fromkeys(keys[:1] + keys[-1:]):
        made = (store.read(key) or {}).get(BUILT_FROM, {})
        versions.append(" ".join(filter(None, [made.get("version", ""), made.get("commit", "")[:10]])))
    return ", ".join(dict.fromkeys(filter(None, versions))) or "unknown"


def facts(studies: Sequence[Compared]) -> list[tuple[str, list[str]]]:
    """Return the facts of the studies that differ: seeds, methods, runs, versions."""
    rows = {
        "seeds": [str(study.trials["seed"].n_unique()) for study in studies],
        "methods": [str(study.trials.select(METHOD).unique().height) for study in studies],
        "finished runs": [str((study.trials["status"] == "done").sum()) for study in studies],
        "version": [study.versions for study in studies],
    }
    return [(name, values) for name, values in rows.items() if len(set(values)) > 1]


def differing_options(studies: Sequence[Compared]) -> dict[str, list[str]]:
    """Return the options of runs that differ between studies, with their values in each.

    An option that one study does not give has its default there. What names a method or a seed is left out.
    """
    keys = {key_of(text) for study in studies for line in study.trials["overrides"] for text in shlex.split(line)}
    compared = without(sorted(keys - NOT_COMPARED), {"collection"}, root_of)
    values = {key: [_values(study, key) for study in studies] for key in compared}
    return {key: list(map(", ".join, each)) for key, each in values.items() if each.count(each[0]) < len(each)}


def _values(study: Compared, key: str) -> list[str]:
    """Return the values that an option has in the runs of a study."""
    return sorted({value_of(line, key) for line in study.trials["overrides"]})


def value_of(overrides: str, key: str) -> str:
    """Return the value of an option in a run: the one that its overrides give, or the default."""
    texts = shlex.split(overrides)
    given = dict(text.partition("=")[::2] for text in texts)
    if key in given:
        return given[key]
    config = recorded_or_none(shlex.join(without(texts, {"seed"})))
    value = None if config is None else option_value(config, key)
    return (value or "–").replace("'", "")


def pool(studies: Sequence[Compared], options: Sequence[str], collections: set[str]) -> tuple[pl.DataFrame, int]:
    """Join the runs of all studies, equal ones once, and return the number left out; options become part of methods."""
    frames = []
    for study in studies:
        overrides = study.trials["overrides"]
        given = [[{"key": key, "value": value_of(line, key)} for key in options] for line in overrides]
        swept = swept_without(options).list.concat(pl.Series("given", given, dtype=SWEPT))
        frames.append(study.trials.with_columns(swept))
    every = pl.concat(frames, how="diagonal_relaxed").filter(pl.col("fingerprint").is_in(sorted(collections)))
    done_first = every.sort(pl.col("status") == "done", descending=True, maintain_order=True)
    measures = cs.contains(":")  # which one study may have and another not
    pooled = done_first.group_by("run", maintain_order=True).agg(
        (~measures - cs.by_name("run")).first(), measures.drop_nulls().first()
    )
    return pooled, len(every) - len(pooled)


def other_results(studies: Sequence[Compared]) -> int:
    """Return the number of runs that have different measures in different studies, though their options are equal."""
    every = pl.concat([study.trials.filter(status="done") for study in studies], how="diagonal_relaxed")
    measures = [f"{origin}:{measure}" for origin, measure in evaluations(every)]
    values = every.group_by("run").agg(pl.col(measures).drop_nulls().n_unique())
    return int(values.select(pl.max_horizontal(measures) > 1).to_series().sum())


def paired_table(trials: pl.DataFrame, options: Sequence[str]) -> Table:
    """Compare each method under the options of the first study with the same method under those of the others."""
    origin, measure = evaluations(trials)[0]
    pair = pl.format("{}={}", pl.element().struct.field("key"), pl.element().struct.field("value"))
    rest = swept_without([*options, *AGENTS]).list.eval(pair.sort()).list.join(" ")
    values = measurements(trials).filter(candidates=origin, measure=measure).drop_nulls("value")
    values = values.join(trials.select("run", rest=rest), on="run", maintain_order="left")
    rows = []
    for runs in values.partition_by("collection", *METHOD, "rest", maintain_order=True):
        first, *others = methods_of(runs, ["ranker", "method"]).values()
        rows += [_paired_row(method, first) for method in others]
    return columns.table(rows, PAIRED, words=3, caption=words.PAIRED_TABLE.format(measure, origin_name(origin)))


def _paired_row(method: MethodRuns, first: MethodRuns) -> dict[str, Any]:
    """Return the difference of two methods over seeds, or over agents and seeds if one of them has several agents."""
    pairs = differences(method.runs, first.runs)
    crossed = crossed_difference(agent_cells(method.runs, first.runs))
    found = crossed if crossed.is_known and len(pairs) >= LEAST_PAIRS else mean_difference(pairs)
    over = f"{len(pairs)} {unit_of(method, first, len(pairs))}"
    figures = {name: getattr(found, name) for name in ("mean", "low", "high", "p")}
    return {**method.identity, "against": first.method, **figures, "pairs": over}


PAIRED = (
    columns.text("ranker"), columns.text("method"), columns.text("against"), columns.diff("difference", "mean"),
    columns.interval("95% interval"), columns.p("p", "p"), columns.text("pairs"),
)  # fmt: skip
