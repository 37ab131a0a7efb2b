"""Shows which negatives a study's rankers were trained with, and how hard these were: examples, a table, a figure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pyrite.analysis.counted import counted
from pyrite.analysis.methods import METHOD_KEYS, with_methods
from pyrite.analysis.reports import columns
from pyrite.analysis.reports import study_words as words
from pyrite.analysis.reports.canvas import Look, family_grid, legend, looks, name_axes
from pyrite.analysis.reports.labels import distinct_names, known
from pyrite.analysis.reports.report import Cell, Drawing, Fold, Part, Rows, Section, Table

LETTERS = 200
"""Letters of a text that are shown."""
EASY = ("in_batch", "random")
"""Functions that do not look for hard negatives."""
MANY = 0.05
"""The share of negatives that were not there from which the terminal says so."""
LISTED = 3
"""The most methods and functions that a sentence names."""
BINS = 60
"""The number of stretches of the training over which a figure averages; single batches differ more than methods do."""
BLOCK = 2000
"""The number of runs whose steps are in memory at once."""
FIGURES = {
    "negative": "mean score of negatives",
    "misranked": "share of misranked negatives",
    "age": "age of the index (steps)",
}


def examples_section(trials: pl.DataFrame, examples: pl.DataFrame | None) -> list[Section]:
    """A table for each of a few training queries, with a relevant document and each method's negatives."""
    if examples is None or examples.is_empty():
        return []
    methods = with_methods(trials).select("run", "method", "ranker")
    named = examples.join(methods, on="run", how="inner", maintain_order="left")
    names = distinct_names(named["method"].unique(maintain_order=True))
    tables: list[Part] = []
    several = named["ranker"].n_unique() > 1
    for part in named.partition_by("collection", "query", maintain_order=True):
        rows: Rows = [["relevant", _long(part[0, "relevant"] or ""), "", ""]]
        for (ranker, method), own in part.partition_by("ranker", "method", as_dict=True, maintain_order=True).items():
            rows.append(f"{ranker}: {names[str(method)]}" if several else names[str(method)])
            rows += columns.lines(own, EXAMPLES)
        head = [column.head for column in EXAMPLES]
        tables.append(Table(head, rows, words=2, caption=_short(part[0, "question"])))
    return [Section(words.EXAMPLES.title, [*words.EXAMPLES.explained(), Fold(words.SHOW_EXAMPLES, tables)])]


def suspects_section(
    trials: pl.DataFrame, samplers: pl.DataFrame | pl.LazyFrame | None, out: str = "OUT"
) -> list[Section]:
    """Return a sentence on the negatives of each method that may be relevant, and the command that counts them.

    They are those that the ranker scored as high as the relevant document when they were shown, of the functions that
    look for hard negatives. Rankers before their first steps, and unclear texts, are behind some of them.

    Args:
        out: the study's folder, as commands name it.
    """
    shares = _shares(trials, samplers, "misranked", ("negatives",), EASY)
    if shares.is_empty():
        return []
    recorded = trials["overrides"].str.contains("sampling.recorded").any()
    then = words.SAMPLE.format(words.AUDIT.format(out) if recorded else words.RECORD_FIRST)
    line = words.SUSPECTS.format(shares=_named(shares), then=then)
    return [Section("", [line], [line, ""], last=True)]


def empty_places_section(trials: pl.DataFrame, samplers: pl.DataFrame | pl.LazyFrame | None) -> list[Section]:
    """Return a sentence on the negatives of each method that were not there, since too few candidates were left.

    Those of the batch are left out: every batch has documents that are no negatives of some of its queries. The
    terminal says it of many.
    """
    shares = _shares(trials, samplers, "missing", ("missing", "negatives"), ("in_batch",)).filter(pl.col("share") > 0)
    if shares.is_empty():
        return []
    line = words.EMPTY_PLACES.format(_named(shares))
    return [Section("", [line], [line, ""] if shares["share"][0] >= MANY else [], last=True)]


