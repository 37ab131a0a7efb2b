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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any

from pyrite.cluster.config.aliases import as_override
from pyrite.cluster.config.grammar import Choices, by_key, choices_of, values_of
from pyrite.cluster.config.groups import brought
from pyrite.cluster.config.override import key_of, of_keys, replaced, root_of, without
from pyrite.ranking.errors import refuse

Method = Sequence[str] | Mapping[str, Any]
"""A line as it is given."""
Addition = str | Method
"""What a study is extended by: an override of one value, or a further line."""
Pair = tuple["Line", Sequence[str]]
"""A line, and the user's overrides that replace its options of the same keys."""
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

    @property
    def keys(self) -> set[str]:
        """The keys of its overrides."""
        return set(map(key_of, self.overrides))

    def without_negatives(self) -> Line:
        """Return the line without options that choose negatives."""
        return replace(self, overrides=tuple(without(self.overrides, NEGATIVES, root_of)))


EACH_ALONE = Line(("policy=fixed", "selector=uniform"))
"""The line of functions that a user sweeps over, or whose numbers of negatives the user gives."""


def lines_of(methods: Sequence[Method]) -> list[Line]:
    """Return the lines of methods in any form; refuse a label that is given twice, and sweeps under a label."""
    given = [method if isinstance(method, Mapping) else {"overrides": method} for method in methods]
    for label, count in Counter(method.get("label") for method in given).items():
        remedy = "give each its own label, or give alternatives of one method as lists in one overrides: [[…],[…]]"
        refuse(label and count > 1, f"two are labelled {label!r}", "methods", remedy)
    return list(chain.from_iterable(map(_alternatives, given)))


def _alternatives(method: Mapping[str, Any]) -> list[Line]:
    """Return the lines of a mapping, which share its label: one, unless `overrides` holds several."""
    label, given = method.get("label"), method.get("overrides", [])
    options = [f"{key}={typed(value)}" for key, value in method.items() if key not in OF_LINE]
    alternatives = given if given and not isinstance(given[0], str) else [given]
    lines = [Line((*each, *options), label) for each in alternatives]
    if label:
        _refuse_sweeps(label, chain.from_iterable(line.overrides for line in lines))
    return lines


def _refuse_sweeps(label: str, overrides: Iterable[str]) -> None:
    """Refuse values that would share a label."""
    remedy = "give each value a method with its own label"
    for text in overrides:
        refuse(choices_of(text).sweeps, f"{text!r} sweeps", f"methods: {label}", remedy)


def typed(value: Any) -> str:
    """Return a value as it is typed behind `key=`. A text is as it is, so that it may be a sweep."""
    if isinstance(value, list):
        return f"[{','.join(map(typed, value))}]"
    return value if isinstance(value, str) else as_override(value)


def compared(methods: Sequence[Method], given: Sequence[str], named: bool = False) -> list[Pair]:
    """Return the lines that are compared, each with the user's overrides.

    Lines that the user names, and those with labels of which the user replaces nothing, are compared as they are. A
    line loses its label, which may not describe what the user replaces.

    Args:
        methods: the lines.
        given: the user's overrides.
        named: whether the user names the lines, by `methods=`.
    """
    lines, keys = lines_of(methods) or [Line()], set(map(key_of, given))
    labelled = any(line.label for line in lines)
    if named or (labelled and all(keys.isdisjoint(line.keys) for line in lines)):
        return [(line, given) for line in lines]
    if keys.isdisjoint(NAMED):
        return [(line if keys.isdisjoint(line.keys) else Line(line.overrides), given) for line in lines]
    return _crossed([Line(line.overrides) for line in lines], given, by_key(given))


def further(methods: Sequence[Method], given: Sequence[str], named: bool, added: Sequence[Addition]) -> list[Pair]:
    """Return the lines that extend a study, in the order in which they were added.

    Each value is added to what is compared before it: alone, instead of the line's or the user's. What is added so
    has no label, so that each label names what it named. A further line keeps its own options and its label; the
    user's other options hold for it too.
    """
    alternatives, lines = [tuple(given)], list[Pair]()
    for each in added:
        if not isinstance(each, str):
            # As the user's overrides: negatives that don't fit the user's policy are then refused, not left out.
            own = lines_of([each])
            lines += [(Line((), line.label), replaced(given, line.overrides)) for line in own]
            continue
        lines += [(Line(), replaced(user, [each])) for _, user in lines]
        alternatives = list(dict.fromkeys([*alternatives, *(tuple(replaced(old, [each])) for old in alternatives)]))
    valued = chain.from_iterable(compared(methods, each, named) for each in alternatives[1:])
    return [*((Line(line.overrides), user) for line, user in valued), *lines]


def _crossed(lines: Sequence[Line], given: Sequence[str], typed: Mapping[str, Choices]) -> list[Pair]:
    """Return what is compared of lines, by what the user types of the negatives.

    If it is all of them, the lines say nothing of negatives. Functions alone are methods by themselves, and policies
    alone are crossed with the lines.
    """
    if "policy" in typed and "function" not in typed:
        return _by_policy(lines, given)
    if _each_alone(typed):
        lines = [EACH_ALONE]
    elif typed.keys() >= set(NAMED):
        lines = [line.without_negatives() for line in lines]
    return [(line, given) for line in lines]


def _each_alone(typed: Mapping[str, Choices]) -> bool:
    """Return whether each function that the user gives is a method: if they are swept, or have numbers of negatives."""
    if "policy" in typed or "function" not in typed:
        return False
    return "negatives" in map(root_of, typed) or typed["function"].sweeps


def _by_policy(lines: Sequence[Line], given: Sequence[str]) -> list[Pair]:
    """Return the lines with the policies that take their functions, and without theirs for those that name their own.

    `policy=refined,fixed` becomes two pairs: the refined negatives are of the functions in `conf/policy/refined.yaml`,
    so the line adds nothing to them, and `fixed` is crossed with the functions of the line.
    """
    policies = sorted(values_of(of_keys(given, {"policy"})[-1]), key=_names_functions, reverse=True)
    users: dict[bool, Sequence[str]] = {
        own: replaced(given, [f"policy={','.join(names)}"]) for own, names in groupby(policies, _names_functions)
    }
    if len(users) == 1:
        users = dict.fromkeys(users, given)
    return [(line.without_negatives() if own else line, user) for line in lines for own, user in users.items()]


def _names_functions(policy: str) -> bool:
    """Return whether a policy's file names its functions, and others than `LINED`; those of an agent are its own."""
    return policy == "learned" or set(brought("policy", policy).get("function", LINED)) != LINED
