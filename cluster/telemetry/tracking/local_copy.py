"""Provides a local folder for libraries that can't write to the URI of an output folder."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from cluster.output.storage import Storage


class LocalCopy:
    """A local folder for the content of `OUT/NAME`: that folder, or a temporary one that is uploaded to a URI."""

    def __init__(self, storage: Storage, name: str) -> None:
        self.storage, self.name = storage, name
        self._temporary = None if storage.local else tempfile.TemporaryDirectory(prefix="pyrite-")
        self.path = Path(storage.path(name)) if self._temporary is None else Path(self._temporary.name) / name

    def fetch(self, file: str) -> Path:
        """Return the local path of a file, with the content that an earlier command wrote."""
        path = self.path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        content = None if self._temporary is None else self.storage.read(f"{self.name}/{file}")
        if content is not None:
            path.write_bytes(content)
        return path

    def empty(self, folder: str) -> Path:
        """Return the local path of a subfolder, without content."""
        path = self.path / folder
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def upload(self, part: str = "") -> None:
        """Replace the remote files of a finished subfolder, or of all, by the local ones."""
        if self._temporary is None:
            return
        files = [file for file in (self.path / part).rglob("*") if file.is_file() and not file.is_symlink()]
        for folder in {file.parent for file in files}:
            remote = f"{self.name}/{folder.relative_to(self.path).as_posix()}".removesuffix("/.")
            names = [file.name for file in files if file.parent == folder]
            for name in names:
                self.storage.write(f"{remote}/{name}", (folder / name).read_bytes())
            for stale in {*self.storage.names(remote)} - {*names}:
                self.storage.delete(f"{remote}/{stale}")
        if part:
            shutil.rmtree(self.path / part)

    def close(self) -> None:
        """Upload everything, and delete the temporary folder."""
        self.upload()
        if self._temporary is not None:
            self._temporary.cleanup()