def _shares(
    trials: pl.DataFrame, samplers: pl.DataFrame | pl.LazyFrame | None,
    part: str, whole: Collection[str], without: Collection[str],
) -> pl.DataFrame:  # fmt: skip
    """Return shares of negatives, the largest first: ranker, method (as named in the report), function, share, others
    (whether other rankers have rows).

    Args:
        part, whole: columns of `samplers.parquet`, of which the second are added up. Without them there is no row.
        without: functions that are left out.
    """
    if samplers is None or not {part, *whole} <= {*samplers.lazy().collect_schema().names()}:
        return pl.DataFrame(schema={"share": pl.Float64})
    of_runs = with_methods(trials).select("run", "method", "ranker").lazy()
    looked = samplers.lazy().filter(~pl.col("function").is_in(without))
    looked = looked.join(of_runs, on="run", maintain_order="left")
    sums = looked.group_by("ranker", "method", "function", maintain_order=True).agg(
        part=pl.col(part).sum(), whole=pl.sum_horizontal(whole).sum()
    )
    names = distinct_names(with_methods(trials)["method"].unique())
    shares = sums.filter(pl.col("whole") > 0).with_columns(
        pl.col("method").replace(names), share=pl.col("part") / pl.col("whole"), others=pl.col("ranker").n_unique() > 1
    )
    return shares.sort("share", descending=True, maintain_order=True).collect()


def _named(shares: pl.DataFrame) -> str:
    """Name the methods and functions with the largest shares."""
    named = [
        words.SHARE.format(**row) + f" ({row['ranker']})" * row["others"]
        for row in shares.head(LISTED).iter_rows(named=True)
    ]
    fewer = [words.FEWER.format(counted(len(shares) - LISTED, "other"))] if len(shares) > LISTED else []
    return ", ".join([*named, *fewer])


def _long(text: str) -> Cell:
    return Cell(_short(text), long=True)


EXAMPLES = (
    columns.text("from", "function"),
    columns.shown("document", _long, "text"),
    columns.number("times", ",", "times"),
    columns.number("lead", "+.2f", "margin"),
)


