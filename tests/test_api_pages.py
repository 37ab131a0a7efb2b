"""The documentation site lists every part and module, and points its links at pages that exist."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from cluster.config.groups import group_options

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site() -> ModuleType:
    """docs/site_pages.py."""
    pytest.importorskip("mkdocs", reason="needs mkdocs-material, of the extra dev")
    spec = importlib.util.spec_from_file_location("site_pages", ROOT / "docs" / "site_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_kind_has_a_page_with_one_line_for_each_part(site):
    pages = dict(site.parts_pages())
    for group in ("selector", "function", "policy", "ranker", "objective", "method"):
        for name in group_options()[group]:
            row = rf"^\| (\[)?`{name}`(\]\(\.\./api/\S+\))? \| \S.{{10,}} \|$"
            assert re.search(row, pages[f"reference/parts/{group}.md"], re.MULTILINE), f"{group}={name}"
    simans = "[`simans`](../api/sampling.selection.simans.md#sampling.selection.simans.SimANS)"
    assert simans in pages["reference/parts/selector.md"]
    assert "[Selectors](selector.md)" in pages["reference/parts/index.md"]


def test_each_module_has_a_page(site):
    pages = dict(site.generated_pages())
    assert "reference/api/sampling.selection.simans.md" in pages
    assert "::: pyrite.comparison" in pages["reference/api/pyrite.comparison.md"]
    assert pages["index.md"].startswith("# Pyrite")


def test_links_between_docs_and_project_files_are_rewritten(site):
    assert site.site_path("docs/guide/studies.md") == "guide/studies.md"
    assert site.site_path("README.md") == "index.md"
    assert site.site_path("benchmarks/README.md") == "project/benchmarks/README.md"


@pytest.mark.nightly
def test_the_site_builds_without_a_broken_link(site, tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    home = (tmp_path / "index.html").read_text("utf-8")
    assert 'href="guide/studies.html' in home
    for image in re.findall(r'<img [^>]*src="([^"]+)"', home):
        assert image.startswith("https://") or (tmp_path / image).is_file(), image
    assert (tmp_path / "search" / "search_index.json").is_file()
