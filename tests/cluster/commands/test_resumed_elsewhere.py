"""A command that is resumed from another folder than the one in which it was started."""

import os
from typing import Any

import pytest

from cluster.commands.first_folder import STARTED_IN, absolute, recorded_folder
from cluster.commands.study import StudyExperiment
from cluster.output.manifest import write_config
from cluster.output.storage import Storage
from ranking.errors import BadInput


class Continued(StudyExperiment):
    """A study that keeps where it was continued."""

    def __init__(self, storage: Storage) -> None:
        super(StudyExperiment, self).__init__({}, storage)
        self.folder = os.getcwd()

    @classmethod
    def continued(cls, arguments: list[str], saved: dict[str, Any], storage: Storage) -> Any:
        if "fails" in saved:
            raise BadInput("fails")
        return cls(storage)


def test_relative_paths_refer_to_the_folder_of_the_first_command(tmp_path, monkeypatch):
    for name in ("first", "other"):
        (tmp_path / name).mkdir()
    write_config(Storage(str(tmp_path / "other" / "out")), {"study": {}, STARTED_IN: str(tmp_path / "first")})
    write_config(Storage(str(tmp_path / "other" / "bad")), {"study": {}, "fails": 1, STARTED_IN: str(tmp_path)})
    monkeypatch.chdir(tmp_path / "other")
    experiment = Continued.read([], "out")
    with experiment.joined:
        assert experiment.folder == os.getcwd() == str(tmp_path / "first")
        assert experiment.storage.path("x") == str(tmp_path / "other" / "out" / "x")
    assert os.getcwd() == str(tmp_path / "other")
    with pytest.raises(BadInput, match="fails"):
        Continued.read([], "bad")
    assert os.getcwd() == str(tmp_path / "other")


def test_a_folder_of_another_machine_changes_nothing_and_paths_that_exist_become_absolute(tmp_path):
    assert recorded_folder({}) is None
    assert recorded_folder({STARTED_IN: str(tmp_path / "nowhere")}) is None
    assert recorded_folder({STARTED_IN: os.getcwd()}) is None
    assert recorded_folder({STARTED_IN: str(tmp_path)}) == str(tmp_path)
    (tmp_path / "runs").mkdir()
    for name in ("a.gz", "b.gz"):
        (tmp_path / "runs" / name).touch()
    given = ["runs=[runs/a.gz,'runs/b.gz']", "runs=runs/*.gz", "runs=runs", "+qrels=runs/none", "title=runs", "seed=1"]
    wanted = [
        f"runs=[{tmp_path}/runs/a.gz,{tmp_path}/runs/b.gz]",
        f"runs={tmp_path}/runs/*.gz",
        f"runs={tmp_path}/runs",
    ]
    assert absolute(given, str(tmp_path)) == [*wanted, *given[3:]]
    assert absolute(given, None) == given
