"""Tasks of pieces, here and on Ray Data."""

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import ray

from cluster.executors.pieces import run_pieces
from ranking.errors import BadInput


@dataclass
class Write:
    """Writes who did a task; refuses one."""

    folder: Path
    refused: int = -1

    def __call__(self, number: int) -> None:
        if number == self.refused:
            raise BadInput("is broken", f"piece {number}")
        (self.folder / str(number)).write_text(str(os.getpid()))


def test_a_few_pieces_are_done_in_this_process(tmp_path, monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # another test's may be there
    run_pieces(Write(tmp_path), 3)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == dict.fromkeys("012", str(os.getpid()))


@pytest.mark.parametrize("run", [run_pieces, partial(run_pieces, here=True)])
def test_ray_does_what_there_is_a_ray_for(run, ray_session, tmp_path):
    with pytest.raises(BadInput, match=r"^piece 1: is broken"):
        run(Write(tmp_path, refused=1), 3)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["0", "2"]  # the others are done nevertheless
    assert str(os.getpid()) not in {file.read_text() for file in tmp_path.iterdir()}


def test_a_task_hands_pieces_out_though_it_holds_every_core(ray_session, tmp_path):
    def reads(folder: Path) -> int:
        run_pieces(Write(folder), 3)
        return os.getpid()

    task = ray.remote(num_cpus=ray.cluster_resources()["CPU"])(reads)
    reader = ray.get(task.remote(tmp_path), timeout=120)
    assert reader not in {int(file.read_text()) for file in tmp_path.iterdir()}
    assert len(list(tmp_path.iterdir())) == 3
