import gzip
import re
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from pyrite.ranking.errors import BadInput
from pyrite.ranking.evaluation.measures import Evaluator, parse, ranked_grades
from tests.examples import few

Qrels = dict[str, dict[str, int]]
Run = dict[str, dict[str, float]]

# Ours, and the name that pytrec_eval gives the same number.
BINARY = {
    "AP": "map",
    "AP@5": "map_cut_5",
    "AP@100": "map_cut_100",
    "RR": "recip_rank",
    "P@5": "P_5",
    "P@10": "P_10",
    "R@1": "recall_1",
    "R@100": "recall_100",
    "Success@1": "success_1",
}
GRADED = {"nDCG": "ndcg", "nDCG@3": "ndcg_cut_3", "nDCG@20": "ndcg_cut_20"}


def with_level(name: str, rel: int) -> str:
    family, _, cutoff = name.partition("@")
    return f"{family}(rel={rel})" + (f"@{cutoff}" if cutoff else "")


def assert_as_trec_eval(run: Run, qrels: Qrels, rel: int = 1) -> None:
    """Evaluate a run both ways and compare every query and measure."""
    queries = sorted(run)
    ids = sorted({document for ranking in run.values() for document in ranking}, key=str.encode)
    number = {document: i for i, document in enumerate(ids)}
    shape = (len(queries), max(map(len, run.values())))
    documents, scores, grades = np.full(shape, -1), np.full(shape, np.nan, np.float32), np.zeros(shape, int)
    for row, query in enumerate(queries):
        for column, (document, score) in enumerate(run[query].items()):
            documents[row, column], scores[row, column] = number[document], score
            grades[row, column] = qrels[query].get(document, 0)
    ours = {with_level(name, rel): name for name in BINARY} | {name: name for name in GRADED}
    evaluator = Evaluator(list(ours), [list(qrels[query].values()) for query in queries])
    results = evaluator(ranked_grades(scores, documents, grades, documents))

    names = {"map", "map_cut", "recip_rank", "P", "recall", "success", "ndcg"}
    cuts = {f"{family}.{k}" for family in ("map_cut", "P", "recall", "success") for k in (1, 5, 10, 100)}
    cuts |= {"ndcg_cut.3,20"}
    truth = pytrec_eval.RelevanceEvaluator(
        qrels, (names - {"map_cut", "P", "recall", "success"}) | cuts, relevance_level=rel
    ).evaluate(run)
    for name, plain in ours.items():
        expected = [truth[query][{**BINARY, **GRADED}[plain]] for query in queries]
        np.testing.assert_allclose(results[name], expected, atol=1e-6, rtol=0, err_msg=name)


def read(folder: Path, run: str) -> tuple[Run, Qrels]:
    qrels: Qrels = {}
    with gzip.open(folder / "qrels.txt.gz", "rt") as lines:
        for query, _, document, grade in map(str.split, lines):
            qrels.setdefault(query, {})[document] = int(grade)
    ranking: Run = {}
    with gzip.open(folder / "runs" / run, "rt") as lines:
        for query, _, document, _, score, _ in map(str.split, lines):
            if query in qrels:
                ranking.setdefault(query, {})[document] = float(score)
    return ranking, qrels


@pytest.mark.parametrize("rel", [1, 2])
def test_equals_trec_eval_on_graded_runs(shared_data, rel):
    for name in sorted(path.name for path in (shared_data / "dl19" / "runs").iterdir())[::9]:
        assert_as_trec_eval(*read(shared_data / "dl19", name), rel=rel)


@st.composite
def small_cases(draw: st.DrawFn) -> tuple[Run, Qrels]:
    ids = ["1", "10", "2", "a", "B", "ä", "zz", "Ω"]
    # Scores that only float64 tells apart, both zeros, infinities: what a naive sort gets wrong.
    score = st.sampled_from([0.0, -0.0, 1.0, 1.0 + 1e-12, -1.0, 3.5, 1e-40, float("inf"), float("-inf")])
    queries = [f"q{i}" for i in range(draw(st.integers(1, 3)))]
    run = {q: draw(st.dictionaries(st.sampled_from(ids), score, min_size=1)) for q in queries}
    return run, {q: draw(st.dictionaries(st.sampled_from(ids), st.integers(0, 3), min_size=1)) for q in queries}


@few(30)
@given(small_cases(), st.integers(1, 3))
def test_equals_trec_eval_on_any_small_case(case, rel):
    assert_as_trec_eval(*case, rel=rel)


EVERY = [
    *(with_level(name, rel) for name in BINARY for rel in (1, 2)),
    *("RR@2", "R@3", "P@1", "Success@4", "nDCG(dcg='exp-log2')@4", *GRADED),
]


