"""Gives all figures of a study one look: a colour per method, panels by ranker and origin, PNG and SVG."""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from itertools import cycle, product
from typing import Any

import polars as pl

# A backend that a notebook names in the environment may be missing here, and matplotlib would refuse to be imported.
_backend = os.environ.pop("MPLBACKEND", None)
import matplotlib

if _backend is not None:
    os.environ["MPLBACKEND"] = _backend
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from pyrite.analysis.reports.labels import broken, by_family, distinct_names

# Okabe and Ito's colours, which people with any colour vision distinguish; without their yellow and black,
# one of which vanishes on a white page and the other on a dark one.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D46", "#7F7F7F")
STROKES = (("-", "o"), ("--", "s"), (":", "^"), ("-.", "D"))
INK = "#010203"  # text and axes; a page replaces it by its text colour, so that it is used for nothing else

DPI = 150
OTHER_SCRIPTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "Droid Sans Fallback", "Noto Sans Devanagari"),
    *("Noto Sans Thai", "Arial Unicode MS"),
)
"""Fonts for scripts that DejaVu Sans lacks."""

STYLE: dict[Any, Any] = {
    # Whatever a user's matplotlibrc has, such as usetex; the backend is chosen per figure.
    **{key: value for key, value in matplotlib.rcParamsDefault.items() if not key.startswith("backend")},
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "grid.color": "#8888884d",
    "grid.linewidth": 0.6,
    "svg.fonttype": "none",
    # Letters that the first font lacks are drawn with the next one; fonts that are not installed would be logged.
    "font.family": ["DejaVu Sans", *(font for font in OTHER_SCRIPTS if font in font_manager.get_font_names())],
    "text.parse_math": False,  # names may contain dollar signs
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color"),
        INK,
    ),
}


@dataclass(frozen=True)
class Look:
    """The style of a method in all figures of a study."""

    colour: str
    line: str
    marker: str


def looks(methods: Iterable[str]) -> dict[str, Look]:
    """Give each method a look, by the order of their names: eight colours, then also other strokes."""
    every = cycle(Look(colour, line, marker) for (line, marker), colour in product(STROKES, COLOURS))
    return dict(zip(_in_order(methods), every, strict=False))


def _in_order(names: Iterable[str]) -> list[str]:
    """Sort names, with numbers in them by value: bm25=9 before bm25=10."""

    def key(name: str) -> list[tuple[int, str]]:
        return [(int(part) if at % 2 else 0, part) for at, part in enumerate(re.split(r"([0-9]+)", name))]

    return sorted(set(names), key=key)


def grid(rows: Sequence[str], columns: Sequence[str], height: float) -> tuple[Figure, list[Axes]]:
    """Make a figure with one panel per row and column, titled by both; return it and its panels, row by row.

    A panel's height is in inches; all panels of a row together are 10 wide.
    """
    rows, columns = rows or ["no runs"], columns or [""]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10, 0.3 + height * len(rows)), layout="constrained", dpi=DPI)
        FigureCanvasAgg(figure)
        axes = figure.subplots(len(rows), len(columns), squeeze=False)
        for (row, column), ax in zip(product(rows, columns), axes.flat, strict=True):
            between = " · " if len(columns) < 3 else "\n"
            ax.set_title(between.join(filter(None, (row, column))), loc="left")
    return figure, list(axes.flat)


def family_grid(frame: pl.DataFrame, columns: Sequence[str]) -> tuple[Figure, list[tuple[pl.DataFrame, list[Axes]]]]:
    """Make a figure with a row of panels per collection and ranker; return it, and each one's rows and panels."""
    families = list(by_family(frame))
    figure, axes = grid([title for title, _ in families], columns, height=2.6)
    across = max(len(columns), 1)
    return figure, [(part, axes[across * row :][:across]) for row, (_, part) in enumerate(families)]


def name_axes(ax: Axes, x: str, y: str) -> None:
    """Label both axes in the style of all figures."""
    with matplotlib.rc_context(STYLE):
        ax.set_xlabel(x)
        ax.set_ylabel(y)


def label_ticks(axis: Axis, ticks: Sequence[float]) -> None:
    """Put ticks with labels on an axis, and no others."""
    axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_ticks([], minor=True)


