"""Extends a study that has begun by seeds, samples, further values of its options and further methods. Its runs all
stay in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from pyrite.analysis.methods import LABEL, METHOD
from pyrite.cluster.config.grammar import choices_of, values_of
from pyrite.cluster.config.override import key_of, of_keys, replaced, root_of, values_by_key, without
from pyrite.cluster.config.quoting import option_value
from pyrite.cluster.output.terminal import counted
from pyrite.cluster.plan.applicable import is_of_one
from pyrite.cluster.plan.kept_names import kept_baseline, kept_contrasts, named_of
from pyrite.cluster.plan.methods import Method, lines_of
from pyrite.cluster.plan.point import Point
from pyrite.cluster.plan.searches import is_compared
from pyrite.cluster.plan.shared_options import SHARED, is_shared
from pyrite.cluster.plan.study import StudyPlan, configs_of
from pyrite.cluster.plan.sweep import Planned, given_seeds, identity, lowest, refuse_untrained_sweep
from pyrite.ranking.errors import BadInput, refuse

GROWING = ("seeds", "samples")
"""Options of a study that may grow, by a larger number."""
COMPARISON = ("baseline", "factors", "contrasts")
"""Options of a study that may be given with any command, and are recorded if it extends the study."""
NEUTRAL = (
    "save_every", "save_every_batches", "cache", "index.encoders", "index.cpu", "index.gpu",
    "resources.workers", "resources.memory", "resources.least", "resources.placement", "resources.custom",
)  # fmt: skip
"""Options of runs by which they are not named: a new value replaces the old one."""
SEARCHES = ("search", "sampler", "parallel", "trial_scheduler", "stoppers")
REASONS = {
    "out": "the results stay in their folder",
    "experiment": "the experiment defines what is compared, and only methods may be added to it",
    "data": "the runs have read their collections from there",
    "seed": "seeds are numbered from 0; give their new number, as seeds=20",
    **dict.fromkeys(SEARCHES, "the settings of a search depend on the results before"),
    **dict.fromkeys(SHARED, "all its runs are measured alike, and keep the same"),
}
"""Why an option can't change, by its key."""
Made = tuple[Sequence[str], Mapping[str, Any]]
"""Overrides, and the configuration that they compose."""
GIVEN_SEEDS = "it gives each method the seeds that its comparison needs"
START_ANOTHER = "leave it out, or start another study"


def refused_change(text: str, folder: str) -> BadInput:
    """Return the error for an override that can't change a study that has begun."""
    reasons = (REASONS.get(key) for key in (key_of(text), root_of(text)))
    reason = next(filter(None, reasons), "the study's results depend on it")
    return BadInput(f"{text} can't change a study that has begun: {reason}", folder, START_ANOTHER)


def extended(
    plan: StudyPlan, options: Mapping[str, Any], overrides: Sequence[str], methods: Sequence[Method] = ()
) -> StudyPlan:
    """Return the plan of a study with additions; refuse fewer seeds or samples, and what would leave out a run.

    Args:
        options: the options that grow, from `GROWING`, and contrasts of the extended study.
        overrides: overrides of runs. Each adds its values to those that the study compares; those of `NEUTRAL` replace
            the value.
        methods: further lines; those that the study has already add nothing.
    """
    runs, points = plan.runs()
    _check_shared(configs_of(runs, points), overrides, plan.storage.place)
    whole = plan = _with_numbers(plan, options, bool(points))
    made = [*((run.overrides, run.config) for run in runs), *((each.overrides, lowest(each)) for each in points)]
    labelled = any(LABEL in run.parameters for run in runs) or any(point.label for point in points)
    for text in overrides:
        if points:
            _check_searched(plan, text)
        whole = _with_values(whole, made, bool(points), labelled, text)
    whole, labels = _with_lines(whole, methods)
    whole.refuse_unread(options)
    now, others = whole.runs()
    typed = " ".join([*overrides, *["methods=[…]"] * bool(methods)])
    left_out = {identity(run.config) for run in runs} - {identity(run.config) for run in now}
    _check_kept(typed, len(left_out), len(_proposed(plan, points) - _proposed(whole, others)), plan.storage.place)
    _check_labels(labels, now, others)
    names: dict[str, Any] = {"baseline": kept_baseline(whole, runs, now)}
    if not options.get("contrasts") and (overrides or methods):
        names["contrasts"] = kept_contrasts(whole, named_of(runs, points), named_of(now, others))
    return replace(whole, options={**whole.options, **names})


def _with_numbers(plan: StudyPlan, options: Mapping[str, Any], adaptive: bool) -> StudyPlan:
    """Return the plan with more seeds and samples, and the other options that are given."""
    if (seeds := options.get("seeds")) is not None:
        _check_seeds(plan, seeds, adaptive)
        plan = replace(plan, arguments=[text for text in plan.arguments if key_of(text) != "seed"])
    before = sum(plan.sample_batches)
    more = options.get("samples", before) - before
    what = f"samples={options.get('samples')} is less than the {before} of this study"
    refuse(more < 0, what, plan.storage.place, "nothing is removed")
    batches = (*plan.sample_batches, *[more] * bool(more))
    return replace(plan, options={**plan.options, **options}, sample_batches=batches)


def _check_kept(typed: str, left_out: int, changed: int, place: str) -> None:
    """Refuse what would leave out runs of a study, or change methods whose runs depend on earlier results."""
    what = f"{typed} would leave out {counted(left_out, 'run')} of this study"
    refuse(left_out, what, place, "add a method by 'methods=[{KEY:VALUE,…}]', or start another study")
    what = f"{typed} would change {counted(changed, 'method')} of this study whose runs depend on earlier results"
    refuse(changed, what, place, START_ANOTHER)


