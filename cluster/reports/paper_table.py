"""Compares a paper's figures with those of a study that repeats its experiment, in the paper's layout."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import polars as pl
from pydantic import ValidationError

from pyrite.cluster.config.refusals import refusal
from pyrite.cluster.config.schema import FIGURE, PublishedConfig
from pyrite.cluster.output.methods import METHOD, items_of, with_methods
from pyrite.cluster.reports.report import Cell, Part, Section, Table, items
from pyrite.cluster.reports.result_sections import cell, origin_name
from pyrite.cluster.statistics.convergence import convergence


def read_published(design: Mapping[str, Any] | None) -> PublishedConfig | None:
    """Read the figures of the paper in an experiment's file; None if it has none. Damaged ones are refused."""
    content = (design or {}).get("published")
    try:
        return None if content is None else PublishedConfig.model_validate(content)
    except ValidationError as error:
        raise refusal(error, config="study") from None


def paper_section(
    published: PublishedConfig | None, trials: pl.DataFrame, summary: pl.DataFrame, given: Sequence[str] = ()
) -> list[Section]:
    """Compare a study with its paper: figures, findings, and differences; nothing without a paper."""
    if published is None:
        return []
    layout = PaperLayout(published, summary, trials)
    baseline = baseline_of(summary)
    explained = f"mark what differs from {baseline}" if baseline else "are explained above"
    rate = " The rate is the convergence rate, which is explained below." if published.convergence else ""
    text = (
        "“Paper” is what the paper prints, with its marks. “Here” is the mean over this study's runs ± their sample "
        f"standard deviation; its marks {explained}, and unlike the paper's its p values are adjusted for the number "
        f"of comparisons. Methods that the paper does not have come last.{rate}"
    )
    table = Table(layout.head, layout.rows(), caption=f"the paper's figures; here: {layout.here}")
    differs = [*published.differs, *([f"This study was run with {shlex.join(given)}."] if given else [])]
    findings: list[Part] = ["What the paper found:", items(published.says)] if published.says else []
    changes: list[Part] = ["What differs from the paper:", items(differs)] if differs else []
    return [Section(f"Compared with {published.source}", [*findings, table, text, *changes])]


def printed(text: str) -> tuple[str, str, str]:
    """Split a figure such as ".1239 ± .011 *†" into mean, deviation and marks, with the paper's decimal places."""
    match = re.fullmatch(FIGURE, text)
    if match is None:
        raise ValueError(f"{text!r} is no figure")
    mean, std, marks = match.groups("")
    return mean, std, marks


class PaperLayout:
    """The table: a section per collection, a row per method; each column has the paper's figure and this study's.

    If the columns are rankers, all figures are of one measure. If they are measures, each may have a separate origin,
    and rankers of several checkpoints are separate rows.
    """

    def __init__(self, published: PublishedConfig, summary: pl.DataFrame, trials: pl.DataFrame) -> None:
        self.published = published
        self.measure, self.origin = measure, origin = summary.select("measure", "candidates").row(0)
        if published.measures:
            parts = [(paper, *ours.rpartition(":")) for paper, ours in published.measures.items()]
            self.columns = [
                PaperColumn(paper, None, name, named or origin, bool(named)) for paper, named, _, name in parts
            ]
        else:
            present = {paper: name for paper, name in published.rankers.items() if name in summary["ranker"]}
            rankers = (present or published.rankers).items()
            self.columns = [PaperColumn(paper, name, measure, origin) for paper, name in rankers]
        summary = summary.filter(pl.col("ranker") != "bm25")
        self.summary = {_place(row): row for row in summary.iter_rows(named=True)}
        self.rates = {_place(row): row["rate"] for row in convergence(trials)[0].iter_rows(named=True)}
        self.baseline = "baseline_" if baseline_of(summary) else ""
        self.several = bool(published.measures) and summary["ranker"].n_unique() > 1
        self.matched = {name: self._rows_of(ours) for name, ours in map_methods(published, trials).items()}

    @property
    def here(self) -> str:
        """The measures and origins of the study's figures."""
        if not self.published.measures:
            return f"{self.measure}, {origin_name(self.origin)}"
        parts = [] if all(of.named for of in self.columns) else [origin_name(self.origin)]
        return ", ".join(parts + [f"“{of.title}” is {of.measure} of {of.origin}" for of in self.columns if of.named])

    @property
    def head(self) -> list[str]:
        """Titles of the columns."""
        kinds = ["", " rate"] if self.published.convergence else [""]
        titles = [f"{of.title}{kind}, {whose}" for of in self.columns for kind in kinds for whose in ("paper", "here")]
        return ["method", *titles, "runs"]

    def rows(self) -> Iterator[Sequence[object] | str]:
        """The rows, each section under its title."""
        collections = sorted({collection for collection, *_ in self.summary})
        for paper, here in map_collections(self.published, collections):
            yield f"{paper}; here {here}"
            shown = {of.ranker for of in self.columns}
            ours = [(r, m) for c, r, m, *_ in self.summary if c == here and (r in shown or None in shown)]
            present = self._rows_of(ours)
            theirs = {method for methods in self.matched.values() for method in methods}
            for name in self.published.methods:
                for method in [m for m in self.matched[name] if m in present] or [(None, "")]:
                    yield self._row(paper, here, name, *method)
            for method in present:
                if method not in theirs:
                    yield self._row(paper, here, "", *method)

    def _rows_of(self, methods: Iterable[tuple[str, str]]) -> list[tuple[str | None, str]]:
        """The keys of rows: the method and, unless columns are rankers, the ranker."""
        return list(dict.fromkeys((ranker if self.published.measures else None, method) for ranker, method in methods))

    def _row(self, paper: str, here: str, name: str, ranker: str | None, method: str) -> list[object]:
        """The row of the paper's method `name` and the study's that matches it; either may be missing."""
        ours = f"{ranker} · {method}" if self.several and ranker else method
        cells: list[object] = [Cell(name or ours, below=ours if name and method else "")]
        counts = set()
        for of in self.columns:
            place = (here, of.ranker or ranker or "", method, of.origin, of.measure)
            row = self.summary.get(place)
            printed_here = self.published.figures.get(paper, {})
            figures = {method: columns[of.title] for method, columns in printed_here.items() if of.title in columns}
            cells += [_as_printed(figures.get(name), figures.values()), cell(row, self._best(of, here), self.baseline)]
            if self.published.convergence:
                rate = self.published.convergence.get(paper, {}).get(name, {}).get(of.title)
                cells += [_share(rate), _share(self.rates.get(place))]
            counts |= {row["runs"]} if row else set()
        return [*cells, "/".join(map(str, sorted(counts))) or None]

    def _best(self, of: PaperColumn, collection: str) -> float | None:
        means = [
            row["mean"]
            for (c, ranker, _, *figure), row in self.summary.items()
            if (c, *figure) == (collection, of.origin, of.measure) and of.ranker in (None, ranker)
        ]
        return max((mean for mean in means if mean is not None), default=None)


