"""Measures of runs against ir-measures, and by hand."""

from __future__ import annotations

import ir_measures
import numpy as np
import polars as pl
import pytest

from pyrite.pooling.run_measures import measure_runs
from pyrite.pooling.runs import Runs, by_value
from pyrite.ranking.errors import BadInput


def runs_of(*tables: dict[str, list[str]]) -> Runs:
    """Runs of ranked documents by topic."""
    rows = [
        (number, topic, document, place)
        for number, table in enumerate(tables)
        for topic, documents in table.items()
        for place, document in enumerate(documents)
    ]
    schema = {"run": pl.UInt32, "topic": pl.String, "document": pl.String, "place": pl.UInt32}
    names = [f"run{number}" for number in range(len(tables))]
    table = pl.DataFrame(rows, schema=schema, orient="row")
    return Runs(names, names, sorted(table["topic"].unique(), key=by_value), table)


def qrels_of(**grades: dict[str, int]) -> pl.DataFrame:
    rows = [(topic.lstrip("t"), document, grade) for topic, of in grades.items() for document, grade in of.items()]
    return pl.DataFrame(rows, {"query": pl.String, "document": pl.String, "grade": pl.Int32}, orient="row")


QRELS = qrels_of(t1={"a": 1, "b": 0, "c": 2}, t2={"d": 1})


def value(measured, run: int, topic: str, measure: str) -> float:
    return measured.of(f"run{run}", measure).filter(topic=topic)["value"].item()


def test_by_hand():
    measured = measure_runs(runs_of({"1": ["x", "a", "b", "y", "c"]}), QRELS, ["P@2", "judged@2", "judged@9", "AP"])
    assert value(measured, 0, "1", "P@2") == 0.5
    assert value(measured, 0, "1", "judged@2") == 0.5
    assert value(measured, 0, "1", "judged@9") == pytest.approx(3 / 5)  # of the five that it has
    assert value(measured, 0, "1", "AP") == pytest.approx((1 / 2 + 2 / 5) / 2)
    assert value(measured, 0, "2", "AP") == 0
    assert measured.notes["topics that a run lacks, which count as 0"] == 1
    assert measured.notes["unjudged documents among the first 10 of a topic"] == 2
    assert measured.means().columns == ["run", "topics", "P@2", "judged@2", "judged@9", "AP"]


def test_condensed_lists_leave_out_what_is_not_judged():
    runs = runs_of({"1": ["x", "a", "b", "y", "c"]})
    for measured, name in (
        (measure_runs(runs, QRELS, ["AP"], judged_only=True), "AP"),
        (measure_runs(runs, QRELS, ["AP(judged_only=True)", "AP"]), "AP(judged_only=True)"),
    ):
        assert value(measured, 0, "1", name) == pytest.approx((1 + 2 / 3) / 2)


def test_a_measure_may_have_two_names():
    runs, names = runs_of({"1": ["x", "a", "b", "y", "c"]}), ["AP", "AP()", "AP(judged_only=True)", "SetP", "SetP()"]
    measured = measure_runs(runs, QRELS, names, judged_only=True)
    values = [value(measured, 0, "1", name) for name in names]
    assert values == pytest.approx([(1 + 2 / 3) / 2] * 3 + [2 / 3] * 2)


def test_the_residual_of_rank_biased_precision():
    measured = measure_runs(runs_of({"1": ["x", "a", "b"]}), QRELS, ["RBP(p=0.5)", "RBP(p=0.5)@2"])
    assert measured.measures == ["RBP(p=0.5)", "RBP(p=0.5) residual", "RBP(p=0.5)@2", "RBP(p=0.5)@2 residual"]
    assert value(measured, 0, "1", "RBP(p=0.5)") == 0.25
    assert value(measured, 0, "1", "RBP(p=0.5) residual") == 0.5 + 0.125
    assert value(measured, 0, "1", "RBP(p=0.5)@2 residual") == 0.5 + 0.25
    assert value(measured, 0, "2", "RBP(p=0.5) residual") == 1  # it has nothing: all could be relevant


def test_a_topic_that_a_run_lacks_counts_as_0_or_not():
    runs = runs_of({"1": ["a"], "2": ["d"]}, {"1": ["a"]})
    assert measure_runs(runs, QRELS, ["P@1"]).means()["P@1"].to_list() == [1, 0.5]
    measured = measure_runs(runs, QRELS, ["P@1"], complete=False)
    assert measured.means()[["topics", "P@1"]].rows() == [(2, 1), (1, 1)]
    assert measured.notes["topics that a run lacks, which are left out of its means"] == 1


