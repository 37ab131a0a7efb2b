import io
import re
from collections.abc import Callable
from html.parser import HTMLParser

import polars as pl
import pytest
from rich.console import Console

from pyrite.analysis.reports.analysis_sections import power_section
from pyrite.analysis.reports.labels import broken, p_value, value
from pyrite.analysis.reports.report import (
    STYLE,
    Cell,
    CellRow,
    Drawing,
    Fold,
    Report,
    Section,
    Table,
    TerminalLine,
    canvas,
)
from pyrite.analysis.reports.study_report import StudyResults, study_report
from pyrite.analysis.study_comparison import Comparison
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.reports.publish import publish, renew, write_parts
from pyrite.cluster.reports.study_tables import action_rows
from pyrite.cluster.runs.outcome import Outcome
from pyrite.ranking.errors import BadInput
from pyrite.results import Shown
from tests.analysis.conftest import METHODS, files_of

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

    def handle_endtag(self, tag: str) -> None:
        assert tag in VOID or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def text_of(report: Report) -> str:
    """The text of a report's page, which is whole."""
    return "".join(Checked(report.to_html()).words)


@pytest.fixture(scope="module")
def report(made_up_study) -> tuple[pl.DataFrame, Report]:
    trials, queries = made_up_study(
        methods=(*METHODS[:2], *METHODS[3:]), failed=2, swept=[("training.rate", ["0.001", "0.1"])]
    )
    trials = trials.with_columns(overrides=pl.col("overrides") + " note=<i>&")
    config = {"command": "pyrite study a<b"}
    return trials, study_report(
        StudyResults(trials, queries, config=config, written="note: <script>alert(1)</script>\n")
    )


@pytest.fixture(scope="module")
def html(report, drawn) -> str:
    """Its page, whose figures take seconds to draw."""
    return report[1].to_html()


def test_the_page_is_whole_and_needs_nothing_else(html):
    page = Checked(html)
    assert html.startswith("<!doctype html>")
    assert all(address.startswith("#") for address in page.addresses)
    assert not re.search(r"@import|url\((?!#)", html)


def test_paper_has_all_columns_in_light_colours_and_keys_sort_tables(html):
    paper = STYLE.partition("@media print")[2]
    assert re.search(r"\.wide, figure \{[^}]*overflow: visible", paper)  # what scrolls is cut there
    assert STYLE.count("prefers-color-scheme: dark") == STYLE.count("screen and (prefers-color-scheme: dark)") == 1
    assert 'document.createElement("button")' in html


def test_it_says_what_was_run_how_to_read_it_and_how_to_run_it_again_all_escaped(report, html):
    assert html.count("<script>") == html.count("<script") == 1  # that sorts tables
    assert "<i>" not in html
    assert "<b>out of memory" not in html
    text = "".join(Checked(html).words)
    assert "<script>alert(1)</script>" in text
    assert "<b>out of memory</b> & gone" in text
    assert "pyrite study a<b" in text
    for overrides in report[0]["overrides"]:
        assert f"pyrite train {overrides}" in text
    for part in ("pydocs", "0123456789abcdef", "14 done, 2 failed", "Holm", "Kolmogorov-Smirnov", "BM25 alone"):
        assert part in text


def test_figures_and_tables_are_files_too(report, html, tmp_path):
    made, storage = report[1], Storage(str(tmp_path))
    write_parts(made, storage)
    assert files_of(made) == {"curves", "hyperparameters"}  # nothing is tested, so there are no differences
    for name in files_of(made):
        assert (storage.read(f"figures/{name}.png") or b"").startswith(b"\x89PNG")
    assert html.count('role="img"') == len(files_of(made))
    assert html.count('<use href="#curves-figure"') == 2 + 1  # and the legend
    tables = {name for section in made.sections for name in section.frames if name.endswith(".csv")}
    assert tables == {"summary.csv", "costs.csv", "verdict.csv", "convergence.csv"}
    assert (storage.read("summary.csv") or b"").startswith(b"collection,ranker,policy")


def test_a_report_that_is_made_again_leaves_no_file_of_the_one_before(tmp_path, capsys):
    storage, other = Storage(str(tmp_path / "out")), Storage(str(tmp_path))
    frame = pl.DataFrame({"a": [1]})
    parts = [Drawing(name, canvas().grid([""], [""], 1)[0], "") for name in ("kept", "stale")]
    console = Console()
    publish(Report("", [Section("", parts, frames={"kept.csv": frame, "stale.parquet": frame})]), storage, console)
    for name in ("figures/of_the_user.png", "notes.csv"):
        storage.write(name, b"")
    other.write("other.csv", b"")
    renew(Report("", []), storage)
    page = (storage.read("report.html") or b"").decode().replace("stale.parquet", "stale.parquet ../other.csv")
    storage.write("report.html", page.encode())
    assert storage.names() == ["kept.csv", "notes.csv", "report.html", "stale.parquet"]
    publish(Report("", [Section("", parts[:1], frames={"kept.csv": frame})]), storage, console)
    assert storage.names() == ["kept.csv", "notes.csv", "report.html"]
    assert storage.names("figures") == ["kept.png", "of_the_user.png"]
    assert other.read("other.csv") is not None


