"""Lists the public names of objects, for an editor or a notebook that completes them."""

from __future__ import annotations


class Public:
    """Base of the objects of the Python API: `dir` returns their public names only.

    >>> dir(Public())
    []
    """

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.startswith("_")]
