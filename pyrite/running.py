"""Runs a verb of the command line from Python."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console

from cluster.commands.cli import kind_of
from cluster.commands.experiment import conduct
from cluster.config.extras import missing_extra

IN_NOTEBOOKS = ("study", "pool")
"""Verbs whose progress a notebook shows."""


def run(verb: str, overrides: Iterable[str], resume: str | None, console: Console | None) -> tuple[str, int]:
    """Run an experiment.

    Args:
        verb: study, train, learn, mine or pool.
        overrides: the overrides of the verb.
        resume: a folder to resume; None starts a new one.
        console: the console for progress and tables; None shows the progress of a study in a notebook, and otherwise
            nothing.

    Returns:
        The folder of the results, and the number of runs that failed.
    """
    try:
        experiment = kind_of(verb).read(list(overrides), resume)
        failed = conduct(experiment, console or Console(quiet=verb not in IN_NOTEBOOKS or not Console().is_jupyter))
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from None
    assert experiment.storage is not None
    return experiment.storage.place, failed
