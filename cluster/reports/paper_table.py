"""Sets a paper's own figures beside those of a study that repeats its experiment, in the paper's layout."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from pydantic import ValidationError

from cluster.config.refusals import refusal
from cluster.config.schema import FIGURE, Published
from cluster.reports.html_tables import cell
from cluster.reports.page import Markup, markup, rendered, table, tag
from cluster.reports.paper_mapping import map_collections, map_methods
from cluster.reports.summary import marks


def read_published(design: Mapping[str, Any] | None) -> Published | None:
    """What an experiment's file says of its paper; None where it says nothing.

    Raises:
        BadInput: where that is damaged.
    """
    content = (design or {}).get("published")
    try:
        return None if content is None else Published.model_validate(content)
    except ValidationError as error:
        raise refusal(error, config="study") from None


def beside(
    published: Published, trials: pl.DataFrame, summary: pl.DataFrame, rates: pl.DataFrame, given: Sequence[str] = ()
) -> Markup:
    """The section of a report that holds a study against its paper: figures, findings, and what differs.

    Args:
        published: what the paper reports.
        trials: the frame of `trials.parquet`.
        summary: the frame of `cluster.reports.summary.summarise`.
        rates: the frame of `cluster.reports.convergence.convergence`.
        given: what the user changed of the experiment.
    """
    measure, origin = summary.row(0, named=True)["measure"], summary.row(0, named=True)["candidates"]
    layout = Layout(published, measure, origin, summary, rates, map_methods(published, trials))
    changed = [f"This study was run with {shlex.join(given)}."] if given else []
    return rendered(
        "paper_table.html",
        published=published,
        table=table(layout.head, layout.rows(), caption=f"the paper's figures; here: {layout.here}"),
        baseline=baseline_of(summary),
        differs=[*published.differs, *changed],
    )


def printed(text: str) -> tuple[str, str, str]:
    """The mean, deviation and marks of a figure such as ".1239 ± .011 *†", with the paper's own places."""
    found = re.fullmatch(FIGURE, text)
    if found is None:
        raise ValueError(f"{text!r} is no figure")
    mean, std, marks = found.groups("")
    return mean, std, marks


