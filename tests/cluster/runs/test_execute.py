from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pyrite.cluster.config.compose import compose
from pyrite.cluster.executors.lost_process import NodeDraining
from pyrite.cluster.plan.sweep import plan, points
from pyrite.cluster.reports import study_tables
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.execute import run
from pyrite.cluster.runs.progress import Progress
from pyrite.cluster.runs.what_was_read import sentence, sentences
from pyrite.ranking.checkpoint import from_bytes
from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.pairs import Pairs
from pyrite.ranking.encoding import Encoder
from pyrite.ranking.errors import BadInput
from pyrite.ranking.splits import split_queries
from tests.made_up import write_beir
from tests.ranking.trained import equal


class Kept:
    """States in memory, which may end the run when there are so many."""

    def __init__(self, most: int | None = None) -> None:
        self.states: list[bytes] = []
        self.most = most

    def load(self) -> bytes | None:
        return self.states[-1] if self.states else None

    def save(self, state: bytes) -> None:
        self.states.append(state)
        if len(self.states) == self.most:
            raise KeyboardInterrupt


def prepared(overrides: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    config = compose(overrides)
    return config, Artifacts().parts(config)


def test_what_can_not_be_trained_is_said(base):
    with pytest.raises(BadInput, match=r"diverged in epoch 1 \(.*\); lower optimizer.lr \(now 1e\+30\)"):
        run(*prepared([*base, "optimizer.lr=1e30"]))
    config, parts = prepared([*base, "guard.relative=0.5"])
    assert run(config, parts).sampler[0]["guarded"] > 0
    config, parts = prepared([*base, "guard.relative=1"])
    with pytest.raises(BadInput, match="no query had a negative in the whole epoch"):
        run(config, parts)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(("batches", "kept"), [(None, []), (2, [2, 4, 6]), (3, [3, 6]), (100, [])])
def test_states_are_kept_by_batches(base, batches, kept):
    config, parts = prepared([*base, "training.batch_size=4", "training.max_epochs=2"])
    whole, store = run(config, parts), Kept()
    outcome = run(config | {"save_every_batches": batches}, parts, store=store, save_every=1e9)
    steps = [from_bytes(state)["staged"]["training"]["counters"][1] for state in store.states]
    assert steps[: len(kept)] == kept
    assert len(steps) == (0 if batches is None else outcome.steps // batches)
    assert outcome.losses == whole.losses


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    "overrides",
    [
        ["policy=random", "selector=dynamic"],
        ["ranker=dssm", "objective=sir_v1", "function=bm25", "sampling.negatives=2"],
    ],
)
def test_a_state_is_kept_in_mid_epoch(base, overrides):
    config, parts = prepared([*base, *overrides, "training.batch_size=4", "training.max_epochs=2"])
    whole = run(config, parts)
    for kept in (2, 5):
        store = Kept(kept)
        with pytest.raises(KeyboardInterrupt):
            run(config, parts, store=store, save_every=0)
        epoch, _, position, *_ = from_bytes(store.states[-1])["staged"]["training"]["counters"]
        assert (epoch, position > 0) == (0, True)
        resumed = run(config, parts, store=store, save_every=1e9)
        assert resumed.losses == whole.losses
        assert equal(resumed.values, whole.values)
        assert resumed.sampler == whole.sampler
        assert equal(resumed.traces, whole.traces)
    assert run(config | {"seed": 1}, parts).losses != whole.losses


@pytest.mark.parametrize("save_every", [0, 1e9])  # after every step, and between two folds alone
def test_without_a_split_every_query_is_tested_once(save_every, base, tmp_path):
    folder = write_beir(tmp_path / "unsplit", split=False)
    config, parts = prepared([*base, f"collection.path={folder}", "folds=4", "training.max_epochs=1"])
    outcome = run(config, parts)
    assert len(outcome.losses) == 4
    assert sorted(outcome.queries["bm25"]) == list(range(40))
    store = Kept()

    def stop(progress: Any) -> None:
        if progress.fold == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(config, parts, stop, store, save_every=save_every)
    folds = set[int]()
    resumed = run(config, parts, lambda progress: folds.add(progress.fold), store)
    assert folds == {2, 3}
    assert equal(resumed.values, outcome.values)


def test_tables_have_the_documented_columns_of_the_limited_queries(base):
    (planned,) = plan(points([], [], [*base, "limits={train:7,dev:3,test:2}"])[0], [], [0])
    artifacts = Artifacts()
    parts = artifacts.parts(planned.config)
    (split,) = parts["base"].splits
    assert [len(split.train), len(split.dev), len(split.test)] == [7, 3, 2]
    outcome = run(planned.config, parts)
    collection = artifacts.collection(planned.config)
    table = study_tables.trials_table([study_tables.trial_row(planned, collection, outcome, None)])
    assert table.columns[: len(study_tables.SCHEMA)] == list(study_tables.SCHEMA)
    assert {"bm25:AP@10", "bm25:AP@10:bm25", "random:RR@10", "random:RR@10:interpolated"} <= set(table.columns)
    assert table["diverged"].to_list() == [False]
    assert 0 <= table["interpolation_weight"][0] <= 1
    assert 0 < table["bm25:AP@10:interpolated"][0] <= 1
    queries = study_tables.query_rows(planned, collection, outcome)
    assert queries.columns == ["run", "query", "origin", "AP@10", "RR@10"]
    assert queries.filter(pl.col("origin") == "bm25")["AP@10"].mean() == pytest.approx(table["bm25:AP@10"][0])


def test_what_is_skipped_is_said(base, tmp_path):
    folder = write_beir(tmp_path / "broken")
    with (folder / "qrels" / "train.tsv").open("a") as file:
        file.write("q1\tnowhere\t1\n")
    overrides = [*base, f"collection.path={folder}"]
    with pytest.raises(BadInput, match=r"train\.tsv:26"):
        Artifacts().collection(compose(overrides))
    notes: list[str] = []
    Artifacts(notes.append).collection(compose([*overrides, "strict=false"]))
    assert "1 ×" in notes[-1]


def test_a_run_that_is_told_to_leave_goes_on_from_that_very_step(base, monkeypatch):
    config, parts = prepared([*base, "policy=curriculum", "selector=dynamic", "training.max_epochs=2"])
    whole = run(config, parts)
    store, told, asked = Kept(), list[Progress](), list[Progress]()
    monkeypatch.setattr("pyrite.cluster.runs.progress.PROGRESS_EVERY_S", 0.0)

    def within(reports: list[Progress]) -> Callable[[Progress], None]:
        return lambda progress: reports.append(progress) if progress.batches else None

    def leave(keep: Callable[[], None]) -> None:
        asked.append(told[-1])
        if told[-1].epoch == 1 and told[-1].batch == 1:
            keep()
            raise NodeDraining

    with pytest.raises(NodeDraining):
        run(config, parts, store=store, save_every=1e9, on_progress=within(told), leave=leave)
    assert asked == told  # whenever there is something to tell
    assert told[-1].batches > 2
    assert len(store.states) == 1
    first: list[Progress] = []
    resumed = run(config, parts, store=store, save_every=1e9, on_progress=within(first))
    assert (first[0].epoch, first[0].batch) == (1, 2)
    assert (resumed.losses, resumed.validations) == (whole.losses, whole.validations)
    assert equal(resumed.values, whole.values)


def test_each_origin_is_measured_with_the_weights_that_were_best_by_it(base):
    few = [*base, "function=random", "training.max_epochs=6", "training.patience=6"]
    config, parts = prepared([*few, "validation.origin=[bm25,random]"])
    both = run(config, parts)
    for origin in ("bm25", "random"):
        assert equal(both.values[origin], run(*prepared([*few, f"validation.origin={origin}"])).values[origin])
    assert both.validations[0] == run(*prepared([*few, "validation.origin=bm25"])).validations[0]


def of_pairs(folder: Path) -> Collection:
    rows = [f"question {number},answer {number % 17}\n" for number in range(40)]
    (folder / "pairs.csv").write_text("question,passage\n" + "".join([*rows, rows[0], rows[1].upper().lower()]))
    return open_collection(Pairs(folder / "pairs.csv"), folder / "cache")


def test_pairs_are_counted_with_duplicates_splits_and_columns(tmp_path):
    text = sentence(of_pairs(tmp_path), {"folds": 5})
    assert text == (
        "pairs.csv: 40 pairs (2 duplicates joined), 40 queries, 17 passages → train 32, dev 4, test 4; "
        "columns question, passage"
    )
    assert sentence(of_pairs(tmp_path), {"folds": 5}) == text  # from the cache


def test_what_a_scale_leaves_is_said_once_per_collection(tmp_path):
    collection = of_pairs(tmp_path)
    limits = {"examples": 20, "train": 10, "dev": None, "test": 400}
    config = {"folds": 5, "limits": limits, "choices": {"scale": "tiny"}}
    assert sentence(collection, config).endswith("; scale=tiny takes train 10, at most 20 pairs to train on")
    narrower = config | {"training": {"max_epochs": 2}, "ranker": {"preset": "tiny"}, "limits": {}}
    assert sentence(collection, narrower).endswith("; scale=tiny takes at most 2 epochs, ranker.preset=tiny")
    assert len(sentences([(collection, config), (collection, config)])["pairs"]) == 1
    ranks = {"validation": {"origin": "bm25"}, "origin": {"full": {"depth": 100}, "random": {"depth": 30}}}
    said = "; dev queries rank bm25's first 100, test queries rank all passages and random's first 30"
    assert sentence(collection, {"folds": 5} | ranks).endswith(said)
    whole = collection.changed(queries=collection.queries.with_columns(split=pl.lit(None, pl.String)), source={})
    said = "pairs: 40 relevant pairs, 40 queries, 17 documents → 3-fold cross-validation"
    assert sentence(whole, {"folds": 3}) == said


def test_queries_without_a_relevant_document_are_counted_by_split(tmp_path):
    collection = of_pairs(tmp_path).changed(source={})
    split = dict(collection.queries.select("id", "split").iter_rows())
    none = {next(name for name in split if split[name] == "test")}
    none |= set([name for name in split if split[name] == "train"][:2])
    grade = pl.when(pl.col("query").is_in(list(none))).then(0).otherwise(pl.col("grade")).alias("grade")
    collection = collection.changed(judgements=collection.judgements.with_columns(grade))
    said = "; queries without a relevant document: 2 of train (not trained on), 1 of test (not measured)"
    assert sentence(collection, {"folds": 5}).endswith(said)
    encoded, _ = Encoder().encode(collection)
    split = split_queries(collection, encoded, 5, dict.fromkeys(("train", "dev", "test")))[0]
    assert [len(split.train), len(split.dev), len(split.test)] == [30, 4, 3]
    graded = sentence(collection, {"folds": 5, "encoding": {"relevant_from": 2}})
    assert ": 0 relevant pairs, 40 queries" in graded
    assert graded.endswith("document: 32 of train (not trained on), 4 of dev and 4 of test (not measured)")
    whole = collection.changed(queries=collection.queries.with_columns(split=pl.lit(None, pl.String)))
    assert "document: 3 (neither trained on nor measured)" in sentence(whole, {"folds": 5})


def test_pairs_are_relevant_from_the_grade_of_the_run(tmp_path):
    collection = of_pairs(tmp_path).changed(source={})
    first = pl.col("query") == collection.queries.filter(split="train")[0, "id"]
    graded = collection.judgements.with_columns(grade=pl.when(first).then(1).otherwise(2))
    collection = collection.changed(judgements=graded)
    assert "40 relevant pairs" in sentence(collection, {"folds": 5, "encoding": {"relevant_from": 1}})
    higher = sentence(collection, {"folds": 5, "encoding": {"relevant_from": 2}})
    assert "39 relevant pairs" in higher
    assert higher.endswith("; queries without a relevant document: 1 of train (not trained on)")
