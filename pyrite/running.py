"""Runs a verb of the command line from Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console

from cluster.commands.cli import kind_of
from cluster.commands.experiment import conduct
from cluster.config.build import missing_extra
from pyrite.parts import Part, override
from ranking.errors import BadInput

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
        experiment = kind_of(verb).read(listed(overrides), resume)
        failed = conduct(experiment, console or Console(quiet=verb not in IN_NOTEBOOKS or not Console().is_jupyter))
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from None
    assert experiment.storage is not None
    return experiment.storage.place, failed


def listed(overrides: Iterable[str]) -> list[str]:
    """Return overrides as a list; refuse a text, whose letters would be taken for overrides."""
    if isinstance(overrides, str):
        remedy = "for data write pyrite.Collection.from_pairs(PATH) or the like; overrides are a list of texts"
        raise BadInput("is a text, not a collection or a list of overrides", overrides, remedy)
    return list(overrides)


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
    texts = [] if scale is None else override("scale", scale)
    texts += [] if ranker is None else Part.of("ranker", ranker).overrides()
    texts += [] if objective is None else Part.of("objective", objective).overrides()
    if measure is not None:
        texts += [*override("measures", [measure]), *override("validation.measure", measure)]
    if search is not None:
        named = [search] if isinstance(search, str) else list(search)
        texts += override("origin", ["full" if name == "all" else name for name in named])
    given = {key: value for key, value in others.items() if value is not None}
    return [*texts, *(text for key, value in {**given, **(options or {})}.items() for text in override(key, value))]
