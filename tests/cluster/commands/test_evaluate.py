"""`pyrite evaluate` and `pyrite.evaluate`: the same values, baselines, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import ir_measures
import numpy as np
import polars as pl
import pytest

import pyrite
from pyrite.cluster.commands.cli import main
from pyrite.ranking.errors import BadInput
from pyrite.ranking.evaluation.significance import holm, paired_t_test


@pytest.fixture
def files(tmp_path, monkeypatch) -> Path:
    """Three runs of eight topics, and their judgements."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    documents = [f"d{number}" for number in range(30)]
    Path("runs").mkdir()
    for name in ("alpha", "beta", "gamma"):
        lines = [
            f"{topic} Q0 {document} {rank} {100 - rank} {name}\n"
            for topic in range(1, 9)
            for rank, document in enumerate(rng.permutation(documents)[:20], 1)
        ]
        Path(f"runs/{name}.run").write_text("".join(lines))
    judged = [f"{topic} 0 {document} {rng.integers(0, 3)}\n" for topic in range(1, 9) for document in documents[:20]]
    Path("qrels.txt").write_text("".join(judged))
    return tmp_path


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", *arguments])
    return int(ended.value.code or 0)


def test_the_command_and_python_agree(files, capsys):
    assert run("runs/alpha.run", "runs/beta.run", "qrels.txt", "baseline=alpha", "out=values.csv") == 0
    shown = capsys.readouterr().out
    assert "Difference from alpha" in shown
    assert "unjudged documents among the first 10 of a topic" in shown
    result = pyrite.evaluate(["runs/alpha.run", "runs/beta.run"], "qrels.txt", baseline="alpha")
    assert result.queries.equals(pl.read_csv("values.csv", schema=result.queries.schema))
    assert result.runs["run"].to_list() == ["alpha", "beta"]
    assert f"{result.runs['AP'][0]:.4f}"[1:] in shown
    assert "<table" in result._repr_html_()
    assert "nDCG@10" in repr(result)


def test_tests_are_paired_by_topic_and_adjusted(files):
    result = pyrite.evaluate("runs", "qrels.txt", ["AP", "judged@5"], baseline="alpha")
    assert result.tests["measure"].unique().to_list() == ["AP"]
    values = {name: result.queries.filter(run=name, measure="AP")["value"].to_numpy() for name in result.runs["run"]}
    expected = [paired_t_test(values[name], values["alpha"]) for name in ("beta", "gamma")]
    np.testing.assert_allclose(result.tests["p"], expected, rtol=1e-9)
    np.testing.assert_allclose(result.tests["p_holm"], holm(expected), rtol=1e-9)
    row = result.tests.row(0, named=True)
    assert row["difference"] == pytest.approx((values["beta"] - values["alpha"]).mean())
    assert row["low"] < row["difference"] < row["high"]
    assert row["better"] + row["worse"] <= 8


def test_few_topics_or_equal_differences_are_not_tested(tmp_path):
    """Of P@10, b is ahead by .1 on each topic: .4 - .3 and .7 - .6 differ in the last bit."""
    judged = {"query": ["1"] * 10 + ["2"] * 10, "document": [f"d{n}" for n in range(10)] * 2, "grade": [1] * 20}

    def first(*relevant: int) -> pl.DataFrame:
        rows = [(str(t), f"d{n}" if n < count else f"x{n}", -float(n)) for t, count in enumerate(relevant, 1)
                for n in range(10)]  # fmt: skip
        return pl.DataFrame(rows, ["query", "document", "score"], orient="row")

    result = pyrite.evaluate({"a": first(3, 6), "b": first(4, 7), "c": first(3, 7)}, pl.DataFrame(judged), ["P@10"],
                             baseline="a")  # fmt: skip
    assert result.tests["difference"].to_list() == pytest.approx([0.1, 0.05])
    assert result.tests.select("low", "high", "p", "p_holm").null_count().row(0) == (2, 2, 2, 2)
    assert "fewer than three topics" in " ".join(repr(result).split())


