"""Reads and writes an output folder: a local path, or any URI that pyarrow's file systems open (s3://, gs://, …)."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from pyrite.cluster.config.secrets import concealed_file
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.lazy import pyarrow
from pyrite.ranking.links import refuse_linked_folder
from pyrite.ranking.whole_file import FULL, replace_file

UNFINISHED = re.compile(r"\.[0-9a-f]{8}\.part$")
"""End of the name of a file that is being written."""
RENAMING = ("local", "hdfs")
"""File systems, by their name in pyarrow, that rename a file in one step."""
CHUNK = 1 << 20
"""Bytes of a file that are copied at once."""


class Unwritable(BadInput):
    """An output can't be written: further results would be lost, and earlier ones are kept."""

    def __reduce__(self) -> tuple[type[Unwritable], tuple[object, ...]]:
        return (Unwritable, (self.what, self.where, self.remedy))


def unwritable(error: OSError, where: str | os.PathLike[str], remedy: str) -> Unwritable:
    """Return the message for an output that can't be written."""
    if error.errno in FULL:
        again = "make room and continue with --resume (train: with the same command)"
        return Unwritable(FULL[error.errno], where, f"{again}, or {remedy}")
    # The system's words: pyarrow's repeat the file and add more.
    reason, path = os.strerror(error.errno) if error.errno else str(error), Path(os.fspath(where))
    if link := next(
        (part for part in (path, *path.parents) if os.path.islink(part) and not os.path.exists(part)), None
    ):
        # The system's words would be that a file exists.
        reason, remedy = (
            f"{link} is a link to {os.readlink(link)}, which does not exist",
            f"create that folder, or {remedy}",
        )
    return Unwritable(f"can't be written ({reason})", where, remedy)


