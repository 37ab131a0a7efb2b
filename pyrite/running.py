"""Runs a verb of the command line from Python."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from rich.console import Console

from pyrite.cluster.commands.conduct import conduct
from pyrite.cluster.commands.experiment import verb_named
from pyrite.cluster.commands.resuming import read
from pyrite.cluster.config.build import missing_extra
from pyrite.cluster.output.screen import Screen
from pyrite.data import about_tables
from pyrite.models import as_ranker
from pyrite.parts import given, of_kind, override, part_given
from pyrite.ranking.errors import BadInput, refuse
from pyrite.remedies import in_python

RESUME = re.compile(r"`pyrite (\w+) --resume ([^\s`]+)`")
"""The command that continues an experiment, in messages."""
IN_NOTEBOOKS = ("study", "pool")
"""Verbs whose progress a notebook shows."""
IMPORTED: ContextVar[str | None] = ContextVar("imported", default=None)
"""The file of a training function while a run imports it; None at all other times."""


def run(
    verb: str,
    overrides: Iterable[str],
    resume: str | os.PathLike[str] | None,
    console: Console | None,
    objects: bool = False,
) -> tuple[str, int]:
    """Run an experiment.

    Args:
        verb: study, train, learn, mine or pool.
        overrides: the overrides of the verb.
        resume: a folder to resume; None starts a new one.
        console: the console for progress and tables; None shows the progress of a study in a notebook, and otherwise
            nothing.
        objects: whether the caller gave objects and arguments, in whose words remedies are, and not overrides.

    Returns:
        The folder of the results, and the number of runs that failed.
    """
    # Otherwise each run of a study would start a study, whose runs start studies.
    what = f"starts `pyrite {verb}` when it is imported, and each run that trains with a function of it imports it"
    refuse(IMPORTED.get(), what, IMPORTED.get(), 'put that under `if __name__ == "__main__":`')
    try:
        experiment = read(verb_named(verb), listed(overrides), None if resume is None else os.fspath(resume))
        with _settings_of_a_command(), about_tables():
            failed = conduct(experiment, console or Screen(quiet=verb not in IN_NOTEBOOKS or not Screen().is_jupyter))
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from None
    except BadInput as error:
        error.remedy = error.remedy and RESUME.sub(r"pyrite.\1(resume='\2')", error.remedy)
        raise in_python(error, verb) if objects else BadInput(error.what, error.where, error.remedy) from None
    assert experiment.storage is not None
    return experiment.storage.place, failed


@contextmanager
def _settings_of_a_command() -> Iterator[None]:
    """Undo a notebook's settings with which no ranker learns, or not the one of the same command, until the end."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        torch.set_default_dtype(dtype)


def listed(overrides: object, **others: object) -> list[str]:
    """Return overrides as a list; refuse any other type, and arguments that would be ignored.

    Args:
        others: arguments of the verb that describe its data and parts; None if they are not given.
    """
    if isinstance(overrides, str) or not isinstance(overrides, Sequence | Iterator):
        kind = {"str": "text"}.get(type(overrides).__name__, type(overrides).__name__)
        where = str(overrides) if isinstance(overrides, str | os.PathLike) else "data"
        remedy = "for data give a path, a table of pairs, or a pyrite.Collection; overrides are a list of texts"
        raise BadInput(f"is a {kind}, not a collection or a list of overrides", where, remedy)
    texts = list(overrides)
    if wrong := [text for text in texts if not isinstance(text, str)]:
        raise BadInput(f"{wrong[0]!r} is no override", remedy="overrides are texts, as 'seed=1'")
    lost = [name for name, value in others.items() if value is not None]
    remedy = "give data as a Collection, or write all of it as overrides"
    refuse(lost, f"{' and '.join(lost)} would be left out beside a list of overrides", remedy=remedy)
    return texts


def settings(
    *,
    ranker: object = None,
    objective: object = None,
    measure: str | None = None,
    search: str | Sequence[str] | None = None,
    scale: str | None = None,
    options: Mapping[str, object] | None = None,
    **others: object,
) -> list[str]:
    """Return the overrides of the arguments that several verbs share; those that are None are left out.

    Args:
        ranker, objective: the parts, or classes of the user's own.
        measure: the measure that validates, stops and leads the tables.
        search: what is ranked in evaluation: `all`, or origins of candidates.
        scale: `tiny`, `small`, `medium` or `full`.
        options: further overrides by key.
        others: options of the same name.
    """
    if isinstance(measure, list | tuple):
        remedy = 'give one; further measures are options={"measures": [...]}'
        raise BadInput("is a list, and one measure validates and leads the tables", "measure", remedy)
    options = of_kind(options or {}, Mapping, "options", 'give a mapping, as {"training.max_epochs": 3}')
    texts = given("scale", scale) + part_given("ranker", as_ranker(ranker)) + part_given("objective", objective)
    if measure is not None:  # a text, or a measure of ir-measures
        texts += [*override("measures", [str(measure)]), *override("validation.measure", str(measure))]
    texts += given("origin", _origins(search))
    texts += [text for key, value in others.items() for text in given(key, value)]
    return [*texts, *(text for key, value in options.items() for text in override(key, value))]


def _origins(search: str | Sequence[str] | None) -> list[str] | None:
    """Return the origins of candidates for what is ranked in evaluation."""
    named = [search] if isinstance(search, str) else search
    return None if named is None else [{"all": "full"}.get(name, name) for name in named]