def test_runs_and_judgements_in_memory(files):
    of_files = pyrite.evaluate("runs", "qrels.txt")
    runs = {
        name: pl.read_csv(f"runs/{name}.run", separator=" ", has_header=False,
                          new_columns=["query", "_", "document", "rank", "score", "tag"])
        for name in ("alpha", "beta", "gamma")
    }  # fmt: skip
    nested = {name: {} for name in runs}
    for name, frame in runs.items():
        for row in frame.iter_rows(named=True):
            nested[name].setdefault(str(row["query"]), {})[row["document"]] = row["score"]
    qrels: dict[str, dict[str, int]] = {}
    for line in Path("qrels.txt").read_text().splitlines():
        topic, _, document, grade = line.split()
        qrels.setdefault(topic, {})[document] = int(grade)
    assert pyrite.evaluate(runs, "qrels.txt").queries.equals(of_files.queries)
    assert pyrite.evaluate(nested, qrels).queries.equals(of_files.queries)
    assert pyrite.evaluate({name: frame.to_pandas() for name, frame in runs.items()}, qrels).runs.equals(of_files.runs)


def test_several_files_of_judgements(files, capsys):
    lines = Path("qrels.txt").read_text().splitlines(keepends=True)
    Path("a.txt").write_text("".join(lines[:80]))
    Path("b.txt").write_text("".join(lines[80:]))
    assert run("runs", "qrels=[a.txt,b.txt]", "out=v.jsonl.gz") == 0
    assert pyrite.evaluate("runs", "qrels.txt").queries.equals(pyrite.evaluate("runs", ["a.txt", "b.txt"]).queries)
    assert len(pl.read_ndjson("v.jsonl.gz")) == 3 * 8 * 6
    Path("parts").mkdir()
    for name in ("a.txt", "b.txt"):
        Path("parts", name).write_text(Path(name).read_text())
    assert pyrite.evaluate("runs", "parts").queries.equals(pyrite.evaluate("runs", "parts/*.txt").queries)
    assert pyrite.evaluate("runs", "parts").queries.equals(pyrite.evaluate("runs", "qrels.txt").queries)
    Path("none").mkdir()
    assert run("runs", "qrels=none") == 2
    assert "none: no judgements in it" in capsys.readouterr().err
    Path("b.txt").write_text("".join(lines[79:]))
    assert run("runs", "qrels=[a.txt,b.txt]") == 2
    assert "is judged in several files; evaluate by one of them" in capsys.readouterr().err


def test_pooled_documents_that_are_not_judged_are_not_judged(files):
    """A grade of -1 is that of a document in the pool that nobody judged, as in TREC's sampled judgements."""
    measures = ["judged@20", "AP(judged_only=True)", "RBP(p=0.8)"]
    lines = Path("qrels.txt").read_text().splitlines(keepends=True)
    Path("half.txt").write_text("".join(lines[::2]))
    Path("minus.txt").write_text("".join(lines[::2] + [line[:-2] + "-1\n" for line in lines[1::2]]))
    half, minus = (pyrite.evaluate("runs", name, measures).queries for name in ("half.txt", "minus.txt"))
    assert minus.equals(half)
    assert 0 < half.filter(measure="judged@20")["value"].max() < 1


def test_other_ids_are_counted(files, capsys):
    Path("other.txt").write_text(Path("qrels.txt").read_text().replace(" d", " x"))
    assert run("runs", "other.txt") == 0
    assert "runs none of whose documents is judged (are the ids those of the judgements?): 3" in capsys.readouterr().out


def test_measures_with_parameters_need_no_quotes(files, capsys):
    assert run("runs", "qrels.txt", "measures=[AP,RBP(p=0.5,rel=2)@10,nDCG(dcg='exp-log2')@10]", "per_query=true") in (
        0,
        2,
    )
    assert run("runs", "qrels.txt", "measures=[AP,RBP(p=0.5,rel=2)@10]", "per_query=true") == 0
    shown = capsys.readouterr().out
    assert "RBP(p=0.5,rel=2)@10 residual" in shown
    assert "By topic" in shown


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["runs", "qrels.txt", "baseline=delta"], "there is no run 'delta'; choose one of alpha, beta, gamma"),
        (["runs/alpha.run", "qrels.txt", "baseline=alpha"], "is the only run"),
        (["runs", "qrels.txt", "out=v.xlsx"], "is not written as '.xlsx'; name it .csv"),
        (["qrels.txt"], "qrels.txt: is the only file that is named; name runs, and the judgements after them"),
        (["runs", "nowhere.txt"], "nowhere.txt"),
        (["runs", "qrels.txt", "measures=[map]"], "did you mean AP"),
        (["runs", "qrels.txt", "measures=[nDGC@10]"], "no measure 'nDGC@10'; did you mean nDCG@10?"),
        (["runs", "qrels.txt", "measures=[P@0]"], "measure 'P@0': cutoff and rel are 1 or more"),
        (["runs", "qrels.txt", "measures=[SetP,Judged@0]"], "no measure 'Judged@0'"),
        (["runs", "qrels.txt", "measures=[judged@0]"], "no measure 'judged@0'"),
        (["runs", "qrels.txt", "depth=5"], "depth"),
        (["runs/alpha.run", "qrels.txt", "runs=[runs/beta.run]"], "runs/alpha.run would be left out beside runs="),
        (["runs/alpha.run", "./runs/alpha.run", "qrels.txt"], "runs/alpha.run is named twice; name it once"),
    ],
)
def test_bad_input_is_one_line(arguments, says, files, capsys):
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("qrels", [{"1": {"d1": 1.5}}, {"1": {"d1": None}}, {}, {"1": {}}, 3])
def test_what_is_no_judgement_is_refused(qrels, files):
    with pytest.raises(BadInput):
        pyrite.evaluate("runs", qrels)


