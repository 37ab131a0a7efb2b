"""Builds pages of the Python API from docstrings with pdoc, and checks their links.

python docs/api.py FOLDER [MODULE …]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pdoc
import pdoc.render

MODULES = ("pyrite", "ranking", "sampling", "rl", "pooling", "cluster", "!cluster.__main__")


def build(folder: Path, modules: Sequence[str] = MODULES) -> list[str]:
    """Write a page a module.

    Args:
        folder: where pages are written.
        modules: each with all that is in it; a leading ! leaves one out.

    Returns:
        Links that lead nowhere, as `page: link`.
    """
    pdoc.render.configure(docformat="google", show_source=False, footer_text="Pyrite")
    pdoc.pdoc(*modules, output_directory=folder)
    # pdoc also links members without a docstring, which it leaves out: such a link leads to their class.
    for page, link, to_class in _lost(folder):
        if to_class:
            text = page.read_text("utf-8")
            page.write_text(text.replace(f'href="{link}"', f'href="{link.rpartition(".")[0]}"'), "utf-8")
    return broken(folder)


def broken(folder: Path) -> list[str]:
    """Links between the pages of a folder that lead to no page, or to no place on it."""
    return sorted(f"{page.relative_to(folder).as_posix()}: {link}" for page, link, _ in _lost(folder))


def _lost(folder: Path) -> list[tuple[Path, str, bool]]:
    """Pages, their links that lead nowhere, and whether a class stands where the link looks for its member."""
    pages = {page.resolve(): page.read_text("utf-8") for page in folder.rglob("*.html")}
    anchors = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in pages.items()}
    found = []
    for page, text in pages.items():
        for link in set(re.findall(r'<a[^>]*\bhref="([^"]+)"', text)):
            path, _, place = unquote(unescape(link)).partition("#")
            if "://" in path or path.startswith("${"):  # elsewhere, or of the script that searches
                continue
            target = (page.parent / path).resolve() if path else page
            if target not in pages or (place and place not in anchors[target]):
                owner = place.rpartition(".")[0]
                found.append((folder / page.relative_to(folder.resolve()), link, owner in anchors.get(target, set())))
    return found


if __name__ == "__main__":
    wrong = build(Path(sys.argv[1]), sys.argv[2:] or MODULES)
    print("\n".join(wrong) or f"{sys.argv[1]}/index.html")
    sys.exit(bool(wrong))
