"""Tests of what an output folder may hold already."""

import pytest

from cluster.output.event_log import EventLog
from cluster.output.manifest import read_config, refuse_taken
from cluster.output.storage import Storage
from ranking.errors import BadInput


def test_files_of_others_are_left_alone_and_a_folder_without_its_configuration_is_our_own(tmp_path):
    storage = Storage(str(tmp_path))
    refuse_taken(Storage(str(tmp_path / "new")))
    (tmp_path / ".gitkeep").touch()
    refuse_taken(storage)
    (tmp_path / "data").mkdir()
    for name in ("README.md", "log.jsonl", "summary.csv"):
        (tmp_path / name).write_text('{"event": "of another program"}\n')
    with pytest.raises(BadInput, match=r"holds other files \(README.md, data, log.jsonl, …\); choose another out="):
        refuse_taken(storage)
    own = Storage(str(tmp_path / "own"))
    with EventLog(own).session("study", resumed=False):
        pass
    own.write("trials.parquet", b"")
    refuse_taken(own)


@pytest.mark.parametrize("content", ["defaults: [db]\n", "- a\n", "a: ["])
def test_a_configuration_of_another_program_is_said_to_be_one(content, tmp_path):
    (tmp_path / "config.yaml").write_text(content)
    with pytest.raises(BadInput, match="is not a file of Pyrite's; name another folder"):
        read_config(Storage(str(tmp_path)))
    with pytest.raises(BadInput, match="name the folder of a mining"):
        read_config(Storage(str(tmp_path / "nowhere")), "mining")