class Layout:
    """The table: a section a collection, a row a method, and of each column the paper's figure and this study's.

    Where the columns are rankers, all figures are of one measure. Where they are measures, each may have an origin of
    its own, and rankers of several checkpoints are rows of their own.

    Args:
        published: what the paper reports.
        measure: the leading one, for columns that are rankers.
        origin: the leading one, for columns that name none.
        summary, rates: over all origins.
        matched: the study's rankers and methods by the paper's names.
    """

    def __init__(
        self,
        published: Published,
        measure: str,
        origin: str,
        summary: pl.DataFrame,
        rates: pl.DataFrame,
        matched: dict[str, list[tuple[str, str]]],
    ) -> None:
        self.published = published
        own = {paper: name for paper, name in published.rankers.items() if name in summary["ranker"]}
        rankers = own or published.rankers
        self.columns = [_of_measure(paper, ours, origin) for paper, ours in published.measures.items()] or [
            Column(paper, name, measure, origin) for paper, name in rankers.items()
        ]
        self.measure, self.origin = measure, origin
        summary = summary.filter(pl.col("ranker") != "bm25")
        self.summary = {_place(row): row for row in summary.iter_rows(named=True)}
        self.rates = {_place(row): row["rate"] for row in rates.iter_rows(named=True)}
        self.baseline = "baseline_" if baseline_of(summary) else ""
        self.several = bool(published.measures) and summary["ranker"].n_unique() > 1
        self.matched = {name: self._told(ours) for name, ours in matched.items()}

    @property
    def here(self) -> str:
        """What the study's own figures are of: where a column names its origin, that."""
        if not self.published.measures:
            return f"{self.measure} over {self.origin} candidates"
        led = not all(of.named for of in self.columns)
        parts = [f"over {self.origin} candidates"] if led else []
        return ", ".join(parts + [f"“{of.title}” is {of.measure} of {of.origin}" for of in self.columns if of.named])

    @property
    def head(self) -> list[str]:
        """Titles of the columns."""
        kinds = ["", " rate"] if self.published.convergence else [""]
        titles = [f"{of.title}{kind}, {whose}" for of in self.columns for kind in kinds for whose in ("paper", "here")]
        return ["method", *titles, "runs"]

    def rows(self) -> Iterator[list[object] | Markup]:
        """The rows, each section under its title."""
        collections = sorted({collection for collection, *_ in self.summary})
        for paper, here in map_collections(self.published, collections):
            yield markup(f"{paper}; here {here}")
            shown = {of.ranker for of in self.columns}
            own = self._told([(r, m) for c, r, m, *_ in self.summary if c == here and (r in shown or None in shown)])
            theirs = dict.fromkeys(method for methods in self.matched.values() for method in methods)
            for name in self.published.methods:
                for method in [m for m in self.matched[name] if m in own] or [(None, "")]:
                    yield self._row(paper, here, name, *method)
            for method in own:
                if method not in theirs:
                    yield self._row(paper, here, "", *method)

    def _told(self, methods: Iterable[tuple[str, str]]) -> list[tuple[str | None, str]]:
        """What rows are told apart by: the method and, where no column says it, the ranker."""
        return list(dict.fromkeys((ranker if self.published.measures else None, method) for ranker, method in methods))

    def _row(self, paper: str, here: str, name: str, ranker: str | None, method: str) -> list[object]:
        """A row of the paper's method `name` and the study's that stands for it; either may be missing."""
        ours = f"{ranker} · {method}" if self.several and ranker else method
        below = Markup(f"<br>{tag('span', ours, class_='soft')}") if name and method else Markup("")
        cells: list[object] = [Markup(f"{markup(name or ours)}{below}")]
        counts = set()
        for of in self.columns:
            place = (here, of.ranker or ranker or "", method, of.origin, of.measure)
            row = self.summary.get(place)
            if row is not None and self.baseline:
                row = row | {"marks": marks(row, self.baseline)}
            printed_here = self.published.figures.get(paper, {})
            figures = {method: columns[of.title] for method, columns in printed_here.items() if of.title in columns}
            cells += [_as_printed(figures.get(name), figures.values())]
            cells += [cell(row, self._best(of, here))]
            if self.published.convergence:
                rate = self.published.convergence.get(paper, {}).get(name, {}).get(of.title)
                cells += [_share(rate), _share(self.rates.get(place))]
            counts |= {row["runs"]} if row else set()
        return [*cells, "/".join(map(str, sorted(counts))) or None]

    def _best(self, of: Column, collection: str) -> float | None:
        """The best mean of a column."""
        means = [
            row["mean"]
            for (c, ranker, _, *figure), row in self.summary.items()
            if (c, *figure) == (collection, of.origin, of.measure) and of.ranker in (None, ranker)
        ]
        return max((mean for mean in means if mean is not None), default=None)


@dataclass(frozen=True)
class Column:
    """A column of a paper's table.

    Args:
        title: the paper's.
        ranker: the study's; None where each row has its own.
        measure: the study's.
        origin: of its candidates.
        named: whether the paper's file names the origin, rather than taking the leading one.
    """

    title: str
    ranker: str | None
    measure: str
    origin: str
    named: bool = False


def _of_measure(title: str, text: str, leading: str) -> Column:
    origin, _, measure = text.rpartition(":")
    return Column(title, None, measure, origin or leading, bool(origin))


def baseline_of(summary: pl.DataFrame) -> str | None:
    """The method that a study's baseline is, None where it has none."""
    named = summary["baseline"].drop_nulls() if "baseline" in summary.columns else pl.Series([], dtype=pl.String)
    return None if named.is_empty() else str(named[0])


def _place(row: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    return row["collection"], row["ranker"], row["method"], row["candidates"], row["measure"]


def _as_printed(text: str | None, column: Iterable[str]) -> Markup:
    """A figure of the paper, bold where it is the best of its column."""
    if text is None:
        return markup(None)
    mean, std, marks = printed(text)
    best = float(mean) == max(float(printed(other)[0]) for other in column)
    spread = tag("small", f"± {std}" if std else "")
    return Markup(f"{tag('b', mean) if best else mean} {spread}{tag('sup', marks)}")


def _share(rate: float | None) -> str | None:
    return None if rate is None else f"{rate:.0%}"
