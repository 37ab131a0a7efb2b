from __future__ import annotations

from pathlib import Path

import pytest

from cluster.output.storage import Storage
from cluster.plan.sweep import plan, points
from cluster.reports.finalize import check_comparison
from cluster.runs.artifacts import Artifacts
from cluster.runs.execute import Progress
from cluster.runs.outcome import Outcome, mean_best, read_outcome
from cluster.runs.results import RunState, execute_run, finished
from ranking.errors import BadInput


def test_a_damaged_state_or_result_is_as_good_as_none(base: list[str], tmp_path: Path) -> None:
    (planned,) = plan(points([], [], base)[0], [], [0])
    artifacts, storage = Artifacts(), Storage(str(tmp_path))
    keys, parts = artifacts.keys(planned.config), artifacts.parts(planned.config)
    RunState(storage, planned.name, keys).save(b"half of")

    def conduct() -> Outcome:
        return execute_run(planned.name, planned.config, keys, parts, storage, lambda progress: None)

    whole = conduct()
    assert not storage.names("states")
    assert finished(storage, [planned]) == {planned.name}
    file = tmp_path / "runs" / f"{planned.name}.safetensors"
    file.write_bytes(file.read_bytes()[:-7])
    assert finished(storage, [planned]) == set()
    assert conduct().losses == whole.losses
    assert read_outcome(storage, planned.name) is not None


def test_a_state_is_good_for_the_parts_it_was_made_from(base: list[str], tmp_path: Path) -> None:
    (planned,) = plan(points([], [], base)[0], [], [0])
    artifacts, storage = Artifacts(), Storage(str(tmp_path))
    keys, parts = artifacts.keys(planned.config), artifacts.parts(planned.config)

    def stop(progress: Progress) -> None:
        if progress.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute_run(planned.name, planned.config, keys, parts, storage, stop, save_every=0)
    assert RunState(storage, planned.name, keys).load() is not None
    assert RunState(storage, planned.name, keys | {"base": "another"}).load() is None


def test_what_was_never_measured_counts_as_nothing() -> None:
    nan = float("nan")
    assert mean_best(Outcome(validations=[[nan], [0.2, 0.4, nan]])) == 0.2
    assert mean_best(Outcome(validations=[[nan, 0.3]])) == 0.3


def test_a_baseline_is_checked_before_anything_runs(base: list[str]) -> None:
    runs = [run for point in points([], [], [*base, "selector=uniform,top"]) for run in plan(point, [], [0])]
    collection = Artifacts().collection(runs[0].config)
    collections = {run.name: collection for run in runs}
    check_comparison(None, None, runs, collections)
    check_comparison("selector=top", None, runs, collections)
    with pytest.raises(BadInput, match="selector=uniform"):
        check_comparison("selector=dynamic", None, runs, collections)
