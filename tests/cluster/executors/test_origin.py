"""What a task takes with it: the working folder, and classes of a notebook."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from cluster.executors.local import LocalExecutor
from cluster.executors.processes import Processes
from cluster.executors.task import Task
from cluster.executors.worker import Origin, origin_of
from ranking.errors import BadInput

CONFIG = {"policy": {"_target_": "__main__.OfANotebook", "parts": [{"_target_": "pathlib.Path"}]}}


def test_classes_of_a_notebook_and_relative_paths_work_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "class OfANotebook:\n    name = 'mine'\n"
    namespace = {"__name__": "__main__"}
    exec(program, namespace)
    monkeypatch.setattr(sys.modules["__main__"], "OfANotebook", namespace["OfANotebook"], raising=False)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("there")
    with Processes(1, caller=False) as alone:
        while not alone.ready():
            time.sleep(0.02)
        monkeypatch.chdir(tmp_path)  # after the process has started
        body = "tests.cluster.executors.bodies:notebook"
        task = Task("a", body, {"config": CONFIG, "path": os.path.join("data", "file")})
        (done,) = LocalExecutor(0, alone).run([task])
    assert done.result() == ("mine", "there")


def test_a_name_that_is_not_defined_is_refused_before_anything_runs() -> None:
    with pytest.raises(BadInput, match=r"__main__\.Nothing: is not defined in this program"):
        origin_of(Task("a", "", {"config": {"policy": {"_target_": "__main__.Nothing"}}}))


def test_a_folder_that_is_not_there_changes_nothing(tmp_path: Path) -> None:
    before = os.getcwd()
    Origin(str(tmp_path / "nowhere")).enter()
    assert os.getcwd() == before
