"""One name is installed, `pyrite`: users' files of any other name, and old names, do no harm."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyrite.cluster.config.build import locate
from pyrite.cluster.config.moved import moved, with_present_paths
from pyrite.ranking.errors import BadInput

ROOT = Path(__file__).resolve().parents[1]
OLD = ("cluster", "pooling", "ranking", "rl", "sampling")
PACKAGES = ("analysis", *OLD)


def run(folder: Path, program: str, *path: Path) -> str:
    """Run a program in another folder, which Python searches first; return what it printed."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (folder, *path)))}
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("module", ["pyrite", "pyrite.ranking.bm25"])
def test_an_import_loads_neither_ray_nor_the_command_line(module, tmp_path):
    names = ("ray", "hydra", "omegaconf", "pyrite.cluster")
    assert run(tmp_path, f"import sys, {module}; print([n for n in {names} if n in sys.modules])", ROOT) == "[]\n"


@pytest.mark.nightly
def test_files_of_the_user_may_have_the_names_of_our_packages(tmp_path, beir_folder, own_cache):
    for name in PACKAGES:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')")
    command = [
        "train", "collection=beir", f"collection.path={beir_folder}", "vectors=random", "ranker.preset=tiny",
        "encoding.min_count=1", "training.batch_size=8", "training.max_epochs=1", "scale=tiny", "out=trained",
    ]  # fmt: skip
    program = f"from pyrite.cluster.commands.cli import main\nmain({command})"
    run(tmp_path, program, ROOT)
    assert (tmp_path / "trained" / "config.yaml").is_file()


@pytest.mark.parametrize("package", PACKAGES)
def test_a_checkout_without_links_finds_its_packages(package, tmp_path):
    (tmp_path / "pyrite").mkdir()
    for path in (ROOT / "pyrite").glob("*.py"):
        (tmp_path / "pyrite" / path.name).symlink_to(path)
    (tmp_path / package).symlink_to(ROOT / package)
    (tmp_path / "ranking").is_symlink() or (tmp_path / "ranking").symlink_to(ROOT / "ranking")
    (tmp_path / "pyrite" / package).write_text(f"../{package}")  # what Git writes instead of a link
    assert run(tmp_path, f"import pyrite.{package} as p; print(p.__name__)") == f"pyrite.{package}\n"


@pytest.mark.parametrize("package", OLD)
def test_a_package_is_not_imported_twice_by_its_old_name(package, tmp_path):
    program = f"try:\n    import {package}\nexcept ImportError as error:\n    print(error)"
    assert run(tmp_path, program, ROOT) == f"{package} is pyrite.{package} since version 0.3\n"


def test_an_old_path_is_refused_with_the_new_one():
    with pytest.raises(
        BadInput, match=r"sampling\.selection\.simans\.SimANS: is called pyrite\.sampling\.selection"
    ) as e:
        locate("sampling.selection.simans.SimANS")
    assert "pyrite-ir<0.3" in str(e.value)
    assert locate(moved("sampling.selection.simans.SimANS") or "").__name__ == "SimANS"


def test_a_users_module_with_an_old_import_is_refused_with_the_new_one(tmp_path, monkeypatch):
    (tmp_path / "old_selector.py").write_text("from sampling.selection.selector import Selector\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(BadInput, match=r"old_selector: imports sampling.*; write: from pyrite\.sampling"):
        locate("old_selector.Mine")


def test_paths_in_a_judging_folder_of_an_older_version_are_read_as_they_are_now():
    old = "+method.mine.arm._target_=pooling.adjudicators.thompson.Thompson"
    assert with_present_paths(old) == old.replace("=pooling", "=pyrite.pooling")
    nested = "method.x={_target_: pooling.adjudicators.bandit.bandit.Bandit, arm: {_target_: mine.Arm}}"
    assert with_present_paths(nested) == nested.replace(" pooling", " pyrite.pooling")
    for other in ("runs=pooling.tsv", "+method.mine._target_=pooling_mine.Order", "method.a._target_=pooling.mine.Arm"):
        assert with_present_paths(other) == other
