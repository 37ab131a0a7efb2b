"""Turns sweeps in Hydra's grammar into the list of runs."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pyrite.analysis.methods import LABEL, METHOD
from pyrite.cluster.config.compose import compose, one_value
from pyrite.cluster.config.grammar import Choices, by_key, choices_of, parsed
from pyrite.cluster.config.groups import CHOICES, option
from pyrite.cluster.config.override import key_of, of_keys, root_of, values_by_key
from pyrite.cluster.config.relocated import with_old_paths
from pyrite.cluster.config.takes import takes_whole
from pyrite.cluster.config.trainer_option import trainer_name
from pyrite.cluster.plan.applicable import PARTS, applicable_overrides, has_option
from pyrite.cluster.plan.methods import NAMED, Addition, Method, Pair, compared, further
from pyrite.cluster.plan.point import Interval, Point
from pyrite.cluster.plan.shared_options import LISTED, UNIDENTIFIED, is_shared
from pyrite.ranking.digest import digest
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.lazy import scipy


@dataclass(frozen=True)
class Planned:
    """One run of a study.

    Args:
        name: a short, unique and stable name.
        overrides: Hydra overrides that reproduce it with `pyrite train`.
        swept: key and value of every swept option outside the method.
        config: the composed configuration.
        drawn: the keys whose values were drawn from an interval, or chosen by a search.
    """

    name: str
    overrides: tuple[str, ...]
    swept: tuple[tuple[str, str], ...]
    config: dict[str, Any]
    drawn: tuple[str, ...] = ()

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters that distinguish it in its study: the method, other swept options, and the seed."""
        names = {"ranker": ranker_name(self.config, self.swept), "function": function_name(self.config)}
        chosen = self.config[CHOICES] | names
        return {group: str(chosen[group]) for group in METHOD} | dict(self.swept) | {"seed": str(self.config["seed"])}


def points(
    methods: Sequence[Method],
    common: Sequence[str],
    given: Sequence[str],
    named: bool = False,
    added: Sequence[Addition] = (),
) -> list[Point]:
    """Return every combination of a study's sweeps.

    An option of a part (`policy.checkpoint`) is used only for points whose part has it (`applicable_overrides`).

    Args:
        methods: lines of overrides in any form of `plan.methods`; the study is their union.
        common: overrides of all lines.
        given: the user's overrides. Each replaces the same key in `common` and in every line, by `compared`.
        named: whether the user names the methods.
        added: what extends the study. A method that is there already is not added again, in whatever words.
    """
    _refuse_lost_sweeps(by_key(given))
    for text in given:
        refuse_untrained_sweep(text)
        _refuse_repeated_values(text)
    first = _of_pairs(compared(methods, given, named), common)
    fitting = [*first, *_of_pairs(further(methods, given, named, added), common)]
    keys = set(map(key_of, [*given, *(each for each in added if isinstance(each, str))]))
    whole = list(map(_whole, applicable_overrides(fitting, keys)))
    old, new = whole[: len(first)], whole[len(first) :]
    return _name_swept(_distinct([*old, *_not_there(old, new)]))


def _of_pairs(pairs: Sequence[Pair], common: Sequence[str]) -> list[Point]:
    """Return the combinations of lines and the user's overrides that fit."""
    found: list[Point] = []
    for line, user in pairs:
        found += _labelled_apart(_of_line([*common, *line.overrides], user, line.label))
    return found


def _not_there(old: Sequence[Point], new: Sequence[Point]) -> list[Point]:
    """Return new points without those that old ones are in other words: a search would choose for both.

    In the same words they are one point, which a new label may name.
    """
    if not new:
        return []
    words = {(frozenset(point.overrides), point.intervals) for point in old}
    there = {(identity(lowest(point)), point.intervals) for point in old}
    return [
        point
        for point in new
        if (frozenset(point.overrides), point.intervals) in words
        or (identity(lowest(point)), point.intervals) not in there
    ]


def _of_line(own: Sequence[str], user: Sequence[str], label: str | None) -> list[Point]:
    """Return the combinations of a line's overrides and the user's that fit.

    A user's `collection.path` alone replaces the experiment's collection, also if their formats differ.
    """
    keys = set(map(key_of, user))
    if "${" not in values_by_key(user).get("collection.path", "${") and "collection" not in keys:
        own = [text for text in own if root_of(text) != "collection" or key_of(text) in keys]
    return [point for point in _expand(by_key([*own, *user]), label) if _fits(point, keys)]


def _labelled_apart(points: Sequence[Point]) -> list[Point]:
    """Return the points of a line; if they differ in their negatives, the label of each ends with what it differs in.

    A label names one method: `{label: a, function: bm25}` with `selector=uniform,top` is "a · uniform" and "a · top".
    Other options that are swept are columns of their own (`pyrite.analysis.methods.factors`).
    """
    varied = [key for key in NAMED if len({point.values.get(key) for point in points}) > 1]
    return [point.labelled_with(varied) for point in points]


