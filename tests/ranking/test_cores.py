"""Tests of what a process finds on its machine: cores by control groups, and a place for compiled loops."""

import os
import stat
import tempfile
from pathlib import Path

from pyrite.ranking import cores as module
from pyrite.ranking.compile_cache import VARIABLE, choose_compile_cache


def group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(f"{content}\n")


def test_version_2_counts_the_quota_of_every_parent(tmp_path):
    member = tmp_path / "member"
    member.write_text("0::/job/step\n")
    group(tmp_path / "job", cpu__max="400000 100000")
    group(tmp_path / "job" / "step", cpu__max="max 100000")
    assert list(module.quotas(tmp_path, member)) == [4.0]


def test_version_1_and_a_container_whose_group_is_mounted_at_the_root(tmp_path):
    member = tmp_path / "member"
    member.write_text("5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/\n")
    group(tmp_path / "cpu", cpu__cfs_quota_us="150000", cpu__cfs_period_us="100000")
    assert list(module.quotas(tmp_path, member)) == [1.5]
    group(tmp_path / "cpu", cpu__cfs_quota_us="-1")
    assert list(module.quotas(tmp_path, member)) == []


def test_without_control_groups_the_affinity_counts(monkeypatch):
    assert list(module.quotas(Path("/nowhere"), Path("/nowhere"))) == []
    for quota, expected in ((0.5, 1), (1.9, 1), (10**6, len(os.sched_getaffinity(0)))):
        monkeypatch.setattr(module, "quotas", lambda quota=quota: iter([quota]))
        assert module.cores() == expected


def test_a_private_folder_is_used_if_no_other_can_be_written(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "")  # restored after the test
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "file").write_text("")
    nowhere = [tmp_path / "file" / "__pycache__"]
    for _ in range(2):  # the second process finds the folder of the first
        monkeypatch.delenv(VARIABLE)
        choose_compile_cache(nowhere)
        chosen = Path(os.environ[VARIABLE])
        assert chosen == tmp_path / f"pyrite-numba-{os.getuid()}"
        assert stat.S_IMODE(chosen.stat().st_mode) == 0o700
    monkeypatch.delenv(VARIABLE)
    chosen.chmod(0o777)  # anybody could have put files there
    choose_compile_cache(nowhere)
    assert Path(os.environ[VARIABLE]) != chosen
    choose_compile_cache([tmp_path])  # what is set stays
    monkeypatch.delenv(VARIABLE)
    choose_compile_cache([tmp_path / "new"])
    assert VARIABLE not in os.environ
