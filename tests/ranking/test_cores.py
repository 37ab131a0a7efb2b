"""Tests of `ranking.cores` with the files of both versions of control groups."""

import os
from pathlib import Path

from ranking import cores as module


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
    available = len(os.sched_getaffinity(0))
    for quota, expected in ((0.5, 1), (1.9, 1), (10**6, available)):
        monkeypatch.setattr(module, "quotas", lambda quota=quota: iter([quota]))
        assert module.cores() == expected