def _distinct(points: Iterable[Point]) -> list[Point]:
    """Return one point of each combination, with its label if one has any; refuse a method that is labelled twice."""
    distinct: dict[Any, Point] = {}
    for point in points:
        known = distinct.setdefault((frozenset(point.overrides), point.intervals), point)
        refuse(
            known.label and point.label and known.label != point.label,
            f"{point.label!r} is the same as {known.label!r}",
            "methods",
            "leave one of them out",
        )
        if point.label and not known.label:
            distinct[frozenset(point.overrides), point.intervals] = point
    return list(distinct.values())


def _refuse_lost_sweeps(given: Mapping[str, Choices]) -> None:
    """Refuse a sweep over the names of a group whose class another override replaces.

    `selector=uniform,dynamic selector._target_=mine.Class` would run `mine.Class` alone.
    """
    for group, choices in given.items():
        key, names = f"{group}._target_", choices.swept
        own = given.get(key, choices)
        if group in PARTS and names and not own.sweeps:
            value = own.texts[0].partition("=")[2]
            classes = [option(group, name)["_target_"] for name in names]
            remedy = f"to compare all, give {group}={names[0]} {key}={','.join([*classes, value])}"
            raise BadInput(f"replaces the class of each of {group}={','.join(names)}", f"{key}={value}", remedy)


def _refuse_repeated_values(text: str) -> None:
    """Refuse a sweep that gives a value twice: `function=bm25,bm25` would be one method."""
    for value, count in Counter(choices_of(text).swept).items():
        refuse(count > 1, f"gives {value} twice", text, "leave one of them out")


def refuse_untrained_sweep(text: str) -> None:
    """Refuse a sweep over an option that all runs share: `origin=full,bm25` would train everything twice."""
    key, choices = key_of(text), choices_of(text)
    values = ",".join(choices.swept).replace("[", "").replace("]", "")
    named = key in LISTED and values and "{" not in values  # mappings are not joined into a list of names
    remedy = f"write {key}=[{values}]" if named else "give it one value"
    what = f"sweeps over {key}, which all compared runs share"
    refuse(choices.sweeps and is_shared(key), what, text, remedy)


def refuse_sweeps(overrides: Sequence[str], config: str, remedy: str) -> None:
    """Refuse sweeps in a verb that takes one value per option; the message names the list of values if it takes one."""
    for text in overrides:
        refuse_untrained_sweep(text)
        if choices_of(text).sweeps:
            raise BadInput(one_value(text, overrides, config), remedy=remedy)


def _fits(point: Point, given: Set[str]) -> bool:
    """Return whether a point's policy fits its functions; points of lines that don't fit are left out.

    A policy that chooses does not fit a single function, and a user's policy `fixed` does not fit several. If the user
    requested both, the point is kept, so that it is refused with a message.
    """
    functions, fixed = point.values.get("function"), point.values.get("policy", "fixed") == "fixed"
    if functions is None or {"policy", "function"} <= given:
        return True
    if "policy" not in given:
        return fixed or functions.startswith("[")
    return (functions.startswith("[") and "," in functions) != fixed


def _name_swept(distinct: list[Point]) -> list[Point]:
    """Return the points with the keys that the study varies, by a sweep or by lines of the experiment.

    A point whose part does not have an option does not count as another value of it.
    """
    keys = dict.fromkeys(key_of(text) for point in distinct for text in point.overrides)
    varied = [key for key in keys if _varies(key, distinct)]
    return [replace(point, swept=(*varied, *point.drawn)) for point in distinct]


def _varies(key: str, points: Sequence[Point]) -> bool:
    """Return whether the points that have an option differ in it."""
    given = {point.texts.get(key) for point in points if has_option(point.overrides, key)}
    return len(given) > 1


def swept_keys(overrides: Sequence[str]) -> set[str]:
    """Return the keys for which overrides give several values, other than by an interval."""
    return {key_of(text) for text in overrides if choices_of(text).swept}


def given_seeds(overrides: Sequence[str]) -> list[int]:
    """Return the seeds that overrides name, as `seed=3` or `seed=range(0,10)`; whole numbers from 0 up."""
    given = by_key(of_keys(overrides, {"seed"})).get("seed", Choices("seed"))
    refuse(given.interval is not None, f"seed is {given.interval!r}", remedy="give whole numbers from 0 up")
    seeds: list[Any] = [parsed(text).value() for text in given.texts]
    for seed in seeds:
        refuse(type(seed) is not int or seed < 0, f"seed is {seed!r}", remedy="give whole numbers from 0 up")
    return list(dict.fromkeys(seeds))


def _expand(given: Mapping[str, Choices], label: str | None) -> list[Point]:
    """Return the combinations of what overrides give, by their keys."""
    intervals = tuple((each.key, _interval(each)) for each in given.values() if each.interval is not None)
    alternatives = [each.texts for each in given.values() if each.interval is None]
    function = given.get("function", Choices("function"))
    functions = function.texts if function.swept else ()
    combinations = dict.fromkeys(_gather(each, functions) for each in itertools.product(*alternatives))
    return [Point(combination, intervals, label=label) for combination in combinations]


