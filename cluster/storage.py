"""An output folder: a local path, or any URI that pyarrow's file systems take (s3://, gs://, …)."""

from __future__ import annotations

import contextlib
import os
import uuid

from ranking.errors import BadInput


class Storage:
    """Files of one folder, each written whole or not at all.

    Args:
        place: a path or URI. The folder is made when something is first written.

    Raises:
        BadInput: where there is no such file system.
    """

    def __init__(self, place: str) -> None:
        from pyarrow import ArrowInvalid, fs

        if not place:
            raise BadInput("an output folder needs a name", remedy="give out=FOLDER")
        self.place = place
        self.local = "://" not in place
        try:
            if self.local:
                self._files, self._root = fs.LocalFileSystem(), os.path.abspath(place)
            else:
                self._files, self._root = fs.FileSystem.from_uri(place)
        except (ArrowInvalid, OSError) as error:
            raise BadInput(f"is no folder to write to ({error})", place) from None

    def __reduce__(self) -> tuple[type[Storage], tuple[str]]:
        return (Storage, (self._root if self.local else self.place,))

    def __str__(self) -> str:
        return self.place

    def path(self, name: str) -> str:
        """The whole path of a file."""
        return f"{self._root}/{name}"

    def shown(self, name: str = "") -> str:
        """A file, or the folder itself, as people are told of it: from where they stand if it lies beneath."""
        if not self.local:
            return self.path(name) if name else self.place
        relative = os.path.relpath(self.path(name))
        return os.path.abspath(self.path(name)) if relative.startswith("..") else relative

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole: under a temporary name, then renamed.

        Raises:
            BadInput: where it can't be written.
        """
        temporary = self.path(f"{name}.{uuid.uuid4().hex[:8]}.part")
        try:
            self._files.create_dir(os.path.dirname(self.path(name)), recursive=True)
            with self._files.open_output_stream(temporary) as stream:
                stream.write(content)
            self._files.move(temporary, self.path(name))
        except OSError as error:
            raise BadInput(f"can't be written ({error})", f"{self.place}/{name}", "choose another out=") from None

    def read(self, name: str) -> bytes | None:
        """The content of a file, None where there is none.

        Raises:
            BadInput: where it can't be read.
        """
        try:
            with self._files.open_input_stream(self.path(name)) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BadInput(f"can't be read ({error})", f"{self.place}/{name}", "is it a folder of yours?") from None

    def names(self, folder: str = "") -> list[str]:
        """The names of the whole files in a folder."""
        from pyarrow import fs

        selector = fs.FileSelector(self.path(folder).rstrip("/"), allow_not_found=True)
        found = [info.base_name for info in self._files.get_file_info(selector) if info.type == fs.FileType.File]
        return sorted(name for name in found if not name.endswith(".part"))

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self._files.delete_file(self.path(name))