def test_one_measure_and_objects_of_ir_measures(files):
    expected = pyrite.evaluate("runs", "qrels.txt", ["nDCG@5"]).queries
    assert pyrite.evaluate("runs", "qrels.txt", "nDCG@5").queries.equals(expected)
    assert pyrite.evaluate("runs", "qrels.txt", [ir_measures.nDCG @ 5]).queries.equals(expected)
    with pytest.raises(BadInput, match="there are no runs"):
        pyrite.evaluate({}, "qrels.txt")


def test_a_file_that_exists_stays(files, capsys):
    Path("v.csv").write_text("mine")
    assert run("runs", "qrels.txt", "out=v.csv") == 2
    assert Path("v.csv").read_text() == "mine"


@pytest.mark.parametrize("out", ["qrels.txt/v.csv", "/proc/v.csv", f"{'v' * 256}.csv", f"{'v' * 250}.csv"])
def test_a_file_that_can_not_be_written_is_refused_before_anything_is_read(out, files, capsys):
    assert run("nowhere", "qrels.txt", f"out={out}") == 2
    error = capsys.readouterr().err
    assert re.search(rf"{out}: can't be written \(.+\); choose another out=$", error.strip())
    assert run("runs", "qrels.txt", "out=new/v.csv") == 0
    assert [path.name for path in Path("new").iterdir()] == ["v.csv"]


def test_a_file_that_is_named_like_an_option_is_a_run(files, capsys):
    Path("k=1.txt").write_text(Path("runs/beta.run").read_text().replace(" beta", " k1"))
    assert run("runs/alpha.run", "k=1.txt", "qrels.txt") == 0
    assert " k1 " in capsys.readouterr().out
    assert run("runs/alpha.run", "k=2.txt", "qrels.txt") == 2
    assert "no option k" in capsys.readouterr().err


def test_a_run_without_judged_topics_is_shown(files, capsys):
    Path("other.run").write_text("99 Q0 d1 1 4 other\n")
    assert run("runs", "other.run", "qrels.txt", "complete=false", "baseline=other", "measures=[AP]") == 0
    assert re.search(r"other +0 +–", capsys.readouterr().out)
    result = pyrite.evaluate(["runs", "other.run"], "qrels.txt", ["AP"], complete=False)
    assert result.runs.filter(run="other").row(0) == ("other", 0, None)


QRELS = pl.DataFrame({"query": ["1", "1", "1", "1"], "document": ["d1", "d2", "d2", "d3"], "grade": [1, 0, 2, 1]})
RUN = pl.DataFrame(
    {
        "query": ["1"] * 5,
        "document": ["d1", "d2", "d2", "d3", "d4"],
        "score": [2.0, 2.0, 1.0, 1.0000000002, 1.0000000001],
    }
)


def written(run: pl.DataFrame, qrels: pl.DataFrame) -> tuple[str, str]:
    """Write a run and judgements as files, and return their names."""
    lines = [f"{query} Q0 {document} {rank} {score!r} a" for rank, (query, document, score) in enumerate(run.rows())]
    Path("run.txt").write_text("\n".join(lines))
    Path("judged.txt").write_text("\n".join(f"{query} 0 {document} {grade}" for query, document, grade in qrels.rows()))
    return "run.txt", "judged.txt"


