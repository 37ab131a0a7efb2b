from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import polars as pl
import pytest

from cluster.reports.html_tables import probability, winners
from cluster.reports.page import Markup, table, tag
from cluster.reports.study_report import Report, render
from cluster.reports.summary import summarise

VOID = {"meta", "br", "link", "img", "hr"}


class Checked(HTMLParser):
    """Reads a page, fails where an element is left open, and collects text and addresses."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def made_up_report(made_up_study: Any) -> tuple[pl.DataFrame, Report]:
    trials, queries = made_up_study(
        rankers=("feed_forward", "match_pyramid"), failed=2, swept=[("training.rate", ["0.001", "0.1"])]
    )
    trials = trials.with_columns(overrides=pl.col("overrides") + " note=<i>&")
    return trials, render(trials, queries, summarise(trials), "note: <script>alert(1)</script>\n", "pyrite study a<b")


@pytest.fixture(scope="module")
def report(made_up_study: Any) -> tuple[pl.DataFrame, Report]:
    return made_up_report(made_up_study)


def test_the_page_is_whole_and_needs_nothing_else(report: Any) -> None:
    page = Checked(report[1].html)
    assert report[1].html.startswith("<!doctype html>")
    assert all(address.startswith("#") for address in page.addresses)
    assert "@import" not in report[1].html
    assert not re.search(r"url\((?!#)", report[1].html)


def test_everything_a_user_wrote_is_escaped(report: Any) -> None:
    html = report[1].html
    assert "<script" not in html
    assert "<i>" not in html
    assert "<b>out of memory" not in html
    text = "".join(Checked(html).words)
    assert "<script>alert(1)</script>" in text
    assert "<b>out of memory</b> & gone" in text
    assert "pyrite study a<b" in text


def test_every_run_has_its_command(report: Any) -> None:
    trials, made = report
    text = "".join(Checked(made.html).words)
    for overrides in trials["overrides"]:
        assert f"pyrite train {overrides}" in text


def test_it_says_what_was_run_and_how_to_read_it(report: Any) -> None:
    text = "".join(Checked(report[1].html).words)
    for part in ("pydocs", "0123456789abcdef", "38 done, 2 failed", "Holm", "Kolmogorov-Smirnov", "BM25's own order"):
        assert part in text
    assert "the winner depends on the candidates" in text


def test_figures_are_files_too(report: Any) -> None:
    made = report[1]
    assert set(made.figures) == {f"{n}.png" for n in ("runs", "density", "curves", "hyperparameters", "queries")}
    assert all(image.startswith(b"\x89PNG") for image in made.figures.values())
    assert made.html.count("<svg") == len(made.figures)


def test_the_same_study_gives_the_same_page(report: Any, made_up_study: Any) -> None:
    assert made_up_report(made_up_study)[1] == report[1]


def test_a_study_of_failures_has_a_page(made_up_study: Any) -> None:
    trials, _ = made_up_study(failed=100)
    made = render(trials, pl.DataFrame(), summarise(trials), "")
    assert made.figures == {}
    assert "No run has ended well." in "".join(Checked(made.html).words)


def test_a_study_of_one_run_has_a_page(made_up_study: Any) -> None:
    trials, queries = made_up_study(seeds=1, methods=[("fixed", "bm25", "uniform", 0.3)])
    made = render(trials, queries, summarise(trials), "")
    Checked(made.html)
    assert set(made.figures) == {"runs.png", "density.png", "curves.png"}
    for part in ("Beside", "How reliably"):  # it repeats no paper and learns no agents
        assert part not in made.html


def test_a_baseline_and_several_collections_are_shown(made_up_study: Any) -> None:
    studies = made_up_study(seeds=2), made_up_study(seeds=2, collection="med<quad")
    trials, queries = (pl.concat(frames) for frames in zip(*studies, strict=True))
    summary = summarise(trials, "policy=fixed function=bm25 selector=uniform")
    text = "".join(Checked(render(trials, queries, summary, "").html).words)
    assert "feed_forward on med<quad" in text
    assert "baseline" in text


def test_figures_of_embeddings_are_over_no_candidates(made_up_study: Any) -> None:
    trials, queries = made_up_study(seeds=1)
    trials = trials.with_columns(pl.lit(0.5).alias("embeddings:MI"))
    text = "".join(Checked(render(trials, queries, summarise(trials), "").html).words)
    assert "evaluated onbm25 and random candidates" in text
    assert "MI" in text


def test_a_method_that_wins_everywhere(made_up_study: Any) -> None:
    trials, _ = made_up_study(methods=[("fixed", "bm25", "uniform", 0.3)])
    assert [line.endswith("the same method wins everywhere.") for line in winners(summarise(trials), "AP@100")] == [
        True
    ]


def test_pieces_escape_what_they_are_given() -> None:
    assert tag("p", "a < b", class_='x"y') == '<p class="x&#34;y">a &lt; b</p>'
    assert tag("p", Markup("<b>"), None) == "<p><b>–</p>"
    assert "<td>&lt;i&gt;</td>" in table(["a"], [["<i>"]])
    assert '<th colspan="1"><b>s</b></th>' in table(["a"], [tag("b", "s")])


@pytest.mark.parametrize(("p", "text"), [(0.0001, "<.001"), (0.04951, ".050"), (1.0, "1.000"), (None, None)])
def test_probabilities(p: float | None, text: str | None) -> None:
    assert probability(p) == text
