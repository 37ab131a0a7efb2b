"""Keeps the versions of a negative index on disk, and the weights of those that are yet to be built."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ranking.checkpoint import from_bytes
from ranking.errors import BadInput
from ranking.index_versions import IndexVersion, open_version, weights_digest

WEIGHTS = "weights.safetensors"
COUNTED = "next"
"""Stands in a file's name for the number of a version that is yet to be counted."""


@dataclass(frozen=True)
class Publication:
    """Weights to build a version from.

    Args:
        step: of the trainer.
        version: its number; None: the one after the last build.
        digest: `weights_digest`.
    """

    step: int
    version: int | None
    digest: str

    @property
    def file(self) -> str:
        """Name of the file that holds them until the version is built."""
        return f"{self.step:09d}-{COUNTED if self.version is None else self.version}-{self.digest}.safetensors"

    @classmethod
    def named(cls, file: str) -> Publication:
        """Of the file's name."""
        step, version, digest = file.removesuffix(".safetensors").split("-")
        return cls(int(step), None if version == COUNTED else int(version), digest)


def digest_of(content: NDArray[np.uint8]) -> str:
    """`weights_digest` of a safetensors file."""
    return weights_digest(from_bytes(content.tobytes(), "published weights"))


class IndexFolder:
    """`published/` and `versions/`, each file and folder in them whole or not there.

    Args:
        place: the folder; made where there is none.
    """

    def __init__(self, place: Path) -> None:
        self._published, self._versions = place / "published", place / "versions"
        for folder in (self._published, self._versions):
            folder.mkdir(parents=True, exist_ok=True)
            for leftover in folder.glob("*.part"):  # of an actor that was killed over it
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()

    def place(self, step: int) -> Path:
        """Where the version of a step stands."""
        return self._versions / f"{step:09d}"

    def versions(self) -> dict[int, IndexVersion]:
        """The good versions by step; a broken one, or one that is not of the weights beside it, is removed."""
        found = {}
        for folder in sorted(self._versions.iterdir()):
            version = open_version(folder)
            if version is not None and _digest_in(folder / WEIGHTS) == version.digest:
                found[version.step] = version
            else:
                shutil.rmtree(folder)
        return found

    def published(self) -> list[Publication]:
        """What was published and is not built, by step; what is built or broken is removed."""
        found = []
        for file in sorted(self._published.iterdir()):
            publication = Publication.named(file.name)
            if self.place(publication.step).exists() or _digest_in(file) != publication.digest:
                file.unlink()
            else:
                found.append(publication)
        return found

    def publish(self, publication: Publication, content: NDArray[np.uint8]) -> None:
        """Keep weights until their version is built."""
        file = self._published / publication.file
        temporary = file.with_name(f"{uuid.uuid4().hex}.part")
        try:
            temporary.write_bytes(content.tobytes())
            temporary.replace(file)
        except OSError as error:
            raise BadInput(f"can't be written ({error.strerror})", file, "is there room on the disk?") from None

    def weights(self, publication: Publication) -> NDArray[np.uint8]:
        """The weights that were published."""
        return np.fromfile(self._published / publication.file, np.uint8)

    def withdraw(self, publication: Publication) -> None:
        """Forget weights that are built, or that nobody waits for."""
        (self._published / publication.file).unlink(missing_ok=True)

    def remove(self, step: int) -> None:
        """Delete a version. Whoever has it open keeps it until the end of an answer."""
        shutil.rmtree(self.place(step), ignore_errors=True)


def _digest_in(file: Path) -> str | None:
    """The digest of the weights in a file; None where they are not whole."""
    try:
        return digest_of(np.fromfile(file, np.uint8))
    except (OSError, BadInput):
        return None
