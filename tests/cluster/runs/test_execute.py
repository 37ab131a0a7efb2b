from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

from cluster.config.compose import compose
from cluster.executors.lost_process import NodeDraining
from cluster.plan.sweep import plan, points
from cluster.reports import study_tables
from cluster.runs.artifacts import Artifacts
from cluster.runs.execute import run
from cluster.runs.outcome import Outcome
from cluster.runs.progress import Progress
from ranking.checkpoint import from_bytes
from ranking.errors import BadInput
from tests.made_up import write_beir


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


def values(outcome: Outcome) -> np.ndarray:
    return np.concatenate([values for origin in outcome.values.values() for values in origin.values()])


def test_equal_seeds_give_equal_bits(base):
    config, parts = prepared([*base, "policy=random", "selector=dynamic", "weights=true"])
    first, second = run(config, parts), run(config, parts)
    assert first.losses == second.losses
    assert values(first).tobytes() == values(second).tobytes()
    assert all((first.weights[name] == second.weights[name]).all() for name in first.weights)
    other = run(config | {"seed": 1}, parts)
    assert other.losses != first.losses


def test_what_can_not_be_trained_is_said(base):
    with pytest.raises(BadInput, match=r"diverged in epoch 1 \(.*\); lower optimizer.lr \(now 1e\+30\)"):
        run(*prepared([*base, "optimizer.lr=1e30"]))
    config, parts = prepared([*base, "sampling.guard.relative=0.5"])
    outcome = run(config, parts)
    assert outcome.sampler[0]["guarded"] > 0
    config, parts = prepared([*base, "sampling.guard.relative=1"])
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
        training = from_bytes(store.states[-1])["staged"]["training"]
        epoch, _, position, *_ = training["counters"]
        assert (epoch, position > 0) == (0, True)
        resumed = run(config, parts, store=store, save_every=1e9)
        assert resumed.losses == whole.losses
        assert values(resumed).tobytes() == values(whole).tobytes()
        assert resumed.sampler == whole.sampler
        assert all((a[key] == b[key]).all() for a, b in zip(resumed.traces, whole.traces, strict=True) for key in a)


def test_without_a_split_every_query_is_tested_once(base, tmp_path):
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
        run(config, parts, stop, store, save_every=0)
    folds: list[int] = []
    resumed = run(config, parts, lambda progress: folds.append(progress.fold), store)
    assert folds == [2, 3]
    assert values(resumed).tobytes() == values(outcome).tobytes()


def test_a_cut_part_is_made_again_and_limits_cut_each_split(base, own_cache):
    config, _ = prepared(base)
    key = Artifacts().keys(config)["base"]
    file = own_cache / "parts" / f"{key}.safetensors"
    file.write_bytes(file.read_bytes()[:100])
    assert len(Artifacts().part(config, "base").encoded.documents) == 60
    _, parts = prepared([*base, "limits={train:7,dev:3,test:2}"])
    (split,) = parts["base"].splits
    assert [len(split.train), len(split.dev), len(split.test)] == [7, 3, 2]


def test_a_run_file_supplies_and_is_evaluated(base, tmp_path):
    lines = [f"q{query} Q0 d{(query + step) % 60} {step} {-step} made" for query in range(40) for step in range(1, 9)]
    path = tmp_path / "run.txt"
    path.write_text("\n".join(lines) + "\n")
    overrides = ["function=run_file", "origin=[run_file,full]"]
    overrides += [f"{part}.run_file.path={path}" for part in ("function", "origin")]
    config, parts = prepared([*base, *overrides])
    outcome = run(config, parts)
    assert set(outcome.values) == {"run_file", "full"}
    assert outcome.sampler[0]["negatives"] > 0


def test_tables_have_the_documented_columns(base):
    planned = plan(points([], [], base)[0], [], [0])[0]
    artifacts = Artifacts()
    outcome = run(planned.config, artifacts.parts(planned.config))
    collection = artifacts.collection(planned.config)
    table = study_tables.trials_table([study_tables.trial_row(planned, collection, outcome, None)])
    assert table.columns[: len(study_tables.SCHEMA)] == list(study_tables.SCHEMA)
    assert {"bm25:AP@10", "bm25:AP@10:bm25", "random:RR@10", "random:RR@10:interpolated"} <= set(table.columns)
    assert table["diverged"].to_list() == [False]
    assert 0 <= table["interpolation_weight"][0] <= 1
    assert 0 < table["bm25:AP@10:interpolated"][0] <= 1
    queries = study_tables.query_rows(planned, collection, outcome)
    assert queries.columns == ["run", "query", "origin", "AP@10", "RR@10"]
    mean = queries.filter(pl.col("origin") == "bm25")["AP@10"].mean()
    assert mean == pytest.approx(table["bm25:AP@10"][0])


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
    monkeypatch.setattr("cluster.runs.progress.PROGRESS_EVERY_S", 0.0)

    def leave(keep: Callable[[], None]) -> None:
        asked.append(told[-1])
        if told[-1].epoch == 1 and told[-1].batch == 1:
            keep()
            raise NodeDraining

    with pytest.raises(NodeDraining):
        run(config, parts, store=store, save_every=1e9, on_batch=told.append, leave=leave)
    assert asked == told  # whenever there is something to tell
    assert told[-1].batches > 2
    assert len(store.states) == 1
    first: list[Progress] = []
    resumed = run(config, parts, store=store, save_every=1e9, on_batch=first.append)
    assert (first[0].epoch, first[0].batch) == (1, 2)
    assert (resumed.losses, resumed.validations) == (whole.losses, whole.validations)
    assert values(resumed).tobytes() == values(whole).tobytes()


def test_each_origin_is_measured_with_the_weights_that_were_best_by_it(base):
    few = [*base, "function=random", "training.max_epochs=6", "training.patience=6"]
    config, parts = prepared([*few, "validation.origin=[bm25,random]"])
    both = run(config, parts)
    for origin in ("bm25", "random"):
        alone = run(*prepared([*few, f"validation.origin={origin}"]))
        for measure, of_queries in both.values[origin].items():
            assert of_queries.tobytes() == alone.values[origin][measure].tobytes()
    assert both.validations[0] == run(*prepared([*few, "validation.origin=bm25"])).validations[0]
