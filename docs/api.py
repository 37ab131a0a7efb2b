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
    return broken(folder)


def broken(folder: Path) -> list[str]:
    """Links between the pages of a folder that lead to no page, or to no place on it."""
    pages = {page.relative_to(folder).as_posix(): page.read_text("utf-8") for page in folder.rglob("*.html")}
    anchors = {name: set(re.findall(r'\bid="([^"]+)"', text)) for name, text in pages.items()}
    found = []
    for name, text in pages.items():
        for link in set(re.findall(r'<a[^>]*\bhref="([^"]+)"', text)):
            path, _, place = unquote(unescape(link)).partition("#")
            if "://" in path:
                continue
            target = (folder / name).parent.joinpath(path).resolve() if path else (folder / name).resolve()
            page = target.relative_to(folder.resolve()).as_posix() if target.is_relative_to(folder.resolve()) else path
            if page not in pages or (place and place not in anchors[page]):
                found.append(f"{name}: {link}")
    return sorted(found)


if __name__ == "__main__":
    wrong = build(Path(sys.argv[1]), sys.argv[2:] or MODULES)
    print("\n".join(wrong) or f"{sys.argv[1]}/index.html")
    sys.exit(bool(wrong))
