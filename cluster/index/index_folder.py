"""Keeps the versions of a negative index on disk, and the weights of those that are not built yet."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ranking.checkpoint import from_bytes
from ranking.errors import BadInput
from ranking.index_versions import IndexVersion, open_version, weights_digest
from ranking.whole_file import replace_file

WEIGHTS = "weights.safetensors"
UNNUMBERED = "next"
"""Replaces the version's number in the name of a file whose version gets its number when it is built."""


@dataclass(frozen=True)
class Publication:
    """Weights to build a version from.

    Args:
        version: the version's number; None takes the one after the last build.
        digest: `weights_digest` of the weights.
    """

    step: int
    version: int | None
    digest: str

    @property
    def file(self) -> str:
        """Name of the file that holds the weights until the version is built."""
        return f"{self.step:09d}-{UNNUMBERED if self.version is None else self.version}-{self.digest}.safetensors"

    @classmethod
    def named(cls, file: str) -> Publication:
        """Parse a file's name."""
        step, version, digest = file.removesuffix(".safetensors").split("-")
        return cls(int(step), None if version == UNNUMBERED else int(version), digest)


def digest_of(content: NDArray[np.uint8]) -> str:
    """Return the `weights_digest` of a safetensors file's content."""
    return weights_digest(from_bytes(content.tobytes(), "published weights"))


class IndexFolder:
    """The folders `published/` and `versions/`; every file and folder in them is complete or absent.

    Args:
        path: the folder; it is created if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._published, self._versions = path, path / "published", path / "versions"
        for folder in (self._published, self._versions):
            folder.mkdir(parents=True, exist_ok=True)
            for leftover in folder.glob("*.part"):  # of an actor that was killed while it wrote
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()

    def version_path(self, step: int) -> Path:
        """Return the folder of a step's version."""
        return self._versions / f"{step:09d}"

    def versions(self) -> dict[int, IndexVersion]:
        """Open the intact versions, by step. A broken one, or one whose weights do not match, is removed."""
        versions = {}
        for folder in sorted(self._versions.iterdir()):
            version = open_version(folder)
            if version is not None and _digest_in(folder / WEIGHTS) == version.digest:
                versions[version.step] = version
            else:
                shutil.rmtree(folder)
        return versions

    def published(self) -> list[Publication]:
        """Return what was published and is not built, by step. Files that are built or broken are removed."""
        waiting = []
        for file in sorted(self._published.iterdir()):
            publication = Publication.named(file.name)
            if self.version_path(publication.step).exists() or _digest_in(file) != publication.digest:
                file.unlink()
            else:
                waiting.append(publication)
        return waiting

    def publish(self, publication: Publication, content: NDArray[np.uint8]) -> None:
        """Keep weights until their version is built."""
        file = self._published / publication.file
        try:
            with replace_file(file) as temporary:
                content.tofile(temporary)
        except OSError as error:
            raise BadInput(f"can't be written ({error.strerror})", file, "is there room on the disk?") from None

    def weights(self, publication: Publication) -> NDArray[np.uint8]:
        """Read the weights of a publication."""
        return np.fromfile(self._published / publication.file, np.uint8)

    def withdraw(self, publication: Publication) -> None:
        """Delete weights that are built, or no longer needed."""
        (self._published / publication.file).unlink(missing_ok=True)

    def remove(self, step: int) -> None:
        """Delete a version. A reader that has it open keeps it until the end of its search."""
        shutil.rmtree(self.version_path(step), ignore_errors=True)

    def delete(self) -> None:
        """Delete the folder with everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)


def _digest_in(file: Path) -> str | None:
    """Return the digest of the weights in a file, or None if the file is broken or absent."""
    try:
        return digest_of(np.fromfile(file, np.uint8))
    except (OSError, BadInput):
        return None
