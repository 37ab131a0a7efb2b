"""Reports faults in a user's files: raises at once, or counts and skips."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

from pyrite.ranking.errors import BadInput

if TYPE_CHECKING:
    import polars as pl

Row = TypeVar("Row")
Content = TypeVar("Content")
SKIP = "fix it, or set strict=false to skip and count such faults"


class RowFault(ValueError):
    """A fault of a row, raised by code that does not know its file and line.

    Args:
        kind: the name under which it is counted.
        always: whether it stops the reading also if it is not strict, because it concerns the whole file.
    """

    def __init__(self, what: str, remedy: str = SKIP, *, kind: str = "broken line", always: bool = False) -> None:
        super().__init__(what)
        self.what, self.remedy, self.kind, self.always = what, remedy, kind, always


def refuse_row(
    wrong: object, what: str, remedy: str = SKIP, *, kind: str = "broken line", always: bool = False
) -> None:
    """Raise `RowFault` if something is wrong with a row."""
    if wrong:
        raise RowFault(what, remedy, kind=kind, always=always)


class Faults:
    """The report of all faults that readers meet, so that none decides by itself what follows.

    Args:
        strict: whether to raise on the first fault; otherwise each is counted by its kind.
        option: the option by which a user skips faults, for messages.
        encoding: the option that names the encoding of a file, for messages; None if there is none.

    Attributes:
        skipped: the number of faults of each kind, e.g. `{"broken line": 3}`; always empty if strict.
        notes: counts of what was read by a rule that the user should know of, by description.
    """

    def __init__(self, strict: bool = True, option: str = "strict=false", encoding: str | None = "encoding") -> None:
        self.strict, self.option, self.encoding = strict, option, encoding
        self.skipped: dict[str, int] = {}
        self.notes: dict[str, int] = {}

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
        """Report a fault, or `times` faults of a kind of which this is the first; raise it as `BadInput` if strict."""
        if self.strict:
            remedy = remedy.replace("strict=false", self.option)
            raise BadInput(f"{kind}: {what}", file if line is None else f"{file}:{line}", remedy)
        self.skipped[kind] = self.skipped.get(kind, 0) + times

    def report_row(self, fault: RowFault, file: str | PathLike[str], line: int) -> None:
        """Report the fault of a row of a file."""
        if fault.always:
            raise BadInput(fault.what, f"{file}:{line}", fault.remedy)
        self.report(fault.kind, fault.what, file, line, remedy=fault.remedy)

    def read_each(
        self, rows: Iterable[tuple[int, Row]], read: Callable[[Row], Content], file: str | PathLike[str]
    ) -> Iterator[tuple[int, Content]]:
        """Yield the line of each row of a file, and its content; report the rows whose reading raises `RowFault`."""
        for line, row in rows:
            try:
                yield line, read(row)
            except RowFault as fault:
                self.report_row(fault, file, line)

    def only(
        self,
        rows: pl.DataFrame,
        condition: pl.Expr,
        kind: str,
        complaint: str,
        file: str | PathLike[str] | None = None,
        *,
        remedy: str = SKIP,
        more: Callable[[Mapping[str, Any]], str] = lambda row: "",
    ) -> pl.DataFrame:
        """Return the rows that meet a condition, and report the others.

        Args:
            complaint: what is wrong with a row; names in braces are its columns.
            file: the file that has the rows. None if they have a column `file`.
            more: returns the rest of that, for the first row that is wrong. It is called only if strict.
        """
        good = rows.select(condition).to_series().fill_null(False)  # of a null nothing is known to be right
        if good.all():
            return rows  # a filter would copy them
        first = rows.row(int(good.arg_min() or 0), named=True)
        what = complaint.format_map(first) + (more(first) if self.strict else "")
        self.report(kind, what, file or first["file"], first.get("line"), times=int((~good).sum()), remedy=remedy)
        return rows.filter(good)

    def report_encoding(self, what: str, file: str | PathLike[str], line: int, usual: str) -> None:
        """Report a line that is not in the encoding of its file, for which `usual` may be right."""
        convert = "convert the file to UTF-8 with iconv"
        remedy = f"give its encoding ({self.encoding}={usual}), or {convert}" if self.encoding else convert
        self.report("wrong encoding", what, file, line, remedy=remedy)

    def note(self, kind: str, times: int) -> None:
        """Count what was read by a rule that the user should know of. It is no fault."""
        if times:
            self.notes[kind] = self.notes.get(kind, 0) + times