@st.composite
def some_ranks(draw: st.DrawFn) -> tuple[np.ndarray, list[list[int]], np.ndarray, np.ndarray]:
    """Rankings, all judgements, and the grades and ranks of all that may be relevant, in any order."""
    queries, length = draw(st.integers(0, 3)), draw(st.integers(0, 8))
    grades = [draw(st.lists(st.integers(-1, 3), min_size=length, max_size=length)) for _ in range(queries)]
    unranked = [draw(st.lists(st.integers(-1, 3), max_size=3)) for _ in range(queries)]
    rows = []
    for of_ranked, of_others in zip(grades, unranked, strict=True):
        known = [(grade, rank) for rank, grade in enumerate(of_ranked, 1) if grade > 0 or draw(st.booleans())]
        rows.append(draw(st.permutations(known + [(grade, 0) for grade in of_others])))
    width = max(map(len, rows), default=0)
    filled = np.array([[*row, *[(0, 0)] * (width - len(row))] for row in rows], int).reshape(queries, width, 2)
    judged = [of_ranked + of_others for of_ranked, of_others in zip(grades, unranked, strict=True)]
    return np.array(grades, int).reshape(queries, length), judged, filled[..., 0], filled[..., 1]


@given(some_ranks(), st.one_of(st.none(), st.integers(1, 9)))
def test_the_ranks_of_some_give_what_the_whole_ranking_gives(case, depth):
    ranked, judged, grades, ranks = case
    evaluator = Evaluator(EVERY, judged)
    whole, found = evaluator(ranked[:, :depth]), evaluator.of_ranks(grades, ranks, depth)
    assert found.keys() == whole.keys()
    for name, values in whole.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-12, err_msg=name)


def test_exponential_gains_by_hand():
    value = Evaluator(["nDCG(dcg='exp-log2')"], [[3, 1]])(np.array([[1, 3]]))
    assert value["nDCG(dcg='exp-log2')"] == pytest.approx([(1 + 7 / np.log2(3)) / (7 + 1 / np.log2(3))])
    value = Evaluator(["nDCG(dcg='exp-log2')"], [[2000, 1999]])(np.array([[1999, 2000]]))
    assert value["nDCG(dcg='exp-log2')"] == pytest.approx([(0.5 + 1 / np.log2(3)) / (1 + 0.5 / np.log2(3))])


def test_padding_goes_last_wherever_it_stands():
    scores = np.array([[np.nan, -np.inf, 2.0]], np.float32)
    documents, grades = np.array([[-1, 7, 3]]), np.array([[9, 1, 2]])
    assert ranked_grades(scores, documents, grades, documents).tolist() == [[2, 1, 0]]


def test_no_queries_and_no_candidates():
    names = ["AP", "RR@10", "P@5", "nDCG", "Success@1"]
    assert all(v.shape == (0,) for v in Evaluator(names, [])(np.empty((0, 5), int)).values())
    assert all(v.tolist() == [0.0] for v in Evaluator(names, [[1]])(np.empty((1, 0), int)).values())


@pytest.mark.parametrize(("score", "key", "says"), [(np.nan, 1, "NaN"), (1, -1, "tie keys"), (1, 2**32, "tie keys")])
def test_what_can_not_be_ranked_is_an_internal_error(score, key, says):
    documents = np.array([[1, 2]])
    with pytest.raises(ValueError, match=says):
        ranked_grades(np.array([[1, score]], np.float32), documents, documents, np.array([[0, key]]))


def test_a_wrong_shape_is_an_internal_error():
    with pytest.raises(ValueError, match="depth"):
        Evaluator(["AP"], [[1], [1]])(np.zeros((1, 3), int))


@pytest.mark.parametrize(
    "name",
    [
        *("", "nope", "AP(", "AP@x", "AP@1.5", "nDCG(rel=2)@3", "1+1", "P@5, AP"),
        *("AP(judged_only=True)@10", "nDCG(dcg='x')", "nDCG(gains={0:0,1:2})", "P(rel='a')@5"),
    ],
)
def test_an_unsupported_measure_lists_what_there_is(name):
    with pytest.raises(BadInput, match=r"there are AP .*nDCG"):
        parse(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("P", "P@10"), ("Success", "Success@10"), ("nDGC@5", "nDCG@5"), ("map_cut_10", "AP@10"), ("bprf", "Bpref")],
)
def test_the_measure_that_is_meant_is_named_and_is_one(name, meant):
    with pytest.raises(BadInput, match=f"did you mean {meant}\\?"):
        parse(name)
    parse(meant)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("ndcg@10", "nDCG@10"), ("ndcg_cut_10", "nDCG@10"), ("recall@100", "R@100"), ("recall", "R@10"), ("map", "AP")],
)
def test_a_name_of_another_tool_is_understood(name, meant):
    with pytest.raises(BadInput, match=rf"did you mean {meant}\?$"):
        parse(name)


