"""Tells whether few judgements choose the same policy as all do, and who profits by having fed the pool."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from rich import box
from rich.table import Table
from scipy import stats

from cluster.output.methods import METHOD, evaluations, measurements, swept
from cluster.reports.canvas import grid, looks, name_axes
from cluster.reports.page import Markup, drawn, table, tag
from cluster.reports.sequential import paired
from pooling.correlation import kendall_tau

KEYS = ("order", "budget", "feeders", "of")
PLACE = ("collection", "candidates", "measure")
ALPHA = 0.05
TEXT, NUMBER, COUNT = pl.String(), pl.Float64(), pl.Int64()
SCHEMA: dict[str, Any] = {
    **dict.fromkeys((*PLACE, "order"), TEXT), "budget": COUNT, "feeders": TEXT, "of": TEXT,
    "tau": NUMBER, "winner": TEXT, "by_all": TEXT, "same": NUMBER, "opposite": NUMBER, "pairs": COUNT,
    "enough": pl.Boolean(),
}  # fmt: skip
"""Columns of partial_judgements.parquet."""
PROFITS: dict[str, Any] = {
    **dict.fromkeys((*PLACE, "order"), TEXT), "budget": COUNT, "policy": TEXT, "feeders": TEXT,
    "value": NUMBER, "unfed": NUMBER, "gain": NUMBER, "low": NUMBER, "high": NUMBER,
}  # fmt: skip
"""Columns of profits.parquet."""


def partial_judgements(trials: pl.DataFrame) -> pl.DataFrame:
    """Compare what partial judgements say of the policies with what all say, at every place, order and budget.

    A policy is a policy, functions and a selector; the same seeds trained it with either judgements. Of two policies
    one is better where a paired t-test over seeds says so (p < .05, Holm over the pairs); none is where it does not.

    Args:
        trials: the frame of `trials.parquet`.

    Returns:
        The columns of SCHEMA: tau (of the policies' means), winner and by_all (the best by either), same (share of the
        pairs of policies decided alike), opposite (share decided the other way round), pairs, and enough: whether from
        this budget of the order on every pair is decided alike. Empty where nothing was judged in part.
    """
    results = _results(trials)
    rows: list[dict[str, Any]] = []
    for place, own in results.partition_by(*PLACE, as_dict=True).items():
        every = _by_policy(own.filter(pl.col("order").is_null()))
        partial = own.drop_nulls("order")
        for (order, feeders, of), parts in partial.partition_by("order", "feeders", "of", as_dict=True).items():
            told = []
            for (budget,), part in sorted(parts.partition_by("budget", as_dict=True).items()):
                found = _by_policy(part)
                common = sorted(every.keys() & found.keys())
                if len(common) < 2:
                    continue
                row = dict(zip(PLACE, place, strict=True)) | {"order": order, "feeders": feeders, "of": of}
                told.append(row | {"budget": budget} | _compared(every, found, common))
            alike = True
            for row in reversed(told):
                alike = alike and row["same"] == 1
                row["enough"] = alike
            rows += told
    return pl.DataFrame(rows, schema=SCHEMA).sort(*PLACE, "of", "feeders", "order", "budget")


def profits(trials: pl.DataFrame) -> pl.DataFrame:
    """What it adds to a policy's measure that rankers of one kind of negatives were among the systems pooled.

    Returns:
        The columns of PROFITS: value, unfed (without any), gain and its 95% interval over seeds.
    """
    results = _results(trials).drop_nulls("order")
    rows: list[dict[str, Any]] = []
    for place, own in results.partition_by(*PLACE, "order", "budget", as_dict=True).items():
        unfed = _by_policy(own.filter(feeders="[]"))
        for (feeders,), part in own.filter(pl.col("feeders") != "[]").partition_by("feeders", as_dict=True).items():
            for policy, values in _by_policy(part).items():
                if policy not in unfed:
                    continue
                gains = paired(values, unfed[policy])
                if len(gains) < 2:
                    continue
                reach = float(stats.t.isf(0.025, len(gains) - 1) * gains.std(ddof=1) / np.sqrt(len(gains)))
                gain = float(gains.mean())
                rows.append({
                    **dict(zip((*PLACE, "order", "budget"), place, strict=True)), "policy": policy, "feeders": feeders,
                    "value": _mean(values), "unfed": _mean(unfed[policy]), "gain": gain, "low": gain - reach,
                    "high": gain + reach,
                })  # fmt: skip
    return pl.DataFrame(rows, schema=PROFITS).sort(*PLACE, "order", "budget", "policy", "feeders")


def _results(trials: pl.DataFrame) -> pl.DataFrame:
    """A row a run and place: collection, candidates, measure, order (null: all judgements), budget, feeders, of,
    policy, seed, value."""
    keys = swept(trials).filter(pl.col("key").str.starts_with("judging."))
    if "judging.order" not in keys["key"].to_list():
        return pl.DataFrame(schema={**dict.fromkeys((*PLACE, *KEYS, "policy"), TEXT), "seed": COUNT, "value": NUMBER})
    candidates, measure = evaluations(trials)[0]
    frame = measurements(trials).filter(candidates=candidates, measure=measure).drop_nulls("value")
    for key in KEYS:
        own = keys.filter(key=f"judging.{key}").select("run", pl.col("value").alias(key))
        frame = frame.drop(key, strict=False).join(own, on="run", how="left", maintain_order="left")
    fixed = pl.col("policy") == "fixed"
    policy = pl.when(fixed).then(pl.col("function")).otherwise(pl.format("{}({})", *METHOD[1:3]))
    return frame.drop("collection").join(trials.select("run", "collection"), on="run").select(
        *PLACE, "order", pl.col("budget").cast(COUNT), pl.col("feeders").fill_null("[]"), pl.col("of").fill_null("all"),
        policy.alias("policy"), "seed", "value",
    )  # fmt: skip


def _by_policy(results: pl.DataFrame) -> dict[str, dict[int, float]]:
    found = results.partition_by("policy", as_dict=True)
    return {str(policy): dict(own.select("seed", "value").iter_rows()) for (policy,), own in found.items()}


def _mean(values: dict[int, float]) -> float:
    return float(np.mean(list(values.values())))


def _compared(
    every: dict[str, dict[int, float]], found: dict[str, dict[int, float]], common: list[str]
) -> dict[str, Any]:
    by_all, by_part = (np.array([_mean(of[policy]) for policy in common]) for of in (every, found))
    before, now = decided(every, common), decided(found, common)
    return {
        "tau": kendall_tau(by_all, by_part),
        "winner": common[int(by_part.argmax())],
        "by_all": common[int(by_all.argmax())],
        "same": float(np.mean([one == other for one, other in zip(before, now, strict=True)])),
        "opposite": float(np.mean([one * other < 0 for one, other in zip(before, now, strict=True)])),
        "pairs": len(before),
    }


def decided(values: dict[str, dict[int, float]], policies: list[str]) -> list[int]:
    """Of each pair of policies which is better: 1 the first, -1 the second, 0 neither (paired t over seeds, Holm)."""
    tests = []
    for one, other in combinations(policies, 2):
        found = paired(values[one], values[other])
        spread = float(found.std(ddof=1)) if len(found) > 1 else 0.0
        p = float(stats.ttest_1samp(found, 0).pvalue) if spread > 0 else 1.0
        tests.append((p, int(np.sign(found.mean())) if len(found) else 0))
    told, rejected = [0] * len(tests), True
    for turn, place in enumerate(sorted(range(len(tests)), key=lambda place: tests[place][0])):
        rejected = rejected and tests[place][0] * (len(tests) - turn) < ALPHA
        told[place] = tests[place][1] if rejected else 0
    return told


def draw(found: pl.DataFrame) -> Figure | None:
    """Draw τ by budget, a panel a collection, a line an order; None where nothing was judged in part."""
    own = found.filter(feeders="[]", of="all")
    if own.is_empty():
        return None
    places = own["collection"].unique().sort().to_list()
    figure, axes = grid([""], places, 3.0)
    styles = looks(own["order"])
    for place, ax in zip(places, axes, strict=True):
        for (order,), part in own.filter(collection=place).partition_by("order", as_dict=True).items():
            look = styles[str(order)]
            ax.plot(part["budget"], part["tau"], color=look.colour, ls=look.line, marker=look.marker, label=str(order))
        ax.set_xscale("log")
        budgets = own["budget"].unique().sort().to_list()
        ax.set_xticks(budgets, list(map(str, budgets)))
        ax.minorticks_off()
        ax.set_ylim(-1.05, 1.05)
        name_axes(ax, "judgements a query", "τ between the policies' rankings")
    axes[0].legend(loc="lower right", frameon=False)
    return figure


def rows_of(found: pl.DataFrame) -> list[list[str]]:
    """A row a collection, order and budget, for people."""
    return [
        [
            row["collection"], _order(row), str(row["budget"]), f"{row['tau']:.2f}", row["winner"], row["by_all"],
            f"{row['same']:.0%}", f"{row['opposite']:.0%}", "yes" if row["enough"] else "",
        ]
        for row in found.iter_rows(named=True)
    ]  # fmt: skip


HEAD = ["collection", "order", "judged", "τ", "winner", "by all", "decided alike", "opposite", "enough"]


def _order(row: dict[str, Any]) -> str:
    fed = f" fed by {row['feeders'].strip('[]')}" if row["feeders"] != "[]" else ""
    return f"{row['order']}{fed}" + (f", of {row['of']} alone" if row["of"] != "all" else "")


def shown(found: pl.DataFrame, gained: pl.DataFrame) -> list[Table]:
    """The tables for a terminal."""
    tables = []
    for title, head, rows in (("policies by partial judgements", HEAD, rows_of(found)),
                              ("who profits by having fed the pool", PROFIT_HEAD, profit_rows(gained))):  # fmt: skip
        if rows:
            layout = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
            for number, name in enumerate(head):
                layout.add_column(name, justify="left" if number < 2 else "right", no_wrap=True)
            for row in rows:
                layout.add_row(*row)
            tables.append(layout)
    return tables


PROFIT_HEAD = ["collection", "policy", "fed by", "order", "judged", "with", "without", "gain", "95% interval"]


def profit_rows(gained: pl.DataFrame) -> list[list[str]]:
    """A row a policy and feeder, for people."""
    return [
        [
            row["collection"], row["policy"], row["feeders"].strip("[]"), row["order"], str(row["budget"]),
            f"{row['value']:.4f}", f"{row['unfed']:.4f}", f"{row['gain']:+.4f}",
            f"{row['low']:+.4f} to {row['high']:+.4f}",
        ]
        for row in gained.iter_rows(named=True)
    ]  # fmt: skip


def section(found: pl.DataFrame, gained: pl.DataFrame, figure: Figure | None) -> Markup:
    """The part of the report; nothing where nothing was judged in part."""
    if found.is_empty():
        return Markup("")
    parts = [tag("h2", "By partial judgements"), table(HEAD, rows_of(found), left=2)]
    if figure is not None:
        caption = "1: few judgements rank the policies as all do; 0: no better than chance."
        parts.append(drawn("partial_judgements", figure, caption))
    if len(gained):
        parts += [tag("h3", "Who profits by having fed the pool"), table(PROFIT_HEAD, profit_rows(gained), left=4)]
    return tag("section", *parts)
