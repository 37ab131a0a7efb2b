"""A paper's own figures beside those of a study that repeats its experiment, in the paper's layout."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl
from pydantic import ValidationError

from cluster.schema import FIGURE, Published, refusal
from cluster.studies.methods import METHOD, items_of, with_methods
from cluster.studies.page import Markup, markup, table, tag
from cluster.studies.report_tables import cell

Row = dict[str, Any]


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
) -> Iterator[Markup]:
    """The section of a report that holds a study against its paper: figures, findings, and what differs.

    Args:
        published: what the paper reports.
        trials: the frame of `trials.parquet`.
        summary: the frame of `cluster.studies.analysis.summarise`.
        rates: the frame of `cluster.studies.convergence.convergence`.
        given: what the user changed of the experiment.
    """
    measure, origin = summary.row(0, named=True)["measure"], summary.row(0, named=True)["candidates"]
    leading = {"measure": measure, "candidates": origin}
    layout = _Layout(published, summary.filter(**leading), rates.filter(**leading), matches(published, trials))
    yield tag("h2", f"Beside {published.source}")
    if published.says:
        yield tag("p", "What the paper found:")
        yield tag("ul", *(tag("li", line) for line in published.says))
    yield table(layout.head, layout.rows(), caption=f"the paper's figures; here: {measure} over {origin} candidates")
    yield tag(
        "p",
        "“Paper” is what the paper prints, with its marks. “Here” is the mean over this study's runs ± their sample "
        "standard deviation; its marks are explained above, and unlike the paper's its p values are adjusted for the "
        "number of comparisons. Methods that the paper does not have stand last."
        + (" The rate is the convergence rate, of which more below." if published.convergence else ""),
    )
    changed = [f"This study was run with {shlex.join(given)}."] if given else []
    if published.differs or changed:
        yield tag("p", "What differs from the paper:")
        yield tag("ul", *(tag("li", line) for line in [*published.differs, *changed]))


def matches(published: Published, trials: pl.DataFrame) -> dict[str, list[str]]:
    """The methods of a study that stand for each of the paper's, by the paper's name, none for some.

    A method is told by key=value pairs, of its parts or of its runs' overrides. Of a list (`policy.learn`) it must
    hold the items that are named.
    """
    methods = with_methods(trials).select("run", "method").join(trials, on="run").sort("run")
    known: dict[str, dict[str, str]] = {}
    for row in methods.unique("method", keep="first", maintain_order=True).sort("method").iter_rows(named=True):
        overrides = dict(text.split("=", 1) for text in shlex.split(row["overrides"]) if "=" in text)
        known[row["method"]] = overrides | {name: row[name] or "-" for name in METHOD}

    def stands_for(own: Mapping[str, str], wanted: str) -> bool:
        pairs = dict(text.split("=", 1) for text in wanted.split())
        return all(key in own and set(items_of(value)) <= set(items_of(own[key])) for key, value in pairs.items())

    return {
        name: [method for method, own in known.items() if stands_for(own, wanted)]
        for name, wanted in published.methods.items()
    }


def stand_ins(published: Published, collections: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of a collection of the paper and the study's that stands for it.

    Where the study has none of those that should, whatever it has instead stands for every one.
    """
    pairs = [
        (paper, here)
        for paper, name in published.collections.items()
        for here in collections
        if here == name or here.startswith(f"{name} (")  # several contents of one name
    ]
    return pairs or [(paper, here) for paper in published.collections for here in collections]


def printed(text: str) -> tuple[str, str, str]:
    """The mean, deviation and marks of a figure such as ".1239 ± .011 *†", with the paper's own places."""
    found = re.fullmatch(FIGURE, text)
    if found is None:
        raise ValueError(f"{text!r} is no figure")
    mean, std, marks = found.groups("")
    return mean, std, marks


class _Layout:
    """The table: a section a collection, a row a method, and of each ranker the paper's figure and this study's.

    Args:
        published: what the paper reports.
        summary, rates: of one measure over one origin.
        matched: the study's methods by the paper's names.
    """

    def __init__(
        self, published: Published, summary: pl.DataFrame, rates: pl.DataFrame, matched: dict[str, list[str]]
    ) -> None:
        self.published, self.matched = published, matched
        self.summary = {(r["collection"], r["ranker"], r["method"]): r for r in summary.iter_rows(named=True)}
        self.rates = {(r["collection"], r["ranker"], r["method"]): r["rate"] for r in rates.iter_rows(named=True)}
        self.rankers = {
            paper: name for paper, name in published.rankers.items() if name in summary["ranker"]
        } or published.rankers

    @property
    def head(self) -> list[str]:
        """Titles of the columns."""
        kinds = ["", " rate"] if self.published.convergence else [""]
        columns = [
            f"{ranker}{kind}, {whose}" for ranker in self.rankers for kind in kinds for whose in ("paper", "here")
        ]
        return ["method", *columns, "runs"]

    def rows(self) -> Iterator[list[object] | Markup]:
        """The rows, each section under its title."""
        collections = sorted({collection for collection, _, _ in self.summary})
        for paper, here in stand_ins(self.published, collections):
            yield markup(f"{paper}; here {here}")
            own = dict.fromkeys(m for c, r, m in self.summary if c == here and r in self.rankers.values())
            theirs = dict.fromkeys(method for methods in self.matched.values() for method in methods)
            for name in self.published.methods:
                for method in [m for m in self.matched[name] if m in own] or [""]:
                    yield self._row(paper, here, name, method)
            for method in own:
                if method not in theirs:
                    yield self._row(paper, here, "", method)

    def _row(self, paper: str, here: str, name: str, method: str) -> list[object]:
        """A row of the paper's method `name` and the study's that stands for it; either may be missing."""
        below = Markup(f"<br>{tag('span', method, class_='soft')}") if name and method else Markup("")
        cells: list[object] = [Markup(f"{markup(name or method)}{below}")]
        counts = set()
        for ranker, ours in self.rankers.items():
            row = self.summary.get((here, ours, method))
            figures = {m: of[ranker] for m, of in self.published.figures.get(paper, {}).items() if ranker in of}
            cells += [_as_printed(figures.get(name), figures.values())]
            cells += [cell(row, self._best(here, ours))]
            if self.published.convergence:
                rate = self.published.convergence.get(paper, {}).get(name, {}).get(ranker)
                cells += [_share(rate), _share(self.rates.get((here, ours, method)))]
            counts |= {row["runs"]} if row else set()
        return [*cells, "/".join(map(str, sorted(counts))) or None]

    def _best(self, collection: str, ranker: str) -> float | None:
        means = [row["mean"] for (c, r, _), row in self.summary.items() if (c, r) == (collection, ranker)]
        return max((mean for mean in means if mean is not None), default=None)


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
