"""The command line, as tests run it."""

from pathlib import Path

import polars as pl
import pytest

from pyrite.analysis.statistics.summary import COSTS
from pyrite.cluster.commands.cli import main


def command(*arguments: str) -> int:
    """Run a command in this process, and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


def summary_of(folder: Path) -> str:
    """The summary of a study without what its runs cost, which differs each time they are trained."""
    return pl.read_csv(folder / "summary.csv", infer_schema=False).drop(COSTS, strict=False).write_csv()
