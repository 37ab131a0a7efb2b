"""Lays out a report: sections of text, tables and figures, for a page, a terminal and files.

A section is written once. The page shows all of it; the terminal shows the parts that the section names; its frames and
figures become files next to the page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from importlib.resources import files
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import polars as pl
from markupsafe import Markup, escape
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape as escaped
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from pyrite.analysis.counted import applying as applying
from pyrite.analysis.reports.labels import LetterLine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE, SCRIPT = (
    files("pyrite.analysis.reports").joinpath(f"page/page.{kind}").read_text("utf-8") for kind in ("css", "js")
)
FILES = '<meta name="files" content="{}">'
"""The element of a page that lists the files next to it."""
VIEW = Markup('<svg viewBox="{} {} {} {}" aria-hidden="true"><use href="#{}-figure"/></svg>')
"""A part of a figure, for a narrow page."""


def canvas() -> ModuleType:
    """Return the module that draws. It loads Matplotlib, which a report of tables alone does without."""
    from pyrite.analysis.reports import canvas as drawing

    return drawing


@dataclass(frozen=True)
class Cell:
    """A cell of a table."""

    text: object  # None is a dash
    small: str = ""  # a deviation, after the value
    marks: str = ""  # what differs by a test
    best: bool = False  # of its column
    below: str = ""  # a second line, on the page only
    code: bool = False  # a command
    long: bool = False  # a text that takes several lines on the page

    def to_html(self) -> Markup:
        shown = escape(self.shown)
        shown = _tag("b", shown) if self.best else _tag("code", shown) if self.code else shown
        shown += _filled(Markup(" <small>{}</small>"), self.small) + _filled(Markup("<sup>{}</sup>"), self.marks)
        return shown + _filled(Markup("<br><small>{}</small>"), self.below)

    def to_rich(self) -> Text:
        text = Text(str(self.shown), "bold" if self.best else "")
        return text.append(_filled(" {}", self.small), "dim").append(self.marks)

    @property
    def shown(self) -> object:
        """The text, or a dash."""
        return "–" if self.text is None else self.text


class CellRow(list[Cell]):
    """A row of cells."""

    def to_html(self, kinds: Sequence[str]) -> Markup:
        pairs = zip(self, kinds, strict=True)
        return _tag("tr", *(_tag("td", cell.to_html(), class_="long" if cell.long else kind) for cell, kind in pairs))

    def add_to(self, layout: RichTable) -> None:
        layout.add_row(*(cell.to_rich() for cell in self))


class TitleRow(str):
    """A row that titles those after it."""

    def to_html(self, kinds: Sequence[str]) -> Markup:
        return _tag("tr", _tag("th", str(self), colspan=str(len(kinds))))

    def add_to(self, layout: RichTable) -> None:
        layout.add_section()
        layout.add_row(Text(self, "bold cyan"))


Rows: TypeAlias = "list[Sequence[object] | str]"
"""Of a table: cells, or a text that titles the rows after it."""


@dataclass(frozen=True)
class Table:
    """A table."""

    head: Sequence[str]
    rows: InitVar[Iterable[Sequence[object] | str]]  # `Rows`
    words: int = 1  # the number of columns, from the left, that hold words rather than numbers
    caption: str = ""
    note: str = ""  # how to read its marks
    lines: list[CellRow | TitleRow] = field(init=False)

    def __post_init__(self, rows: Iterable[Sequence[object] | str]) -> None:
        lines = [TitleRow(row) if isinstance(row, str) else CellRow(map(_cell, row)) for row in rows]
        object.__setattr__(self, "lines", lines)

    def to_html(self) -> Markup:
        kinds = [""] * self.words + ["number"] * (len(self.head) - self.words)
        head = [_tag("th", name, class_=kind) for name, kind in zip(self.head, kinds, strict=True)]
        lines = [line.to_html(kinds) for line in self.lines]
        caption = _filled(Markup("<caption>{}</caption>"), self.caption)
        note = _filled(Markup('<p class="soft">{}</p>'), self.note)
        body = _tag("thead", _tag("tr", *head)), _tag("tbody", *lines)
        return _tag("div", _tag("table", caption, *body), class_="wide", tabindex="0") + note

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay the table out for a console, with columns closer together if it does not fit otherwise. A terminal that
        is too narrow for this breaks lines: figures are never cut.
        """
        endless, wide, narrow = options.update(max_width=sys.maxsize), self._layout(2), self._layout(1)
        fits = Measurement.get(console, endless, wide).maximum <= options.max_width
        least = Measurement.get(console, endless, narrow).minimum
        if least > options.max_width:
            narrow.width = least
        yield wide if fits else narrow

    def _layout(self, between: int) -> RichTable:
        layout = RichTable(box=box.SIMPLE_HEAD, padding=(0, between - 1, 0, 0), pad_edge=False)
        layout.title, layout.title_style, layout.title_justify = escaped(self.caption) or None, "bold", "left"
        layout.caption, layout.caption_style, layout.caption_justify = escaped(self.note) or None, "dim", "left"
        rows = [line for line in self.lines if isinstance(line, CellRow)]
        for name in self.head[: self.words]:
            layout.add_column(escaped(name), overflow="fold")
        for index, name in list(enumerate(self.head))[self.words :]:
            least = max([cell_len(name), *(row[index].to_rich().cell_len for row in rows)])
            layout.add_column(escaped(name), justify="right", overflow="fold", no_wrap=True, min_width=least)
        for line in self.lines:
            line.add_to(layout)
        return layout


