"""Reads and writes an output folder: a local path, or any URI that pyarrow's file systems take (s3://, gs://, …)."""

from __future__ import annotations

import contextlib
import errno
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

from ranking.errors import BadInput

UNFINISHED = re.compile(r"\.[0-9a-f]{8}\.part$")
"""Ends the name of a file that is being written."""
RENAMING = ("local", "hdfs")
"""File systems, as pyarrow calls them, that give a file another name in one step."""
FULL = (errno.ENOSPC, errno.EDQUOT)
"""What a full disk, or a user's full share of it, says."""
CHUNK = 1 << 20
"""Bytes of a file that are copied at once."""


class Unwritable(BadInput):
    """An output can't be written: whatever is computed further would be lost, and what is written is not."""

    def __reduce__(self) -> tuple[type[Unwritable], tuple[object, ...]]:
        return (Unwritable, (self.what, self.where, self.remedy))


def unwritable(error: OSError, where: str | os.PathLike[str], remedy: str) -> Unwritable:
    """What to tell the user of an output that can't be written.

    Args:
        error: that was met.
        where: the file.
        remedy: unless the disk is full.
    """
    if error.errno in FULL:
        again = "make room and go on by --resume (train: by the same command)"
        return Unwritable("the disk is full", where, f"{again}, or {remedy}")
    return Unwritable(f"can't be written ({_reason(error)})", where, remedy)


def _reason(error: OSError) -> str:
    """An error of the system in its own words: pyarrow's say the file again, and more."""
    return os.strerror(error.errno) if error.errno else str(error)


