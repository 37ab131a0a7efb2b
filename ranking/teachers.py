"""Makes the error of a part that learns from a teacher in a run without one; loads no torch."""

from __future__ import annotations

from ranking.errors import BadInput


def no_teacher(what: str, where: str) -> BadInput:
    """Return the error of an objective or a selector that learns from a teacher, in a run without one.

    Args:
        what: the thing that is missing.
        where: the option that needs it.
    """
    return BadInput(what, where, "choose teacher=bm25, run_file, ranker, given or embedding")
