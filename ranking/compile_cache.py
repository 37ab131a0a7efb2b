"""Finds a folder for numba's compiled loops if those that numba would use can't be written, as in many containers."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

VARIABLE = "NUMBA_CACHE_DIR"


def choose_compile_cache(usual: Sequence[Path] | None = None) -> None:
    """Set NUMBA_CACHE_DIR if it is unset and numba would refuse to compile because it can write nowhere.

    The folder is private to the user: numba unpickles what it finds there.

    Args:
        usual: folders that numba uses; None takes `__pycache__` of this package, and the user's cache.
    """
    if VARIABLE in os.environ or find_spec("numba") is None:
        return
    if usual is None:
        from platformdirs import user_cache_path

        usual = (Path(__file__).parent / "__pycache__", user_cache_path("numba", appauthor=False))
    if any(map(_is_writable, usual)):
        return
    folder = Path(tempfile.gettempdir(), f"pyrite-numba-{os.getuid()}")
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
    private = folder.is_dir() and folder.stat().st_uid == os.getuid() and not folder.stat().st_mode & 0o022
    os.environ[VARIABLE] = str(folder) if private else tempfile.mkdtemp(prefix="pyrite-numba-")
    if "numba" in sys.modules:
        sys.modules["numba.core.config"].reload_config()


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