@dataclass(frozen=True)
class Drawing:
    """A figure."""

    name: str
    figure: Figure
    caption: str

    @cached_property
    def png(self) -> bytes:
        """The figure's file. It is drawn before the page's, which takes its layout from there."""
        return canvas().png(self.figure)

    def to_html(self) -> Markup:
        assert self.png  # lays it out
        views = canvas().panels(self.figure)
        narrow = Markup().join(VIEW.format(*box, self.name) for box in views)
        whole = _tag("div", Markup(canvas().svg(self.figure, self.name)), class_="whole" if views else "")
        stacked = _filled(Markup('<div class="panels">{}</div>'), narrow)
        return _tag("figure", whole, stacked, _tag("figcaption", self.caption))


def items(lines: Iterable[object]) -> Markup:
    """Return a list of lines."""
    return _tag("ul", *(_tag("li", line) for line in lines))


def definitions(values: Mapping[str, object]) -> Markup:
    """Return names and values."""
    return _tag("dl", *(_tag("dt", name) + _tag("dd", fact) for name, fact in values.items()))


def verbatim(text: str) -> Markup:
    """Return a command or a file, as it is."""
    return _tag("pre", text)


@dataclass(frozen=True)
class Fold:
    """Parts that a click on the page shows."""

    title: str
    parts: Sequence[Part]

    def to_html(self) -> Markup:
        return _tag("details", _tag("summary", self.title), *map(_to_html, self.parts))


Part: TypeAlias = "str | Cell | Table | Drawing | Fold"
"""A text is a paragraph unless it is markup, and a cell a paragraph that stands out if it is `best`."""


class SectionWords:
    """The title of a section and the paragraphs that explain it, in which braces are filled in."""

    def __init__(self, title: str, *paragraphs: str) -> None:
        self.title = title
        self.paragraphs = paragraphs

    def explained(self, **facts: object) -> list[str]:
        """Return the paragraphs with these facts."""
        return [text.format(**facts) for text in self.paragraphs]


@dataclass(frozen=True)
class Section:
    """A section of a report."""

    title: str  # empty for none
    parts: Sequence[Part]  # for the page
    terminal: Sequence[str | Table] = ()
    frames: Mapping[str, pl.DataFrame] = field(default_factory=dict)  # files to write, .csv or .parquet
    last: bool = False  # whether the terminal shows it after all others

    def to_html(self) -> Markup:
        return _filled(Markup("<h2>{}</h2>"), self.title) + Markup().join(map(_to_html, self.parts))

    def if_any(self, found: Sized) -> list[Section]:
        """Return the section in a list, or none if nothing of what it shows was found."""
        return [self] if len(found) else []


def drawings(parts: Sequence[Part]) -> Iterator[Drawing]:
    """Yield the figures among parts, those behind folds too."""
    for part in parts:
        if isinstance(part, Drawing):
            yield part
        elif isinstance(part, Fold):
            yield from drawings(part.parts)


@dataclass(frozen=True)
class Report:
    """A report."""

    title: str
    sections: Sequence[Section]

    def to_html(self, files: Iterable[str] = ()) -> str:
        """The whole page, which needs no other file. It lists the files that were written next to it, for the next."""
        meta = Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">')
        listed = Markup(FILES).format(" ".join(sorted(files)))
        head = _tag("head", meta, _tag("title", self.title), _tag("style", Markup(STYLE)), listed)
        parts = [_tag("h1", self.title), *(section.to_html() for section in self.sections)]
        body = _tag("body", *parts, _tag("script", Markup(SCRIPT)))
        page = _tag("html", head, "\n", body, lang="en")
        return f"<!doctype html>\n{page}\n"

    def to_terminal(self, console: Console) -> None:
        """Print the sections' tables and lines, and explain each letter once."""
        explained = set[str]()
        for section in sorted(self.sections, key=lambda section: section.last):
            for part in section.terminal:
                if isinstance(part, LetterLine):
                    if part.letter in explained:
                        continue
                    explained.add(part.letter)
                marked = isinstance(part, TerminalLine)
                console.print(
                    part if marked or isinstance(part, Table) else escaped(part), soft_wrap=marked, crop=False
                )


def lost_section(lost: Sequence[str]) -> list[Section]:
    """The section of what was lost and repeated, a line each (`failure_summary`); none without any."""
    lines = [TerminalLine(f"[dim]{escaped(line)}[/]") for line in lost[:3]]
    return Section("What was lost and repeated", [items(lost)], lines).if_any(lost)


def _cell(cell: object) -> Cell:
    return cell if isinstance(cell, Cell) else Cell(cell)


def _to_html(part: Part) -> Markup:
    if isinstance(part, Markup):
        return part
    if isinstance(part, str):
        return _tag("p", part)
    return _tag("p", part.to_html()) if isinstance(part, Cell) else part.to_html()


class TerminalLine(str):
    """A line with Rich's markup."""


Template = TypeVar("Template", str, Markup)


def _filled(template: Template, text: str) -> Template:
    """Return a template with a text in it; nothing without a text."""
    return template.format(text) if text else type(template)()


def _tag(name: str, *content: object, **attributes: str) -> Markup:
    """Wrap content in an element; content that is no markup yet is escaped."""
    given = "".join(f' {key.rstrip("_")}="{escape(text)}"' for key, text in attributes.items() if text)
    return Markup(f"<{name}{given}>{''.join(map(escape, content))}</{name}>")