def test_it_agrees_with_ir_measures():
    rng = np.random.default_rng(3)
    documents = [f"d{number}" for number in range(60)]
    truth = {}
    for topic in range(1, 8):
        names = rng.permutation(documents)[:30].tolist()
        truth[f"t{topic}"] = dict(zip(names, rng.integers(0, 3, 30).tolist(), strict=True))
    qrels = qrels_of(**truth)
    runs = runs_of({str(topic): rng.permutation(documents)[:40].tolist() for topic in range(1, 8)})
    names = ["AP", "nDCG@10", "RR", "P@5", "R@20", "Bpref", "infAP", "Rprec", "RBP(p=0.8)", "SetP", "SetF", "Judged@10",
             "Success@1"]  # fmt: skip
    names += ["AP(judged_only=True)", "P(judged_only=True)@5", "NumRet"]
    measured = measure_runs(runs, qrels, [name.replace("Judged", "judged") for name in names])
    frame = runs.table.select(query_id="topic", doc_id="document", score=-pl.col("place").cast(pl.Float64)).to_pandas()
    judged = qrels.select(query_id="query", doc_id="document", relevance="grade").to_pandas()
    for name in names:
        try:
            found = {each.query_id: each.value for each in
                     ir_measures.iter_calc([ir_measures.parse_measure(name)], judged, frame)}  # fmt: skip
        except (RuntimeError, ValueError):  # no provider here, as for judged_only
            continue
        for topic, expected in found.items():
            assert value(measured, 0, topic, name.replace("Judged", "judged")) == pytest.approx(expected, abs=1e-9), (
                name
            )


def test_the_lowest_relevant_grade_reaches_measures_of_ir_measures():
    qrels = qrels_of(t1={"a": 1, "b": 0, "c": 2, "e": 2}, t2={"d": 1, "f": 2})
    runs = runs_of({"1": ["x", "a", "b", "y", "c"], "2": ["d", "f", "g"]})
    frame = runs.table.select(query_id="topic", doc_id="document", score=-pl.col("place").cast(pl.Float64)).to_pandas()
    judged = qrels.select(query_id="query", doc_id="document", relevance="grade").to_pandas()
    expected = {
        "SetP": "SetP(rel=2)", "SetR": "SetR(rel=2)", "SetF": "SetF(rel=2)", "IPrec@0.1": "IPrec(rel=2)@0.1",
        "NumRelRet": "NumRet(rel=2)", "NumRet": "NumRet", "SetP(rel=1)": "SetP", "SetP(rel=2)": "SetP(rel=2)",
        "AP": "AP(rel=2)",
    }  # fmt: skip
    measured = measure_runs(runs, qrels, list(expected), relevant_from=2)
    for name, of_grade_2 in expected.items():
        for each in ir_measures.iter_calc([ir_measures.parse_measure(of_grade_2)], judged, frame):
            assert value(measured, 0, each.query_id, name) == pytest.approx(each.value), (name, each.query_id)
    with pytest.raises(BadInput, match=r"relevant_from=2 does not apply to it; leave it out"):
        measure_runs(runs, qrels, ["Compat(p=0.8)"], relevant_from=2)


def test_documents_that_are_not_retrieved_come_last_in_the_ideal_of_compatibility():
    qrels = qrels_of(t1={"d1": 1, "d2": 1, "d4": 1})
    measured = measure_runs(runs_of({"1": ["d1", "d2", "d3"]}), qrels, ["Compat(p=0.8)"])
    run, judged = {"1": {"d1": 3, "d2": 2, "d3": 1}}, {"1": {"d1": 1, "d2": 1, "d4": 1}}
    expected = ir_measures.calc_aggregate([ir_measures.Compat(p=0.8)], judged, run)[ir_measures.Compat(p=0.8)]
    assert value(measured, 0, "1", "Compat(p=0.8)") == pytest.approx(expected)
    assert expected == pytest.approx(0.9126, abs=1e-4)


