"""Compares a paper's figures with those of a study that repeats its experiment, in the paper's layout.

    python -m benchmarks.published OUT [PAPER]

OUT is the folder of a study, and PAPER a file of `benchmarks/papers` without its ending, by default that of the study's
experiment. The table is printed, and the page `paper.html`, with the paper's findings and what differs, is written to
the folder.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import yaml
from pydantic import Field, ValidationError
from rich.console import Console

from pyrite.analysis.methods import METHOD, items_of, with_methods
from pyrite.analysis.reports.report import Cell, Part, Report, Section, Table, items
from pyrite.analysis.reports.result_sections import cell, origin_name
from pyrite.analysis.reports.study_report import compared
from pyrite.analysis.statistics.convergence import convergence
from pyrite.analysis.statistics.summary import baseline_of, marks
from pyrite.cluster.config.refusals import refusal
from pyrite.cluster.config.schema.kinds import Config
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.reports.study_results import read_results
from pyrite.ranking.errors import BadInput

SMALLEST = ["{study} cohen2019_table1"]
PAPERS = Path(__file__).parent / "papers"
FIGURE = r"^(\d*\.\d+)(?: ± (\d*\.\d+))?(?: ([*†]+))?$"
"""A figure as papers print it: mean, deviation and marks. Some measures, such as bits, exceed 1."""
COLUMN = r"^([^:]+:)?[^:]+$"
"""A measure, optionally with the origin of its candidates."""


class Published(Config):
    """The figures that a paper reports: a file of `benchmarks/papers`.

    `figures` and `convergence` are laid out as in the paper: by collection, method and column, under the paper's
    names. The columns are `measures` if there are any, otherwise `rankers`. These, `collections` and `methods` map the
    paper's names to the study's. A method is given as key=value pairs of `summary.csv` or of overrides: a list by the
    items that it holds, `[_,_]` for any list of two, and `*` for any part of a text. A column of `measures` is a
    measure over the study's first origin (`R@1`), or an origin and a measure over it (`full:R@1`, `embeddings:MI`).
    """

    source: str
    collections: dict[str, str]
    rankers: dict[str, str] = {}
    measures: dict[str, Annotated[str, Field(pattern=COLUMN)]] = {}
    methods: dict[str, str]
    figures: dict[str, dict[str, dict[str, Annotated[str, Field(pattern=FIGURE)]]]] = {}
    convergence: dict[str, dict[str, dict[str, Annotated[float, Field(ge=0, le=1)]]]] = {}
    says: list[str] = []
    differs: list[str] = []


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("paper", nargs="?")
    chosen = parser.parse_args(arguments)
    storage, console = Storage(chosen.out), Console()
    results = read_results(storage)
    published = read_published(chosen.paper or str(results.options.get("experiment")))
    comparison, summary = compared(results)
    section = paper_section(published, comparison.trials, summary, results.config.get("overrides", ()))
    console.print(*(part for part in section.parts if isinstance(part, Table)))
    storage.write("paper.html", Report(published.source, [section]).to_html().encode())
    console.print(f"page: {storage.shown('paper.html')}", soft_wrap=True)


def read_published(name: str) -> Published:
    """Read the figures of a paper. A paper that is not there, and a damaged file, are refused."""
    file = PAPERS / f"{name}.yaml"
    if not file.is_file():
        known = ", ".join(sorted(path.stem for path in PAPERS.glob("*.yaml")))
        raise BadInput(f"there are no figures of {name}", PAPERS, f"choose one of {known}")
    try:
        return Published.model_validate(yaml.safe_load(file.read_text("utf-8")))
    except ValidationError as error:
        raise refusal(error, config="study") from None


def paper_section(
    published: Published, trials: pl.DataFrame, summary: pl.DataFrame, given: Sequence[str] = ()
) -> Section:
    """Compare a study with its paper: figures, findings, and differences."""
    layout = PaperLayout(published, summary, trials)
    baseline = baseline_of(summary)
    explained = f"mark what differs from {baseline}" if baseline else "are explained above"
    rate = " The rate is the convergence rate, which the study's report explains." if published.convergence else ""
    text = (
        "“Paper” is what the paper prints, with its marks. “Here” is the mean over this study's runs ± their sample "
        f"standard deviation; its marks {explained}, and unlike the paper's its p values are adjusted for the number "
        f"of comparisons. Methods that the paper does not have come last.{rate}"
    )
    table = Table(layout.head, layout.rows(), caption=f"the paper's figures; here: {layout.here}")
    differs = [*published.differs, *([f"This study was run with {shlex.join(given)}."] if given else [])]
    findings: list[Part] = ["What the paper found:", items(published.says)] if published.says else []
    changes: list[Part] = ["What differs from the paper:", items(differs)] if differs else []
    return Section(f"Compared with {published.source}", [*findings, table, text, *changes])


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

    def __init__(self, published: Published, summary: pl.DataFrame, trials: pl.DataFrame) -> None:
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
        summary = summary.with_columns(marks=marks("baseline_")) if baseline_of(summary) else summary
        self.summary = {_place(row): row for row in summary.iter_rows(named=True)}
        self.rates = {_place(row): row["rate"] for row in convergence(trials)[0].iter_rows(named=True)}
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
            cells += [_as_printed(figures.get(name), figures.values()), cell(row, self._best(of, here))]
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


def map_methods(published: Published, trials: pl.DataFrame) -> dict[str, list[tuple[str, str]]]:
    """Find the rankers and methods of a study that match each of the paper's methods, by its name; none for some.

    A method is identified by key=value pairs, of its parts or of its runs' overrides (`Published`). If several
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


def map_collections(published: Published, collections: Sequence[str]) -> list[tuple[str, str]]:
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


if __name__ == "__main__":
    main()
