"""A paper's figures beside those of a study."""

import re
from typing import Any

import polars as pl
import pytest
import yaml

from benchmarks import published as papers
from benchmarks.published import PAPERS, Published, map_collections, map_methods, paper_section, printed, read_published
from pyrite.analysis.reports.study_report import design_baseline
from pyrite.analysis.study_comparison import Comparison
from pyrite.cluster.config.groups import group_options
from pyrite.ranking.errors import BadInput

PAPER: dict[str, Any] = {
    "source": "Somebody 2001, table 3",
    "collections": {"News": "medquad", "Mail": "cranfield"},
    "rankers": {"f": "feed_forward"},
    "methods": {
        "BM25": "policy=fixed function=bm25",
        "AC": "policy=learned policy.learn=[reward=diff]",
        "IRGAN": "selector=adversarial",
    },
    "figures": {
        "News": {"BM25": {"f": ".25 ± .029"}, "AC": {"f": ".5 ± .011 *†"}, "IRGAN": {"f": ".0557"}},
        "Mail": {"BM25": {"f": ".125"}},
    },
    "convergence": {"News": {"AC": {"f": 0.31}}},
    "says": ["AC is <best>."],
    "differs": ["MedQuAD for News & more."],
}
RUNS: list[tuple[str, float | None]] = [
    ("policy=fixed function=bm25", 0.20),
    ("policy=fixed function=bm25", 0.30),
    ("policy=random", 0.10),
    ("policy=learned policy.agent=0 policy.learn=['agent=ac','reward=diff']", 0.40),
    ("policy=learned policy.agent=1 policy.learn=['agent=ac','reward=diff']", 0.05),
    ("policy=learned policy.agent=0 policy.learn=['agent=ac','reward=raw']", 0.15),
]


