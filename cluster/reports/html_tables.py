"""Lays out the tables of a study's page: who wins where, origins side by side, every figure of the summary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from cluster.output.methods import EMBEDDINGS, first_stage_of
from cluster.reports.comparison import TESTS
from cluster.reports.page import Markup, markup, table, tag
from cluster.reports.summary import INTERPOLATED
from cluster.reports.terminal_table import figure, mishaps, mixed_origins

Row = dict[str, Any]


def winners(summary: pl.DataFrame, measure: str) -> Iterator[Markup]:
    """Say for each ranker which method wins over which candidates: the first thing to know of a study."""
    for title, section in sections(summary, measure, own=False):
        best = section.sort("mean", descending=True, nulls_last=True).group_by("candidates", maintain_order=True)
        won = {row["candidates"]: row for row in best.first().iter_rows(named=True) if row["runs"]}
        parts = [
            Markup(f"{tag('strong', won[origin]['method'])} over {markup(origin)} candidates ")
            + f"({measure} {figure(won[origin]['mean'])})"
            for origin in section["candidates"].unique(maintain_order=True)
            if origin in won
        ]
        if not parts:
            continue
        verdict = ""
        if len(won) > 1:
            same = len({row["method"] for row in won.values()}) == 1
            verdict = ": the same method wins everywhere" if same else ": the winner depends on the candidates"
        yield Markup(f"{markup(title)}: the highest mean is reached by {', by '.join(parts)}{verdict}.")


def side_by_side(summary: pl.DataFrame, measure: str) -> Markup:
    """Lay out a measure with candidate origins side by side, a section a ranker, BM25's own order last."""
    origins, mixed = _origins(summary, measure), mixed_origins(summary.filter(measure=measure))
    rows: list[list[object] | Markup] = []
    for title, section in sections(summary, measure):
        own = section[0, "ranker"] == "bm25"
        if not own:
            rows.append(markup(title))
        best = dict(section.group_by("candidates").agg(pl.col("mean").max()).iter_rows())
        for method in section["method"].unique(maintain_order=True):
            of = {row["candidates"]: row for row in section.filter(method=method).iter_rows(named=True)}
            cells: list[object] = []
            for origin in origins:
                row = of.get(origin)
                cells.append(cell(row, None if own else best.get(origin)))
                cells += [figure(row["interpolated_mean"] if row else None)] if origin in mixed else []
            rows.append([method, *cells, _runs(list(of.values()))])
    head = ["method"]
    for origin in origins:
        head.append(origin if origin == EMBEDDINGS else f"{origin} candidates")
        head += [f"with {first_stage_of(origin)}"] if origin in mixed else []
    return table([*head, "runs"], rows)


def all_figures(summary: pl.DataFrame, measure: str) -> Markup:
    """Lay out all columns of the summary for one measure."""
    tests = [("", "against")] + ([("baseline_", "baseline")] if "baseline" in summary.columns else [])
    counts, numbers = ("runs", "failed", "diverged"), ("mean", "std", "min", "max")
    robust = ("trained_mean", "trained_std", "all_mean", "all_std", *INTERPOLATED)
    head = ["method", "candidates", *counts, *numbers, "95% interval"]
    head += ["mean without diverged", "std", "mean with failed as 0", "std", "with the first stage", "std"]
    for _, name in tests:
        head += [name, *(f"{test.replace('_holm', ' (Holm)').replace('_p', ' p')}" for test in TESTS)]
    rows: list[list[object] | Markup] = []
    for title, section in sections(summary, measure):
        rows.append(markup(title))
        for row in section.iter_rows(named=True):
            interval = f"{figure(row['ci_low'])} to {figure(row['ci_high'])}" if row["ci_low"] is not None else None
            cells: list[object] = [row["method"], row["candidates"], *(row[name] for name in counts)]
            cells += [figure(row[name]) for name in numbers] + [interval] + [figure(row[name]) for name in robust]
            for prefix, name in tests:
                cells.append(row[name])
                cells += [_tested(test, row[prefix + test]) for test in TESTS]
            rows.append(cells)
    return table(head, rows, left=2)


