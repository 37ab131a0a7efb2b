"""Lays out the analyses of a study: decisions, variation over seeds, places, power, settings, agents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from pyrite.analysis.counted import counted
from pyrite.analysis.methods import MEAN
from pyrite.analysis.reports import columns
from pyrite.analysis.reports import study_words as words
from pyrite.analysis.reports.labels import (
    Letters,
    distinct_names,
    letter_key,
    signed,
    title_of,
    value,
)
from pyrite.analysis.reports.report import Cell, Drawing, Fold, Part, Rows, Section, Table
from pyrite.analysis.reports.result_sections import cell, origin_name
from pyrite.analysis.reports.run_figures import curves
from pyrite.analysis.statistics.across_places import ALL, summarise_zero_shot, versions
from pyrite.analysis.statistics.convergence import convergence
from pyrite.analysis.statistics.importance import importance
from pyrite.analysis.statistics.oscillation import oscillation
from pyrite.analysis.statistics.power import DIFFERENCES, LONGEST, MOST
from pyrite.analysis.statistics.sequential import SequentialRule, hopeless
from pyrite.analysis.study_comparison import Comparison


def _spread(mean: float, std: float) -> str:
    return f"{mean:.4f} ± {std:.4f}"


def _against(row: columns.Row) -> Cell:
    return Cell(row["method"], below=f"against {row['random']}" if row["random"] else "")


def _variance(row: columns.Row) -> Cell:
    """Return the variance of dev losses, with three significant figures: those of different rankers are orders of
    magnitude apart."""
    variance, std = (None if row[name] is None else f"{row[name]:.3g}" for name in ("variance", "variance_std"))
    return Cell(variance, f"± {std}" if std else "", best=variance is not None and row["against"] is None)


def _bounded(head: str, name: str, form: str) -> columns.Column:
    """Declare a column of a figure with its interval in brackets; an upper bound may be missing."""

    def of(row: columns.Row) -> str | None:
        middle, low, high = (row[part] for part in (name, f"{name}_low", f"{name}_high"))
        bounds = "–∞" if high is None else f"–{high:{form}}"
        around = "" if low is None else f" ({low:{form}}{bounds})"
        return None if middle is None else f"{middle:{form}}{around}"

    return columns.Column(head, of)


CONTRASTS = (
    columns.text("against", "opponent"), columns.text("pairs"), columns.shown("its mean", _spread, "mean", "std"),
    columns.shown("the other's", _spread, "against_mean", "against_std"), columns.diff(),
    columns.interval("95%", "low_both", "high_both"), columns.number("p (Holm)", ".2g", "p_both_holm"),
    columns.number("p equal", ".2g", "equal_p"), columns.number("p, seeds only", ".2g", "p_holm"),
)  # fmt: skip
BRIEF_CONTRASTS = (
    columns.diff(), columns.interval("95%", "low_both", "high_both"), columns.p("p (Holm)", "p_both_holm"),
    columns.p("p equal", "equal_p"),
)  # fmt: skip
DECISIONS = (
    columns.text("method"), columns.text("ranker"), columns.text("against"), columns.text("is"), columns.diff(),
    columns.interval("interval"), columns.p("p", "p"), columns.interval("95%, other queries", "low_both", "high_both"),
    columns.p("p, other queries", "p_both"), columns.text("seeds"), columns.text("seeds to come"),
)  # fmt: skip
VARIATION = (
    columns.measure("deviation", "std"), _bounded("ratio", "ratio", ".2f"),
    columns.p("p (Holm)", "brown_forsythe_p_holm"), _bounded("beats it", "beats", ".0%"),
    columns.measure("one run", "best_of_1"), columns.measure("best of 5", "best_of_5"),
    columns.measure("the line", "line"), _bounded("below the line", "below", ".0%"),
)  # fmt: skip
ACROSS = (
    columns.text("places"), columns.text("collections"), columns.text("pairs"), columns.diff(),
    columns.interval("95% interval"), columns.number("between collections", ".4f", "heterogeneity"),
    columns.interval("at the next collection", "next_low", "next_high"),
)  # fmt: skip
BRIEF_ACROSS = (
    columns.text("collections"), columns.diff(), columns.interval("95%"),
    columns.interval("at the next one", "next_low", "next_high"),
)  # fmt: skip
POWER = (columns.shown("pairs", "{} {}".format, "pairs", "unit"), columns.measure("spread"))
IMPORTANCE = (columns.text("ranker"), columns.text("setting"), columns.number("share", ".0%"), columns.text("runs"))
RATES = (
    columns.Column("method", _against), columns.text("candidates"), columns.text("agents"),
    columns.shown("converged", "{} of {}".format, "converged", "agents"),
    columns.shown("better than random", "{:.0%} ({} of {})".format, "rate", "better", "agents"),
    columns.shown("95% interval", "{:.0%} to {:.0%}".format, "rate_low", "rate_high"), columns.measure("mean"),
    columns.measure("best agent", "best"), columns.measure("better agents", "better_mean"),
    columns.measure("random", "random_mean"), columns.diff(), columns.text("pairs"),
    columns.p("paired p (Holm)", "paired_p_holm"), columns.p("t p (Holm)", "t_p_holm"),
    columns.p("ks p (Holm)", "ks_p_holm"),
)  # fmt: skip
AGENTS = (
    columns.text("collection"), columns.text("ranker"), columns.text("method"), columns.text("candidates"),
    columns.text("agent"), columns.shown("converged", {True: "yes", False: "no"}.get, "converged"),
    columns.text("runs"), columns.measure("mean"), columns.measure("random policy", "random_mean"),
)  # fmt: skip
STEADINESS = (
    columns.text("method"), columns.number("epochs", ".1f"), columns.number("first dev loss", ".3f", "first"),
    columns.number("best", ".3f"), columns.number("last", ".3f"),
    columns.Column("variance of the differences", _variance), columns.p("p", "t_p"), columns.p("p (Holm)", "t_p_holm"),
    columns.text("runs"),
)  # fmt: skip
DECIDED = "decided"


def analyses(
    comparison: Comparison, options: Mapping[str, Any], baseline: str | None, rule: SequentialRule | None
) -> list[Section]:
    """Everything beyond the means, as far as the study has the runs for it."""
    return [
        *(_decisions(comparison, rule, baseline) if rule and options.get("stop") == "decided" else []),
        *_variation(comparison.spread(options.get("never_below"))),
        *across(comparison.across(baseline)),
        *(replace(section, terminal=()) for section in power_section(comparison.power(rule))),
        *_importance(comparison.trials),
    ]


def contrasts(tested: pl.DataFrame, letters: Letters | None = None) -> Section:
    """The differences that were named before the study ran."""
    of_others = pl.format("{} ({})", "against", "against_ranker")
    named = tested.with_columns(
        pl.col("std", "against_std").fill_null(0.0),
        opponent=pl.when(pl.col("ranker") == pl.col("against_ranker")).then("against").otherwise(of_others),
    )
    parts = named.partition_by("candidates", "ranker", "method", maintain_order=True)
    several = tested["ranker"].n_unique() > 1
    places = [
        (f"({part[0, 'ranker']}) " if several else "")
        + words.AGAINST_OTHERS.format(part[0, "measure"], origin_name(part[0, "candidates"]))
        for part in parts
    ]
    first = named.filter(candidates=tested[0, "candidates"])
    short = distinct_names([*first["method"], *first["against"]])
    names = {method: short[method] for method in first["method"]} | {
        opponent: short[method] + opponent.removeprefix(method)
        for opponent, method in first.select("opponent", "against").iter_rows()
    }
    brief = (letters or Letters()).of(names)
    brief_columns = [columns.named("against", brief, "opponent"), *BRIEF_CONTRASTS]
    tables, shown = list[Table](), list[Table]()
    for part, place in zip(parts, places, strict=True):
        tables.append(columns.table(part, CONTRASTS, caption=f"{part[0, 'method']} {place}"))
        if part[0, "candidates"] == first[0, "candidates"]:
            shown.append(columns.table(part, brief_columns, caption=f"{brief[part[0, 'method']]} {place}"))
    frames = {"contrasts.parquet": tested}
    said = words.CONTRASTS
    return Section(said.title, [*said.explained(), *tables], [*letter_key(brief, names), *shown], frames)


def _decisions(comparison: Comparison, rule: SequentialRule, baseline: str | None) -> list[Section]:
    frame = comparison.decisions(rule, baseline)
    if frame.is_empty():
        return []
    rows, lines = [], dict[tuple[str, frozenset[str]], str]()
    several = frame["collection"].n_unique() > 1
    within = {"equal": words.EQUAL_WITHIN.format(rule.equal_within)}
    for row in frame.iter_rows(named=True):
        more = _outlook(row, rule)
        rows.append({**row, "is": within.get(row["verdict"], row["verdict"]), "seeds to come": more})
        decided = words.DECIDED[row["verdict"]].format(**row, margin=rule.equal_within)
        seeds = f"{row['seeds']} seeds" + (f", {more}" if more != DECIDED else "")
        place = title_of(row["ranker"], row["collection"], several)
        # Two baselines are each other's opponents: the first line is enough.
        pair = place, frozenset((row["method"], row["against"]))
        lines.setdefault(pair, f"{place}: {decided} ({signed(row['difference'])}, {seeds})")
    bounds = " or ".join(f"{bound:.3g}" for bound in frame["bound"].unique().sort().to_list())
    explained = words.DECISIONS.explained(
        measure=frame[0, "measure"], origin=origin_name(frame[0, "candidates"]), margin=rule.equal_within,
        bounds=bounds, first=rule.first,
    )  # fmt: skip
    parts: list[Part] = [_by_collection(rows, DECISIONS, 4, several), *explained]
    return [Section(words.DECISIONS.title, parts, list(lines.values()), {"decisions.parquet": frame})]


def _by_collection(
    rows: pl.DataFrame | list[dict[str, Any]], shown: Sequence[columns.Column], words: int, several: bool
) -> Table:
    """Return a table, with the collection as the first column if there are several."""
    first = [columns.text("collection")] if several else []
    return columns.table(rows, [*first, *shown], words=len(first) + words)


def _outlook(row: Mapping[str, Any], rule: SequentialRule) -> str:
    """The seeds that an open comparison is expected to take yet."""
    more = row["more"]
    if more is None:
        return DECIDED
    if row["seeds"] < rule.most and hopeless(row["seeds"], more, rule):
        return words.ENDED.format(seeds=row["seeds"], most=rule.most)
    if math.isinf(more) or more > 50 * rule.most:
        return words.NOT_ESTIMATED
    return words.TO_COME.format(more=more, margin=rule.equal_within)


def _variation(frame: pl.DataFrame) -> list[Section]:
    frames = {"spread.parquet": frame}
    if frame.drop_nulls("beats").is_empty():
        return Section("", [], frames=frames).if_any(frame)

    names = distinct_names([*frame["method"], *frame["against"].drop_nulls()])
    head = [columns.named("method", names), columns.text("candidates"), columns.named("against", names)]
    table = columns.table_by_family(frame, [*head, *VARIATION], words=3)
    return [Section(words.VARIATION.title, [table, *words.VARIATION.explained()], frames=frames)]


def across(frame: pl.DataFrame) -> list[Section]:
    """The differences of methods over collections and rankers; no table with fewer than two places."""
    pooled, frames = frame.filter(place=ALL).sort("difference", descending=True), {"across.parquet": frame}
    if pooled.is_empty():
        return Section("", [], frames=frames).if_any(frame)
    names = distinct_names([*frame["method"], *frame["against"]])
    table = columns.table(pooled, [columns.named("method", names), *ACROSS])
    explained = words.ACROSS.explained(**_over(frame, names))
    return [Section(words.ACROSS.title, [table, *explained, *_versions(frame)], frames=frames)]


def _over(frame: pl.DataFrame, names: Mapping[str, str]) -> dict[str, str]:
    """Return what the differences of a table are of: the measure, the origin of candidates and the reference."""
    origin = origin_name(frame[0, "candidates"])
    return {"measure": frame[0, "measure"], "origin": origin, "against": names[frame[0, "against"]]}


def _versions(frame: pl.DataFrame) -> list[str]:
    """Return a line for each collection of which several versions count as one."""
    counts = versions(frame)
    return [words.VERSIONS.format(versions=counted(count, "version"), name=name) for name, count in counts.items()]


def across_terminal(frame: pl.DataFrame) -> list[str | Table]:
    """The same for the terminal, with a letter for each method."""
    pooled = frame.filter(place=ALL).sort("difference", descending=True)
    names = distinct_names([*frame["against"].unique(), *pooled["method"]])
    brief = Letters().of(names)
    caption = words.ACROSS_TERMINAL.format(**_over(frame, brief))
    return [
        *letter_key(brief, names),
        columns.table(pooled, [columns.named("method", brief), *BRIEF_ACROSS], caption=caption),
        *_versions(frame),
    ]


def power_section(frame: pl.DataFrame) -> list[Section]:
    """The number of seeds that differences take; nothing if no pair of methods has three seeds."""
    if frame["seeds"].count() == 0:
        return []
    names = distinct_names([*frame["method"], *frame["against"]])
    letters = Letters().of(names)
    wide, brief = (_power_table(frame, shown, words.POWER_NOTE) for shown in (names, letters))
    terminal: list[str | Table] = [*letter_key(letters, names), brief]
    return [Section(words.POWER.title, [wide, *words.POWER.explained()], terminal, {"power.parquet": frame})]


def _power_table(frame: pl.DataFrame, names: Mapping[str, str], note: str) -> Table:
    """Return a row per method, with the seeds for each size of the difference."""
    few = frame.filter(pl.col("difference").is_in(DIFFERENCES))
    tried = {"seeds": MOST, "seeds_of_many": MOST, "seeds_sequential": LONGEST}
    counts = [pl.col(name).cast(pl.String).fill_null(f"> {most:,}") for name, most in tried.items()]
    wide = few.with_columns(text=pl.concat_str(counts, separator=" / ")).pivot(
        "difference", index=["collection", "ranker", "method", "against", "pairs", "unit", "spread"], values="text",
    )  # fmt: skip
    sizes = [columns.text(f"for {size:g}".replace("0.", "."), f"{size:g}") for size in DIFFERENCES]
    head = [columns.named("method", names), columns.named("against", names)]
    return columns.table_by_family(wide, [*head, *POWER, *sizes], words=2, note=note)


def _importance(trials: pl.DataFrame) -> list[Section]:
    heading = words.IMPORTANCE.title
    try:
        shares = importance(trials)
    except ModuleNotFoundError as error:
        if error.name != "optuna":
            raise
        return [Section(heading, [words.NEEDS_OPTUNA])]
    if shares.is_empty():
        return []
    ordered = shares.sort("collection", "ranker", "share", descending=[False, False, True])
    table = _by_collection(ordered, IMPORTANCE, 2, shares["collection"].n_unique() > 1)
    parts: list[Part] = [table, *words.IMPORTANCE.explained()]
    return [Section(heading, parts, (), {"importance.parquet": shares})]


def zero_shot(trials: pl.DataFrame, measured: pl.DataFrame | None) -> list[Section]:
    """The measures of rankers on collections that they were not trained on: a table per origin and measure."""
    if measured is None or measured.is_empty():
        return []
    first, *others = [
        _collections(part, f"{measure}, {origin_name(str(origin))}")
        for (origin, measure), part in summarise_zero_shot(trials, measured).group_by(
            "origin", "measure", maintain_order=True
        )
    ]
    folds = [Fold(table.caption, [table]) for table in others]
    return [Section(words.ZERO_SHOT.title, [first, *folds, *words.ZERO_SHOT.explained()])]


def _collections(part: pl.DataFrame, caption: str) -> Table:
    """One measure over one origin: a column per collection, their mean last."""
    columns = [*(name for name in part["collection"].unique(maintain_order=True) if name != MEAN), MEAN]
    several = part["learned_from"].n_unique() > 1
    rows: Rows = []
    for (place, ranker), family in part.group_by("learned_from", "ranker", maintain_order=True):
        rows.append(f"{ranker}, trained on {place}" if several else str(ranker))
        best = dict(family.group_by("collection").agg(pl.col("mean").max()).iter_rows())
        for method in family.filter(collection=MEAN).sort("mean", descending=True)["method"]:
            of = {row["collection"]: row | {"marks": ""} for row in family.filter(method=method).iter_rows(named=True)}
            rows.append([method, *(cell(of[name], best[name]) for name in columns), of[MEAN]["runs"]])
    bm25 = dict(part.group_by("collection").agg(pl.col("bm25").first()).iter_rows())
    queries = dict(part.group_by("collection").agg(pl.col("queries").first()).iter_rows())
    rows.append(["BM25 alone", *(value(bm25[name]) for name in columns), ""])
    return Table(["method", *(f"{name} ({queries[name]:,})" for name in columns), "runs"], rows, caption=caption)


def convergence_rates(trials: pl.DataFrame, measure: str) -> list[Section]:
    """How many agents beat the random policy, if agents can be compared: with one another, or with that policy."""
    every, agents = convergence(trials)
    frames = {"convergence.csv": every}
    rates = every.filter(measure=measure)
    if not ((rates["agents"] > 1) | rates["rate"].is_not_null()).any():
        return Section("", [], frames=frames).if_any(every)
    of_agents = agents.filter(measure=measure)
    fold = Fold(words.EVERY_AGENT, [columns.table(of_agents, AGENTS, words=4)])
    table = columns.table_by_family(rates, RATES, words=2)
    return [Section(words.CONVERGENCE.title, [*words.CONVERGENCE.explained(), table, fold], (), frames)]


def steadiness(trials: pl.DataFrame) -> list[Section]:
    """How steadily the dev loss falls; nothing if no run has dev losses."""
    frame = oscillation(trials)
    if frame.is_empty():
        return []
    table = columns.table_by_family(frame, STEADINESS, caption=words.DEV_LOSS)
    drawing = Drawing("curves", curves(trials), words.CURVES_FIGURE)
    return [Section(words.STEADINESS.title, [*words.STEADINESS.explained(), table, drawing])]
