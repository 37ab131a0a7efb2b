"""Pages of the Python API are built from docstrings, and their links lead somewhere."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def api() -> ModuleType:
    """docs/api.py."""
    pytest.importorskip("pdoc", reason="needs pdoc, of the extra dev")
    spec = importlib.util.spec_from_file_location("api", Path(__file__).resolve().parents[1] / "docs" / "api.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_have_what_docstrings_say(api: ModuleType, tmp_path: Path) -> None:
    assert api.build(tmp_path, ["pyrite"]) == []
    text = (tmp_path / "pyrite.html").read_text()
    assert "Compare ways of choosing negatives" in text
    assert 'id="StudyResult.queries"' in text
    assert (tmp_path / "index.html").exists()


def test_a_link_that_leads_nowhere_is_found(api: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#here">1</a> <a href="b.html#gone">2</a> <a href="c.html">3</a>')
    (tmp_path / "b.html").write_text('<p id="here"></p> <a href="https://ray.io">4</a> <a href="#here">5</a>')
    assert api.broken(tmp_path) == ["a.html: b.html#gone", "a.html: c.html"]