def new_place(verb: str) -> str:
    """Return a new folder named by verb and time; a number follows if two commands start in the same second."""
    place = f"outputs/{verb}-{time.strftime('%Y%m%d-%H%M%S')}"
    numbered = (f"{place}-{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain([place], numbered) if not os.path.lexists(name))


def output_place(out: str | None, verb: str) -> str:
    """Return the folder that `out=` names, or a new one for a verb."""
    return out or new_place(verb)


class Storage:
    """Files of one folder, each written completely or not at all.

    On a disk a file is written under a temporary name and then renamed. An object store can't rename (it copies and
    deletes), and shows an object only after all of it has arrived. What can't be written raises `Unwritable` and keeps
    its earlier content; what can't be read raises `BadInput`.

    Args:
        place: a path or URI. The folder is created when something is first written.
        option: the option that names the folder, for messages.
    """

    def __init__(self, place: str, option: str = "out") -> None:

        refuse(not place, "an output folder needs a name", remedy="give out=FOLDER")
        self.place, self.option = place, option
        self.local = "://" not in place
        try:
            self.files, self._root = open_files(place)
        except (pyarrow.ArrowInvalid, OSError) as error:
            raise Unwritable(f"is no folder to write to ({error})", place) from None
        self.renames = self.files.type_name in RENAMING

    def __reduce__(self) -> tuple[type[Storage], tuple[str, str]]:
        return (Storage, (self._root if self.local else self.place, self.option))

    def __str__(self) -> str:
        return self.place

    def path(self, name: str) -> str:
        """Return the absolute path of a file."""
        return f"{self._root}/{name}"

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self._root.rstrip("/").rpartition("/")[2]

    def uri(self, name: str) -> str:
        """Return the path or URI of a file or folder in it. The options of a URI (`?region=…`) stay at its end."""
        place, mark, options = (self.place, "", "") if self.local else self.place.partition("?")
        return f"{place.rstrip('/')}/{name}{mark}{options}"

    def within(self, folder: str) -> Storage:
        """Return a folder in it."""
        return Storage(self.uri(folder), self.option)

    def shown(self, name: str = "") -> str:
        """Return the path of a file, or of the folder, for messages: relative if it is below the current folder."""
        if not self.local:
            return self.path(name) if name else self.place
        relative = os.path.relpath(self.path(name))
        return os.path.abspath(self.path(name)) if relative.startswith("..") else relative

    def write(self, name: str, content: bytes) -> None:
        """Write a file, without secrets. On a local disk it also survives a power failure."""
        self.write_data(name, concealed_file(name, content))

    def write_data(self, name: str, content: bytes) -> None:
        """Write a file of weights or of a collection's texts unchanged: a password in them is not the user's."""
        with self._opened(name) as stream:
            stream.write(content)

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        """Yield a binary stream for a large file, which exists once the block has ended."""
        if self.renames:
            with self._opened(name) as stream:
                yield stream
            return
        with tempfile.TemporaryFile() as file:  # an object store would keep a part of it as the whole
            yield file
            file.seek(0)
            with self._opened(name) as stream:
                shutil.copyfileobj(file, stream, CHUNK)

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[Any]:
        """Yield a stream to a file, which gets its name when the stream is closed."""
        if self.local:
            refuse_linked_folder(self._root, name)
        try:
            if self.files.type_name == "local":
                with replace_file(self.path(name)) as temporary, temporary.open("wb") as stream:
                    yield stream
            else:
                with self._renamed(name) if self.renames else self.files.open_output_stream(self.path(name)) as stream:
                    yield stream
        except OSError as error:
            raise self._unwritable(error, name) from None

    @contextlib.contextmanager
    def _renamed(self, name: str) -> Iterator[Any]:
        whole = self.path(name)
        first = f"{whole}.{uuid.uuid4().hex[:8]}.part"
        try:
            self.files.create_dir(os.path.dirname(whole), recursive=True)
            with self.files.open_output_stream(first) as stream:
                yield stream
            self.files.move(first, whole)
        except BaseException:
            with contextlib.suppress(OSError):  # on a full disk it takes the last room
                self.files.delete_file(first)
            raise

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist."""
        try:
            with self.files.open_input_stream(self.path(name)) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            raise self._no_folder() from None
        except OSError as error:
            raise BadInput(f"can't be read ({error})", self.uri(name), "is it a folder of yours?") from None

    def content(self, name: str) -> bytes:
        """Return the content of a file; nothing if it does not exist."""
        return self.read(name) or b""

    def names(self, folder: str = "") -> list[str]:
        """Return the names of the complete files in a folder."""
        files = (info.base_name for info in self._infos(folder) if info.is_file)
        return sorted(name for name in files if not name.endswith(".part"))

    def entries(self) -> list[str]:
        """Return the names of the files and folders in it, without hidden ones."""
        try:
            names = [info.base_name for info in self._infos()]
        except NotADirectoryError:
            raise self._no_folder() from None
        except OSError as error:
            what = f"can't be listed ({error.strerror or error})"
            raise BadInput(what, self.place, "choose another folder") from None
        return sorted(name for name in names if not name.startswith("."))

    def tidy(self) -> None:
        """Delete unfinished files of processes that were killed. Only the process that holds the folder may call it."""
        if not self.renames:
            return
        with contextlib.suppress(OSError):
            for info in self._infos(recursive=True):
                if UNFINISHED.search(info.path):
                    self.files.delete_file(info.path)

    def move(self, name: str, to: str) -> None:
        """Rename a file and replace one of the new name; do nothing if the file does not exist."""
        try:
            if self.renames:
                self.files.move(self.path(name), self.path(to))
            elif (content := self.read(name)) is not None:
                self.write(to, content)
                self.delete(name)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise self._unwritable(error, to) from None

    def delete(self, name: str) -> None:
        """Delete a file if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self.files.delete_file(self.path(name))

    def _infos(self, folder: str = "", recursive: bool = False) -> list[Any]:
        """Return what pyarrow knows of the files and folders in a folder; none if it does not exist."""
        selector = pyarrow.fs.FileSelector(self.path(folder).rstrip("/"), allow_not_found=True, recursive=recursive)
        return list(self.files.get_file_info(selector))

    def _unwritable(self, error: OSError, name: str) -> Unwritable:
        return unwritable(error, self.uri(name), f"choose another {self.option}=")

    def _no_folder(self) -> BadInput:
        return BadInput("is a file, or within one, and no folder", self.place, "choose another folder")


def open_files(place: str) -> tuple[Any, str]:
    """Return the file system of a path or URI, and the path in it."""
    fs = pyarrow.fs
    return fs.FileSystem.from_uri(place) if "://" in place else (fs.LocalFileSystem(), os.path.abspath(place))
