"""Adds generated pages to the documentation site: the table of parts, the Python API, and the project's own pages.

MkDocs calls these functions while it builds (`hooks` in mkdocs.yml). Nothing is written to `docs/`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from pyrite.cluster.config.groups import CONF, group_options, option
from pyrite.cluster.config.signatures import first_line

ROOT = Path(__file__).resolve().parents[1]
PROJECT_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md", "deploy/README.md")
"""Pages outside `docs/` that the site shows: README as its home page, the others under `project/`."""
HOME = "index.md"
PACKAGES = ("pyrite", "pyrite/sampling", "pyrite/ranking", "pyrite/rl", "pyrite/pooling")
KINDS = {
    "policy": "Policies",
    "function": "Retrieval functions",
    "selector": "Selectors",
    "ranker": "Rankers",
    "objective": "Objectives",
    "teacher": "Teachers",
    "optimizer": "Optimizers",
    "scheduler": "Learning rate schedules",
    "batches": "Batch orders",
    "vectors": "Word vectors",
    "collection": "Collections",
    "origin": "Candidate origins",
    "agent": "Agents",
    "reward": "Rewards",
    "method": "Orders of judging",
    "stopping": "Stopping rules",
    "experiment": "Experiments",
    "track": "Trackers",
}
"""Configuration groups that users pick parts from, with the title of each."""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the generated pages to the site."""
    for path, text in generated_pages():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at the generated copies of project pages; show a link to any other file as plain text."""
    source = page.file.src_uri
    own = "README.md" if source == HOME else source.removeprefix("project/")
    folder = posixpath.dirname(f"docs/{source}" if own == source else own)

    def replace(match: re.Match[str]) -> str:
        text, link = match[1], match[2]
        path, _, anchor = link.partition("#")
        if "://" in link or not path or link.startswith("mailto:"):
            return match[0]
        target = site_path(posixpath.normpath(posixpath.join(folder, path)))
        if files.get_file_from_path(target) is None:
            return text
        relative = posixpath.relpath(target, posixpath.dirname(source) or ".")
        return f"[{text}]({relative}{'#' + anchor if anchor else ''})"

    # Images of README, which lies beside docs/ there and in it here.
    return re.sub(r"(?<!!)\[([^\]\[]*)\]\(([^)\s]+)\)", replace, re.sub(r"(!\[[^\]]*\]\()docs/", r"\1", markdown))


def site_path(path: str) -> str:
    """Return where the site has a file of the project, given its path from the root."""
    if path == "README.md":
        return HOME
    return path.removeprefix("docs/") if path.startswith("docs/") else f"project/{path}"


def generated_pages() -> Iterator[tuple[str, str]]:
    """Yield the path and the Markdown of each generated page."""
    for name in PROJECT_PAGES:
        if (ROOT / name).is_file():
            yield site_path(name), (ROOT / name).read_text("utf-8")
    yield from parts_pages()
    names = [name for package in PACKAGES for name in modules(package)]
    index = ["# Python API", "", "One page per module. Start with `pyrite`.", ""]
    for name in names:
        index.append(f"- [`{name}`]({name}.md)")
        yield f"reference/api/{name}.md", f"# {name}\n\n::: {name}\n    options: {{show_root_heading: false}}\n"
    yield "reference/api/index.md", "\n".join(index) + "\n"


def modules(package: str) -> list[str]:
    """Return the dotted names of a package's public modules, sorted."""
    names = []
    for path in (ROOT / package).rglob("*.py"):
        parts = list(path.relative_to(ROOT).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
            if path.stat().st_size < 200:  # an empty package
                continue
        if not any(part.startswith("_") for part in parts):
            names.append(".".join(parts))
    return sorted(names)


def part_line(group: str, name: str) -> str:
    """Return a row of the table of a kind: the name, linked to the page of its class, and one line on it.

    The line is the first of the class's docstring, or the first comment of the part's file.
    """
    path, node = CONF / group / f"{name}.yaml", option(group, name)
    nodes = [node, *(part for part in node.values() if isinstance(part, Mapping))]
    target = next((each["_target_"] for each in nodes if "_target_" in each), None)
    summary = first_line(target) if isinstance(target, str) else ""
    if path.is_file():
        for line in path.read_text("utf-8").splitlines():
            if line.startswith("# ") and not line.startswith("# @"):
                summary = line.removeprefix("# ")
                break
    shown = f"`{name}`"
    if isinstance(target, str) and target.startswith("pyrite.") and not target.startswith("pyrite.cluster."):
        shown = f"[{shown}](../api/{target.rpartition('.')[0]}.md#{target})"
    return f"| {shown} | {summary.replace('|', chr(92) + '|')} |"


def parts_pages() -> Iterator[tuple[str, str]]:
    """Yield a page for each kind of part, which lists all parts that can be named on the command line."""
    index = [
        "# Parts",
        "",
        "Every part that can be named on the command line, by kind. `pyrite options selector=simans` prints",
        "the options of a part.",
        "",
        "| kind | option | parts |",
        "|---|---|---|",
    ]
    options = group_options()
    for group, title in KINDS.items():
        if group not in options:
            continue
        names = options[group]
        index.append(f"| [{title}]({group}.md) | `{group}=` | {len(names)} |")
        rows = [part_line(group, name) for name in names]
        head = [f"# {title}", "", f"`{group}=`", "", "| name | what it is |", "|---|---|"]
        yield f"reference/parts/{group}.md", "\n".join([*head, *rows]) + "\n"
    yield "reference/parts/index.md", "\n".join(index) + "\n"
