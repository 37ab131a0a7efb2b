"""Tests of lines that are printed as they are."""

import io

from rich.console import Console

from cluster.output.terminal import print_counts, print_lines


def test_lines_are_neither_broken_nor_read_as_markup():
    console = Console(file=io.StringIO(), width=20)
    print_lines(console, "a folder named runs[a] or [bold]", "x" * 30)
    print_counts(console, {"broken line": 1200, "duplicate id": 0})
    expected = ["a folder named runs[a] or [bold]", "x" * 30, "broken line: 1,200"]
    assert console.file.getvalue().splitlines() == expected