def _gather(combination: tuple[str, ...], functions: Sequence[str]) -> tuple[str, ...]:
    """Give a policy that chooses all the functions of a sweep together; `fixed` gets each alone.

    `policy=fixed,random function=random,bm25` compares three methods: fixed over either function, and the
    random policy over both.
    """
    if values_by_key(combination).get("policy", "fixed") == "fixed":
        return combination
    single = dict.fromkeys(text for text in functions if "=[" not in text)
    together = f"function=[{','.join(text.partition('=')[2] for text in single)}]"
    return tuple(together if text in single else text for text in combination)


def _interval(choices: Choices) -> Interval:
    sweep = choices.interval
    low, high = float(sweep.start), float(sweep.end)
    log = "log" in sweep.tags
    refuse(
        low >= high or (log and low <= 0),
        f"the interval of {choices.key} goes from {low} to {high}",
        remedy="give low < high, above 0 for tag(log, …)",
    )
    return Interval(low, high, log, isinstance(sweep.start, int) and isinstance(sweep.end, int))


def _whole(point: Point) -> Point:
    """Return the point with whole numbers for options that take no others; Hydra reads `interval(1,12)` as floats."""
    config = lowest(point) if point.intervals else {}
    intervals = tuple(
        (key, replace(each, whole=each.whole or takes_whole(config, key))) for key, each in point.intervals
    )
    return replace(point, intervals=intervals)


def lowest(point: Point) -> dict[str, Any]:
    """Return the configuration of a point with the lowest number of each of its intervals."""
    low = [f"{key}={int(each.low) if each.low.is_integer() else each.low}" for key, each in point.intervals]
    return compose([*point.overrides, *low])


def draws(count: int, batches: Sequence[int]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return shares of `count` intervals, equal for all methods: a Latin hypercube per batch, seeded by its number."""
    cubes = [scipy.stats.qmc.LatinHypercube(count, rng=np.random.default_rng(seed)) for seed in range(len(batches))]
    return np.concatenate([cube.random(size) for cube, size in zip(cubes, batches, strict=True)])


def plan(point: Point, drawn: Sequence[str], seeds: Sequence[int]) -> list[Planned]:
    """Return the runs of a point, one per seed."""
    overrides = (*point.overrides, *drawn)
    config = compose(overrides)
    if "seed" in map(key_of, overrides):
        return [_planned(overrides, point, config)]
    return [_planned((*overrides, f"seed={seed}"), point, config | {"seed": seed}) for seed in seeds]


def _planned(overrides: tuple[str, ...], point: Point, config: dict[str, Any]) -> Planned:
    choices = config[CHOICES]
    values = values_by_key(overrides)
    distinguish = values.keys() - {*METHOD, "seed"}
    swept = tuple((key, values[key]) for key in point.swept if key in distinguish)
    if point.label is not None:
        swept = (*swept, ("label", point.label))
    ranker, function = ranker_name(config, swept), function_name(config)
    parts = [ranker, choices["policy"], function, choices["selector"], f"s{config['seed']}"]
    # The name of a file, whatever the options are.
    method = re.sub(r"[^\w+.-]", "_", "-".join(map(str, parts)))[:100]
    return Planned(f"{method}-{identity(config)[:10]}", overrides, swept, config, (*point.drawn, *point.searched))


def is_baseline(named: str | None, planned: Planned) -> bool:
    """Return whether a run is of the method that a user names as the baseline, by its label or key=value pairs."""
    if named is None:
        return False
    pairs = [part.partition("=") for part in named.split()]
    matching = {planned.parameters.get(key) == value for key, _, value in pairs}
    return named == planned.parameters.get(LABEL) or matching == {True}


def ranker_name(config: dict[str, Any], swept: Sequence[tuple[str, str]] = ()) -> str:
    """Return the ranker of a configuration, as reports name it: the user's trainer, if one is given.

    Trainers that a study compares are values of the option `trainer.run`, and one ranker.
    """
    run = config.get("trainer", {}).get("run")
    if not run:
        return str(config[CHOICES]["ranker"])
    return "trainer" if "trainer.run" in dict(swept) else trainer_name(str(run))


def function_name(config: dict[str, Any]) -> str:
    """Return the functions of a configuration, as reports name them."""
    return "+".join(config["function"])


def identity(config: dict[str, Any]) -> str:
    """Return the digest of all that a run's result depends on. Runs with the same digest are the same run."""
    digested = {key: value for key, value in with_old_paths(config).items() if key not in (CHOICES, *UNIDENTIFIED)}
    # As runs were named when the guard was an option of `sampling`.
    digested["sampling"] = config["sampling"] | {"guard": digested.pop("guard")}
    # The number of workers changes only the rounding, and a run may resume with another number.
    digested["resources"] = {key: config["resources"][key] for key in ("cpu", "gpu")}
    return digest(digested)