@pytest.mark.parametrize("options", [{}, {"qrels_repeated": "mean"}, {"order_precision": "double"}])
def test_options_and_notes_are_the_same_in_memory(options, files):
    of_files = pyrite.evaluate(*written(RUN, QRELS), ["AP", "nDCG@3", "RR"], options=options)
    in_memory = pyrite.evaluate({"a": RUN}, QRELS, ["AP", "nDCG@3", "RR"], options=options)
    assert in_memory.queries.equals(of_files.queries)
    assert in_memory.notes == of_files.notes
    assert {"lines that name a document again", "lines tied with the one before by score (ordered by document id, "
            "descending)"} <= set(in_memory.notes)  # fmt: skip
    assert any(what.startswith("judgements given again") for what in in_memory.notes)


def test_the_order_of_double_scores_in_memory():
    runs = {"a": {"1": {"d1": 1.0000000002, "d2": 1.0000000001}}}
    values = [
        pyrite.evaluate(runs, {"1": {"d1": 1}}, "RR", options={"order_precision": precision}).runs["RR"][0]
        for precision in ("single", "double")
    ]
    assert values == [0.5, 1.0]


def test_values_are_written_from_python_too(files):
    result = pyrite.evaluate({"a": RUN}, QRELS, ["AP"], options={"out": "v.csv"})
    assert result.queries.equals(pl.read_csv("v.csv", schema=result.queries.schema))


SCORES = {"a": {"1": {"d1": 1.0}}}
GRADES = {"1": {"d1": 1}}


@pytest.mark.parametrize(
    ("runs", "qrels", "measures", "options", "says"),
    [
        (SCORES, QRELS, "AP", {"qrels_repeated": "stop"}, "qrels:3: document 'd2' is judged again for query '1'"),
        (SCORES, GRADES, "AP", {"order": "rank"}, "order: orders runs of files; one in memory is ordered by its"),
        ({"1": SCORES["a"], 1: SCORES["a"]}, GRADES, "AP", {}, "runs: two runs are called 1; rename one"),
        (
            GRADES,
            GRADES,
            "AP",
            {},
            "the run '1': scores of topic 'd1' are of type int; give scores by document by topic by",
        ),
        ({"a": {"1": ["d1"]}}, GRADES, "AP", {}, "the run 'a': scores of topic '1' are of type list; give scores"),
        ({"a": {"1": {"d1": "x"}}}, GRADES, "AP", {}, "the run 'a': score of document 'd1' is 'x'; give a number"),
        ({"a": RUN.with_columns(score=pl.lit("abc"))}, GRADES, "AP", {}, "document 'd1' is 'abc'; give a number"),
        ({"a": RUN.to_pandas().assign(score=[1.0, 2.0, "abc", 3.0, 4.0])}, GRADES, "AP", {}, "the run 'a': can't be"),
        ({"a": RUN.with_columns(score=pl.concat_list("score"))}, GRADES, "AP", {}, "the run 'a': can't be read"),
        ({"a": RUN.with_columns(query=pl.lit(None))}, GRADES, "AP", {}, "the run 'a': a query has no id (5 rows)"),
        ({"a": {}}, GRADES, "AP", {}, "runs: no lines in any of the runs"),
        (SCORES, {"1": {"d1": 2**40}}, "AP", {}, "is 1099511627776; give a whole number of 32 bits"),
        (SCORES, {"1": {"d1": float("inf")}}, "AP", {}, "is inf; give a whole number of 32 bits"),
        (SCORES, {"1": 3}, "AP", {}, "qrels: grades of topic '1' are of type int"),
        (SCORES, [("1", "d1", 1)], "AP", {}, "qrels: ('1', 'd1', 1) is no path; give files, grades by document"),
        (None, GRADES, "AP", {}, "runs: NoneType is no path"),
        (SCORES, GRADES, None, {}, "measures: is a NoneType; give one or several measures"),
    ],
)
def test_what_is_no_input_in_memory_is_one_line(runs, qrels, measures, options, says):
    with pytest.raises(BadInput) as refused:
        pyrite.evaluate(runs, qrels, measures, options=options)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_runs_may_have_numbers_as_names():
    assert pyrite.evaluate({2: SCORES["a"], 1: SCORES["a"]}, GRADES, ir_measures.AP).runs.rows() == [
        ("1", 1, 1.0),
        ("2", 1, 1.0),
    ]
