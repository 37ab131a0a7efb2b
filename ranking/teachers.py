"""Says what to do where a run has no teacher and a part of it learns from one; loads no torch."""

from __future__ import annotations

from ranking.errors import BadInput


def no_teacher(what: str, where: str) -> BadInput:
    """The error of an objective or a selector that learns from a teacher, in a run without one.

    Args:
        what: is missed.
        where: the option that asks for it.
    """
    return BadInput(what, where, "choose teacher=bm25, run_file, ranker, given or embedding")
