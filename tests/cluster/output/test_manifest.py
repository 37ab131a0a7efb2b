"""Tests of what an output folder may hold already."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.output.event_log import EventLog
from cluster.output.manifest import read_config, refuse_taken
from cluster.output.storage import Storage
from ranking.errors import BadInput


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    refuse_taken(Storage(str(tmp_path / "new")))
    (tmp_path / ".gitkeep").touch()
    refuse_taken(storage)
    (tmp_path / "data").mkdir()
    for name in ("README.md", "log.jsonl", "summary.csv"):
        (tmp_path / name).write_text('{"event": "of another program"}\n')
    with pytest.raises(BadInput, match=r"holds other files \(README.md, data, log.jsonl, …\); choose another out="):
        refuse_taken(storage)


def test_a_folder_whose_configuration_was_deleted_is_our_own(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    with EventLog(storage).session("study", resumed=False):
        pass
    storage.write("trials.parquet", b"")
    refuse_taken(storage)


@pytest.mark.parametrize("content", ["defaults: [db]\n", "- a\n", "a: ["])
def test_a_configuration_of_another_program_is_said_to_be_one(content: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(content)
    with pytest.raises(BadInput, match="is not a file of Pyrite's; name another folder"):
        read_config(Storage(str(tmp_path)))


def test_another_verbs_folder_is_named_by_its_kind(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="name the folder of a mining"):
        read_config(Storage(str(tmp_path)), "mining")
