"""Reads the methods that a study compares: lines of `methods=` or of an experiment, and overrides typed next to them.

A line is a list of overrides, or a mapping of options to values, which may have a `label` and further overrides:

```
[function=bm25, selector=top]
{function: bm25, guard.relative: .05}
{label: hard, function: bm25, selector: top}
{label: hard, overrides: ["function=bm25", "selector=top"]}
```

A line is the product of the values of its options: `{function: "bm25,random", selector: "uniform,top"}` is four
methods. A study is the union of its lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pyrite.cluster.config.aliases import as_override
from pyrite.cluster.config.grammar import by_key, parsed, values_of
from pyrite.cluster.config.groups import group_options, option
from pyrite.cluster.config.override import key_of, replaced, root_of
from pyrite.ranking.errors import refuse

Method = Sequence[str] | Mapping[str, Any]
"""A line as it is given."""
Pair = tuple["Line", Sequence[str]]
"""A line, and the user's overrides that replace its options of the same keys."""
Applies = Callable[[Set[str], Sequence[str]], bool]
"""Returns whether a case applies to the user's keys and overrides."""
Pairs = Callable[[Sequence["Line"], Sequence[str]], list[Pair]]
"""Returns what is compared of lines without labels and the user's overrides."""
OF_LINE = ("label", "overrides")
"""Keys of a mapping that are no options of runs."""
NAMED = ("policy", "function", "selector")
"""Options that name negatives. Those that a user leaves out are the experiment's."""
NEGATIVES = frozenset({*NAMED, "selectors", "negatives"})
"""Roots of the options that choose negatives."""
LINED = {"random", "bm25"}
"""The functions of most policies' files. These policies are compared over the functions of a line instead."""


@dataclass(frozen=True)
class Line:
    """Methods that are compared: the product of the values of some overrides.

    Args:
        label: what the user calls them; None without a label.
    """

    overrides: tuple[str, ...] = ()
    label: str | None = None

    def without_negatives(self) -> Line:
        """Return the line without options that choose negatives."""
        return replace(self, overrides=tuple(text for text in self.overrides if root_of(text) not in NEGATIVES))


EACH_ALONE = Line(("policy=fixed", "selector=uniform"))
"""The line of functions that a user sweeps over, or whose numbers of negatives the user gives."""


def lines_of(methods: Sequence[Method]) -> list[Line]:
    """Return the lines of methods in any form; refuse a label that is given twice, and sweeps under a label."""
    given: list[Mapping[str, Any]] = [
        method if isinstance(method, Mapping) else {"overrides": method} for method in methods
    ]
    for label, count in Counter(method["label"] for method in given if method.get("label")).items():
        remedy = "give each its own label, or give alternatives of one method as lists in one overrides: [[…],[…]]"
        refuse(count > 1, f"two are labelled {label!r}", "methods", remedy)
    lines = [Line(tuple(each), method.get("label")) for method in given for each in _alternatives(method)]
    _refuse_sweeps(line for line in lines if line.label)
    return lines


def _refuse_sweeps(labelled: Iterable[Line]) -> None:
    """Refuse values that would share a label."""
    remedy = "give each value a method with its own label"
    for line in labelled:
        for text in line.overrides:
            refuse(parsed(text).is_sweep_override(), f"{text!r} sweeps", f"methods: {line.label}", remedy)


def _alternatives(method: Mapping[str, Any]) -> list[list[str]]:
    """Return the lists of overrides that share a mapping's label: one, unless `overrides` holds several."""
    options = [f"{key}={typed(value)}" for key, value in method.items() if key not in OF_LINE]
    given = method.get("overrides", [])
    alternatives = given if given and not isinstance(given[0], str) else [given]
    return [[*each, *options] for each in alternatives]


def typed(value: Any) -> str:
    """Return a value as it is typed behind `key=`. A text is as it is, so that it may be a sweep."""
    if isinstance(value, list):
        return f"[{','.join(map(typed, value))}]"
    return value if isinstance(value, str) else as_override(value)


def compared(methods: Sequence[Method], given: Sequence[str], named: bool = False) -> list[Pair]:
    """Return the lines that are compared, each with the user's overrides.

    Lines that the user names, and those with labels of which the user replaces nothing, are compared as they are. Of
    others the first case of `CASES` counts.

    Args:
        methods: the lines.
        given: the user's overrides.
        named: whether the user names the lines, by `methods=`.
    """
    lines, keys = lines_of(methods) or [Line()], set(map(key_of, given))
    replaced_keys = keys.intersection(key_of(text) for line in lines for text in line.overrides)
    kept = any(line.label for line in lines) and not replaced_keys
    if named or kept:
        return [(line, given) for line in lines]
    unlabelled = [Line(line.overrides) for line in lines]  # a label may not describe what the user replaces
    return next(pairs for applies, pairs in CASES if applies(keys, given))(unlabelled, given)


def _each_alone(keys: Set[str], given: Sequence[str]) -> bool:
    """Return whether each function that the user gives is a method: if they are swept, or have numbers of negatives."""
    functions = None if "policy" in keys else by_key(given).get("function")
    return functions is not None and ("negatives" in map(root_of, keys) or functions.is_sweep_override())


def _by_policy(lines: Sequence[Line], given: Sequence[str]) -> list[Pair]:
    """Return the lines with the policies that take their functions, and without theirs for those that name their own.

    `policy=refined,fixed` becomes two pairs: the refined negatives are of the functions in `conf/policy/refined.yaml`,
    so the line adds nothing to them, and `fixed` is crossed with the functions of the line.
    """
    policies = [value for text in given if key_of(text) == "policy" for value in values_of(text)]
    keeping = [name for name in policies if _names_functions(name)]
    others = [name for name in policies if name not in keeping]
    users = {
        tuple(names): given if names == policies else replaced(given, [f"policy={','.join(names)}"])
        for names in (keeping, others)
    }
    pairs = [pair for line in lines for pair in ((line.without_negatives(), keeping), (line, others))]
    return [(line, users[tuple(names)]) for line, names in pairs if names]


@cache
def _names_functions(policy: str) -> bool:
    """Return whether a policy's file names its functions, and others than `LINED`; those of an agent are its own."""
    if policy not in group_options()["policy"]:
        return False
    named = option("policy", policy).get("defaults", [])
    functions = [names for entry in named for key, names in entry.items() if "/function@" in key]
    return policy == "learned" or any(set(names) != LINED for names in functions)


CASES: tuple[tuple[Applies, Pairs], ...] = (
    (
        lambda keys, given: set(NAMED) <= keys,
        lambda lines, given: [(line.without_negatives(), given) for line in lines],
    ),
    (_each_alone, lambda lines, given: [(EACH_ALONE, given)]),
    (lambda keys, given: "policy" in keys and "function" not in keys, _by_policy),
    (lambda keys, given: True, lambda lines, given: [(line, given) for line in lines]),
)
"""What is compared, by what the user types of the negatives: all of it, functions alone, policies, or anything else."""
