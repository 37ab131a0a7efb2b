"""Tasks of pieces, here and on Ray Data."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import ray

from cluster.executors.pieces import run_pieces
from ranking.collections.pieces import Run
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


def done_by(folder: Path, run: Run, count: int) -> set[int]:
    run(Write(folder), count)
    assert sorted(int(file.name) for file in folder.iterdir()) == list(range(count))
    return {int(file.read_text()) for file in folder.iterdir()}


def test_a_few_pieces_are_done_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # another test's may be there
    assert done_by(tmp_path, run_pieces, 3) == {os.getpid()}


@pytest.mark.parametrize("run", [run_pieces, partial(run_pieces, here=True)])
def test_ray_does_what_there_is_a_ray_for(run: Run, ray_session: None, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^piece 1: is broken"):
        run(Write(tmp_path, refused=1), 3)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["0", "2"]  # the others are done nevertheless
    assert str(os.getpid()) not in {file.read_text() for file in tmp_path.iterdir()}


def test_a_task_hands_pieces_out_though_it_holds_every_core(ray_session: None, tmp_path: Path) -> None:
    def reads(folder: Path) -> int:
        run_pieces(Write(folder), 3)
        return os.getpid()

    task = ray.remote(num_cpus=ray.cluster_resources()["CPU"])(reads)
    reader = ray.get(task.remote(tmp_path), timeout=120)
    assert reader not in {int(file.read_text()) for file in tmp_path.iterdir()}
    assert len(list(tmp_path.iterdir())) == 3
