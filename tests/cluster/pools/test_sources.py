import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from pyrite.cluster.config.compose import compose
from pyrite.cluster.executors.task import Context
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.pools.sources import (
    NamedPool,
    changed_files,
    file_digests,
    fingerprint,
    open_pools,
    shown_progress,
)
from pyrite.cluster.pools.trial import LOSADA, Trial, execute_trial, trial_store, usual_budgets
from pyrite.pooling.effort import effort, total_curve
from pyrite.pooling.judging_order import JudgingOrder
from pyrite.pooling.pool import Pool, make_pool
from pyrite.ranking.errors import BadInput
from tests.pooling.made_up import qrels_of, runs_of


def opened(*overrides: str) -> list[NamedPool]:
    return open_pools(compose(overrides, "pool"), lambda name, done, total: None)


def test_a_pool_is_named_by_its_folder_and_known_by_its_content(small_pool, of_small_pool, tmp_path):
    (named,) = opened(*of_small_pool)
    assert named.name == "small"
    assert len(named.pool.runs) == 6
    assert sorted(set(named.pool.teams)) == ["a", "b", "c"]
    (again,) = opened(*of_small_pool)
    (other,) = opened(*of_small_pool, "depth=9")
    assert named.fingerprint == again.fingerprint != other.fingerprint
    for name in ("one", "other"):
        (tmp_path / name).write_text("text")
    first, second = file_digests([str(tmp_path / "one"), str(tmp_path / "other")]).values()
    assert first == second
    assert len(first) == 12


def test_a_pool_is_also_known_by_the_relevant_documents_outside_it():
    """Recall and MAP by all judgements depend on them; a judging, whose pool has no judgements, keeps its digest."""
    runs = runs_of({"a": {"1": "abc"}, "b": {"1": "bd"}})
    within = qrels_of(("1", "a", 1), ("1", "b", 0))
    pools = [make_pool(runs, qrels_of(*within.iter_rows(), *more)) for more in ([], [("1", "q", 1)], [("1", "q", 0)])]
    known, more_relevant, more_judged = map(fingerprint, pools)
    assert known == more_judged != more_relevant


def test_halves_are_every_second_topic_and_the_first_so_many_are_taken(of_small_pool):
    def names(*given: str) -> list[str]:
        return [topic.name for topic in opened(*of_small_pool, *given)[0].pool.topics]

    assert names("topics=all") == ["1", "2", "3", "4"]
    assert names("topics=odd") == ["2", "4"]
    assert names("most_topics=3") == ["1", "2", "3"]
    assert names("most_topics=1", "topics=odd") == ["2"]
    assert names("most_topics=9", "topics=even") == ["1", "3"]
    assert names("topics=[4,2]") == ["2", "4"]
    with pytest.raises(BadInput, match=r"topics: '9' is none of the 4 topics .* give names of topics"):
        names("topics=[1,9]")
    with pytest.raises(BadInput, match="topics is 'some'; give all, even, odd or a list of names"):
        names("topics=some")


def test_a_file_names_several_pools(small_pool, tmp_path):
    source = f"{{runs: {small_pool / 'runs'}, qrels: {small_pool / 'qrels.txt'}"
    file = tmp_path / "pools.yaml"
    file.write_text(f"deep: {source}, depth: 12}}\nflat: {source}}}\n")
    deep, flat = opened(f"pools={file}", "depth=3")
    assert (deep.name, deep.pool.depth, flat.name, flat.pool.depth) == ("deep", 12, "flat", 3)


def test_a_file_of_pools_has_names_of_topics_as_they_are_written(small_pool, tmp_path):
    """YAML takes 010 for eight, and 1:30 for ninety."""
    source = f"runs: {small_pool / 'runs'}, qrels: {small_pool / 'qrels.txt'}"
    file = tmp_path / "pools.yaml"
    file.write_text(f"a: {{{source}, topics: [2, '4']}}\n")
    assert [topic.name for topic in opened(f"pools={file}")[0].pool.topics] == ["2", "4"]
    for name in ("04", "1:30", "1e3", "yes", "0x4"):
        file.write_text(f"a: {{{source}, topics: [{name}]}}\n")
        with pytest.raises(BadInput, match=f"'{name}' is none of the 4 topics"):
            opened(f"pools={file}")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[1, 2]", "is not a mapping of pools"),
        ("{}", "is not a mapping of pools"),
        ("a: {runs: x, depth: deep}", "a: depth is 'deep'"),
        ("a: {run: x}", "a: there is no option run"),
        ("a: {runs: x}", "the pool a has no qrels"),
        ("a: [", "can't be read"),
    ],
)  # fmt: skip
def test_a_broken_file_of_pools_is_refused(tmp_path, content, says):
    file = tmp_path / "pools.yaml"
    file.write_text(content)
    with pytest.raises(BadInput) as refused:
        opened(f"pools={file}")
    assert says in str(refused.value)


def test_judgements_in_another_encoding_unicode_form_and_twice(small_pool, tmp_path):
    qrels = tmp_path / "qrels.txt"
    qrels.write_bytes(((small_pool / "qrels.txt").read_text() + "1 0 caf\u00e9 1\n1 0 d00 1\n").encode("latin-1"))
    given = [f"runs={small_pool / 'runs'}", f"qrels={qrels}"]
    with pytest.raises(BadInput, match="utf-8"):
        opened(*given)
    (named,) = opened(*given, "encoding=latin-1")
    assert named.pool.notes["judgements given again (the highest grade counts)"] == 1
    with qrels.open("ab") as file:
        file.write(b"1 0 d01\n")
    (named,) = opened(*given, "encoding=latin-1", "strict=false")
    assert named.pool.notes["broken lines of the judgements left out"] == 1
    (tmp_path / "a.run").write_text("1 Q0 e\u0301 1 2 a\n1 Q0 d 2 1 a\n")
    (tmp_path / "qrels").write_text("1 0 \u00e9 1\n1 0 d 1\n")
    with pytest.raises(BadInput, match=r"document 'e\\u0301' of topic 1 is '\\xe9' in the judgements, another Unicode"):
        opened(f"runs={tmp_path / 'a.run'}", f"qrels={tmp_path / 'qrels'}")


