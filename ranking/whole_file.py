"""Writes a file whole: readers see the old content or the new, never a part of it."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

_FULL = "the disk is full"
FULL = {errno.ENOSPC: _FULL, errno.EDQUOT: _FULL, errno.EFBIG: "a file is larger than is allowed here (ulimit -f)"}
"""Messages for the errors of a full disk, a full quota and a limit on files, by number."""


@contextlib.contextmanager
def replace_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a file under a temporary name in the same folder, then sync it to disk and rename it.

    If the block raises, the temporary file is deleted and `path` keeps its content.

    Args:
        path: the file to write or replace. Its folder is created if needed.

    Yields:
        The temporary path, which ends in `.part`.

    Raises:
        OSError: if the file can't be written.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> with replace_file(folder / "note.txt") as temporary:
        ...     size = temporary.write_text("whole")
        >>> (folder / "note.txt").read_text(), len(list(folder.iterdir()))
        ('whole', 1)
    """
    final = Path(os.fspath(path))
    temporary = final.with_name(f"{final.name}.{uuid.uuid4().hex[:8]}.part")
    final.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, final)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync(final.parent)


def as_parquet(table: pl.DataFrame, **options: Any) -> bytes:
    """Return a table as the bytes of a parquet file; for options see `polars.DataFrame.write_parquet`."""
    content = io.BytesIO()
    table.write_parquet(content, **options)
    return content.getvalue()


def keep_folder(made: Path, place: Path) -> None:
    """Rename a whole folder to its place in a cache, unless another process has made the same at the same time."""
    try:
        made.rename(place)
    except OSError:
        if not place.is_dir():
            raise


def sync(path: str | os.PathLike[str]) -> None:
    """Have the disk keep a file's content, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