def _short(text: str) -> str:
    """Return the beginning of a text on one line, cut at a blank if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= LETTERS else line[:LETTERS].rsplit(" ", 1)[0] + " …"


def hardness_section(trials: pl.DataFrame, steps: pl.DataFrame | pl.LazyFrame) -> list[Section]:
    """How hard the negatives were; nothing if no step was recorded."""
    figure = hardness_figure(trials, steps)
    if figure is None:
        return []
    drawing = Drawing("negatives", figure, words.HARDNESS_FIGURE)
    return [
        Section(words.HARDNESS.title, [*words.HARDNESS.explained(), _end_table(at_the_end(trials, steps)), drawing])
    ]


def hardness_figure(trials: pl.DataFrame, traces: pl.DataFrame | pl.LazyFrame) -> Figure | None:
    """Draw how hard negatives were by step: means over a method's runs, and one standard deviation as a band.

    Columns are the mean score of negatives, the share of them that score no lower than their positive and, if
    negatives come from an index with versions, its age. None if no step was recorded.
    """
    done = _done(trials)
    last = pl.max_horizontal(pl.lit(1.0), (pl.col("step") + pl.col("steps")).max() / BINS)
    families = traces.lazy().join(done.lazy(), on="run").group_by("collection", "ranker")
    lazy = families.agg(last.alias("width"), pl.col(FIGURES).count()).sort("collection", "ranker")
    widths = lazy.collect(engine="streaming")
    if widths.is_empty():
        return None
    columns = {name: title for name, title in FIGURES.items() if widths[name].sum()}
    figure, rows = family_grid(widths, list(columns.values()))
    look, shown = looks(with_methods(trials)["method"]), []
    for family, axes in rows:
        collection, ranker, width = family.row(0)[:3]
        by_stretch = partial(_by_stretch, names=list(columns), width=width)
        for of in _of_methods(done.filter(collection=collection, ranker=ranker), traces, by_stretch):
            if of.is_empty():  # steps without any of the figures
                continue
            shown.append(of[0, "method"])
            for name, ax in zip(columns, axes, strict=True):
                _line(ax, of.filter(figure=name), width, look[of[0, "method"]])
        for title, ax in zip(columns.values(), axes, strict=True):
            name_axes(ax, "step", title)
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
    value, stretches = pl.col("value"), runs.sort("stretch", "run").group_by("stretch", maintain_order=True)
    means = stretches.agg(runs=pl.len(), mean=value.mean(), sd=value.std(ddof=0))
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
    last = (pl.col("step") + pl.col("steps")).max().over("run", "fold")
    still = pl.col("step") + pl.col("steps") > 0.9 * last
    figures = ["positive", "negative", "misranked", "age"]

    def mean(name: str) -> pl.Expr:
        weights = pl.when(pl.col(name).is_not_null()).then(pl.col("steps"))
        return ((pl.col(name) * weights).sum() / weights.sum()).fill_nan(None).alias(name)

    done = _done(trials)
    empty = traces.lazy().head(0).join(done.clear().lazy(), on="run").collect()
    every = pl.concat([empty, *_of_methods(done, traces, lambda steps: steps.filter(still))])
    versions = pl.col("version").max() + 1
    runs = every.group_by(*METHOD_KEYS, "run", maintain_order=True).agg(*map(mean, figures), versions=versions)
    return runs.group_by(METHOD_KEYS, maintain_order=True).agg(
        pl.len().alias("runs"),
        pl.col(figures).mean(),
        pl.col(figures).std().name.suffix("_std"),
        pl.col("versions").max(),
    )


def _done(trials: pl.DataFrame) -> pl.DataFrame:
    """The finished runs, with their methods."""
    done = trials.filter(pl.col("status") == "done").select("run")
    return with_methods(trials).join(done, on="run", how="semi").select("run", *METHOD_KEYS)


def _of_methods(
    runs: pl.DataFrame,
    traces: pl.DataFrame | pl.LazyFrame,
    summarised: Callable[[pl.DataFrame], pl.DataFrame],
) -> Iterator[pl.DataFrame]:
    """Yield a summary of each method's steps, if its runs have any."""
    for method in runs.sort(*METHOD_KEYS, "run").partition_by(METHOD_KEYS, maintain_order=True):
        parts = []
        for block in method.iter_slices(BLOCK):
            steps = traces.lazy().filter(pl.col("run").is_in(block["run"].to_list())).collect(engine="streaming")
            if len(steps):
                parts.append(summarised(steps.join(block, on="run").sort(*METHOD_KEYS, "run", "fold", "step")))
        if parts:
            yield pl.concat(parts)


def _end_table(rows: pl.DataFrame) -> Table:
    """Lay out the rows of `at_the_end`, a section per ranker."""
    of_index = OF_INDEX if rows["versions"].count() else ()
    return columns.table_by_family(rows, [*AT_THE_END, *of_index, columns.text("runs")], caption=words.AT_THE_END)


def _spread(head: str, name: str, form: str) -> columns.Column:
    """Declare a column of a mean and its deviation."""
    mean, std = columns.number(head, form, name), columns.number(head, form, f"{name}_std")
    deviation = known("± {}".format)
    return columns.Column(head, lambda row: Cell(mean.of(row), deviation(std.of(row)) or ""))


AT_THE_END = (
    columns.text("method"),
    _spread("mean score: positives", "positive", ".2f"),
    _spread("negatives", "negative", ".2f"),
    _spread("misranked", "misranked", ".1%"),
)
OF_INDEX = (columns.text("versions of the index", "versions"), _spread("its age (steps)", "age", ".0f"))