def test_studies_of_failures_and_of_one_run_have_a_page(made_up_study):
    trials, _ = made_up_study(failed=100)
    made = study_report(StudyResults(trials, pl.DataFrame()))
    assert files_of(made) == set()
    assert "No run has finished." in text_of(made)
    trials, queries = made_up_study(seeds=1, methods=[("fixed", "bm25", "uniform", 0.3)])
    made = study_report(StudyResults(trials, queries))
    assert files_of(made) == {"curves"}
    assert not re.search("Compared with|How reliably", text_of(made))  # it repeats no paper and learns no agents


def test_baselines_collections_and_embeddings_are_shown(made_up_study):
    studies = (made_up_study(2, methods=METHODS[1:3], collection=name) for name in ("pydocs", "med<quad"))
    trials, queries = (pl.concat(frames) for frames in zip(*studies, strict=True))
    text = text_of(study_report(StudyResults(trials, queries), "policy=fixed function=bm25 selector=uniform"))
    assert "feed_forward on med<quad" in text
    assert "feed_forward on med<quad" in text[text.index("Beyond the mean") :][:600]
    assert "baseline" in text
    trials, queries = made_up_study(seeds=1, methods=METHODS[:1])
    trials = trials.with_columns(pl.lit(0.5).alias("embeddings:MI"))
    text = text_of(study_report(StudyResults(trials, queries)))
    assert "evaluated onBM25's top passages and random passages" in text
    assert "MI" in text


def two_places(make: Callable[..., tuple[pl.DataFrame, pl.DataFrame]], gap: float) -> tuple[pl.DataFrame, pl.DataFrame]:
    """A study of two rankers on two collections, where the values of the second of either are lower by the gap."""
    studies = (make(3, ("one", "two"), METHODS[:2], collection=name) for name in ("pydocs", "quest"))
    trials, queries = (pl.concat(frames) for frames in zip(*studies, strict=True))
    lower = gap * ((pl.col("ranker") == "two").cast(pl.Float64) + (pl.col("collection") == "quest").cast(pl.Float64))
    return trials.with_columns(pl.col("bm25:AP@100") - lower), queries


def test_each_collection_and_ranker_has_its_own_line_of_runs_that_never_learned(made_up_study):
    trials, queries = two_places(made_up_study, 0.07)
    made = study_report(StudyResults(trials, queries))
    (section,) = (section for section in made.sections if "spread.parquet" in section.frames)
    (table,) = (part for part in section.parts if isinstance(part, Table))
    head, frame = [*table.head], section.frames["spread.parquet"]
    rows = [line[head.index("the line")].text for line in table.lines if isinstance(line, CellRow)]
    assert sorted(rows) == sorted(map(value, frame["line"]))
    assert len(set(rows)) == 4 + 2  # over random candidates, the collections are alike


def test_a_run_that_is_repeated_is_compared_with_the_seeds_of_its_collection_and_ranker(made_up_study):
    trials, queries = two_places(made_up_study, 0.1)
    run = "pydocs-one-fixed-bm25-uniform-0"
    repeated = [(run, "bm25:AP@100", -0.0012)]
    own = trials.filter(pl.col("run").str.starts_with(run[:-2]))["bm25:AP@100"]
    line = f"{run} was trained twice with its seed: AP@100 differs by .0012"
    said = f"{line}, and has a deviation of {value(own.std())} over the seeds of its method."
    assert said in text_of(study_report(StudyResults(trials, queries, repeated=repeated)))
    others = pl.col("run").is_in([f"{run[:-1]}{seed}" for seed in (1, 2)])
    failed = trials.with_columns(status=pl.when(others).then(pl.lit("failed")).otherwise("status"))
    assert f"{line}." in text_of(study_report(StudyResults(failed, queries, repeated=repeated)))


def test_a_contrast_without_a_finished_run_is_left_out_with_a_line(made_up_study):
    trials, queries = made_up_study(methods=METHODS[:2])
    known = list(dict.fromkeys(text.rpartition(" seed=")[0] for text in trials["overrides"].unique().sort().to_list()))
    made = study_report(StudyResults(trials, queries, config={"study": {"contrasts": [*known, "function=nope"]}}))
    assert any("contrasts.parquet" in section.frames for section in made.sections)
    line = "contrasts: no finished run has {!r} in its overrides; it is left out"
    assert line.format("function=nope") in text_of(made)
    with pytest.raises(BadInput, match="nope"):  # asked of `pyrite report`, which writes nothing then
        study_report(StudyResults(trials, queries), contrasts=["function=bm25", "function=nope"])
    with pytest.raises(BadInput, match=f"compares '{known[0]}' twice"):
        study_report(StudyResults(trials, queries), contrasts=[known[0], known[0]])
    fails = pl.col("overrides").str.starts_with(known[1])
    failed = trials.with_columns(status=pl.when(fails).then(pl.lit("failed")).otherwise("status"))
    assert line.format(known[1]) in text_of(study_report(StudyResults(failed, queries), contrasts=known))