def test_nothing_to_pool_is_refused(of_small_pool, small_pool, tmp_path):
    with pytest.raises(BadInput, match="there are no runs"):
        opened("runs=[]", f"qrels={small_pool / 'qrels.txt'}")
    qrels = tmp_path / "one.txt"
    qrels.write_text("1 0 d00 1\n")
    with pytest.raises(BadInput, match="none of the 1 topics is left"):
        opened(f"runs={small_pool / 'runs'}", f"qrels={qrels}", "topics=odd")
    with pytest.raises(BadInput, match="has grade 4 or more, and the highest of all is 1; choose a lower"):
        opened(f"runs={small_pool / 'runs'}", f"qrels={qrels}", "relevant_from=4")
    unjudged = compose([f"runs={small_pool / 'runs'}", "relevant_from=4"], "pool")  # as `pyrite judge` opens it
    assert len(open_pools(unjudged, lambda name, done, total: None, judged=False)) == 1
    with pytest.raises(BadInput, match="no such file"):
        opened("runs=nowhere", "qrels=nowhere.txt")


def test_reading_and_pooling_show_their_progress(of_small_pool, monkeypatch):
    console = Console(file=io.StringIO())
    monkeypatch.setattr("pyrite.cluster.pools.sources.READING_LINE_EVERY_S", 0)
    with shown_progress(console) as on_progress:
        open_pools(compose(of_small_pool, "pool"), on_progress)
    lines = console.file.getvalue().splitlines()
    assert lines[:2] == ["reading runs: 0 of 6", "reading runs: 1 of 6"]
    assert lines[6:8] == ["pooling topics: 0 of 4", "pooling topics: 1 of 4"]


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"a": "1", "b": "2"}, None),
        ({"a": "1", "b": "3"}, "b differs"),
        ({"a": "2", "b": "3"}, "a, b differ"),
        ({"a": "1"}, "b is gone"),
        ({"a": "1", "b": "2", "c": "4", "d": "4", "e": "4", "f": "4", "g": "4"}, "c, d, e and 2 more are new"),
        ({"a": "0", "c": "4"}, "a differs, b is gone, c is new"),
    ],
)
def test_files_that_have_changed_are_named(now, said):
    assert changed_files({"a": "1", "b": "2"}, now) == said


def pool_of(*grades: list[int]) -> Pool:
    """A run that holds all documents of each topic in their order."""
    judged = [(str(topic), f"d{place:04}", grade) for topic, of in enumerate(grades) for place, grade in enumerate(of)]
    lists = {topic: [name for each, name, _ in judged if each == topic] for topic, *_ in judged}
    return make_pool(runs_of({"run": lists}), qrels_of(*judged), max(map(len, grades)))


def test_the_curve_over_all_topics_also_of_a_shared_budget_and_of_nothing_relevant():
    pool = pool_of([0, 1, 1, 0], [1, 0])
    order = JudgingOrder([np.array([1, 0, 2, 3], np.int32), np.array([1, 0], np.int32)])
    total, curve = total_curve(pool, order)
    assert total == 3
    assert curve.tolist() == [1, 2, 3, 3]  # topic 0: 1 1 2 2, topic 1: 0 1 and no more
    told = effort(pool, order)
    assert told["area"] == pytest.approx((1 + 2 + 3 + 3) / 12)
    assert (told["to_50"], told["to_80"], told["to_90"]) == (2, 3, 3)
    turns = np.array([0, 0, 1, 0, 0, 1], np.int32)
    order = JudgingOrder([np.array([1, 2, 0, 3], np.int32), np.array([0, 1], np.int32)], turns)
    # Found after each judgement: 1 2 3 3 3 3; a budget of b is 2b judgements, at most all six.
    assert total_curve(pool, order)[1].tolist() == [2, 3, 3, 3]
    assert effort(pool, order)["to_50"] == 1
    pool = pool_of([0, 0])
    assert all(np.isnan(value) for value in effort(pool, JudgingOrder([np.array([0, 1], np.int32)])).values())


def test_budgets_suit_the_pool():
    assert usual_budgets(pool_of([0] * 2001)) == LOSADA
    assert usual_budgets(pool_of([0] * 100)) == [5, 10, 20, 30, 45, 60, 80]
    assert usual_budgets(pool_of([1])) == [1]


def test_a_result_keeps_the_code_that_its_study_was_planned_with(tmp_path):
    """The trial's process may start when there is a newer commit; the study goes on with its own results."""
    storage, node = Storage(str(tmp_path)), {"_target_": "pyrite.pooling.adjudicators.static.DocID"}
    options = {"seeds": 1, "cpu": 1, "budgets": [1], "ranking_quality": False, "reuse": False, "stopping": {}}
    trial = Trial("a", "pool", "of the pool", "docid", node, options, {"code of pooling": "of the study"})
    execute_trial(trial, storage, {trial.pool: pool_of([0, 1, 1, 0])}, Context())
    assert trial_store(storage, [trial]).has("a")
    other = replace(trial, made_of={"code of pooling": "another"})
    assert trial_store(storage, [other]).finished([other]) == (set(), {"code of pooling": 1})
