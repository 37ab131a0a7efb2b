"""The wheel has all of the project in it, and runs a study from there."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import polars as pl
import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = sorted(link.name for link in (ROOT / "pyrite").iterdir() if link.is_symlink())
"""Folders of the repository that are packages within `pyrite`."""
RAN_BY_ITSELF = {"COVERAGE_PROCESS_START", "PYTEST_ADDOPTS", "PYTHONPATH", "RAY_ADDRESS"}


def shipped() -> set[str]:
    """Every file of the packages, by its path in the wheel: code, configurations, dashboards, templates and pages."""
    inside = (path for name in ("pyrite", *PACKAGES) for path in (ROOT / name).rglob("*") if path.is_file())
    paths = (path.relative_to(ROOT) for path in inside if "__pycache__" not in path.parts)
    return {path.as_posix() if path.parts[0] == "pyrite" else f"pyrite/{path.as_posix()}" for path in paths}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheel has in it. It is built from a copy: a build leaves folders where it works."""
    source, built, folder = (tmp_path_factory.mktemp(name) for name in ("source", "built", "unpacked"))
    for name in ("pyrite", *PACKAGES):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"]
    done = subprocess.run([*pip, "-w", built, source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = built.glob("pyrite_ir-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    _reuse_compiled(folder)
    return folder


def _reuse_compiled(folder: Path) -> None:
    """Give the unpacked code what Numba has compiled of the checkout's, which it knows by a file's size and time."""
    for compiled in (path for name in PACKAGES for path in (ROOT / name).rglob("__pycache__/*.nb[ic]")):
        place = folder / "pyrite" / compiled.relative_to(ROOT)
        place.parent.mkdir(exist_ok=True)
        shutil.copy(compiled, place)
    for name in shipped():
        shutil.copystat(ROOT / name, folder / name)


@pytest.mark.nightly
def test_every_file_is_in_it(unpacked):
    files = (path for path in unpacked.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    found = {path.relative_to(unpacked).as_posix() for path in files}
    (about,) = unpacked.glob("*.dist-info")
    assert {name for name in found if not name.startswith(about.name)} == shipped()
    assert {name.split("/")[0] for name in found} == {"pyrite", about.name}
    assert "pyrite = pyrite.cluster.__main__:main" in (about / "entry_points.txt").read_text()


@pytest.mark.nightly
def test_a_study_runs_from_it(unpacked, beir_folder, own_cache, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name not in RAN_BY_ITSELF}
    environment |= {"PYTHONPATH": str(unpacked), "PYRITE_CACHE": str(own_cache)}
    where = "import importlib.util as u, sys; print(*(u.find_spec(name).origin for name in sys.argv[1:]), sep='\\n')"
    names = ["pyrite", *(f"pyrite.{name}" for name in PACKAGES)]
    origins = subprocess.run(
        [sys.executable, "-c", where, *names], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(origins) == len(names)
    assert all(Path(origin).is_relative_to(unpacked) for origin in origins), origins
    done = subprocess.run(
        [
            sys.executable, "-m", "pyrite", "study", "scale=tiny", "collection=beir", f"collection.path={beir_folder}",
            "vectors=random", "encoding.min_count=1", "ranker.preset=tiny", "training.batch_size=8", "seeds=1",
            "policy=fixed", "function=random,bm25", "selector=uniform", "dashboard=false", "out=study",
        ],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(pl.read_parquet(tmp_path / "study" / "trials.parquet")["function"]) == {"random", "bm25"}
    assert (tmp_path / "study" / "report.html").read_text().lower().startswith("<!doctype html>")
