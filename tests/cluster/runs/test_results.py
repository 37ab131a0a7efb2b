import os

import pytest

from cluster.output.provenance import code, content_digest, differences
from cluster.output.result_store import SavedState
from cluster.output.storage import Storage
from cluster.plan.sweep import plan, points
from cluster.reports.study_tables import check_comparison
from cluster.runs.artifacts import Artifacts
from cluster.runs.execute import run
from cluster.runs.file_contents import checkpoints_of
from cluster.runs.outcome import Outcome, mean_best, read_outcome
from cluster.runs.results import execute_run, run_store
from ranking.checkpoint import to_bytes
from ranking.errors import BadInput


def test_a_damaged_state_or_result_is_as_good_as_none(base, tmp_path):
    (planned,) = plan(points([], [], base)[0], [], [0])
    artifacts, storage = Artifacts(), Storage(str(tmp_path))
    keys, parts = artifacts.keys(planned.config), artifacts.parts(planned.config)
    SavedState(storage, planned.name, keys).save(b"half of")

    def conduct() -> Outcome:
        return execute_run(planned.name, planned.config, keys, parts, storage, lambda progress: None, run)

    whole = conduct()
    assert not storage.names("states")

    def finished(other: dict[str, str]) -> tuple[set[str], dict[str, int]]:
        done, outdated = run_store(storage, [planned], lambda config: keys | other).finished([planned.name])
        return done, dict(outdated)

    assert finished({}) == ({planned.name}, {})
    others = {"base": "another", "commit": "later"}, {"base": "another"}, {}
    assert [finished(other) for other in others] == [(set(), {"base": 1}), (set(), {"base": 1}), ({planned.name}, {})]
    file = tmp_path / "runs" / f"{planned.name}.safetensors"
    file.write_bytes(file.read_bytes()[:-7])
    assert finished({}) == (set(), {})
    assert conduct().losses == whole.losses
    assert read_outcome(storage, planned.name) is not None


def test_a_state_is_good_for_its_parts_and_what_was_never_measured_counts_as_nothing(tmp_path):
    storage = Storage(str(tmp_path))
    SavedState(storage, "run", {"base": "one"}).save(to_bytes({"step": 3}))
    assert SavedState(storage, "run", {"base": "one"}).load() is not None
    assert SavedState(storage, "run", {"base": "another"}).load() is None
    nan = float("nan")
    assert mean_best(Outcome(validations=[[nan], [0.2, 0.4, nan]])) == 0.2
    assert mean_best(Outcome(validations=[[nan, 0.3]])) == 0.3


def test_a_baseline_is_checked_before_anything_runs(base):
    runs = [run for point in points([], [], [*base, "selector=uniform,top"]) for run in plan(point, [], [0])]
    collection = Artifacts().collection(runs[0].config)
    collections = {run.name: collection for run in runs}
    check_comparison(None, None, runs, collections)
    check_comparison("selector=top", None, runs, collections)
    with pytest.raises(BadInput, match="selector=uniform"):
        check_comparison("selector=dynamic", None, runs, collections)


def test_a_result_is_as_old_as_what_it_was_made_of(base, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("moles 1 0\nbats 0 1\n")
    overrides = [text for text in base if not text.startswith("vectors")]
    (planned,) = plan(points([], [], [*overrides, "vectors=file", f"vectors.path={vectors}"])[0], [], [0])
    artifacts = Artifacts()
    before = artifacts.provenance(planned.config)
    os.utime(vectors, (0, 0))
    assert artifacts.provenance(planned.config) == before  # a copy with another date is the same
    vectors.write_text("moles 1 0\nbats 0 2\n")
    assert "base" in differences(before, artifacts.provenance(planned.config))
    assert differences({}, before) == ["version"]
    assert differences({"base": "a", "commit": "1"}, {"base": "a", "commit": "2"}) == []
    assert differences({"base": "a", "agent": "b"}, {"base": "c"}) == ["base", "agent"]
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"one")
    node = {"_target_": "x", "front": {"checkpoint": str(folder)}, "rear": {"checkpoint": "name/at-the-hub"}}
    before = checkpoints_of(node)
    assert len(before) == 1
    (folder / "model.safetensors").write_bytes(b"three")
    assert checkpoints_of(node) != before


def test_a_result_outlives_a_commit_that_leaves_its_code_as_it_is():
    now = code("sampling", "cluster/runs")
    assert set(now) - {"version", "commit"} == {"code of sampling", "code of cluster/runs"}
    assert now["code of sampling"] == code("sampling")["code of sampling"] != code("ranking")["code of ranking"]
    later = {**now, "commit": "later"}
    assert differences(now, later) == []
    assert content_digest(now) == content_digest(later)
    assert differences(now, {**later, "code of sampling": "another"}) == ["code of sampling"]
    assert content_digest(now) != content_digest({**later, "code of sampling": "another"})
    assert differences({"commit": "of version 0.2"}, later) == ["code of sampling", "code of cluster/runs"]
