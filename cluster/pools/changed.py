"""Says which files of a pool are others than when a study began."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cluster.output.provenance import contents

SHOWN = 3
"""Files that are named at most."""


def digests(files: Sequence[str]) -> dict[str, str]:
    """The content of files, in twelve hex digits each.

    Raises:
        BadInput: where one can't be read.
    """
    return {file: digest[:12] for file, digest in zip(files, contents(files), strict=True)}


def difference(before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """How two lists of files differ, in a few words; None where they do not.

    Args:
        before: `digests` of when a study began.
        now: those of now.
    """
    found = {
        "differs": [file for file in before if file in now and now[file] != before[file]],
        "is gone": [file for file in before if file not in now],
        "is new": [file for file in now if file not in before],
    }
    said = [f"{_listed(files)} {what if len(files) == 1 else _plural(what)}" for what, files in found.items() if files]
    return ", ".join(said) or None


def _plural(what: str) -> str:
    return what.replace("is ", "are ").replace("differs", "differ")


def _listed(files: Sequence[str]) -> str:
    more = len(files) - SHOWN
    return ", ".join(files[:SHOWN]) + (f" and {more} more" if more > 0 else "")
