"""Draws the comparison of a study's methods: differences with intervals next to costs, and quality against cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from pyrite.analysis.reports.canvas import INK, Look, grid, legend, looks, name_axes
from pyrite.analysis.reports.labels import broken, distinct_names, title_of
from pyrite.analysis.reports.result_sections import origin_name
from pyrite.analysis.statistics.verdict import Verdict


def differences_figure(verdicts: Sequence[Verdict]) -> Figure | None:
    """Draw each method's difference from the reference with its interval, and the documents that it read; None if
    nothing is tested.
    """
    shown = [verdict for verdict in verdicts if verdict.tests]
    if not shown:
        return None
    most = max(len(verdict.tests) for verdict in shown)
    figure, axes, styles = _panels(shown, verdicts, ["", ""], 0.9 + 0.28 * most)
    for verdict, forest, costs in zip(shown, axes[::2], axes[1::2], strict=True):
        _forest(verdict, forest, costs, styles)
    return figure


def _forest(verdict: Verdict, forest: Axes, costs: Axes, styles: Mapping[str, Look]) -> None:
    """Draw the differences from one reference, and the documents in the panel next to them."""
    names = distinct_names(row["method"] for row in verdict.rows)
    rows = sorted(verdict.rows, key=lambda row: row["mean"])
    tested = [row for row in rows if row["method"] in verdict.tests]
    for y, row in enumerate(tested):
        method, test = row["method"], verdict.tests[row["method"]]
        colour, marker = styles[method].colour, "D" if method == verdict.take else "o"
        forest.plot((test.low, test.high), (y, y), color=colour, lw=2)
        forest.plot(test.difference, y, color=colour, marker=marker, ms=6)
        costs.barh(y, row["documents_read"] or 0, color=colour, height=0.5)
    forest.axvline(0, color=INK, lw=0.8, ls="--")
    forest.set_yticks(range(len(tested)), [broken(names[row["method"]], 40) for row in tested])
    costs.set_yticks(range(len(tested)), [""] * len(tested))
    forest.set_ylim(-0.6, len(tested) - 0.4)
    costs.set_ylim(-0.6, len(tested) - 0.4)
    reference = broken(names.get(verdict.reference, verdict.reference), 40)
    name_axes(forest, f"difference of {verdict.place['measure']} from {reference}", "")
    name_axes(costs, "documents read", "")
    costs.set_title("")


def quality_figure(verdicts: Sequence[Verdict]) -> Figure | None:
    """Draw the mean of each method against the documents that its runs read; None if these are not known."""
    known = [verdict for verdict in verdicts if len(_read(verdict)) > 1]
    if not known:
        return None
    figure, axes, styles = _panels(known, verdicts, [""], 2.4)
    for verdict, ax in zip(known, axes, strict=True):
        _quality(_read(verdict), ax, styles)
        name_axes(ax, "documents read, log scale", verdict.place["measure"])
    legend(figure, styles, {row["method"] for verdict in known for row in _read(verdict)}, lines=False)
    return figure


def _panels(
    shown: Sequence[Verdict], among: Sequence[Verdict], columns: Sequence[str], height: float
) -> tuple[Figure, Sequence[Axes], Mapping[str, Look]]:
    """Return a figure with a row of panels per verdict, and the look of each method."""
    figure, axes = grid([_title(verdict, among) for verdict in shown], list(columns), height)
    return figure, axes, looks(row["method"] for verdict in shown for row in verdict.rows)


def _read(verdict: Verdict) -> list[Mapping[str, Any]]:
    """Return the rows of a verdict whose documents are known."""
    return [row for row in verdict.rows if row["documents_read"]]


def _quality(rows: Sequence[Mapping[str, Any]], ax: Axes, styles: Mapping[str, Look]) -> None:
    """Draw the mean of each row, with its interval, against the documents."""
    for row in rows:
        look, x = styles[row["method"]], row["documents_read"]
        if row["ci_low"] is not None:
            ax.plot((x, x), (row["ci_low"], row["ci_high"]), color=look.colour, lw=1)
        ax.plot(x, row["mean"], color=look.colour, marker=look.marker, ms=6)
    ax.set_xscale("log")
    for formatted in (ax.xaxis.set_major_formatter, ax.xaxis.set_minor_formatter):
        formatted("{x:,.0f}")
    ax.xaxis.set_minor_locator(LogLocator(subs=(2, 5)))


def _title(verdict: Verdict, among: Sequence[Verdict]) -> str:
    """Return the title of a verdict's panel: its ranker, collection and candidates, if there are several."""
    place = verdict.place
    several = len({other.place["collection"] for other in among}) > 1
    return f"{title_of(place['ranker'], place['collection'], several)}, {origin_name(place['candidates'])}"