def legend(figure: Figure, looks: Mapping[str, Look], present: Iterable[str], lines: bool = True) -> None:
    """Add one legend for all panels below them, and room for it: of lines, or of markers."""
    names = _in_order(present)
    if not names:
        return
    handles = []
    for look in map(looks.__getitem__, names):
        style: dict[str, Any] = {"lw": 2, "ls": look.line} if lines else {"ls": "", "marker": look.marker, "ms": 5}
        handles.append(Line2D([], [], color=look.colour, **style))
    labels = [broken(name, 120) for name in distinct_names(names).values()]
    columns = max(1, min(len(names), 125 // (max(map(len, labels)) + 6)))
    lines_of_text = sum(1 + label.count("\n") for label in labels)
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + 0.2 * -(-lines_of_text // columns) + 0.15)
    with matplotlib.rc_context(STYLE):
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


@contextmanager
def _drawing(more: Mapping[Any, Any] | None = None) -> Iterator[None]:
    """Draw in the style of all figures, without a warning for each letter that no font here has: a page shows it in
    the browser's."""
    with matplotlib.rc_context({**STYLE, **(more or {})}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph .* missing from", UserWarning)
        yield


def png(figure: Figure) -> bytes:
    """Render a figure as PNG, 1,500 pixels wide on white, without a date: the same figure, the same bytes."""
    out = io.BytesIO()
    figure.set_dpi(DPI)
    figure.set_facecolor("white")
    for text in figure.findobj(Text):
        text.set_parse_math(False)
    with _drawing():
        # Not by savefig, here and below, which draws everything twice if a figure is laid out.
        FigureCanvasAgg(figure).print_png(out, metadata={"Software": None})
    figure.set_layout_engine("none")  # a page draws it again, and laying it out is a third of the work
    return out.getvalue()


def svg(figure: Figure, name: str) -> str:
    """Render a figure as an <svg> element for a page, its ink in the page's text colour."""
    out = io.StringIO()
    figure.set_facecolor("none")
    figure.set_dpi(DPI)  # of images in it
    with _drawing({"svg.hashsalt": name}):
        FigureCanvasSVG(figure).print_svg(out, metadata={"Date": None, "Creator": None})
    opening, drawn = out.getvalue().partition("<svg")[2].split(">", 1)
    opening = re.sub(r' (width|height)="[^"]*"', "", opening)  # the page sets the width, viewBox the shape
    drawn = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->\s*", "", drawn, flags=re.DOTALL)
    # A hundredth of a point is enough, and half the bytes. Only within tags: labels are numbers too.
    drawn = re.sub(r"<[^>]+>", lambda tag: re.sub(r"(\d\.\d\d)\d+", r"\1", tag[0]), drawn)
    drawn = drawn.replace('id="figure_1"', f'id="{escape(name)}-figure"')
    return f'<svg{opening} role="img" aria-label="{escape(name)}">{drawn}'.replace(INK, "currentColor")


def panels(figure: Figure) -> list[tuple[float, float, float, float]]:
    """Return the parts that a narrow page shows one below the other: panels, and legends last; none if there is one.

    The figure has been laid out (`png`). Each part is x, y, width and height in the coordinates of `svg`.
    """
    renderer = FigureCanvasAgg(figure).get_renderer()
    mains = [ax for ax in figure.axes if ax.get_subplotspec() is not None and not hasattr(ax, "_colorbar")]
    if len(mains) < 2:
        return []
    with _drawing():
        boxes: list[Any] = [ax.get_tightbbox(renderer) for ax in mains]
        for ax in figure.axes:
            if ax not in mains:  # a colour bar belongs to the panel on its left
                box: Any = ax.get_tightbbox(renderer)
                near = min(range(len(boxes)), key=lambda i: abs(boxes[i].x1 - box.x0) + abs(boxes[i].y0 - box.y0))
                boxes[near] = Bbox.union([boxes[near], box])
        boxes += [part.get_window_extent(renderer) for part in figure.legends]
    scale, height = 72 / figure.dpi, figure.bbox.height
    return [
        (round(box.x0 * scale - 2, 1), round((height - box.y1) * scale - 2, 1),
         round(box.width * scale + 4, 1), round(box.height * scale + 4, 1))
        for box in boxes if box is not None
    ]  # fmt: skip
