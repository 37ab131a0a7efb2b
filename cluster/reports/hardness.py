"""Shows how hard a study's negatives were while its rankers learned: a table and a figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cluster.output.methods import with_methods
from cluster.reports.canvas import Look, grid, legend, looks, name_axes, section_titles
from cluster.reports.labels import by_family
from cluster.reports.report import Cell, Drawing, Section, Table

BINS = 60
"""The number of stretches of the training over which a figure averages; single batches differ more than methods do."""
BLOCK = 2000
"""The number of runs whose steps are in memory at once."""
FIGURES = {
    "negative": "mean score of negatives",
    "misranked": "share of misranked negatives",
    "age": "age of the index (steps)",
}


def hardness_section(trials: pl.DataFrame, steps: pl.DataFrame | pl.LazyFrame) -> list[Section]:
    """How hard the negatives were; nothing if no step was recorded."""
    figure = hardness_figure(trials, steps)
    if figure is None:
        return []
    text = (
        "Scores are the ranker's when the negative was shown, before the update. Rankers that are trained differently "
        "have scores of different scales: the distance of negatives below positives, and the share misranked, can be "
        "compared. Harder negatives are not better ones; their effect is shown above."
    )
    caption = (
        "The negatives that rankers were shown, by step: means over a method's runs and one standard deviation. A "
        "negative is misranked if it scores no lower than its positive. If rankers are trained one after another, of "
        "the last."
    )
    drawing = Drawing("negatives", figure, caption)
    return [Section("How hard the negatives were", [text, end_table(trials, steps), drawing])]


def hardness_figure(trials: pl.DataFrame, traces: pl.DataFrame | pl.LazyFrame) -> Figure | None:
    """Draw how hard negatives were by step: means over a method's runs, and one standard deviation as a band.

    Columns are the mean score of negatives, the share of them that score no lower than their positive and, if
    negatives come from an index with versions, its age. None if no step was recorded.
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
        panels = dict(zip(columns, axes[row * len(columns) :], strict=False))
        by_stretch = partial(_by_stretch, names=list(columns), width=width)
        for of in _of_methods(of_methods.filter(collection=collection, ranker=ranker), traces, by_stretch):
            if of.is_empty():  # steps without any of the figures
                continue
            shown.append(of[0, "method"])
            for name, ax in panels.items():
                _line(ax, of.filter(figure=name), width, look[of[0, "method"]])
        for name, ax in panels.items():
            name_axes(ax, "step", columns[name])
            ax.margins(x=0.01)
    legend(figure, look, shown)
    return figure


def _by_stretch(steps: pl.DataFrame, names: list[str], width: float) -> pl.DataFrame:
    """Means of figures over stretches of each run: method, run, stretch, value and figure."""
    stretch = ((pl.col("step") + pl.col("steps") / 2) / width).floor().alias("stretch")
    parts = []
    for name in names:
        weighted = (pl.col(name) * pl.col("steps")).sum() / pl.col("steps").sum()
        means = steps.drop_nulls(name).group_by("method", "run", stretch, maintain_order=True)
        parts.append(means.agg(weighted.alias("value")).with_columns(pl.lit(name).alias("figure")))
    return pl.concat(parts)


def _line(ax: Axes, runs: pl.DataFrame, width: float, look: Look) -> None:
    """Draw a method's figure by step, while at least half of its runs were training."""
    means = (
        runs.sort("stretch", "run")
        .group_by("stretch", maintain_order=True)
        .agg(pl.len().alias("runs"), pl.col("value").mean().alias("mean"), pl.col("value").std(ddof=0).alias("sd"))
    )
    means = means.filter(pl.col("runs") * 2 >= runs["run"].n_unique())
    x, mean, sd = (means[key].to_numpy() for key in ("stretch", "mean", "sd"))
    x = (x + 0.5) * width
    ax.plot(x, mean, color=look.colour, ls=look.line, lw=1.6, marker="o" if len(x) == 1 else "", ms=4)
    ax.fill_between(x, mean - sd, mean + sd, color=look.colour, alpha=0.12, lw=0)


def at_the_end(trials: pl.DataFrame, traces: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """Average the scores of negatives in the last tenth of each training, by method.

    Returns:
        collection, ranker, method, runs; for positive, negative, misranked and age the mean over runs and the sample
        standard deviation (`NAME_std`), null if there is none; and versions, the most that a run's index had.
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
    """The finished runs, with their methods."""
    done = trials.filter(pl.col("status") == "done").select("run")
    return with_methods(trials).join(done, on="run", how="semi").select("run", "collection", "ranker", "method")


def _of_methods(
    runs: pl.DataFrame,
    traces: pl.DataFrame | pl.LazyFrame,
    summarised: Callable[[pl.DataFrame], pl.DataFrame],
) -> Iterator[pl.DataFrame]:
    """Yield a summary of each method's steps, if its runs have any."""
    order = "collection", "ranker", "method"
    for method in runs.sort(*order, "run").partition_by(order, maintain_order=True):
        parts = []
        for block in method.iter_slices(BLOCK):
            steps = traces.lazy().filter(pl.col("run").is_in(block["run"].to_list())).collect(engine="streaming")
            if len(steps):
                parts.append(summarised(steps.join(block, on="run").sort(*order, "run", "fold", "step")))
        if parts:
            yield pl.concat(parts)


def end_table(trials: pl.DataFrame, traces: pl.DataFrame | pl.LazyFrame) -> Table:
    """Lay out the rows of `at_the_end`, a section per ranker."""
    rows = at_the_end(trials, traces)
    index = rows["versions"].count() > 0
    lines: list[list[object] | str] = []
    for title, part in by_family(rows):
        lines.append(title)
        for row in part.iter_rows(named=True):
            forms = {"positive": ".2f", "negative": ".2f", "misranked": ".1%"}
            of_index = [row["versions"], _spread(row, "age", ".0f")] if index else []
            cells = (_spread(row, name, form) for name, form in forms.items())
            lines.append([row["method"], *cells, *of_index, row["runs"]])
    head = ["method", "mean score: positives", "negatives", "misranked"]
    head += ["versions of the index", "its age (steps)"] if index else []
    return Table([*head, "runs"], lines, caption="in the last tenth of each training")


def _spread(row: dict[str, Any], name: str, places: str) -> Cell:
    mean, std = row[name], row[f"{name}_std"]
    return Cell(None if mean is None else f"{mean:{places}}", "" if std is None else f"± {std:{places}}")
