"""Gives a library a local folder to write to where the output folder is a URI."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from cluster.output.storage import Storage


class Folder:
    """A local path for what ends up in `OUT/NAME`: that very folder or, of a URI, one that is handed over.

    Args:
        storage: the output folder.
        name: of the folder within it.
    """

    def __init__(self, storage: Storage, name: str) -> None:
        self.storage, self.name = storage, name
        self._temporary = None if storage.local else tempfile.TemporaryDirectory(prefix="pyrite-")
        self.path = Path(storage.path(name)) if self._temporary is None else Path(self._temporary.name) / name

    def fetch(self, file: str) -> Path:
        """The path of a file, with what an earlier command left in it."""
        path = self.path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        content = None if self._temporary is None else self.storage.read(f"{self.name}/{file}")
        if content is not None:
            path.write_bytes(content)
        return path

    def empty(self, folder: str) -> Path:
        """The path of a folder within this one, emptied."""
        path = self.path / folder
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def hand_over(self, part: str = "") -> None:
        """Put the files of a part that is complete, or of all, in the place of what is in the same folders there."""
        if self._temporary is None:
            return
        files = [file for file in (self.path / part).rglob("*") if file.is_file() and not file.is_symlink()]
        for folder in {file.parent for file in files}:
            there = f"{self.name}/{folder.relative_to(self.path).as_posix()}".removesuffix("/.")
            own = [file for file in files if file.parent == folder]
            for file in own:
                self.storage.write(f"{there}/{file.name}", file.read_bytes())
            for stale in {*self.storage.names(there)} - {file.name for file in own}:
                self.storage.delete(f"{there}/{stale}")
        if part:
            shutil.rmtree(self.path / part)

    def close(self) -> None:
        """Hand everything over, and leave nothing on this machine."""
        self.hand_over()
        if self._temporary is not None:
            self._temporary.cleanup()