@pytest.mark.parametrize(
    ("name", "written"),
    [("infAP@10", "infAP"), ("bpref@5", "Bpref"), ("Rprec@5", "Rprec"), ("Bpref(rel=2)@5", "Bpref(rel=2)")],
)
def test_a_measure_without_a_cutoff_is_suggested_without_one(name, written):
    with pytest.raises(BadInput) as refused:
        parse(name)
    assert str(refused.value).endswith(f"{written.partition('(')[0]} has no cutoff; write {written}")
    parse(written)


def test_the_list_of_measures_has_none_that_is_refused():
    with pytest.raises(BadInput) as refused:
        parse("bprf_5")
    assert refused.value.remedy == "did you mean Bpref?"
    with pytest.raises(BadInput) as refused:
        parse("nope")
    forms = re.findall(r"(?:there are |, |and )(\w+(?:@k)?)(?= and| \()", refused.value.remedy)
    assert {"AP", "AP@k", "P@k", "infAP"} <= set(forms)
    for form in forms:
        parse(form.replace("@k", "@10"))


@pytest.mark.parametrize("p", ["1.5", "1", "1.0", "0", "-1", "2e3"])
def test_a_user_who_never_stops_is_refused(p):
    for name in (f"RBP(p={p})", f"RBP(rel=2,p={p})@10", f"rbp(p={p},rel=2)"):
        with pytest.raises(BadInput, match="p is above 0 and below 1"):
            parse(name)
    assert parse("RBP(p=0.95)@10").p == 0.95


@pytest.mark.parametrize("name", ["P@0", "AP@-1", "P(rel=0)@5"])
def test_a_measure_of_nothing_is_refused(name):
    with pytest.raises(BadInput):
        parse(name)


def test_names_may_be_aliases():
    assert parse("MRR@10") == parse("RR@10") != parse("RR")
    assert list(Evaluator(["MAP@100"], [[1]])(np.array([[1]]))) == ["MAP@100"]


@pytest.mark.parametrize("rel", [1, 2])
def test_measures_of_judged_documents_equal_trec_eval(rel):
    """Also from the ranks of the judged documents alone, as in rankings of a whole collection."""
    rng = np.random.default_rng(rel)
    names = {f"bpref(rel={rel})": "bpref", f"Rprec(rel={rel})": "Rprec"} | ({"infAP": "infAP"} if rel == 1 else {})
    for _ in range(40):
        grades = {int(row): int(rng.integers(-3, 4)) for row in rng.permutation(40)[: rng.integers(1, 30)]}
        grades[40] = 0  # trec_eval ends the process if all grades are below -1
        run = rng.permutation(40)[: rng.integers(1, 30)]
        qrels = {"q": {str(row): grade for row, grade in grades.items()}}
        scores = {"q": {str(row): 100.0 - rank for rank, row in enumerate(run)}}
        truth = pytrec_eval.RelevanceEvaluator(qrels, set(names.values()), relevance_level=rel).evaluate(scores)["q"]
        evaluator = Evaluator(list(names), [list(grades.values())])
        values = evaluator(np.array([[grades.get(int(row), evaluator.unjudged) for row in run]]))
        places = {int(row): rank for rank, row in enumerate(run, 1)}
        ranks = np.array([[places.get(row, 0) for row in grades]])
        of_ranks = evaluator.of_ranks(np.array([list(grades.values())]), ranks, None)
        for name, theirs in names.items():
            assert values[name][0] == pytest.approx(truth[theirs], abs=1e-6)
            assert of_ranks[name][0] == pytest.approx(truth[theirs], abs=1e-6)


def test_rank_biased_precision_and_expected_reciprocal_rank_by_hand():
    values = Evaluator(["RBP(p=0.5)", "RBP(rel=2)@2", "ERR@2", "ERR"], [[4, 1]])(np.array([[0, 4, 1]]))
    assert values["RBP(p=0.5)"].tolist() == [0.25 + 0.125]
    assert values["RBP(rel=2)@2"].tolist() == pytest.approx([0.2 * 0.8])
    assert values["ERR@2"].tolist() == [15 / 16 / 2]
    assert values["ERR"].tolist() == pytest.approx([15 / 16 / 2 + 1 / 16 * 1 / 16 / 3])
