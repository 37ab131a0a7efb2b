from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from cluster.jobs.package import files_of, pack, working_folder
from ranking.errors import BadInput

KEPT = ["cluster/__main__.py", "cluster/data/table.csv", "docs/images/a.png", "docs/notes.md", "pyproject.toml"]
LEFT = [
    "data/corpus.jsonl", "outputs/s/summary.csv", ".venv/bin/python", "mine/lib/site.py", ".mypy_cache/3.11/a.json",
    "cluster/__pycache__/cli.pyc", "pyrite.egg-info/PKG-INFO", "build/lib/a.py", ".env",
]  # fmt: skip


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with something of everything."""
    folder = tmp_path / "checkout"
    for name in [*KEPT, *LEFT]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"this is {name}")
    (folder / "mine" / "pyvenv.cfg").write_text("home = /usr")
    return folder


def names(folder: Path, *excludes: str) -> list[str]:
    return [name.as_posix() for name in files_of(folder, excludes)]


def test_leaves_out_data_outputs_environments_and_caches(checkout: Path) -> None:
    assert names(checkout) == KEPT


def test_leaves_out_what_is_named(checkout: Path) -> None:
    assert names(checkout, "docs/images") == [name for name in KEPT if "images" not in name]
    assert names(checkout, "*.md", "docs/images") == ["cluster/__main__.py", "cluster/data/table.csv", "pyproject.toml"]


def test_leaves_out_what_git_ignores_and_its_own_folder(checkout: Path) -> None:
    subprocess.run(["git", "init", "-q", str(checkout)], check=True)
    (checkout / ".gitignore").write_text("*.png\nnotes.*\n")
    assert names(checkout) == [".gitignore", "cluster/__main__.py", "cluster/data/table.csv", "pyproject.toml"]


def test_does_not_follow_links_to_folders(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "corpora").mkdir()
    (tmp_path / "corpora" / "big.txt").write_text("big")
    (checkout / "corpora").symlink_to(tmp_path / "corpora")
    assert names(checkout) == KEPT


def test_the_same_content_gives_the_same_bytes(checkout: Path, tmp_path: Path) -> None:
    first = pack(checkout, tmp_path / "first.zip").read_bytes()
    (checkout / "pyproject.toml").touch()
    assert pack(checkout, tmp_path / "second.zip").read_bytes() == first
    with zipfile.ZipFile(tmp_path / "first.zip") as packed:
        assert packed.namelist() == KEPT
        assert packed.read("docs/notes.md") == b"this is docs/notes.md"


def test_too_much_is_refused_with_the_biggest_files(checkout: Path, tmp_path: Path) -> None:
    for size, name in enumerate(["one.bin", "two.bin", "three.bin", "four.bin"], 1):
        (checkout / "docs" / name).write_bytes(bytes(size * 2**20))
    with pytest.raises(BadInput) as refused:
        pack(checkout, tmp_path / "archive.zip", limit=5 * 2**20)
    assert "holds 10.0 MiB and may hold 5.0 MiB" in str(refused.value)
    assert "docs/four.bin (4.0 MiB), docs/three.bin (3.0 MiB), docs/two.bin (2.0 MiB);" in str(refused.value)
    assert "--exclude" in str(refused.value)
    assert not (tmp_path / "archive.zip").exists()
    assert pack(checkout, tmp_path / "archive.zip", ["*.bin"], limit=5 * 2**20).exists()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no such folder"):
        pack(tmp_path / "nowhere", tmp_path / "archive.zip")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="nothing to pack"):
        pack(tmp_path / "empty", tmp_path / "archive.zip")


def test_this_checkout_can_run_the_command_line() -> None:
    packed = names(working_folder())
    assert {"cluster/__main__.py", "cluster/conf/study.yaml", "ranking/errors.py"} <= set(packed)
    assert not any(name.startswith((".git/", ".venv/", "outputs/")) for name in packed)
