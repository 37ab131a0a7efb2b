"""Defines `BadInput`, the one error that the user can fix; loads no torch."""

from __future__ import annotations

from os import PathLike


class BadInput(Exception):
    """Bad input from a user: printed as one line, and the command ends with exit code 2.

    Every other error is a bug and keeps its traceback.

    Args:
        what: the fault, in the user's words.
        where: the file, or file and line (`corpus.jsonl:17`), or the option that holds it.
        remedy: how to fix it.
    """

    def __init__(self, what: str, where: str | PathLike[str] | None = None, remedy: str | None = None) -> None:
        self.what, self.where, self.remedy = what, where, remedy
        line = f"{where}: {what}" if where is not None else what
        super().__init__(" ".join((f"{line}; {remedy}" if remedy else line).split()))

    def __reduce__(self) -> tuple[type[BadInput], tuple[object, ...]]:
        # Exceptions pickle by their message alone; this one crosses processes with its parts.
        return (BadInput, (self.what, self.where, self.remedy))


def refuse(wrong: object, what: str, where: str | PathLike[str] | None = None, remedy: str | None = None) -> None:
    """Raise `BadInput` if something is wrong.

    Args:
        wrong: a condition, or a list of what is wrong, whose first item replaces `{}` in `what`.
        what, where, remedy: see `BadInput`.
    """
    if isinstance(wrong, list):
        what = what.replace("{}", "".join(map(str, wrong[:1])))
    if wrong:
        raise BadInput(what, where, remedy)


def no_teacher(what: str, where: str) -> BadInput:
    """Return the error of an objective or a selector that learns from a teacher, in a run without one.

    Args:
        what: the thing that is missing.
        where: the option that needs it.
    """
    return BadInput(what, where, "choose teacher=bm25, run_file, ranker, given or embedding")


def none_relevant(relevant_from: int) -> BadInput:
    """Return the error of a collection in which no document is relevant.

    Args:
        relevant_from: the lowest grade that counts as relevant.
    """
    return BadInput(
        f"no judgement is above {relevant_from - 1}, so no document is relevant", "collection", "check its grades"
    )
