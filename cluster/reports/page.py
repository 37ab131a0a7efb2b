"""Renders the HTML of reports from the templates beside it; whatever is not markup already is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from cluster.reports.canvas import svg

__all__ = ["Markup", "Report", "drawn", "fold", "losses", "markup", "page", "rendered", "table", "tag"]


@dataclass(frozen=True)
class Report:
    """A rendered report.

    Args:
        html: the whole page.
        figures: PNG files by name, for the folder `figures/`.
    """

    html: str
    figures: dict[str, bytes]


def _shown(value: Any) -> Any:
    return "–" if value is None else value


_templates = Environment(
    loader=PackageLoader("cluster.reports"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=_shown,  # None is a dash
)


def rendered(template: str, **values: object) -> Markup:
    """What a file of `templates/` makes of values."""
    return Markup(_templates.get_template(template).render(**values))


def page(title: str, body: Iterable[Markup]) -> str:
    """A whole document that needs no other file."""
    return str(rendered("page.html", title=title, body=list(body)))


def table(head: Sequence[str], rows: Iterable[Sequence[object] | str], left: int = 1, caption: str = "") -> Markup:
    """Lay out rows below a head; the first `left` columns hold words, the others numbers.

    A row that is a text is the title of a section and spans all columns.
    """
    kinds = [Markup("") if i < left else Markup(' class="number"') for i in range(len(head))]
    lines = list(rows)
    for row in lines:
        assert isinstance(row, str) or len(row) == len(head), (head, row)
    return rendered("table.html", head=head, rows=lines, kinds=kinds, caption=caption)


def drawn(name: str, figure: Figure, caption: str) -> Markup:
    """A figure with its caption."""
    return tag("figure", Markup(svg(figure, name)), tag("figcaption", caption))


def markup(value: object) -> Markup:
    """A value as HTML: as it stands if it is markup, else escaped; None is a dash."""
    return escape(_shown(value))


def tag(name: str, *content: object, **attributes: str) -> Markup:
    """Wrap content in an element: tag("p", "a < b", class_="soft")."""
    given = Markup().join(Markup(' {}="{}"').format(key.rstrip("_"), value) for key, value in attributes.items())
    return Markup("<{0}{1}>{2}</{0}>").format(name, given, Markup().join(map(markup, content)))


def fold(summary: str, *content: object) -> Markup:
    """Hide content behind a line that opens it."""
    return tag("details", tag("summary", summary), *content)


def losses(lines: Sequence[str]) -> Markup:
    """What a study has lost on its way (`cluster.output.failure_summary`); nothing where it has not."""
    return rendered("losses.html", lines=lines)
