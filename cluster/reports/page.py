"""The pieces of a self-contained HTML page: its style, and tables that escape what they are given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

# System fonts and two sets of colours: the page opens offline, on paper, at night and on a phone.
CSS = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2024; --soft: #5b636d; --line: #d9dde2;
  --tint: #f4f6f8; --accent: #0b63a5; }
@media (prefers-color-scheme: dark) { :root { --paper: #15181c; --ink: #e4e7ea; --soft: #9aa3ad;
  --line: #343a41; --tint: #1e2328; --accent: #6cb6f0; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1080px; padding: 2rem 1.25rem 4rem; background: var(--paper);
  color: var(--ink); font: 16px/1.55 system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.25rem; margin: 2.75rem 0 .5rem; padding-top: .75rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.5rem 0 .25rem; }
p, li { max-width: 46rem; }
.soft, figcaption, caption { color: var(--soft); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.25rem; margin: 1rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
code, pre { font: .86em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
pre { background: var(--tint); padding: .75rem 1rem; border-radius: 6px; white-space: pre-wrap;
  overflow-wrap: anywhere; }
.wide { overflow-x: auto; margin: .75rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .4rem; }
th, td { padding: .3rem .8rem; text-align: left; vertical-align: baseline; white-space: nowrap; }
thead th { border-bottom: 2px solid var(--line); font-weight: 600; }
tbody tr + tr td { border-top: 1px solid var(--line); }
tbody tr:hover td { background: var(--tint); }
tbody th { padding-top: 1rem; color: var(--accent); }
td.number, th.number { text-align: right; }
td.command { white-space: normal; min-width: 26rem; overflow-wrap: anywhere; }
td small { display: inline-block; min-width: 4.3em; text-align: left; color: var(--soft); }
td sup { display: inline-block; width: 1.4em; line-height: 0; text-align: left; }
figure { margin: 1.5rem 0; overflow-x: auto; }
figure svg { display: block; width: 100%; min-width: 680px; height: auto; color: var(--ink); }
figcaption { font-size: .9rem; max-width: 46rem; position: sticky; left: 0; }
details { margin: .75rem 0; } summary { cursor: pointer; color: var(--accent); }
@media print { h2, h3 { break-after: avoid; } figure, tr { break-inside: avoid; } }
"""


class Markup(str):
    """Text that is HTML already. Everything else that is put into a page is escaped."""


def markup(value: object) -> Markup:
    """Turn a value into HTML: as it stands if it is Markup, else escaped; None is a dash."""
    if isinstance(value, Markup):
        return value
    return Markup("–" if value is None else escape(str(value)))


def page(title: str, body: Iterable[Markup]) -> str:
    """Put a body into a whole document."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def tag(name: str, *content: object, **attributes: str) -> Markup:
    """Wrap content in an element: tag("p", "a < b", class_="soft")."""
    given = "".join(f' {key.rstrip("_")}="{escape(value)}"' for key, value in attributes.items())
    return Markup(f"<{name}{given}>{''.join(map(markup, content))}</{name}>")


def fold(summary: str, *content: object) -> Markup:
    """Hide content behind a line that opens it."""
    return tag("details", tag("summary", summary), *content)


def table(head: Sequence[str], rows: Iterable[Sequence[object] | Markup], left: int = 1, caption: str = "") -> Markup:
    """Lay out rows below a head; the first `left` columns hold words, the others numbers.

    A row that is Markup is the title of a section and spans all columns.
    """
    kinds = ["" if i < left else ' class="number"' for i in range(len(head))]
    lines = []
    for row in rows:
        if isinstance(row, Markup):
            lines.append(f'<tr><th colspan="{len(head)}">{row}</th></tr>')
        else:
            cells = zip(kinds, map(markup, row), strict=True)
            lines.append("<tr>" + "".join(f"<td{kind}>{cell}</td>" for kind, cell in cells) + "</tr>")
    titles = "".join(f"<th{kind}>{escape(name)}</th>" for kind, name in zip(kinds, head, strict=True))
    above = f"<caption>{escape(caption)}</caption>" if caption else ""
    body = "\n".join(lines)
    return Markup(
        f'<div class="wide"><table>{above}<thead><tr>{titles}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'
    )


def losses(lines: Sequence[str]) -> Iterator[Markup]:
    """What a study has lost on its way (`cluster.output.failure_summary`); nothing where it has not."""
    if lines:
        yield tag("h2", "What was lost and repeated")
        yield tag("ul", *(tag("li", line) for line in lines))
