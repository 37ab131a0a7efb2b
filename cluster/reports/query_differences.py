"""Compares the two best methods query by query: whether one is better for most queries, or for a few by much."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cluster.output.methods import with_methods
from cluster.reports.canvas import INK, grid, name_axes
from cluster.reports.query_values import QueryMeans, values_of
from ranking.evaluation.significance import holm, paired_t_test

TIE = 1e-9


def differences(
    trials: pl.DataFrame, queries: pl.DataFrame | pl.LazyFrame, summary: pl.DataFrame, measure: str
) -> pl.DataFrame:
    """Compare the two best methods of each ranker and origin on the same queries.

    A query's figure is first averaged over a method's runs, so that seeds do not count as queries. Which two are the
    best is seen from the same queries, so the difference is more than others would show, and p too small: a
    description, no test of a question asked beforehand.

    Args:
        queries: the frame of `queries.parquet`.
        summary: the frame of `cluster.reports.summary.summarise`.

    Returns:
        collection, ranker, candidates, first, second (methods), differences (List[Float64], first minus
        second, a value a query), difference (their mean), wins, ties, losses (of the first), p (paired t-test
        over queries), p_holm. No row where fewer than two methods have results.
    """
    methods = with_methods(trials).select("run", "collection", "ranker", "method")
    able = summary.filter((pl.col("measure") == measure) & (pl.col("runs") > 0) & (pl.col("ranker") != "bm25"))
    able = able.sort("collection", "ranker", maintain_order=True)
    compared = [
        (*identity, *best["method"][:2])
        for identity, best in able.group_by("collection", "ranker", "candidates", maintain_order=True)
        if len(best) > 1
    ]
    if measure not in queries.lazy().collect_schema().names():
        compared = []
    wanted: dict[tuple[str, str], list[QueryMeans]] = {}  # by run and origin
    means = []
    for collection, ranker, origin, *pair in compared:
        of = methods.filter(collection=collection, ranker=ranker)
        means.append((QueryMeans(), QueryMeans()))
        for method, mean in zip(pair, means[-1], strict=True):
            for run in of.filter(method=method)["run"]:
                wanted.setdefault((run, origin), []).append(mean)
    runs, origins = {run for run, _ in wanted}, {origin for _, origin in wanted}
    for run, origin, names, values in values_of(queries, runs, origins, measure) if wanted else ():
        for mean in wanted.get((run, origin), ()):
            mean.add(names, values)
    rows = []
    for (collection, ranker, origin, first, second), own in zip(compared, means, strict=True):
        both = own[0].means().join(own[1].means(), on="query").sort("query")
        a, b = both["mean"].to_numpy(), both["mean_right"].to_numpy()
        d = a - b
        rows.append(
            {
                "collection": collection,
                "ranker": ranker,
                "candidates": origin,
                "first": first,
                "second": second,
                "differences": d.tolist(),
                "difference": float(d.mean()) if len(d) else None,
                "wins": int((d > TIE).sum()),
                "ties": int((np.abs(d) <= TIE).sum()),
                "losses": int((d < -TIE).sum()),
                "p": paired_t_test(a, b),
            }
        )
    text, count, number = pl.String(), pl.Int64(), pl.Float64()
    schema: dict[str, pl.DataType] = dict.fromkeys(("collection", "ranker", "candidates", "first", "second"), text)
    schema |= {"differences": pl.List(number), "difference": number}
    schema |= {**dict.fromkeys(("wins", "ties", "losses"), count), "p": number}
    frame = pl.DataFrame(rows, schema=schema)
    return frame.with_columns(p_holm=pl.Series(holm(frame["p"].to_numpy()), dtype=number)).fill_nan(None)


def histogram(compared: pl.DataFrame, measure: str) -> Figure | None:
    """Draw the differences of `differences` as a histogram a ranker and origin; None where there are none."""
    drawn = compared.filter(pl.col("differences").list.len() > 0)
    if drawn.is_empty():
        return None
    origins = drawn["candidates"].unique(maintain_order=True).to_list()
    several = drawn["collection"].n_unique() > 1
    across = min(len(origins), 2)
    figure, axes = grid([""] * -(-len(drawn) // across), [""] * across, height=2.5)
    for ax in axes[len(drawn) :]:
        ax.remove()
    for ax, row in zip(axes, drawn.iter_rows(named=True), strict=False):
        d = np.array(row["differences"])
        reach = float(np.abs(d).max()) or 1.0
        ax.hist(
            [d[d < -TIE], d[np.abs(d) <= TIE], d[d > TIE]],
            bins=np.linspace(-reach, reach, 42).tolist(),  # 41 bins, so that ties have the middle one
            color=["#D55E00", "#7F7F7F", "#0072B2"],
            alpha=0.85,
            stacked=True,
        )
        ax.axvline(float(d.mean()), color=INK, lw=1.2, ls="--")
        where = f"{row['ranker']} on {row['collection']}" if several else row["ranker"]
        ax.set_title(f"{where} · {row['candidates']} candidates", loc="left", fontsize=10, color=INK)
        name_axes(ax, f"{measure} of {row['first']}\nminus {row['second']}", "queries")
        ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    return figure