def test_pieces_escape_what_they_are_given():
    rows = [["<i>"], [None], "<s>", [Cell(1, "± 2", "*", best=True, below="b<")], [Cell("x y", code=True)]]
    assert re.findall("<tr>(.*?)</tr>", Table(["a"], rows).to_html())[1:] == [
        "<td>&lt;i&gt;</td>",
        "<td>–</td>",
        '<th colspan="1">&lt;s&gt;</th>',
        "<td><b>1</b> <small>± 2</small><sup>*</sup><br><small>b&lt;</small></td>",
        "<td><code>x y</code></td>",
    ]
    assert "<summary>t</summary><p>a &lt; b</p>" in Fold("t", ["a < b"]).to_html()


def test_a_terminal_shows_what_sections_name_closer_together_if_it_must():
    out = io.StringIO()
    table = Table(
        ["method", "n"],
        ["ranker", [Cell("a[b]"), Cell(1, marks="*", best=True)]],
        caption="of a[/stem]",
        note="c[d] is e, t1.py:train:",
    )
    lines = ["said [once]", TerminalLine("[red]failed[/] x")]
    Report("t", [Section("s", ["not shown"], [table, *lines])]).to_terminal(Console(file=out, width=80))
    text = out.getvalue()
    assert "not shown" not in text
    assert [line.split() for line in text.splitlines() if "a[b]" in line] == [["a[b]", "1*"]]
    assert "said [once]\n" in text
    assert "of a[/stem]" in text
    assert "c[d] is e" in text
    assert "t1.py:train:" in repr(Shown(Report("t", [Section("s", [], [table])])))  # no emoji
    assert "failed x" in text
    table = Table(["method", *"abcde", "f g"], [["posterior_fusion", *(f"{n}.25*" for n in range(10, 16))]])
    rows = {}
    for width in (20, 62, 80):
        out = io.StringIO()
        Report("t", [Section("s", [], [table])]).to_terminal(Console(file=out, width=width))
        rows[width] = next(line for line in out.getvalue().splitlines() if "fusion" in line)
    assert rows[20].split() == rows[62].split() == rows[80].split()  # nothing is folded or cut
    assert "fusion 10.25* 11.25*" in rows[62]
    assert "fusion  10.25*  11.25*" in rows[80]


def test_names_are_broken_between_their_parts_and_probabilities_rounded():
    assert list(map(p_value, (0.0001, 0.04951, 1.0, None))) == ["<.001", ".050", "1.000", None]
    assert broken("bm25 · uniform") == "bm25 · uniform"
    assert broken("schedule(in_batch+bm25) · uniform · policy.per=negative") == (
        "schedule(in_batch+bm25) · uniform ·\npolicy.per=negative"
    )
    assert broken("x" * 50) == "x" * 50
    assert broken("policy.actions=[in_batch,bm25:1-4,bm25@simans] · s0") == (
        "policy.actions=[in_batch,bm25:1-4,\nbm25@simans] · s0"
    )


def test_seeds_that_differences_take_are_shown_for_each_collection(made_up_study):
    trials = [made_up_study(methods=METHODS[:2], collection=name)[0] for name in ("pydocs", "medquad")]
    (section,) = power_section(Comparison(pl.concat(trials)).power())
    (alone,) = power_section(Comparison(trials[0]).power())
    both, one = section.parts[0].lines, alone.parts[0].lines
    assert [line for line in both if isinstance(line, str)] == ["feed_forward on medquad", "feed_forward on pydocs"]
    assert one[0] == "feed_forward"
    assert both[-len(one) + 1 :] == one[1:]


def test_an_action_that_was_taken_is_one_row_of_its_decision():
    decisions = [
        {"fold": 0, "epoch": 1, "step": 5, "action": "bm25", "values": {"bm25": 2.0, "bm25@simans": 1.0}},
        {"fold": 0, "epoch": 2, "step": 10, "action": "bm25@simans", "values": {"bm25": 1.0, "bm25@simans": 1.5}},
    ]
    rows = action_rows(Outcome(decisions=decisions))
    taken = [(row["step"], row["action"], row["value"]) for row in rows if row["taken"]]
    assert taken == [(5, "bm25", 2.0), (10, "bm25@simans", 1.5)]
    assert len(rows) == 4


def test_the_experiment_of_the_next_question_is_named_with_the_same_data(made_up_study):
    then = {"question": "How many?", "experiment": "doses"}
    typed = ["experiment=encoder", "collection.path=my pairs.csv", "guard.relative=0.1", "out=a", "seeds=5"]
    results = StudyResults(*made_up_study(), config={"typed": typed, "design": {"then": then}})
    printed = io.StringIO()
    study_report(results).to_terminal(Console(file=printed, width=80))
    assert "How many? pyrite study experiment=doses 'collection.path=my pairs.csv' seeds=5\n" in printed.getvalue()