def cells(html: str) -> list[list[str]]:
    """The text of each row of the first table, a cell an item."""
    return [
        [re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", cell)).strip() for cell in re.findall(r"<t[dh].*?</t[dh]>", row)]
        for row in re.findall(r"<tr>.*?</tr>", html[html.index("<table") : html.index("</table")])
    ]


def section(trials: pl.DataFrame, paper: dict[str, Any] | None = None, given: tuple[str, ...] = ()) -> str:
    part = paper_section(Published.model_validate(paper or PAPER), trials, Comparison(trials).summary(), given)
    return str(part.to_html())


def test_the_papers_figures_stand_beside_ours_by_collection(written_trials):
    html = section(written_trials(RUNS), given=("scale=small", "collection.path='my data'"))
    assert cells(html) == [
        ["method", "f, paper", "f, here", "f rate, paper", "f rate, here", "runs"],
        ["News; here medquad"],
        ["BM25 bm25 · uniform", ".25 ± .029", ".2500 ± .0707", "–", "–", "2"],
        ["AC learned(random+bm25) · uniform · reward=diff", ".5 ± .011 *†", ".2250 ± .2475", "31%", "50%", "2"],
        ["IRGAN", ".0557", "–", "–", "–", "–"],
        ["learned(random+bm25) · uniform · reward=raw", "–", ".1500", "–", "100%", "1"],
        ["random(random+bm25) · uniform", "–", ".1000", "–", "–", "1"],
    ]
    assert re.findall(r"<b>(.*?)</b>", html) == [".2500", ".5"]  # the best: here BM25, in the paper AC
    assert "AC is &lt;best&gt;." in html
    assert "MedQuAD for News &amp; more." in html
    assert "This study was run with scale=small" in html
    assert "Compared with Somebody 2001, table 3" in html
    failed = written_trials([(text, None if "bm25" in text else value) for text, value in RUNS])
    assert ["BM25 bm25 · uniform", ".25 ± .029", "–", "–", "–", "0"] in cells(section(failed))
    rows = cells(section(pl.concat([written_trials(RUNS), written_trials(RUNS[:3], collection="cranfield")])))
    assert [row[0] for row in rows if len(row) == 1] == ["News; here medquad", "Mail; here cranfield"]
    assert ["BM25 bm25 · uniform", ".125", ".2500 ± .0707", "–", "–", "2"] in rows


SIR: dict[str, Any] = {
    "source": "Somebody 2021, table 2",
    "collections": {"List A": "medquad", "List B": "medquad"},
    "measures": {"MRR@100": "AP@100", "MRR@10": "RR@10"},
    "methods": {
        "BERT": "objective=sir_v0",
        "BERT + V3": "objective=sir_v3 objective.levels=[_,_]",
        "BERT + V3, deeper": "objective=sir_v3 objective.levels=[_,_,_]",
        "ELECTRA": "objective=sir_v0 ranker.checkpoint=*electra*",
    },
    "figures": {
        "List A": {
            "BERT": {"MRR@100": ".25", "MRR@10": ".125 †"},
            "BERT + V3": {"MRR@100": ".5 †", "MRR@10": ".0625"},
            "ELECTRA": {"MRR@100": ".375"},
        },
        "List B": {"BERT": {"MRR@10": ".75"}},
    },
}
SIR_KEYS = ("objective", "objective.levels", "ranker.checkpoint")


def sir_trials(written_trials: Any, *checkpoints: str) -> pl.DataFrame:
    """Two runs of a method and checkpoint; RR@10 is a half of AP@100."""
    runs = [
        (f"ranker=cross_encoder function=bm25 {method} ranker.checkpoint={checkpoint}", value + spread)
        for place, checkpoint in enumerate(checkpoints)
        for method, value in (
            ("objective=sir_v0", 0.25 + place / 4),
            ("objective=sir_v3 objective.levels=[12,6]", 0.5),
            ("objective=sir_v3 objective.levels=[12,6,3]", 0.125),
        )
        for spread in (0.0, 0.25)
    ]
    return written_trials(runs, SIR_KEYS).with_columns((pl.col("bm25:AP@100") / 2).alias("bm25:RR@10"))


def test_columns_may_be_measures(written_trials):
    rows = cells(section(sir_trials(written_trials, "some/minilm"), SIR))
    v0, v3 = "bm25 · uniform · objective=sir_v0", "bm25 · uniform · objective=sir_v3"
    assert rows[:8] == [
        ["method", "MRR@100, paper", "MRR@100, here", "MRR@10, paper", "MRR@10, here", "runs"],
        ["List A; here medquad"],
        [f"BERT {v0}", ".25", ".3750 ± .1768", ".125 †", ".1875 ± .0884", "2"],
        [f"BERT + V3 {v3} levels=[12,6]", ".5 †", ".6250 ± .1768", ".0625", ".3125 ± .0884", "2"],
        [f"BERT + V3, deeper {v3} levels=[12,6,3]", "–", ".2500 ± .1768", "–", ".1250 ± .0884", "2"],
        ["ELECTRA", ".375", "–", "–", "–", "–"],
        ["List B; here medquad"],
        [f"BERT {v0}", "–", ".3750 ± .1768", ".75", ".1875 ± .0884", "2"],
    ]


ORIGINS = ("R@1 near", "bm25:AP@100"), ("R@1", "AP@100"), ("R@1 far", "full:AP@100"), ("I", "embeddings:MI/H")


def of_origins(trials: pl.DataFrame) -> pl.DataFrame:
    """Over all candidates runs reach half as much, and their embeddings say twice as much in bits."""
    reached = pl.col("bm25:AP@100")
    return trials.with_columns((reached / 2).alias("full:AP@100"), (reached * 2 + 1).alias("embeddings:MI/H"))


def test_a_measure_may_name_its_origin_which_a_study_may_lack(written_trials):
    trials = of_origins(written_trials(RUNS[:3]))
    figures = {"News": {"BM25": {"I": "1.234 ± 1.5", "R@1 far": ".5"}}}
    html = section(trials, PAPER | {"measures": dict(ORIGINS), "figures": figures, "convergence": {}})
    rows = cells(html)
    assert rows[0] == ["method", *(f"{title}, {whose}" for title, _ in ORIGINS for whose in ("paper", "here")), "runs"]
    near, far, bits = ".2500 ± .0707", ".1250 ± .0354", "1.5000 ± .1414"
    assert rows[2] == ["BM25 bm25 · uniform", "–", near, "–", near, ".5", far, "1.234 ± 1.5", bits, "2"]
    assert rows[-1] == ["random(random+bm25) · uniform", "–", ".1000", "–", ".1000", "–", ".0500", "–", "1.2000", "1"]
    assert html.count("<b>") == 4 + 2  # each column has its own best, and the paper's two theirs
    assert re.search("<caption>(.*?)</caption>", html)[1].split("here: ")[1] == (
        "BM25&#39;s top passages, “R@1 near” is AP@100 of bm25, “R@1 far” is AP@100 of full, “I” is MI/H of embeddings"
    )
    trials = written_trials(RUNS[:3])
    paper = PAPER | {"measures": {"all": "full:AP@100", "near": "bm25:AP@100"}, "figures": {}, "convergence": {}}
    rows = cells(section(trials, paper))
    assert rows[2] == ["BM25 bm25 · uniform", "–", "–", "–", ".2500 ± .0707", "2"]
    nowhere = cells(section(trials, paper | {"measures": {"all": "full:AP@100"}}))
    assert nowhere[2] == ["BM25 bm25 · uniform", "–", "–", "–"]
    trials = of_origins(written_trials(RUNS)).with_columns(
        pl.when(pl.col("policy") == "random").then(0.0).otherwise("full:AP@100").alias("full:AP@100")
    )
    paper = PAPER | {"measures": dict(ORIGINS[::2]), "figures": {}, "convergence": {"News": {"AC": {"R@1 far": 0.25}}}}
    (row,) = (row for row in cells(section(trials, paper)) if row[0].startswith("AC "))
    assert [row[place] for place in (3, 4, 7, 8)] == ["–", "50%", "25%", "100%"]


def test_rankers_of_several_checkpoints_are_rows_of_their_own(written_trials):
    trials = sir_trials(written_trials, "a/BERT/model", "a/Electra-small/model")
    rows = cells(section(trials, SIR))
    bert, electra = (f"cross_encoder ({name}) · bm25 · uniform · objective=sir_v" for name in ("BERT", "Electra-small"))
    assert [row[0] for row in rows[2:8]] == [
        *(f"BERT {bert}0", f"BERT + V3 {bert}3 levels=[12,6]", f"BERT + V3 {electra}3 levels=[12,6]"),
        *(f"BERT + V3, deeper {ranker}3 levels=[12,6,3]" for ranker in (bert, electra)),
        f"ELECTRA {electra}0",
    ]
    assert rows[7][2] == ".6250 ± .1768"
    assert all(row["against"] is not None for row in Comparison(trials).summary().iter_rows(named=True))


def test_marks_are_against_the_experiments_baseline(written_trials):
    runs = [
        (f"ranker=cross_encoder function=bm25 objective={name}", value + spread / 1000)
        for name, value in (("sir_v0", 0.2), ("sir_v3", 0.4), ("sir_v4", 0.4001))
        for spread in range(5)
    ]
    trials = written_trials(runs, ("objective",))
    named = design_baseline(trials, {"baseline": "objective=sir_v0"})
    assert named == "objective=sir_v0"
    paper = SIR | {"measures": {"MRR@100": "AP@100"}, "methods": {"V3": "objective=sir_v3", "V4": "objective=sir_v4"}}
    html = str(paper_section(Published.model_validate(paper), trials, Comparison(trials).summary(named)).to_html())
    assert "mark what differs from bm25 · uniform · objective=sir_v0" in html
    assert [row[2] for row in cells(html)[2:5]] == [".4020 ± .0016 ‡†", ".4021 ± .0016 ‡†", ".2020 ± .0016"]
    assert design_baseline(trials.filter(pl.col("objective") != "sir_v0"), {"baseline": "objective=sir_v0"}) is None
    assert design_baseline(trials, {}) is None


def test_methods_and_collections_are_matched_by_hand(written_trials):
    trials = written_trials([*RUNS, ("selector=adversarial function=random selector.lr=0.1", 0.1)])
    published = Published.model_validate(PAPER)
    assert map_methods(published, trials) == {
        "BM25": [("feed_forward", "bm25 · uniform")],
        "AC": [("feed_forward", "learned(random+bm25) · uniform · reward=diff")],
        "IRGAN": [("feed_forward", "random · adversarial")],
    }
    other = PAPER | {"methods": {"any": "policy=learned", "rate": "selector.lr=0.1", "none": "selector.lr=0.2"}}
    found = map_methods(Published.model_validate(other), trials)
    assert [len(found[name]) for name in other["methods"]] == [2, 1, 0]
    trials = written_trials(RUNS[3:4], swept=())
    assert map_methods(published, trials)["AC"] == [("feed_forward", "learned(random+bm25) · uniform")]
    assert map_methods(published, written_trials(RUNS[5:], swept=()))["AC"] == []
    assert map_collections(published, ["cranfield", "pydocs"]) == [("Mail", "cranfield")]
    assert map_collections(published, ["pydocs"]) == [("News", "pydocs"), ("Mail", "pydocs")]
    twice = ["medquad (01234567)", "medquad (89abcdef)"]
    assert map_collections(published, twice) == [("News", twice[0]), ("News", twice[1])]


def test_printed_figures():
    figures = {(".1239", ".011", "*†"): ".1239 ± .011 *†", ("0.107", "0.046", ""): "0.107 ± 0.046"}
    figures |= {(".0603", "", ""): ".0603", ("1.234", "10.5", "†"): "1.234 ± 10.5 †"}
    assert [printed(text) for text in figures.values()] == list(figures)
    with pytest.raises(ValueError, match="a lot"):
        printed("a lot")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"figures": {"News": {"BM25": {"f": "a lot"}}}}, "figures.News.BM25.f"),
        ({"convergence": {"News": {"AC": {"f": 31}}}}, "convergence.News.AC.f"),
        ({"methods": "all"}, "methods"),
        ({"measures": {"f": "full:"}}, "measures.f"),
        ({"measures": {"f": ":R@1"}}, "measures.f"),
        ({"measures": {"f": "a:b:R@1"}}, "measures.f"),
        ({"colour": "red"}, "there is no option colour"),
    ],
)
def test_a_damaged_description_is_bad_input(change, says, monkeypatch, tmp_path):
    monkeypatch.setattr(papers, "PAPERS", tmp_path)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(PAPER | change))
    with pytest.raises(BadInput, match=says):
        read_published("mine")


@pytest.mark.parametrize("name", sorted(path.stem for path in PAPERS.glob("*.yaml")))
def test_every_file_is_of_an_experiment(name):
    assert read_published(name).source
    assert name in group_options()["experiment"]


def test_a_paper_that_is_not_there_is_refused():
    with pytest.raises(BadInput, match=r"there are no figures of nothing; choose one of cohen2019_as_printed, "):
        read_published("nothing")
