"""What is read is a bar on a terminal, and a line every so many seconds elsewhere."""

import io

from rich.console import Console

from pyrite.cluster.telemetry.reading_line import ReadingLine, reading_shown
from pyrite.ranking.reading_progress import count_read, reading


def written(console: Console) -> str:
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_lines_come_after_their_interval_and_not_at_the_end():
    console = Console(file=io.StringIO(), width=100)
    line = ReadingLine(console, every=1000)
    for done in (10, 50, 100):
        line.update(done, 100)
    assert not written(console)
    line = ReadingLine(console, every=0)
    for done in (1000, 5000, 10_000):
        line.update(done, 10_000)
    (first, *_) = written(console).splitlines()
    assert first.startswith("read 1,000 of 10,000 texts, ")
    assert "10,000 of 10,000" not in written(console)


def test_a_terminal_has_a_bar_that_goes_away():
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    with reading_shown(console):
        with reading(20):
            count_read(5)
            assert "reading texts" in written(console)
        console.print("after")
    assert written(console).rstrip().endswith("after")
