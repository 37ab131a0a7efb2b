"""Shows how hard a study's negatives were while its rankers learned: figure, table and section of the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cluster.output.methods import with_methods
from cluster.reports.canvas import Look, grid, legend, looks, name_axes, section_titles
from cluster.reports.page import Markup, markup, rendered, table, tag

BINS = 60
"""Stretches of the training over which a figure averages: single batches differ by more than methods do."""
BLOCK = 2000
"""Runs whose steps are held at once."""
FIGURES = {
    "negative": "mean score of negatives",
    "misranked": "share of misranked negatives",
    "age": "age of the index (steps)",
}


def how_hard(trials: pl.DataFrame, traces: pl.DataFrame | pl.LazyFrame, figure: Markup) -> Markup:
    """The section of a report about it; empty where no step was recorded.

    Args:
        trials: the frame of `trials.parquet`.
        traces: the frame of `steps.parquet`.
        figure: `hardness`, drawn.
    """
    rows = at_the_end(trials, traces)
    return Markup("") if rows.is_empty() else rendered("hardness.html", table=_table(rows), figure=figure)


def hardness(trials: pl.DataFrame, traces: pl.DataFrame | pl.LazyFrame) -> Figure | None:
    """Draw how hard negatives were by step: means over a method's runs, and one standard deviation as a band.

    Columns are the mean score of negatives, the share of them that score no lower than their positive and, where
    negatives come from an index with versions, its age. None where no step was recorded.
    """
    of_methods = _methods(trials)
    done = traces.lazy().join(of_methods.lazy(), on="run")
    last = pl.max_horizontal(pl.lit(1.0), (pl.col("step") + pl.col("steps")).max() / BINS)
    widths = done.group_by("collection", "ranker").agg(last.alias("width"), pl.col(FIGURES).count())
    sections = widths.sort("collection", "ranker").collect(engine="streaming")
    if sections.is_empty():
        return None
    columns = {name: title for name, title in FIGURES.items() if sections[name].sum()}
    titles = section_titles(sections.select("collection", "ranker").rows())
    figure, axes = grid(titles, list(columns.values()), height=2.6)
    look, shown = looks(with_methods(trials)["method"]), []
    for row, (collection, ranker, width) in enumerate(sections.select("collection", "ranker", "width").rows()):
        own = axes[row * len(columns) : (row + 1) * len(columns)]
        by_place = partial(_by_place, names=list(columns), width=width)
        for of in _of_methods(of_methods.filter(collection=collection, ranker=ranker), traces, by_place):
            if of.is_empty():  # steps without any of the figures
                continue
            shown.append(of[0, "method"])
            for ax, name in zip(own, columns, strict=True):
                _line(ax, of.filter(figure=name), width, look[of[0, "method"]])
        for ax, title in zip(own, columns.values(), strict=True):
            name_axes(ax, "step", title)
            ax.margins(x=0.01)
    legend(figure, look, pl.Series(shown))
    return figure


def _by_place(steps: pl.DataFrame, names: list[str], width: float) -> pl.DataFrame:
    """Means of figures over stretches of each run: method, run, place, value and figure."""
    place = ((pl.col("step") + pl.col("steps") / 2) / width).floor().alias("place")
    found = []
    for name in names:
        weighted = (pl.col(name) * pl.col("steps")).sum() / pl.col("steps").sum()
        means = steps.drop_nulls(name).group_by("method", "run", place, maintain_order=True)
        found.append(means.agg(weighted.alias("value")).with_columns(pl.lit(name).alias("figure")))
    return pl.concat(found)


def _line(ax: Axes, runs: pl.DataFrame, width: float, look: Look) -> None:
    """A method's figure by step; only where at least half of its runs still trained."""
    means = (
        runs.sort("place", "run")
        .group_by("place", maintain_order=True)
        .agg(pl.len().alias("runs"), pl.col("value").mean().alias("mean"), pl.col("value").std(ddof=0).alias("sd"))
    )
    means = means.filter(pl.col("runs") * 2 >= runs["run"].n_unique())
    x, mean, sd = (means[key].to_numpy() for key in ("place", "mean", "sd"))
    x = (x + 0.5) * width
    ax.plot(x, mean, color=look.colour, ls=look.line, lw=1.6, marker="o" if len(x) == 1 else "", ms=4)
    ax.fill_between(x, mean - sd, mean + sd, color=look.colour, alpha=0.12, lw=0)


