import pytest

from pyrite.cluster.output.lock import output_lock
from pyrite.cluster.output.storage import Storage
from pyrite.ranking.errors import BadInput
from pyrite.ranking.links import refuse_links


@pytest.fixture
def outside(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "victim").write_text("precious")
    return tmp_path / "outside"


@pytest.mark.parametrize("name", ["events.jsonl", ".claimed", "dangling", "runs/a.json", "runs/deep"])
def test_links_in_a_folder_are_refused_before_the_lock_is_written(name, outside, tmp_path):
    link = tmp_path / "out" / name
    link.parent.mkdir(parents=True)
    target = {"dangling": "nowhere", "runs/deep": "."}.get(name, "victim")
    link.symlink_to(outside / target)
    storage, says = Storage(str(tmp_path / "out")), rf"{link}: is a link, and files are not written through one"
    with pytest.raises(BadInput, match=says), output_lock(storage):
        pass
    assert (outside / "victim").read_text() == "precious"
    assert {file.name for file in outside.iterdir()} == {"victim"}


def test_the_folder_and_folders_in_it_may_be_links(outside, tmp_path):
    (tmp_path / "scratch" / "runs").mkdir(parents=True)
    (tmp_path / "out").symlink_to(tmp_path / "scratch")
    (tmp_path / "scratch" / "weights").symlink_to(outside)
    storage = Storage(str(tmp_path / "out"))
    with output_lock(storage):
        storage.write("weights/a/b.bin", b"1")
        storage.write("runs/a.json", b"{}")
    assert (outside / "a" / "b.bin").read_bytes() == b"1"
    refuse_links(tmp_path / "absent")


def test_a_link_to_something_in_the_folder_may_stay(tmp_path):
    (tmp_path / "wandb" / "run-1").mkdir(parents=True)
    (tmp_path / "wandb" / "run-1" / "debug-core.log").symlink_to("/elsewhere")  # W&B's own
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "latest").symlink_to("../wandb/run-1")
    refuse_links(tmp_path)


def test_a_link_below_such_a_folder_is_refused(outside, tmp_path):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "runs").symlink_to(tmp_path / "scratch")
    (tmp_path / "scratch" / "a.json").symlink_to(outside / "victim")
    with pytest.raises(BadInput, match="is a link"):
        refuse_links(tmp_path / "out")


def test_no_file_is_written_behind_a_link_below_the_first_level(outside, tmp_path):
    storage = Storage(str(tmp_path / "out"))
    (tmp_path / "out" / "weights").mkdir(parents=True)
    (tmp_path / "out" / "weights" / "run").symlink_to(outside)
    with pytest.raises(BadInput, match="is a link"):
        storage.write("weights/run/victim", b"overwritten")
    (tmp_path / "out" / "report.md").symlink_to(outside / "victim")
    storage.write("report.md", b"new")  # replaces the link
    assert (outside / "victim").read_text() == "precious"
    assert (tmp_path / "out" / "report.md").read_bytes() == b"new"