def new_place(verb: str) -> str:
    """A folder named by verb and time that is not there yet: two may start in one second, and clocks go back."""
    place = f"outputs/{verb}-{time.strftime('%Y%m%d-%H%M%S')}"
    others = (f"{place}-{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain([place], others) if not os.path.lexists(name))


class Storage:
    """Files of one folder, each written whole or not at all.

    A disk gets them under a temporary name first, and then renames them. An object store cannot rename (it copies and
    deletes), and shows nothing of an object before all of it has arrived.

    Args:
        place: a path or URI. The folder is made when something is first written.
        option: that names it, for those who have to choose another.

    Raises:
        BadInput: where there is no such file system.
    """

    def __init__(self, place: str, option: str = "out") -> None:
        from pyarrow import ArrowInvalid

        if not place:
            raise BadInput("an output folder needs a name", remedy="give out=FOLDER")
        self.place, self.option = place, option
        self.local = "://" not in place
        try:
            self.files, self._root = open_files(place)
        except (ArrowInvalid, OSError) as error:
            raise BadInput(f"is no folder to write to ({error})", place) from None
        self.renames = self.files.type_name in RENAMING

    def __reduce__(self) -> tuple[type[Storage], tuple[str, str]]:
        return (Storage, (self._root if self.local else self.place, self.option))

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
        """Write a file whole. On a local disk it also outlives a power cut.

        Raises:
            Unwritable: where it can't be written. What stood there before stands there still.
        """
        with self._placed(name) as stream:
            stream.write(content)

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        """A binary stream for what is too large to be held; the file is there once all of it is.

        Raises:
            Unwritable: as of `write`.
        """
        if self.renames:
            with self._placed(name) as stream:
                yield stream
            return
        with tempfile.TemporaryFile() as file:  # an object store would take half of it for whole
            yield file
            file.seek(0)
            with self._placed(name) as stream:
                shutil.copyfileobj(file, stream, CHUNK)

    @contextlib.contextmanager
    def _placed(self, name: str) -> Iterator[Any]:
        """A stream to a file, which gets its name when the stream is closed."""
        whole = self.path(name)
        first = self.path(f"{name}.{uuid.uuid4().hex[:8]}.part") if self.renames else whole
        try:
            if self.renames:
                self.files.create_dir(os.path.dirname(whole), recursive=True)
            with self.files.open_output_stream(first) as stream:
                yield stream
            if self.local:
                _sync(first)
            if self.renames:
                self.files.move(first, whole)
            if self.local:
                _sync(os.path.dirname(whole))  # where the new name stands
        except OSError as error:
            self._give_up(first)
            raise unwritable(error, f"{self.place}/{name}", f"choose another {self.option}=") from None
        except BaseException:
            self._give_up(first)
            raise

    def _give_up(self, file: str) -> None:
        """Delete what was begun: on a full disk this is what takes the last room."""
        if self.renames:
            with contextlib.suppress(OSError):
                self.files.delete_file(file)

    def read(self, name: str) -> bytes | None:
        """The content of a file, None where there is none.

        Raises:
            BadInput: where it can't be read.
        """
        try:
            with self.files.open_input_stream(self.path(name)) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BadInput(f"can't be read ({error})", f"{self.place}/{name}", "is it a folder of yours?") from None

    def upload(self, file: Path, name: str) -> None:
        """Write a file of this machine, however large, whole.

        Raises:
            Unwritable: as of `write`.
        """
        with file.open("rb") as source, self._placed(name) as stream:
            shutil.copyfileobj(source, stream, CHUNK)

    def download(self, name: str, file: Path) -> bool:
        """Copy a file to this machine, however large, whole or not at all; False where there is none.

        Raises:
            BadInput: where it can't be read, or arrives cut short, or the disk here is full.
        """
        beside = file.with_name(f"{file.name}.{uuid.uuid4().hex[:8]}.part")
        try:
            with self.files.open_input_file(self.path(name)) as stream:
                file.parent.mkdir(parents=True, exist_ok=True)
                with beside.open("wb") as copy:
                    shutil.copyfileobj(stream, copy, CHUNK)
                if (arrived := beside.stat().st_size) != stream.size():
                    raise OSError(f"{arrived:,} of {stream.size():,} bytes arrived")
            os.replace(beside, file)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno in FULL:
                raise unwritable(error, file, "free it of what others can fetch again") from None
            raise BadInput(f"can't be read ({error})", f"{self.place}/{name}", f"check {self.option}=") from None
        finally:
            beside.unlink(missing_ok=True)
        return True

    def names(self, folder: str = "") -> list[str]:
        """The names of the whole files in a folder."""
        from pyarrow import fs

        selector = fs.FileSelector(self.path(folder).rstrip("/"), allow_not_found=True)
        found = [info.base_name for info in self.files.get_file_info(selector) if info.type == fs.FileType.File]
        return sorted(name for name in found if not name.endswith(".part"))

    def tidy(self) -> None:
        """Delete what processes have left that were killed while they wrote; for whoever alone writes here."""
        from pyarrow import fs

        if not self.renames:
            return
        with contextlib.suppress(OSError):
            for info in self.files.get_file_info(fs.FileSelector(self._root, allow_not_found=True, recursive=True)):
                if UNFINISHED.search(info.path):
                    self.files.delete_file(info.path)

    def move(self, name: str, to: str) -> None:
        """Give a file another name, in place of what has it; nothing where there is no such file.

        Raises:
            Unwritable: where it can't be.
        """
        try:
            if self.renames:
                self.files.move(self.path(name), self.path(to))
            elif (content := self.read(name)) is not None:
                self.write(to, content)
                self.delete(name)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise unwritable(error, f"{self.place}/{to}", f"choose another {self.option}=") from None

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self.files.delete_file(self.path(name))


def open_files(place: str) -> tuple[Any, str]:
    """The file system of a path or URI, and the path in it."""
    from pyarrow import fs

    return fs.FileSystem.from_uri(place) if "://" in place else (fs.LocalFileSystem(), os.path.abspath(place))


def _sync(path: str) -> None:
    """Have the disk keep a file before its name says that it is whole, or the names of a folder."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