def at_the_end(trials: pl.DataFrame, traces: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """What negatives were like in the last tenth of each training, by method.

    Returns:
        collection, ranker, method, runs; of positive, negative, misranked and age the mean over runs and the sample
        standard deviation (`NAME_std`), null where there is none; and versions, how many a run's index had at most.
    """
    of_run = ["collection", "ranker", "method", "run"]
    last = (pl.col("step") + pl.col("steps")).max().over("run", "fold")
    still = pl.col("step") + pl.col("steps") > 0.9 * last
    figures = ["positive", "negative", "misranked", "age"]

    def mean(name: str) -> pl.Expr:
        weights = pl.when(pl.col(name).is_not_null()).then(pl.col("steps"))
        return ((pl.col(name) * weights).sum() / weights.sum()).fill_nan(None).alias(name)

    versions = (pl.col("version").max() + 1).alias("versions")
    empty = traces.lazy().head(0).join(_methods(trials).clear().lazy(), on="run").collect()
    ends = _of_methods(_methods(trials), traces, lambda steps: steps.filter(still))
    every = pl.concat([empty, *ends])
    runs = every.group_by(of_run, maintain_order=True).agg(*map(mean, figures), versions)
    spread = pl.col(figures).std().name.suffix("_std")
    return runs.group_by(of_run[:3], maintain_order=True).agg(
        pl.len().alias("runs"), pl.col(figures).mean(), spread, pl.col("versions").max()
    )


def _methods(trials: pl.DataFrame) -> pl.DataFrame:
    """The runs that are done, with their methods."""
    done = trials.filter(pl.col("status") == "done").select("run")
    return with_methods(trials).join(done, on="run", how="semi").select("run", "collection", "ranker", "method")


def _of_methods(
    runs: pl.DataFrame,
    traces: pl.DataFrame | pl.LazyFrame,
    summed_up: Callable[[pl.DataFrame], pl.DataFrame],
) -> Iterator[pl.DataFrame]:
    """What one method's runs come to after another's, as far as they have steps.

    Args:
        runs: of `_methods`.
        traces: the frame of `steps.parquet`.
        summed_up: of the steps of some runs, each of them whole.
    """
    order = "collection", "ranker", "method"
    for own in runs.sort(*order, "run").partition_by(order, maintain_order=True):
        found = []
        for block in own.iter_slices(BLOCK):
            steps = traces.lazy().filter(pl.col("run").is_in(block["run"].to_list())).collect(engine="streaming")
            if len(steps):
                found.append(summed_up(steps.join(block, on="run").sort(*order, "run", "fold", "step")))
        if found:
            yield pl.concat(found)


def _table(rows: pl.DataFrame) -> Markup:
    """Lay out the rows of `at_the_end`, a section a ranker."""
    index = rows["versions"].count() > 0
    several = rows["collection"].n_unique() > 1
    lines: list[list[object] | Markup] = []
    for (collection, ranker), section in rows.partition_by(
        "collection", "ranker", as_dict=True, maintain_order=True
    ).items():
        lines.append(markup(f"{ranker} on {collection}" if several else ranker))
        for row in section.iter_rows(named=True):
            cells: list[object] = [_spread(row, name, ".2f") for name in ("positive", "negative")]
            cells.append(_spread(row, "misranked", ".1%"))
            cells += [row["versions"], _spread(row, "age", ".0f")] if index else []
            lines.append([row["method"], *cells, row["runs"]])
    head = ["method", "score of positives", "of negatives", "misranked"]
    head += ["versions of the index", "its age (steps)"] if index else []
    return table([*head, "runs"], lines, caption="in the last tenth of each training")


def _spread(row: dict[str, Any], name: str, places: str) -> Markup:
    """The mean of a figure ± its deviation."""
    if row[name] is None:
        return markup(None)
    spread = f"± {row[f'{name}_std']:{places}}" if row[f"{name}_std"] is not None else ""
    return Markup(f"{row[name]:{places}} {tag('small', spread)}")
