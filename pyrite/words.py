"""Suggests arguments and names of `pyrite` for words of other tools and of the command line.

>>> import pyrite
>>> meant(pyrite.mine, "num_negatives", 5)
'did you mean options={"count": 5}?'
>>> meant(pyrite.Guard, "ratio", 0.95)
'did you mean relative=0.05?'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from pyrite.cluster.config.build import locate
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import group_options
from pyrite.cluster.config.other_names import suggestion, unit_of
from pyrite.cluster.config.other_parts import name_here
from pyrite.cluster.config.override import values_by_key
from pyrite.cluster.config.parts import BASES
from pyrite.parts import override
from pyrite.ranking.errors import BadInput
from pyrite.ranking.similar import similar
from pyrite.remedies import OVERRIDES, as_arguments, class_named, in_python, value_of

OF_RUNS = (("config",), ("study",))
VERBS: Mapping[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
    "pyrite.comparison.Study": ("study", OF_RUNS),
    "pyrite.verbs.study": (OVERRIDES, OF_RUNS),
    "pyrite.verbs.pool": (OVERRIDES, (("pool",),)),
    "pyrite.verbs.train": ("train", (("config",),)),
    "pyrite.verbs.learn": ("learn", (("learn",),)),
    "pyrite.verbs.mine": ("mine", (("mine",),)),
    "pyrite.verbs.rank": ("rank", (("rank", "checkpoint=a"),)),
    "pyrite.verbs.audit": ("audit", (("audit", "studies=a"),)),
    "pyrite.evaluation.evaluate": ("evaluate", (("evaluate", "runs=a", "qrels=a"),)),
    "pyrite.torch.negatives.Negatives": ("negatives", (("config",),)),
}
"""The form in which a function or class takes options (see `pyrite.remedies.as_arguments`), and the primary files that
declare them, with what they require."""
INSTEAD: Mapping[str, str] = {
    "compare": "pyrite.StudyResult(FOLDER).compare(OTHER)",
    "judge": "pyrite.Pool(RUNS).serve(COLLECTION)",
    "report": "pyrite.StudyResult(FOLDER).report",
    "options": "`pyrite options` in a terminal",
    "doctor": "`pyrite doctor` in a terminal",
}
"""What does in Python what a verb of the command line does."""


def meant(of: Callable[..., Any], name: str, value: Any) -> str | None:
    """Return the remedy for an argument that a function or class of `pyrite` does not have; None if it is unknown."""
    called = f"{of.__module__}.{of.__qualname__}"
    if called in VERBS:
        return _of_verb(*VERBS[called], name, value)
    groups = (group for group, base in BASES.items() if isinstance(of, type) and issubclass(of, locate(base)))
    return next((_of_part(group, of, name, value) for group in groups), None)


def _of_verb(form: str, files: Sequence[Sequence[str]], name: str, value: Any) -> str | None:
    """Return the option of a verb that an argument means."""
    texts = _overrides(name, value)
    refusals = [_unknown([*required, *texts], config) for config, *required in files]
    if None in refusals:
        return f"did you mean {as_arguments(texts, form)}?"
    remedies = (in_python(refused, form).remedy for refused in refusals if refused)
    unit = unit_of(suggestion(texts[0], "mine") or "")
    return next((f"{unit}{remedy}" for remedy in remedies if remedy and not remedy.startswith("see ")), None)


def _unknown(overrides: Sequence[str], config: str) -> BadInput | None:
    """Return the error for an option that a primary file does not have; None if it has it, with whatever value."""
    try:
        compose(overrides, config, False)
    except BadInput as refused:
        return refused if re.match("there is no option|.*; leave it out", str(refused)) else None
    return None


def _of_part(group: str, of: Callable[..., Any], name: str, value: Any) -> str | None:
    """Return the arguments of a part that an argument means."""
    known = signature(of).parameters
    instead = suggestion(_overrides(f"{group}.{name}", value)[0], "mine") or ""
    pairs = values_by_key(instead.split(" "))
    own = {key.rpartition(".")[2]: given for key, given in pairs.items() if key.partition(".")[0] in (group, *known)}
    given = [f"{key}={value_of(text)}" for key, text in own.items() if key in known]
    return f"{unit_of(instead)}did you mean {', '.join(given)}?" if given else None


def _overrides(name: str, value: Any) -> list[str]:
    """Return the overrides of an argument; of a value that is none of an option, one without the value."""
    try:
        return override(name, value) or [f"{name}=…"]  # an empty mapping
    except BadInput:  # an object
        return [f"{name}=…"]


def attribute(name: str, known: Sequence[str]) -> str:
    """Return the end of a message about a name that `pyrite` does not have.

    >>> attribute("SimAns", ["BM25", "SimANS"])
    '; did you mean pyrite.SimANS?'
    >>> attribute("ColBERT", ["BM25"])
    '; did you mean pyrite.LateInteraction?'

    Args:
        known: the names that it has.
    """
    found = (
        f"pyrite.{class_named(group, here)}"
        for group in sorted(BASES.keys() & group_options().keys())
        if (here := name_here(group, name)) in group_options()[group]
    )
    close = similar(name, known, 0.75)
    instead = INSTEAD.get(name) or (close and f"pyrite.{close}") or next(found, None)
    return f"; did you mean {instead}?" if instead else "; `dir(pyrite)` lists its names"