def convergence_rates(rates: pl.DataFrame, measure: str) -> Markup:
    """Lay out how many agents of each learned method beat the random policy, and what their rankers reach."""
    rows: list[list[object] | Markup] = []
    shown = ("difference", "pairs", "paired_p_holm", "t_p_holm", "ks_p_holm")
    here = rates.filter(measure=measure)
    several = here["collection"].n_unique() > 1
    for (collection, ranker), section in here.partition_by(
        "collection", "ranker", as_dict=True, maintain_order=True
    ).items():
        rows.append(markup(f"{ranker} on {collection}" if several else ranker))
        for row in section.iter_rows(named=True):
            against = Markup(f"<br>{tag('span', 'against ' + row['random'], class_='soft')}") if row["random"] else ""
            share = f"{row['rate']:.0%} ({row['better']} of {row['agents']})" if row["rate"] is not None else None
            between = f"{row['rate_low']:.0%} to {row['rate_high']:.0%}" if row["rate"] is not None else None
            settled = f"{row['converged']} of {row['agents']}" if row["converged"] is not None else None
            cells: list[object] = [Markup(f"{markup(row['method'])}{against}"), row["candidates"], row["agents"]]
            cells += [settled, share, between]
            cells += [figure(row[name]) for name in ("mean", "best", "better_mean", "random_mean")]
            rows.append([*cells, *(_tested(test, row[test]) for test in shown)])
    head = ["method", "candidates", "agents", "converged", "better than random", "95% interval"]
    head += ["mean", "best agent", "better agents"]
    return table([*head, "random", "difference", "pairs", "paired p (Holm)", "t p (Holm)", "ks p (Holm)"], rows, left=2)


def probability(p: float | None) -> str | None:
    """A p value as tables print it: three places, no leading zero."""
    if p is None:
        return None
    return "<.001" if p < 0.001 else f"{p:.3f}".replace("0.", ".", 1)


def sections(summary: pl.DataFrame, measure: str, own: bool = True) -> Iterator[tuple[str, pl.DataFrame]]:
    """The rows of a measure by collection and ranker, each with its title; BM25's own order is last."""
    rows = summary.filter((pl.col("measure") == measure) & ((pl.col("ranker") != "bm25") | pl.lit(own)))
    several = rows["collection"].n_unique() > 1
    parts = rows.partition_by("collection", "ranker", as_dict=True, maintain_order=True)
    for (collection, ranker), section in sorted(parts.items(), key=lambda item: (item[0][0], item[0][1] == "bm25")):
        name = "the first stage's own order" if ranker == "bm25" else str(ranker)
        yield (f"{name} on {collection}" if several else name), section


def cell(row: Row | None, best: float | None) -> Markup:
    """A figure with its deviation and marks, bold where it is the best."""
    if row is None or row["mean"] is None:
        return markup(None)
    mean = figure(row["mean"])
    spread = f"± {figure(row['std'])}" if row["std"] is not None else ""
    shown = tag("b", mean) if row["mean"] == best else mean
    return Markup(f"{shown} {tag('small', spread)}{tag('sup', row['marks'])}")


def _origins(summary: pl.DataFrame, measure: str) -> list[str]:
    return summary.filter(measure=measure)["candidates"].unique(maintain_order=True).to_list()


def _runs(rows: list[Row]) -> str:
    return "/".join(map(str, sorted({row["runs"] for row in rows}))) + mishaps(rows)


def _tested(test: str, value: float | None) -> str | None:
    if value is None or "_p" in test:
        return probability(value)
    if test == "pairs":
        return str(value)
    return f"{value:+.2f}" if test == "effect" else f"{value:+.4f}"
