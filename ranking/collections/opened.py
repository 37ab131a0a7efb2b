"""Opens files that may be compressed, as bytes: gzip, bzip2, xz and Zstandard, recognised by their first bytes."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import pyarrow as pa

from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.similar import similar_path

T = TypeVar("T")

RATIO, MOST = 200, 4_000_000_000
"""A file that decompresses to more than both, RATIO times its size and MOST bytes, is refused."""
ANY_SIZE = "PYRITE_ANY_SIZE"
"""The environment variable that lifts this."""
FORMS = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zst"}
"""The first bytes of a compressed file, and the ending of its name."""
PACKED = re.compile(rb"\x1f\x8b|BZh[1-9]1AY&SY|\xfd7zXZ\x00|\x28\xb5\x2f\xfd")
"""The first bytes of what is compressed again: a text may begin with BZh."""
ENDINGS = tuple(f".{ending}" for ending in FORMS.values())
MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32", codecs.BOM_UTF16_LE: "utf-16",
         codecs.BOM_UTF16_BE: "utf-16", codecs.BOM_UTF8: "utf-8-sig"}  # fmt: skip
"""Byte order marks, and the encoding that each shows. UTF-32 comes first: its mark begins like that of UTF-16."""


OF_ADDRESSES = ("idna", "punycode")
"""Encodings of names of internet addresses, which are none of files."""
OTHERS = {
    b"PK\x03\x04": ("is a zip archive", "unpack it, or save the spreadsheet as CSV in UTF-8"),
    b"\xd0\xcf\x11\xe0": ("is a document of Office", "save it as CSV in UTF-8"),
    b"\x04\x22\x4d\x18": ("is packed with LZ4", "unpack it with lz4 -d"),
    b"version https://git-lfs": ("is a pointer of Git LFS, not the file", "fetch it with git lfs pull"),
}
"""The first bytes of files that no reader can read: what they are, and what to do."""


TAR = b"ustar"
"""What an archive of tar has at its byte 257."""


def _is_tar(path: str | Path) -> tuple[str, str | Path, str]:
    return "is a tar archive", path, "unpack it with tar -xf"


def _head(path: str | Path, form: str | None, size: int) -> bytes:
    """Return the first bytes of a file, decompressed; none if damaged, which reading it reports with its line."""
    with open(path, "rb") as file, suppress(EOFError, zlib.error, OSError, lzma.LZMAError, pa.ArrowException):
        head: bytes = DECOMPRESSED[form](file).read(size)
        return head
    return b""


def refuse_pipe(path: str | Path) -> None:
    """Refuse what is neither a file nor a folder."""
    mode = os.stat(path).st_mode
    what = "is a pipe or a device, which can be read only once"
    refuse(not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)), what, path, "write it to a file first")


def compression_of(path: str | Path) -> str | None:
    """Return the ending for a file's compression, from its first bytes; None if it is not compressed.

    Raises:
        BadInput: if it is an archive, only a pointer to the file, or a pipe: what is read of a pipe is gone, and a file
            is opened several times.
    """
    refuse_pipe(path)
    with open(path, "rb") as file:
        head = file.read(512)
    refuse(head[257:262] == TAR, *_is_tar(path))
    what, remedy = _begins(head, OTHERS) or ("", "")
    refuse(what, what, path, remedy)
    return _begins(head, FORMS)


def _begins(head: bytes, known: Mapping[bytes, T]) -> T | None:
    """Return what is known of the first bytes of a file."""
    return next((value for magic, value in known.items() if head.startswith(magic)), None)


@contextmanager
def open_bytes(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file for reading, decompressed.

    Args:
        path: the file. Its first bytes decide, not its name; but a file whose name ends in .gz, .bz2, .xz or .zst must
            be compressed.

    Raises:
        BadInput: if it does not exist, or is damaged or truncated; also while it is read.
    """
    form: str | None = None
    try:
        form = compression_of(path)
        ending = Path(path).suffix.lower()
        kind = {".gz": "gzip"}.get(ending, ending[1:])
        remedy = f"copy it again, or rename it without {ending} if it is not compressed"
        packed_by_name = form is None and ending in ENDINGS
        refuse(packed_by_name, f"not a {kind} file, or truncated at its very start", path, remedy)
        head = b"" if form is None else _head(path, form, 512)
        refuse(head[257:262] == TAR, *_is_tar(path))
        twice = "unpack it once, with gzip -d, bzip2 -d, xz -d or zstd -d"
        refuse(PACKED.match(head), "is compressed, and what it unpacks to is compressed again", path, twice)
        with open(path, "rb") as file:
            stream = DECOMPRESSED[form](file)
            yield stream if form is None else bounded(stream, path)
    except FileNotFoundError:
        raise BadInput("no such file", path, similar_path(path)) from None
    except (EOFError, zlib.error, lzma.LZMAError, pa.ArrowException, OSError) as error:
        if form is not None and getattr(error, "errno", None) is None:  # of a library that unpacks
            raise BadInput(f"truncated or damaged .{form} ({error})", path, "copy it again") from None
        raise BadInput(f"cannot be read ({getattr(error, 'strerror', None) or error})", path) from None


class _Bounded(io.RawIOBase):
    """A stream that ends with an error once it has given more bytes than a file of its size can well hold."""

    def __init__(self, inner: Any, path: str | Path, most: int) -> None:
        self._inner, self._path, self._left = inner, path, most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._inner.read(len(buffer))
        buffer[: len(content)] = content
        self._left -= len(content)
        what = f"decompresses to more than {RATIO} times its size and {MOST / 1e9:.0f} GB"
        refuse(self._left < 0, what, self._path, f"if it is right: {ANY_SIZE}=1 in the environment")
        return len(content)


def bounded(stream: Any, path: str | Path) -> BinaryIO:
    """Return a decompressed stream that refuses to become far larger than its file."""
    if os.environ.get(ANY_SIZE):
        return cast("BinaryIO", stream)
    most = max(MOST, RATIO * os.path.getsize(path))
    return cast("BinaryIO", io.BufferedReader(_Bounded(stream, path, most), 1 << 17))


DECOMPRESSED: Mapping[str | None, Callable[[BinaryIO], Any]] = {
    "gz": lambda file: gzip.GzipFile(fileobj=file),
    "bz2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
    "zst": lambda file: io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(file), "zstd")),
    None: lambda file: file,
}
"""How a file is decompressed, by the ending for its compression."""


def encoding_of(path: str | Path, given: str = "utf-8") -> str:
    """Return the encoding that a file's byte order mark shows, or the given one; refuse one that is unknown."""
    what, remedy = f"unknown encoding {given!r}", "utf-8 and cp1252 are the usual ones"
    try:
        "".encode(given)
    except (LookupError, UnicodeError):  # Python has one called undefined
        raise BadInput(what, path, remedy) from None
    refuse(codecs.lookup(given).name in OF_ADDRESSES, what, path, remedy)
    with open_bytes(path):  # which refuses what can't be read
        head = _head(path, compression_of(path), 4)
    return _begins(head, MARKS) or given


def plain_name(path: Path) -> str:
    """Return a file's name in lower case, without the ending of a compression."""
    return re.sub(rf"\.({'|'.join(FORMS.values())})$", "", path.name.lower())
