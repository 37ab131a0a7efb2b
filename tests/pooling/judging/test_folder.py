import os
import stat
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from pooling.judging.folder import check_local, file_system, make_private, private_file
from pooling.judging.store import Store
from ranking.errors import BadInput


def mounts(monkeypatch: pytest.MonkeyPatch, *kinds: tuple[str, str]) -> None:
    there = [SimpleNamespace(mountpoint=place, fstype=kind) for place, kind in kinds]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: there)


def test_the_nearest_mount_counts(monkeypatch):
    mounts(
        monkeypatch, ("/", "ext4"), ("/home", "nfs4"), ("/home/ada/disk", "ext4"), ("/mnt", "autofs"), ("/mnt", "cifs")
    )
    assert file_system(Path("/srv/x")) == "ext4"
    assert file_system(Path("/home/ada")) == "nfs4"
    assert file_system(Path("/homes")) == "ext4"
    assert file_system(Path("/home/ada/disk/x/y")) == "ext4"
    assert file_system(Path("/mnt/share")) == "cifs"  # mounted over the first
    check_local(Path("/home/ada/disk"))
    mounts(monkeypatch)
    assert file_system(Path("/srv")) == ""


def test_judgements_are_not_kept_on_a_network_file_system(tmp_path, monkeypatch):
    mounts(monkeypatch, ("/", "ext4"), (str(tmp_path), "NFS4"))
    with pytest.raises(BadInput, match=r"network file system \(nfs4\).*choose an out="):
        Store(tmp_path / "out", {})
    assert not list((tmp_path / "out").iterdir())


def test_the_disk_of_the_tests_has_a_file_system(tmp_path):
    assert file_system(tmp_path)


def test_files_and_folders_are_private(tmp_path):
    before = os.umask(0)
    try:
        make_private(tmp_path / "new" / "folder")
        private_file(tmp_path / "new" / "file")
        (tmp_path / "old").touch(0o666)
        private_file(tmp_path / "old")
        (tmp_path / "shared").mkdir(0o755)
        make_private(tmp_path / "shared")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("new/folder", "new/file", "old", "shared")]
    assert modes == [0o700, 0o600, 0o600, 0o755]  # a folder that was there is the user's to open up
