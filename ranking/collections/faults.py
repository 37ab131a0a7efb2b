"""Reports what is wrong with a user's files: raises at once, or counts and skips."""

from __future__ import annotations

from os import PathLike

from ranking.errors import BadInput

SKIP = "mend it, or set strict=false to skip and count such faults"


class Faults:
    """One place where readers report each fault they meet, so that none decides by itself what follows.

    Args:
        strict: raise on the first fault; otherwise count each by its kind.

    Attributes:
        skipped: how many faults of each kind were met, e.g. `{"broken line": 3}`; always empty when strict.
    """

    def __init__(self, strict: bool = True) -> None:
        self.strict = strict
        self.skipped: dict[str, int] = {}

    def report(
        self,
        kind: str,
        what: str,
        file: str | PathLike[str],
        line: int | None = None,
        *,
        remedy: str = SKIP,
        times: int = 1,
    ) -> None:
        """Report a fault, or `times` faults of a kind of which this is the first.

        Args:
            kind: the name under which it is counted, e.g. "broken line".
            what: this very fault, in the user's words.
            file: where it is; and `line`, counted from 1.
            remedy: what to do about it.

        Raises:
            BadInput: at once, when strict.
        """
        if self.strict:
            raise BadInput(f"{kind}: {what}", file if line is None else f"{file}:{line}", remedy)
        self.skipped[kind] = self.skipped.get(kind, 0) + times