@dataclass(frozen=True)
class PaperColumn:
    """A column of a paper's table, and what the study has for it."""

    title: str
    ranker: str | None  # None if it varies by row
    measure: str
    origin: str
    named: bool = False  # whether the paper's file names the origin, rather than taking the leading one


def baseline_of(summary: pl.DataFrame) -> str | None:
    """The method that is the study's baseline; None if it has none."""
    named = summary["baseline"].drop_nulls() if "baseline" in summary.columns else pl.Series([], dtype=pl.String)
    return None if named.is_empty() else str(named[0])


def _place(row: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    return row["collection"], row["ranker"], row["method"], row["candidates"], row["measure"]


def _as_printed(text: str | None, column: Iterable[str]) -> Cell:
    """A figure of the paper, bold if it is the best of its column."""
    if text is None:
        return Cell(None)
    mean, std, marks = printed(text)
    best = float(mean) == max(float(printed(other)[0]) for other in column)
    return Cell(mean, f"± {std}" if std else "", marks, best)


def _share(rate: float | None) -> str | None:
    return None if rate is None else f"{rate:.0%}"


def map_methods(published: PublishedConfig, trials: pl.DataFrame) -> dict[str, list[tuple[str, str]]]:
    """Find the rankers and methods of a study that match each of the paper's methods, by its name; none for some.

    A method is identified by key=value pairs, of its parts or of its runs' overrides (`PublishedConfig`). If several
    of the paper's match, it is the one with the most pairs.
    """
    named = with_methods(trials).select("run", "method", _ranker="ranker").join(trials, on="run").sort("run")
    known: dict[tuple[str, str], dict[str, str]] = {}
    every = named.unique(["_ranker", "method"], keep="first", maintain_order=True).sort("method", "_ranker")
    for row in every.iter_rows(named=True):
        overrides = dict(text.split("=", 1) for text in shlex.split(row["overrides"]) if "=" in text)
        known[row["_ranker"], row["method"]] = overrides | {name: row[name] or "-" for name in (*METHOD, "objective")}
    wanted = {name: dict(text.split("=", 1) for text in pairs.split()) for name, pairs in published.methods.items()}

    def matches(name: str, ours: Mapping[str, str]) -> int:
        pairs = wanted[name]
        return len(pairs) * all(key in ours and _holds(ours[key], value) for key, value in pairs.items())

    most = {method: max((matches(name, ours) for name in wanted), default=0) for method, ours in known.items()}
    return {
        name: [method for method, ours in known.items() if 0 < matches(name, ours) == most[method]] for name in wanted
    }


def _holds(ours: str, wanted: str) -> bool:
    """Whether a value matches a paper's: its items, their number, or its text, `*` for any part."""
    named, items = items_of(wanted), items_of(ours)
    if set(named) == {"_"}:
        return len(items) == len(named)
    if "*" in wanted:
        return fnmatchcase(ours.lower(), wanted)
    return set(named) <= set(items)


def map_collections(published: PublishedConfig, collections: Sequence[str]) -> list[tuple[str, str]]:
    """Pair each collection of the paper with the study's that matches it.

    If the study has none of those, each of its collections is paired with every one of the paper.
    """
    pairs = [
        (paper, here)
        for paper, name in published.collections.items()
        for here in collections
        if here == name or here.startswith(f"{name} (")  # several contents of one name
    ]
    return pairs or [(paper, here) for paper in published.collections for here in collections]
