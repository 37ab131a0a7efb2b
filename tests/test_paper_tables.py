"""Every experiment of a paper has its row in papers.md, and the pages are as the archived runs print them."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
import yaml

from benchmarks import paper_tables
from cluster.config.groups import group_options, option

INVENTORY: dict[str, Any] = yaml.safe_load((paper_tables.DATA / "papers.yaml").read_text("utf-8"))
ITEMS: list[dict[str, Any]] = [item for paper in INVENTORY["papers"] for item in paper["items"]]


@pytest.mark.nightly
def test_every_published_file_has_a_row() -> None:
    published = {name for name in group_options()["experiment"] if option("experiment", name).get("published")}
    assert {item["experiment"] for item in ITEMS if "experiment" in item} == published


def test_a_status_is_said_and_what_is_not_run_has_a_reason() -> None:
    known = {"implemented", "repeated", "contradicted", "not told apart", "not run"}
    assert len(ITEMS) > 70
    for item in ITEMS:
        assert "test" in item or item["status"] in known
        assert item.get("status") != "not run" or item["why"]


def test_pages_are_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    paper_tables.main(["--check"])
    assert " 0 differ" in capsys.readouterr().out


@pytest.mark.nightly
def test_a_page_that_was_edited_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper_tables, "papers", lambda _: "something else")
    with pytest.raises(SystemExit, match=r"papers\.md"):
        paper_tables.main(["--check"])


def test_a_test_decides_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    tested = pl.DataFrame({
        "candidates": ["bm25"] * 3, "difference": [0.02] * 3, "low_both": [0.01, -0.01, -0.05],
        "high_both": [0.03, 0.05, -0.01], "seeds": [5] * 3,
    })  # fmt: skip

    class Some:
        trials, queries, measure, origins = pl.DataFrame(), pl.DataFrame(), "AP", ["bm25"]

    monkeypatch.setattr(paper_tables, "Archive", lambda name: Some)
    found = []
    for row in range(3):
        monkeypatch.setattr(paper_tables, "planned_contrasts", lambda *_, row=row: tested[row])
        found.append(paper_tables._result({"test": {"archive": "a", "first": "b", "second": "c"}}))
    assert [status for *_, status in found] == ["repeated", "not told apart", "contradicted"]
    assert found[0][:3] == ("+.0200 (+.0100 to +.0300)", "5", ".014")
