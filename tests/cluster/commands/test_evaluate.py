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
