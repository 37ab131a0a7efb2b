"""What the nodes of a cluster must reach: the output folder and files that runs read."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import cloudpickle

from pyrite.cluster.executors import reach
from pyrite.cluster.executors.ray_tasks import RayExecutor
from pyrite.cluster.executors.reach import check_nodes, local_paths
from pyrite.cluster.executors.resources import Resources
from pyrite.cluster.executors.task import BEGUN, ERROR, FINAL, WITHIN, Context, Task
from pyrite.cluster.executors.tune import attempt
from pyrite.cluster.executors.worker import TaskOrigin
from pyrite.cluster.output.storage import Storage, Unwritable
from pyrite.ranking.errors import BadInput

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so that no process imports what is imported here


def test_paths_are_what_options_name_and_this_machine_has(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("here").mkdir()
    options = {"checkpoint": "here", "path": "absent", "name": "here", "more": [{"folder": str(tmp_path)}], "k": 3}
    assert list(local_paths(options)) == [str(tmp_path / "here"), str(tmp_path)]


def test_a_node_that_sees_everything_leaves_nothing_behind(ray_session, tmp_path):
    storage = Storage(str(tmp_path / "out"))
    check_nodes(storage, [str(tmp_path)])
    assert os.listdir(tmp_path / "out") == []
    check_nodes(None)


def test_what_a_node_does_not_have_is_one_line(ray_session, tmp_path):
    path = str(tmp_path / "checkpoint")
    with pytest.raises(BadInput, match=r"^.*/checkpoint: node [\d.]+ of the cluster does not have it; put it where"):
        check_nodes(Storage(str(tmp_path / "out")), [path])
    assert os.listdir(tmp_path / "out") == []


def test_a_folder_of_the_same_name_on_a_node_is_not_the_same_folder(ray_session, tmp_path, monkeypatch):
    storage = Storage(str(tmp_path / "out"))
    monkeypatch.setattr(Storage, "write", lambda self, name, content: None)  # as if it were on another disk
    with pytest.raises(BadInput, match=r"of the cluster does not see out=; name a URI, or a folder that every node"):
        check_nodes(storage)


def test_a_node_without_the_keys_of_a_bucket_is_one_line():
    refused = reach._refusal("nothing://lab/s", "out", "sign", [])
    assert refused is not None
    what, where, remedy = refused
    assert what.startswith("can't write to out= (is no folder to write to (")
    assert (where, remedy) == ("nothing://lab/s", reach.KEYS)
    with pytest.raises(Unwritable):  # ends a study, whose other runs could not write either
        Storage("nothing://lab/s")


def test_nodes_without_cores_are_not_asked(ray_session, tmp_path, monkeypatch):
    nodes = [{**node, "Resources": {"CPU": 0}} for node in ray.nodes()]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    check_nodes(None, [str(tmp_path / "absent")])


def refused_there() -> None:
    raise Unwritable("is no folder to write to (no keys)", "s3://lab/s")


class OfTheDriverAlone:
    """What can't be unpacked on a node."""

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return (refused_there, ())


def test_an_error_while_a_trial_is_unpacked_is_one_line_and_not_tried_again():
    reports = list[dict[str, Any]]()
    content = cloudpickle.dumps((Task("one", dict, {"storage": OfTheDriverAlone()}), TaskOrigin()))
    attempt(content, {}, retries=3, report=reports.append)
    assert [FINAL in report for report in reports] == [False, True]
    error = cloudpickle.loads(reports[-1][ERROR])
    assert isinstance(error, Unwritable)
    assert str(error) == "s3://lab/s: is no folder to write to (no keys)"


@pytest.mark.parametrize("actors", [None, Resources(cpu=0.5)])
def test_an_error_while_a_task_is_unpacked_is_one_line_too(actors, ray_session):
    executor = RayExecutor(actors=actors)
    (done,) = executor.run([Task("one", dict, {"storage": OfTheDriverAlone()}, Resources(cpu=0.5))], retries=2)
    assert isinstance(done.error, BadInput)
    assert str(done.error) == "s3://lab/s: is no folder to write to (no keys)"


def reporting(context: Context) -> dict[str, Any]:
    for share in (0.1, 0.2, 0.3):
        context.report({WITHIN: share})
    context.report({"epoch": 1, "validation": 0.5})
    return {"best": 0.5}


def test_progress_within_an_epoch_is_reported_to_tune_now_and_then():
    """The first share at once, others after half a minute; every validation."""
    reports = list[dict[str, Any]]()
    attempt(cloudpickle.dumps((Task("one", reporting), TaskOrigin())), {}, retries=0, report=reports.append)
    assert [{*report} for report in reports] == [{BEGUN}, {WITHIN}, {"epoch", "validation"}, {"best", FINAL}]
    assert reports[1] == {WITHIN: 0.1}