def _with_lines(plan: StudyPlan, methods: Sequence[Method]) -> tuple[StudyPlan, set[str]]:
    """Return the plan with those of some lines that it does not have, and their labels."""
    known = {(line.label, frozenset(line.overrides)) for line in plan.lines}
    new = [each for each in methods if {(line.label, frozenset(line.overrides)) for line in lines_of([each])} - known]
    labels = {line.label for line in lines_of(new) if line.label}
    twice = sorted(labels & {line.label for line in plan.lines})
    refuse(twice, "{} names another method of this study", "methods", "give the new one another label")
    return replace(plan, added=(*plan.added, *new)), labels


def _check_labels(labels: Set[str], runs: Sequence[Planned], points: Sequence[Point]) -> None:
    """Refuse a label of what the study compares already, in other words or under another label."""
    given = {run.parameters.get(LABEL, "") for run in runs} | {point.label or "" for point in points}
    named = {label for label in labels for each in given if f"{each} · ".startswith(f"{label} · ")}
    refuse(sorted(labels - named), "{} names a method that this study has already", "methods", "leave it out")


def _proposed(plan: StudyPlan, points: Sequence[Point]) -> set[Any]:
    """Return what identifies the methods whose runs are proposed later: of a search, all that it chooses among.

    A sequential comparison finds its log by what names each method (`pyrite.cluster.search.decided_runs`).
    """
    if plan.options.get("stop") == "decided":
        return {(*_named_by(each), frozenset({*each.swept} & {*each.texts} - {*METHOD})) for each in points}
    return {frozenset((*_named_by(each), each.intervals) for each in search.points) for search in plan.searches}


def _named_by(point: Point) -> tuple[frozenset[str], str | None]:
    return frozenset(without(point.overrides, NEUTRAL)), point.label


def _check_shared(configs: Sequence[Mapping[str, Any]], overrides: Sequence[str], place: str) -> None:
    """Refuse a new value of an option that all runs of a study share, unless it replaces the old one."""
    for text in overrides:
        key = key_of(text)
        if (
            is_shared(key)
            and key not in NEUTRAL
            and {option_value(each, key) for each in configs} != {*values_of(text)}
        ):
            raise refused_change(text, place)


def _check_searched(plan: StudyPlan, text: str) -> None:
    """Refuse an override that adds to what a search chooses among, or to the seeds of a sequential comparison."""
    decided = plan.options.get("stop") == "decided"
    why = f"a study of stop=decided: {GIVEN_SEEDS}" if decided else f"a search that has begun: {REASONS['search']}"
    added = key_of(text) not in NEUTRAL and not is_compared(key_of(text))
    refuse(added, f"{text} can't change {why}", plan.storage.place, START_ANOTHER)


def _check_seeds(plan: StudyPlan, seeds: int, adaptive: bool) -> None:
    place, done = plan.storage.place, len(plan.seeds)
    others = set(given_seeds(plan.arguments)) - set(range(done))
    refuse(others, "this study names seeds that are not numbered from 0", place, "start another study with seeds=")
    what = f"seeds={seeds} can't change a study of stop=decided: {GIVEN_SEEDS}"
    refuse(
        plan.options.get("stop") == "decided",
        what,
        place,
        f"start another study, with seeds= or with max_seeds= above {done}",
    )
    what = f"this search chose its settings by {done} seed{'s' * (done > 1)} each"
    refuse(adaptive and seeds != done, what, place, "start a study of the best setting with more seeds")
    refuse(seeds < done, f"seeds={seeds} is less than the {done} of this study", place, "nothing is removed")


def _value(overrides: Sequence[str], config: Mapping[str, Any], key: str) -> str | None:
    """Return the value of an option, also in a short form (`selector.bm25`); None if there is none."""
    return values_by_key(overrides).get(key, option_value(config, key))


def _with_values(plan: StudyPlan, made: Sequence[Made], proposed: bool, labelled: bool, text: str) -> StudyPlan:
    """Return the plan with the values of another override of runs added.

    They are swept with the user's, or with the one that all methods share. If methods differ in the option, or have
    labels, each is added again with the new values alone, without its label. So it is where runs are proposed, since a
    value that is written out would be another method.

    Args:
        made: its runs, and the points whose runs are proposed later.
        proposed: whether there are such points.
        labelled: whether a method has a label.
    """
    key, place = key_of(text), plan.storage.place
    if key == "seed":
        raise refused_change(text, place)
    if key in NEUTRAL:
        return replace(plan, arguments=replaced(plan.arguments, [text]))
    given = of_keys(plan.arguments, {key})
    drawn = bool(given) and choices_of(given[-1]).interval is not None
    refuse(
        drawn, f"{key} is drawn from an interval in this study", place, "samples=N adds draws; or start another study"
    )
    before = values_of(given[-1]) if given else [_value(overrides, config, key) for overrides, config in made]
    absent = {*before} == {None} and not any(is_of_one(overrides, key) for overrides, _ in made)
    refuse(absent, f"the runs of this study have no option {key}", place, START_ANOTHER)
    typed, values = text.partition("=")[0], values_of(text)
    sweep = f"{typed}={','.join(dict.fromkeys(map(str, [*before, *values])))}"
    refuse_untrained_sweep(sweep)
    if given or not (proposed or labelled or None in before or len(set(before)) > 1):
        return replace(plan, arguments=replaced(plan.arguments, [sweep]))
    return replace(plan, added=(*plan.added, *(f"{typed}={value}" for value in values)))
