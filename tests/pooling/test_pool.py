"""Pools of runs and judgements, in the forms that collections have, given twice, and of -1."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite.pooling.pool import make_pool, topic_pool
from pyrite.pooling.runs import read_runs
from pyrite.pooling.sentinels import NO_DOCUMENT
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.errors import BadInput
from pyrite.ranking.trec_files import read_qrels
from tests.pooling.made_up import qrels_of, runs_of

RUNS = runs_of({"a1": {"1": "cab", "2": "x"}, "a2": {"1": "bdc"}, "b": {"1": "e", "2": "yx", "3": "z"}})
QRELS = qrels_of(("1", "a", 1), ("1", "d", 0), ("1", "e", 2), ("1", "q", 1), ("2", "x", 0), ("4", "x", 1))


def test_a_pool():
    pool = make_pool(RUNS, QRELS, depth=2)
    assert [topic.name for topic in pool.topics] == ["1", "2"]
    assert pool.runs == ["a1", "a2", "b"]
    assert pool.teams == ["a", "a", "b"]
    first, second = pool.topics
    assert first.documents.to_list() == ["a", "b", "c", "d", "e"]
    assert first.pool.ranking.tolist() == [[2, 0], [1, 3], [4, NO_DOCUMENT]]
    assert first.pool.lengths.tolist() == [2, 2, 1]
    assert first.pool.teams.tolist() == [0, 0, 1]
    assert first.grades.tolist() == [1, 0, 0, 0, 2]
    assert first.judged.tolist() == [True, False, False, True, True]
    assert first.relevant == 3
    assert second.pool.ranking.tolist() == [[0, NO_DOCUMENT], [NO_DOCUMENT, NO_DOCUMENT], [1, 0]]
    assert second.pool.lengths.tolist() == [1, 0, 2]
    assert pool.size == 7
    assert pool.depth == 2
    assert pool.highest == 2
    assert pool.is_relevant(first).tolist() == [True, False, False, False, True]
    assert pool.notes == {
        "read": 7,
        "judgements of -1 (pooled, not judged)": 0,
        "pooled documents without a judgement (taken as not relevant)": 3,
        "relevant documents outside the pool": 1,
        "topics of the runs that the judgements lack": 1,
        "topics left out by topics= and most_topics=": 0,
        "topics of the judgements that the runs lack": 1,
        "topics that a run lacks": 1,
        "lists shorter than the pool's depth": 2,
    }


def test_higher_grades_alone():
    pool = make_pool(RUNS, QRELS, relevant_from=2)
    assert pool.is_relevant(pool.topics[0]).tolist() == [False, False, False, False, True]
    assert [topic.relevant for topic in pool.topics] == [1, 0]
    assert pool.notes["relevant documents outside the pool"] == 0
    assert make_pool(RUNS, QRELS, relevant_from=3).highest == 3


def test_the_highest_grade_is_of_all_judgements_whatever_topics_are_chosen():
    """Graded rewards are shares of it: an order does not depend on the other topics."""
    graded = qrels_of(("1", "a", 1), ("2", "x", 3), ("2", "x", 2), ("1", "outside", 4), ("4", "x", -1))
    assert make_pool(RUNS, graded).highest == make_pool(RUNS, graded, chosen=["1"]).highest == 4
    assert make_pool(RUNS, graded, chosen=["2"]).highest == 4
    assert make_pool(RUNS, qrels_of(("1", "a", 0), ("2", "x", -1))).highest == 1


def test_without_judgements():
    pool = make_pool(RUNS, None)
    assert [topic.name for topic in pool.topics] == ["1", "2", "3"]
    assert not any(topic.judged.any() or topic.grades.any() or topic.relevant for topic in pool.topics)
    assert pool.notes["pooled documents without a judgement (taken as not relevant)"] == 0


def test_of_two_judgements_the_last_counts():
    pool = make_pool(RUNS, qrels_of(("2", "x", 1), ("2", "x", 0), ("2", "y", 0), ("2", "y", 1)))
    assert pool.topics[0].grades.tolist() == [0, 1]
    assert pool.topics[0].relevant == 1


def test_topics_of_ones_choice():
    pool = make_pool(RUNS, None)
    some = pool.only(["3", "1"])
    assert [topic.name for topic in some.topics] == ["1", "3"]
    assert (some.runs, some.teams, some.depth, some.notes) == (pool.runs, pool.teams, pool.depth, pool.notes)


@pytest.mark.parametrize("options", [{"depth": 0}, {"relevant_from": 0}])
def test_options_out_of_range(options):
    with pytest.raises(BadInput, match="1 or more"):
        make_pool(RUNS, QRELS, **options)


@given(st.lists(st.lists(st.integers(0, 9), max_size=6, unique=True), min_size=1, max_size=6).filter(any))
def test_a_topics_arrays_say_the_same(lists):
    ranking = np.full((len(lists), 6), NO_DOCUMENT, np.int32)
    for run, documents in enumerate(lists):
        ranking[run, : len(documents)] = documents
    pool = topic_pool(ranking, 10)
    assert pool.size == 10
    assert pool.lengths.tolist() == [len(documents) for documents in lists]
    assert pool.teams.tolist() == list(range(len(lists)))
    documents = np.repeat(np.arange(10), np.diff(pool.offsets))
    cells = list(zip(documents.tolist(), pool.holders.tolist(), pool.ranks.tolist(), strict=True))
    expected = [(document, run, rank) for run, row in enumerate(lists) for rank, document in enumerate(row)]
    assert cells == sorted(expected)


def test_trec8(shared_data):
    # Losada et al. (2016): 94.04 relevant documents a topic in the pool (table 2), 94.56 known of (table 1).
    pool = make_pool(read_runs(str(shared_data / "trec8" / "runs")), read_qrels(shared_data / "trec8" / "qrels.txt.gz"))
    assert (len(pool.topics), len(pool.runs), pool.depth) == (50, 71, 100)
    assert np.mean([pool.is_relevant(topic).sum() for topic in pool.topics]) == pytest.approx(94.04)
    assert np.mean([topic.relevant for topic in pool.topics]) == pytest.approx(94.56)


def test_a_run_with_the_name_of_the_further_documents_is_refused():
    more = pl.DataFrame({"topic": ["1"], "document": ["z"], "place": [0]})
    named = runs_of({"a": {"1": "ab"}, "beyond": {"1": "c"}})
    assert make_pool(named, None).runs == ["a", "beyond"]
    with pytest.raises(BadInput, match=r"runs: a run is called 'beyond', .*; give that run another name"):
        make_pool(named, None, beyond=more)
    renamed = runs_of({"a": {"1": "ab"}, "c": {"1": "c"}})
    assert make_pool(renamed, None, beyond=more).runs == ["a", "c", "beyond"]


def test_a_depth_beyond_the_longest_list_costs_nothing():
    deep, whole = (make_pool(RUNS, QRELS, depth=depth) for depth in (10**9, 3))
    for topic, other in zip(deep.topics, whole.topics, strict=True):
        assert topic.pool.ranking.tolist() == other.pool.ranking.tolist()
        assert topic.pool.ranking.shape == (3, 3)


GRADES = [("7", "d1", 2), ("7", "d2", 0), ("8", "d1", 1)]
TREC = "".join(f"{query} 0 {document} {grade}\n" for query, document, grade in GRADES)
NESTED = {query: {d: g for q, d, g in GRADES if q == query} for query in ("7", "8")}
SAME = {
    "TREC": TREC,
    "tabs and CRLF": TREC.replace(" ", "\t").replace("\n", "\r\n"),
    "two tabs, otherwise blanks": TREC.replace(" 0 d", "\t0\td"),
    "two tabs, a blank after the iteration": "".join(f"{q}\t0 {d}\t{g}\n" for q, d, g in GRADES),
    "comments": f"# pooled in May\n{TREC}",
    "a header": f"topic iter docno rel\n{TREC}",
    "grades as floats": TREC.replace("2\n", "2.0\n").replace(" 0\n", " 0.0\n"),
    "BEIR": "query-id\tcorpus-id\tscore\n" + "".join(f"{q}\t{d}\t{g}\n" for q, d, g in GRADES),
    "BEIR without a header": "".join(f"{q}\t{d}\t{g}\n" for q, d, g in GRADES),
    "a table with commas": "qid,docno,label\n" + "".join(f"{q},{d},{g}\n" for q, d, g in GRADES),
    "Million Query": "".join(f"{q} {d} {g} 1 0.25\n" for q, d, g in GRADES),
    "JSON": json.dumps(NESTED),
    "commas without a header": TREC.replace(" ", ","),
    "an assessor in a fifth column": TREC.replace("\n", " me\n"),
    "columns in another order": "docid\tqid\tlabel\n" + "".join(f"{d}\t{q}\t{g}\n" for q, d, g in GRADES),
    "JSON lines of other names": '{"query-id": "7", "corpus-id": "d1", "score": 2}\n'
    '{"qid": "7", "docno": "d2", "rel": 0}\n{"qid": "8", "docno": "d1", "rel": 1}\n',
}


@pytest.mark.parametrize(
    ("repeated", "grades"), [("max", [2, 1, 1]), ("mean", [1, 1, 1])]
)  # of 0, 2 and 1 the mean is 1; of 0 and 1 it is rounded up
def test_judgements_given_again_are_merged_and_counted_or_stop(tmp_path, repeated, grades):
    (tmp_path / "qrels").write_text("7 1 a 0\n7 1 b 0\n7 2 a 2\n7 3 a 1\n7 2 b 1\n8 1 a 1\n")
    faults = Faults()
    read = read_qrels(tmp_path / "qrels", faults=faults, repeated=repeated)
    assert read.rows() == [("7", "a", grades[0]), ("7", "b", grades[1]), ("8", "a", grades[2])]
    assert list(faults.notes.values()) == [3]
    assert "counts" in next(iter(faults.notes))
    (tmp_path / "qrels").write_text("7 1 a 0\n7 2 a 2\n")
    with pytest.raises(BadInput, match=r"qrels:2: document 'a' is judged again for query '7'.*qrels_repeated=max"):
        read_qrels(tmp_path / "qrels", repeated="stop")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("7 0 a nan\n", "qrels:1: broken line: grade 'nan' is not a whole number"),
        ('{"7": {"a": "x"}}', r"grade 'x' is not a whole number"),
        ("# only a comment\n", "no lines in it"),
        ("7 0 a high\n7 0 b 1\n", "qrels:1: broken line: grade 'high' is not a whole number"),
        ('[["7", "d1", 1]]', "qrels:1: broken line: not a JSON object of query, document and grade"),
        ('{"qid": 7, "docid": null, "rel": 1}\n', "qrels:1: broken line: the document None is no id"),
        ("qid\tdocid\trel\n7\t\t1\n", "qrels:2: broken line: the document's id is empty"),
    ],
)
def test_what_can_not_be_read_is_refused(tmp_path, content, says):
    (tmp_path / "qrels").write_text(content)
    with pytest.raises(BadInput, match=says):
        read_qrels(tmp_path / "qrels")


def test_minus_one_is_pooled_and_not_judged():
    pool = make_pool(runs_of({"a": {"7": "abcd"}}), qrels_of(("7", "a", -1), ("7", "b", -2), ("7", "c", 1)))
    assert pool.topics[0].judged.tolist() == [False, True, True, False]
    assert pool.topics[0].grades.tolist() == [0, -2, 1, 0]
    assert pool.notes["judgements of -1 (pooled, not judged)"] == 1
    assert pool.is_relevant(pool.topics[0]).tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    ("of_runs", "judged", "says"),
    [
        ("0301", "301", r"the runs have '0301', the judgements '301'; they differ in leading zeros"),
        ("301.1", "301", r"the runs have '301.1', the judgements '301'; they differ in what follows the first point"),
        ("q301", "301", r"the runs have 'q301', the judgements '301'; they differ in letters before the number"),
        ("x", "y", "no topic in common.*are they of the same collection"),
    ],
)
def test_topics_that_differ_in_form_are_named(of_runs, judged, says):
    with pytest.raises(BadInput, match=says):
        make_pool(runs_of({"a": {of_runs: "ab"}}), qrels_of((judged, "a", 1)))


def test_ids_in_another_unicode_form_are_named():
    with pytest.raises(BadInput, match=r"document 'caf\\xe9' of topic 7 is 'cafe\\u0301' in the judgements"):
        make_pool(runs_of({"a": {"7": ["caf\u00e9", "b"]}}), qrels_of(("7", "cafe\u0301", 1)))


FORMS = {name: (text, GRADES) for name, text in SAME.items()} | {
    "true and false": ("7 0 d1 True\n7 0 d2 FALSE\n", [("7", "d1", 1), ("7", "d2", 0)]),
    "relevant documents of JSON": ('{"7": ["d1", "d2"]}', [("7", "d1", 1), ("7", "d2", 1)]),
    "semicolons": ("topic;docno;label\n7;d1;1\n7;d2;0\n", [("7", "d1", 1), ("7", "d2", 0)]),
    "blanks after commas": ("query_id, doc_id, relevance\n7, d1, 1\n", [("7", "d1", 1)]),
    "ids with blanks between tabs": ("7\t0\ta title\t1\n7\t0\tb\t0\n", [("7", "a title", 1), ("7", "b", 0)]),
    "a JSON name twice": ('{"7": {"d1": 1}, "7": {"d2": 2}}', [("7", "d1", 1), ("7", "d2", 2)]),
    "numbers of JSON as they are written": ('{"qid": 1e5, "docid": 7, "rel": 1.0}\n', [("1e5", "7", 1)]),
    "-1 is no judgement beside another": ("7 0 d1 -1\n7 0 d1 -2\n7 0 d2 -1\n", [("7", "d1", -2), ("7", "d2", -1)]),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_judgements_is_read(tmp_path, form):
    text, rows = FORMS[form]
    (tmp_path / "qrels").write_text(text)
    faults = Faults()
    assert read_qrels(tmp_path / "qrels", faults=faults).rows() == rows
    fifth = faults.notes.get("judgements with text in a fifth column, which is not read", 0)
    assert fifth == (3 if form == "an assessor in a fifth column" else 0)
