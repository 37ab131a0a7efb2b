"""Lays out the analyses of a study: decisions, variation over seeds, places, power, settings, agents."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from pyrite.analysis.methods import MEAN
from pyrite.analysis.reports import analysis_figures as draw
from pyrite.analysis.reports.labels import (
    Letters,
    by_family,
    distinct_names,
    letter_key,
    p_value,
    signed,
    signed_interval,
    value,
)
from pyrite.analysis.reports.report import Cell, Drawing, Fold, Part, Rows, Section, Table
from pyrite.analysis.reports.result_sections import CURVES, cell, origin_name
from pyrite.analysis.reports.run_figures import curves
from pyrite.analysis.statistics.across_places import ALL, across_places, summarise_zero_shot
from pyrite.analysis.statistics.by_query import Queries
from pyrite.analysis.statistics.convergence import convergence
from pyrite.analysis.statistics.importance import importance
from pyrite.analysis.statistics.oscillation import oscillation
from pyrite.analysis.statistics.power import DIFFERENCES, LONGEST, MOST, power
from pyrite.analysis.statistics.seed_variation import seed_variation
from pyrite.analysis.statistics.sequential import SequentialRule, decisions, hopeless


def analyses(
    trials: pl.DataFrame,
    options: Mapping[str, Any],
    baseline: str | None,
    rule: SequentialRule | None,
    queries: Queries,
) -> list[Section]:
    """Everything beyond the means, as far as the study has the runs for it."""
    return [
        *(_decisions(trials, rule, baseline, queries) if rule and options.get("stop") == "decided" else []),
        *_variation(seed_variation(trials, options.get("never_below"))),
        *across(across_places(trials, baseline, queries)),
        *(replace(section, terminal=()) for section in power_section(power(trials, rule))),
        *_importance(trials),
    ]


def contrasts(tested: pl.DataFrame, letters: Letters | None = None) -> Section:
    """The differences that were named before the study ran."""
    head = ["against", "seeds", "its mean", "the other's", "difference", "95%", "p (Holm)", "p equal", "p, seeds only"]
    tables, terminal = list[Table](), list[str | Table]()
    for part in tested.partition_by("candidates", maintain_order=True):
        rows = [
            [
                row["against"], row["seeds"],
                *(f"{row[side + 'mean']:.4f} ± {row[side + 'std'] or 0:.4f}" for side in ("", "against_")),
                signed(row["difference"]), signed_interval(row["low_both"], row["high_both"]),
                *(None if row[p] is None else f"{row[p]:.2g}" for p in ("p_both_holm", "equal_p", "p_holm")),
            ]
            for row in part.iter_rows(named=True)
        ]  # fmt: skip
        place = f"against others: {part[0, 'measure']}, {origin_name(part[0, 'candidates'])}"
        tables.append(Table(head, rows, caption=f"{part[0, 'method']} {place}"))
        terminal = terminal or _terminal_contrasts(part, place, letters or Letters())
    text = (
        "One method against each of those that were named before the study ran. Pairs have a seed in common. The "
        "interval and p are for other seeds and other queries, p by Holm's method over all rows here; “p equal” tests "
        "that the difference is smaller than the margin (equal_within). “p, seeds only” is of a t-test over seeds: it "
        "is about other seeds and these very queries, and too small for a claim about others."
    )
    frames = {"contrasts.parquet": tested}
    return Section("The differences that the study was made for", [text, *tables], terminal, frames)


def _terminal_contrasts(part: pl.DataFrame, place: str, letters: Letters) -> list[str | Table]:
    """The differences of a method from others, for a terminal."""
    names = distinct_names([part[0, "method"], *part["against"]])
    brief = letters.of(names)
    rows = [
        [
            brief[row["against"]], Cell(signed(row["difference"])),
            signed_interval(row["low_both"], row["high_both"]), p_value(row["p_both_holm"]), p_value(row["equal_p"]),
        ]
        for row in part.iter_rows(named=True)
    ]  # fmt: skip
    caption = f"{brief[part[0, 'method']]} {place}"
    table = Table(["against", "difference", "95%", "p (Holm)", "p equal"], rows, caption=caption)
    return [*letter_key(brief, names), table]


def _decisions(
    trials: pl.DataFrame, rule: SequentialRule, baseline: str | None, queries: Queries | None = None
) -> list[Section]:
    frame = decisions(trials, rule, baseline, queries)
    if frame.is_empty():
        return []
    rows, lines = [], dict[frozenset[str], str]()
    for row in frame.iter_rows(named=True):
        verdict, more = row["verdict"], _outlook(row, rule)
        words = {
            "open": f"{row['method']} and {row['against']} can't be told apart",
            "equal": f"{row['method']} and {row['against']} differ by less than {rule.equal_within:g}",
        }.get(verdict, f"{row['method']} is {verdict} than {row['against']}")
        within = f" within {rule.equal_within:g}" if verdict == "equal" else ""
        rows.append([
            row["method"], row["ranker"], row["against"], f"{verdict}{within}", signed(row["difference"]),
            signed_interval(row["low"], row["high"]), p_value(row["p"]),
            signed_interval(row["low_both"], row["high_both"]), p_value(row["p_both"]), row["seeds"], more,
        ])  # fmt: skip
        seeds = f"{row['seeds']} seeds" + ("" if row["more"] is None else f", {more}")
        pair = frozenset((row["ranker"], row["method"], row["against"]))
        # Two baselines are each other's opponents: the first line is enough.
        lines.setdefault(pair, f"{row['ranker']}: {words} ({signed(row['difference'])}, {seeds})")
    bounds = " or ".join(f"{bound:.3g}" for bound in frame["bound"].unique().sort().to_list())
    both = ["95%, other queries", "p, other queries"]
    head = ["method", "ranker", "against", "is", "difference", "interval", "p", *both, "seeds", "seeds to come"]
    text = (
        f"{frame[0, 'measure']} over {origin_name(frame[0, 'candidates'])}, each method against the best baseline, by "
        "differences paired by seed. “Better” and “worse” are methods that differ, “equal” are methods that differ "
        f"by less than {rule.equal_within:g}. One could look after every seed and stop at any time, so a decision "
        "holds. Over all pairs of methods at once, the chance that any pair without a difference is declared "
        "different is below .05, and so is the chance that any pair declared equal is not.",
        "The interval and the decision have the same level, and are about the mean difference with each seed's cut "
        f"off at {bounds}: the mean of differences without bounds could not be decided with tens of seeds. If clip= "
        f"does not set the bound, the first {rule.first} seeds did, by how far runs spread, and are no evidence. A "
        "comparison that after half of the seeds would take far more than there are stays open without them. “Seeds "
        "to come” is a guess from the seeds so far. Methods that are decided get no more seeds, so the other tables "
        "of this page compare unequal numbers of runs, and their tests, which ask for a number fixed beforehand, do "
        "not apply.",
        "Decisions are about other seeds and these very queries. “95%, other queries” and its p are for other seeds "
        "and other queries. They ask for a number of seeds that was fixed beforehand, so they check a decision and do "
        "not make one: if that interval contains 0, the difference may not hold for other queries.",
    )
    frames = {"decisions.parquet": frame}
    return [Section("What is decided", [Table(head, rows, words=4), *text], list(lines.values()), frames)]


def _outlook(row: Mapping[str, Any], rule: SequentialRule) -> str:
    """The seeds that an open comparison is expected to take yet."""
    more = row["more"]
    if more is None:
        return "decided"
    if row["seeds"] < rule.most and hopeless(row["seeds"], more, rule):
        return f"ended after {row['seeds']} of {rule.most}, more would not decide it"
    if math.isinf(more) or more > 50 * rule.most:
        return "can't be estimated"
    return f"about {more:.0f} more for {rule.equal_within:g}"


def _variation(frame: pl.DataFrame) -> list[Section]:
    frames = {"spread.parquet": frame}
    if frame.drop_nulls("beats").is_empty():
        return [Section("", [], frames=frames)] if len(frame) else []

    def interval(row: dict[str, Any], name: str, form: str) -> str | None:
        if row[name] is None:
            return None
        low, high = (row[f"{name}_{side}"] for side in ("low", "high"))
        if low is None:
            return f"{row[name]:{form}}"
        return f"{row[name]:{form}} ({low:{form}}" + ("–∞)" if high is None else f"–{high:{form}})")

    names = distinct_names([*frame["method"], *frame["against"].drop_nulls()])
    rows: Rows = []
    for title, family in by_family(frame):
        rows.append(title)
        rows += [
            [
                *(names[row["method"]], row["candidates"], names.get(row["against"])),
                *(value(row["std"]), interval(row, "ratio", ".2f"), p_value(row["brown_forsythe_p_holm"])),
                *(interval(row, "beats", ".0%"), *(value(row[f"best_of_{k}"]) for k in (1, 5))),
                interval(row, "below", ".0%"),
            ]
            for row in family.iter_rows(named=True)
        ]
    head = ["method", "candidates", "against", "deviation", "ratio", "p (Holm)", "beats it"]
    text = (
        "A method whose runs spread less is the safer one to train once, whatever its mean. “Ratio” is its deviation "
        "divided by the other's, below 1 if it is steadier; p is Brown and Forsythe's test that they spread alike. "
        "“Beats it” is how often a run of it is better than one of the other: 50% is a coin. “Best of 5” is the mean "
        "of the best of five runs, for those who can try. “Below the line” is the share of runs that never learned: "
        f"below {value(frame[0, 'line'])}, failed ones among them. Intervals in brackets are 95% intervals; of few "
        "runs they are wide."
    )
    table = Table([*head, "one run", "best of 5", "below the line"], rows, words=3)
    return [Section("Beyond the mean", [table, text], frames=frames)]


def across(frame: pl.DataFrame) -> list[Section]:
    """The differences of methods over collections and rankers; no table with fewer than two places."""
    figure, frames = draw.across_figure(frame), {"across.parquet": frame}
    if figure is None:
        return [Section("", [], frames=frames)] if len(frame) else []
    names = distinct_names([*frame["method"], *frame["against"]])
    rows = [
        [
            *(names[row["method"]], row["places"], row["pairs"], signed(row["difference"])),
            signed_interval(row["low"], row["high"]),
            *(f"{row['heterogeneity']:.4f}", signed_interval(row["next_low"], row["next_high"])),
        ]
        for row in frame.filter(place=ALL).sort("difference", descending=True).iter_rows(named=True)
    ]
    head = ["method", "places", "pairs", "difference", "95% interval", "between places", "at the next place"]
    text = (
        f"{frame[0, 'measure']} over {origin_name(frame[0, 'candidates'])}, the difference from "
        f"{names[frame[0, 'against']]}. A place is a collection and a ranker. The difference is the mean over places, "
        "which are a sample of all places (a random-effects model); “between places” is the standard deviation of the "
        "true differences, and “at the next place” bounds the difference at a place that was not seen."
    )
    caption = "Diamonds and thick lines sum up the places below them; a dotted line bounds the next place."
    parts: list[Part] = [Table(head, rows), text, Drawing("across", figure, caption)]
    return [Section("Over collections and rankers", parts, frames=frames)]


def across_terminal(frame: pl.DataFrame) -> list[str | Table]:
    """The same for the terminal, with a letter for each method."""
    pooled = frame.filter(place=ALL).sort("difference", descending=True)
    names = distinct_names([*frame["against"].unique(), *pooled["method"]])
    brief = Letters().of(names)
    rows = [
        [brief[row["method"]], row["places"], signed(row["difference"]), signed_interval(row["low"], row["high"]),
         signed_interval(row["next_low"], row["next_high"])]
        for row in pooled.iter_rows(named=True)
    ]  # fmt: skip
    against = brief[frame[0, "against"]]
    caption = f"{frame[0, 'measure']} over {origin_name(frame[0, 'candidates'])}, against {against}"
    head = ["method", "places", "difference", "95%", "at the next place"]
    return [*letter_key(brief, names), Table(head, rows, caption=caption)]


def power_section(frame: pl.DataFrame) -> list[Section]:
    """The number of seeds that differences take; nothing if no pair of methods has three seeds."""
    figure = draw.power_figure(frame)
    if figure is None:
        return []
    tried = {"seeds": MOST, "seeds_of_many": MOST, "seeds_sequential": LONGEST}
    names = distinct_names([*frame["method"], *frame["against"]])
    letters = Letters().of(names)

    def table(shown: Mapping[str, str]) -> Table:
        rows: Rows = []
        for title, family in by_family(frame.filter(pl.col("difference").is_in(DIFFERENCES))):
            rows.append(title)
            for part in family.partition_by("method", maintain_order=True):
                method, against, pairs, spread = part.select("method", "against", "pairs", "spread").row(0)
                counts = [
                    " / ".join(f"> {most:,}" if row[name] is None else str(row[name]) for name, most in tried.items())
                    for row in part.iter_rows(named=True)
                ]
                rows.append([shown[method], shown[against], pairs, value(spread), *counts])
        return Table(head, rows, words=2, note=note)

    head = ["method", "against", "pairs", "spread", *(f"for {size:g}".replace("0.", ".") for size in DIFFERENCES)]
    note = (
        "Seeds that a difference takes at 80% power on these queries alone (the verdict's are for other queries too): "
        "one t-test / all methods compared / sequential (stop=decided)."
    )
    text = (
        "Estimated from the spread of these runs: the seeds with which a difference of this size is found in four "
        "studies of five. Three numbers each: of a paired t-test at .05; of the same if all methods here are compared "
        "(the first of Holm's steps); and of a sequential comparison over all pairs (stop=decided), which needs no "
        "number beforehand. With five seeds this estimate may be off by a factor of two. Seeds alone show a difference "
        "on these test queries; for other queries as well it may take more queries, as the verdict says."
    )
    drawing = Drawing("power", figure, "Seeds of a paired t-test with a power of 80%, by the size of the difference.")
    terminal: list[str | Table] = [*letter_key(letters, names), table(letters)]
    return [Section("How many seeds it takes", [table(names), text, drawing], terminal, {"power.parquet": frame})]


def _importance(trials: pl.DataFrame) -> list[Section]:
    heading = "Which settings mattered"
    try:
        shares = importance(trials)
    except ModuleNotFoundError as error:
        if error.name != "optuna":
            raise
        return [Section(heading, ["This needs Optuna, an extra: pip install 'pyrite-ir[search]', then pyrite report."])]
    if shares.is_empty():
        return []
    rows = [
        [row["ranker"], row["setting"], f"{row['share']:.0%}", row["runs"]]
        for row in shares.sort("collection", "ranker", "share", descending=[False, False, True]).iter_rows(named=True)
    ]
    parts: list[Part] = [
        Table(["ranker", "setting", "share", "runs"], rows, words=2),
        "Optuna's functional ANOVA: a random forest learns the results of runs from their settings, and its variance "
        "is shared out among them. The shares sum to 100%, also if most of the differences are chance, by seed.",
    ]
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
    text = (
        "Means over runs and one standard deviation; the number of queries of a collection is in brackets. The mean "
        "weighs all collections alike. Every run is measured with the weights that were best on the collection that "
        "it was trained on. Single values are in zero_shot.parquet."
    )
    folds = [Fold(table.caption, [table]) for table in others]
    return [Section("On collections without training", [first, *folds, text])]


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
        return [Section("", [], frames=frames)] if len(every) else []
    rows: Rows = []
    for title, part in by_family(rates):
        rows.append(title)
        for row in part.iter_rows(named=True):
            share = f"{row['rate']:.0%} ({row['better']} of {row['agents']})" if row["rate"] is not None else None
            between = f"{row['rate_low']:.0%} to {row['rate_high']:.0%}" if row["rate_low"] is not None else None
            settled = f"{row['converged']} of {row['agents']}" if row["converged"] is not None else None
            below = f"against {row['random']}" if row["random"] else ""
            rows.append([
                Cell(row["method"], below=below), row["candidates"], row["agents"], settled, share, between,
                *(value(row[name]) for name in ("mean", "best", "better_mean", "random_mean")),
                signed(row["difference"]), row["pairs"],
                *(p_value(row[f"{test}_p_holm"]) for test in ("paired", "t", "ks")),
            ])  # fmt: skip
    head = ["method", "candidates", "agents", "converged", "better than random", "95% interval"]
    head += ["mean", "best agent", "better agents"]
    head += ["random", "difference", "pairs", "paired p (Holm)", "t p (Holm)", "ks p (Holm)"]
    of_agents = [
        [
            *(row[name] for name in ("collection", "ranker", "method", "candidates", "agent")),
            {True: "yes", False: "no", None: None}[row["converged"]], row["runs"],
            *(value(row[name]) for name in ("mean", "random_mean")),
        ]
        for row in agents.filter(measure=measure).iter_rows(named=True)
    ]  # fmt: skip
    agent_head = ["collection", "ranker", "method", "candidates", "agent", "converged", "runs", "mean", "random policy"]
    text = (
        "The convergence rate is the share of agents whose rankers reach a higher mean than those of the random "
        "policy (Cohen et al. 2019, table 2). All agents meet the same seeds, so with few of them they are above that "
        "mean or below it together, whether or not they learned anything. The agent is the unit of the tests: the "
        "paired one asks whether agents differ from the random policy's runs of the same seeds by more than from one "
        "another. “Converged” are agents that ended learning by the criterion of until=, whether or not they are "
        "better than random; the 95% interval is "
        "a bootstrap over agents and seeds, and no narrower than the exact interval of a share."
    )
    fold = Fold("Every agent", [Table(agent_head, of_agents, words=4)])
    return [Section("How reliably it is learned", [text, Table(head, rows, words=2), fold], (), frames)]


def steadiness(trials: pl.DataFrame) -> list[Section]:
    """How steadily the dev loss falls; nothing if no run has dev losses."""
    frame = oscillation(trials)
    if frame.is_empty():
        return []
    rows: Rows = []
    for title, part in by_family(frame):
        rows.append(title)
        for row in part.iter_rows(named=True):
            # Three significant figures: variances of different rankers are orders of magnitude apart.
            number, spread = (
                None if row[name] is None else f"{row[name]:.3g}" for name in ("variance", "variance_std")
            )
            steadiest = row["variance"] is not None and row["against"] is None
            losses = [None if row[name] is None else f"{row[name]:.3f}" for name in ("first", "best", "last")]
            variance = Cell(number, f"± {spread}" if spread else "", best=steadiest)
            tests = p_value(row["t_p"]), p_value(row["t_p_holm"])
            rows.append([row["method"], f"{row['epochs']:.1f}", *losses, variance, *tests, row["runs"]])
    head = ["method", "epochs", "first dev loss", "best", "last", "variance of the differences", "p", "p (Holm)"]
    text = (
        "In Saeidi et al. (2017, figure 5) the dev loss oscillates from epoch to epoch with refined negatives, and is "
        "stable with random ones. The variance of the differences between successive epochs measures that (from second "
        "differences, so that a trend does not count): it is 0 if the loss changes evenly, and grows with every turn "
        "(which the figure, of means over runs, smooths away).",
        "Each figure is a mean over runs. p is of Student's t-test, adjusted by Holm's method for the methods of a "
        "ranker, that a method is as steady as the steadiest, which is bold. Runs of fewer than three epochs have no "
        "variance, and losses of different rankers or objectives have different scales.",
    )
    table = Table([*head, "runs"], rows, caption="dev loss by epoch")
    return [Section("How steadily rankers learned", [*text, table, Drawing("curves", curves(trials), CURVES)])]