def test_a_run_without_judged_topics_has_no_means():
    runs = runs_of({"1": ["a"]}, {"7": ["a"]})
    means = measure_runs(runs, QRELS, ["P@1", "AP"], complete=False).means()
    assert means.rows() == [("run0", 1, 1.0, 0.5), ("run1", 0, None, None)]


@pytest.mark.parametrize("grade", [-1, -2, -7])
def test_every_grade_below_0_is_no_judgement(grade):
    names = ["infAP", "Bpref", "AP(judged_only=True)", "judged@2", "RBP(p=0.8)"]
    qrels = qrels_of(t1={"x": grade, "a": 1, "b": 0, "c": 1})
    measured = measure_runs(runs_of({"1": ["x", "a", "b", "c"]}), qrels, names)
    [as_trec_eval] = [
        metric.value
        for metric in ir_measures.iter_calc(
            [ir_measures.infAP],
            [ir_measures.Qrel(topic, document, grade) for topic, document, grade in qrels.iter_rows()],
            [ir_measures.ScoredDoc("1", document, -place) for place, document in enumerate("xabc")],
        )
    ]
    assert value(measured, 0, "1", "infAP") == pytest.approx(as_trec_eval)
    assert value(measured, 0, "1", "judged@2") == 0.5
    assert value(measured, 0, "1", "AP(judged_only=True)") == pytest.approx((1 + 2 / 3) / 2)
    assert value(measured, 0, "1", "RBP(p=0.8) residual") == pytest.approx(0.2 + 0.8**4)
    assert measured.notes["unjudged documents among the first 10 of a topic"] == 1


def test_a_topic_with_grades_below_minus_1_alone_is_measured_elsewhere_too():
    qrels = qrels_of(t1={"x": -2, "a": -2, "b": -3}, t2={"d": 1})
    measured = measure_runs(runs_of({"1": ["x", "a", "b", "c"], "2": ["d"]}), qrels, ["SetP", "NumRet"])
    assert (value(measured, 0, "1", "SetP"), value(measured, 0, "2", "SetP")) == (0, 1)


@pytest.mark.parametrize("name", ["StRecall@10", "alpha_nDCG@10", "ERR_IA@20", "NRBP", "AP_IA(rel=2)"])
def test_measures_of_subtopics_are_refused(name):
    with pytest.raises(BadInput, match=r"reads subtopics, which are merged here.*leave it out, or compute it with"):
        measure_runs(runs_of({"1": ["a"]}), QRELS, ["AP", name])


def test_ids_in_another_unicode_form_are_refused_as_in_a_pool():
    qrels = qrels_of(t1={"Z\xfcrich": 1})
    with pytest.raises(BadInput, match=r"of topic 1 is 'Z.xfcrich' in the judgements, another Unicode form; convert"):
        measure_runs(runs_of({"1": ["b", "Zu\u0308rich"]}), qrels, ["AP"])
    measure_runs(runs_of({"1": ["b", "Z\xfcrich"]}), qrels, ["AP"])


@pytest.mark.parametrize("name", ["Accuracy(judged_only=True)", "SetR(judged_only=True)"])
def test_measures_that_can_not_be_condensed_are_named(name):
    runs, plain = runs_of({"1": ["x", "a", "b", "y", "c"]}), name.partition("(")[0]
    with pytest.raises(BadInput, match=rf"judged_only is not possible for {plain}; write {plain}"):
        measure_runs(runs, QRELS, [name])
    measure_runs(runs, QRELS, [plain], judged_only=True)


@pytest.mark.parametrize("name", ["RBP(p=1.5)", "RBP(p=1)", "P(rel=0)@5"])
def test_parameters_out_of_range_are_not_handed_to_ir_measures(name):
    with pytest.raises(BadInput, match=r"p is above 0 and below 1|rel are 1 or more"):
        measure_runs(runs_of({"1": ["a"]}), QRELS, [name])


@pytest.mark.parametrize(
    ("measures", "says"),
    [(["nothing"], "no measure 'nothing'"), (["map"], "did you mean AP"), (["P"], "no measure 'P'")],
)
def test_unknown_measures_are_refused(measures, says):
    with pytest.raises(BadInput, match=says):
        measure_runs(runs_of({"1": ["a"]}), QRELS, measures)


def test_other_topics_are_refused():
    with pytest.raises(BadInput, match=r"no topic in common \(the runs have '9', the judgements '1'\)"):
        measure_runs(runs_of({"9": ["a"]}), QRELS)
