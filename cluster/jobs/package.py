"""Packs the working directory of a job without data, outputs and environments."""

from __future__ import annotations

import fnmatch
import os
import subprocess
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from ranking.errors import BadInput

LEFT_OUT = (
    ".git", ".hg", "__pycache__", ".*_cache", ".cache", ".hypothesis", ".ipynb_checkpoints", ".tox", ".nox", ".idea",
    ".vscode", ".venv", "venv", "node_modules", "*.egg-info", "build", "dist", "/data", "/outputs", ".env",
)  # fmt: skip
"""Names of files and folders that are never packed; those with a slash only where they stand at the top."""
ENVIRONMENT = ("pyvenv.cfg", "conda-meta")
"""What tells that a folder is an environment of Python, whatever its name."""
LIMIT = 100 * 2**20
"""Bytes of all files together. Ray keeps the package in the memory of the head node."""
NAMED = 3
"""Biggest files that are named where there is too much."""


def working_folder() -> Path:
    """What is packed unless a folder is named: the checkout that this command runs from, else where one stands."""
    import cluster

    checkout = Path(cluster.__file__).resolve().parents[1]
    return checkout if (checkout / "pyproject.toml").is_file() else Path.cwd()


def files_of(folder: Path, excludes: Sequence[str] = ()) -> list[Path]:
    """The files that are packed, relative to the folder, in order.

    What git ignores is left out where the folder belongs to a repository, and `LEFT_OUT` and environments anywhere.

    Args:
        folder: the working directory.
        excludes: more patterns, of a name or of a path within the folder, as `notes*` or `docs/images`.
    """
    patterns = (*LEFT_OUT, *excludes)
    kept = _known_to_git(folder)
    found = [name for name in _walk(folder, patterns) if kept is None or name.as_posix() in kept]
    return sorted(found, key=lambda name: name.as_posix())


def pack(folder: Path, archive: Path, excludes: Sequence[str] = (), limit: int = LIMIT) -> Path:
    """Write the files of a folder into a zip file: the same bytes for the same content, so that Ray keeps it once.

    Args:
        folder: the working directory.
        archive: the zip file to write.
        excludes: of `files_of`.
        limit: bytes of all files together.

    Returns:
        The archive.

    Raises:
        BadInput: where there is no such folder, nothing in it, or too much.
    """
    if not folder.is_dir():
        raise BadInput("there is no such folder", folder, "name the working directory by --working-dir")
    names = files_of(folder, excludes)
    if not names:
        raise BadInput("there is nothing to pack", folder, "does git ignore all of it?")
    sizes = {name: (folder / name).stat().st_size for name in names}
    total = sum(sizes.values())
    if total > limit:
        biggest = sorted(names, key=lambda name: -sizes[name])[:NAMED]
        listed = ", ".join(f"{name} ({_mib(sizes[name])})" for name in biggest)
        raise BadInput(
            f"the working directory holds {_mib(total)} and may hold {_mib(limit)}; the biggest files are {listed}",
            folder, "leave some out with --exclude NAME, or name another folder by --working-dir",
        )  # fmt: skip
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in names:
            entry = zipfile.ZipInfo(name.as_posix())  # with a date that is always the same
            entry.external_attr = ((folder / name).stat().st_mode & 0xFFFF) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, (folder / name).read_bytes())
    return archive


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"


def _walk(folder: Path, patterns: Sequence[str]) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        here = Path(root).relative_to(folder)
        folders[:] = [
            name
            for name in folders
            if not _matches(here / name, patterns)
            and not any((Path(root) / name / sign).exists() for sign in ENVIRONMENT)
        ]
        for name in files:
            if not _matches(here / name, patterns) and (Path(root) / name).is_file():
                yield here / name


def _matches(name: Path, patterns: Sequence[str]) -> bool:
    whole = name.as_posix()
    return any(
        fnmatch.fnmatchcase(
            f"/{whole}" if "/" in pattern else name.name, f"/{pattern.strip('/')}" if "/" in pattern else pattern
        )
        for pattern in patterns
    )


def _known_to_git(folder: Path) -> set[str] | None:
    """Files of a repository that git does not ignore, None where the folder belongs to none or there is no git."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=folder, capture_output=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return None
    return {os.fsdecode(name) for name in listed.stdout.split(b"\0") if name}
