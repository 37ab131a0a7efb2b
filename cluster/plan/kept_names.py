"""Rewords the baseline and contrasts of a study that is extended, so that they name the same methods as before."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

import polars as pl

from pyrite.analysis.methods import LABEL, METHOD, SWEPT, factors, with_factors
from pyrite.analysis.statistics.named_methods import OR, alternatives, names_of
from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.config.override import key_of
from pyrite.cluster.plan.point import Point
from pyrite.cluster.plan.study import StudyPlan
from pyrite.cluster.plan.sweep import Planned, identity, is_baseline
from pyrite.ranking.errors import refuse


class MethodNames(NamedTuple):
    """The words by which a contrast may name the method of a run, or of a point whose runs are proposed later.

    Args:
        known: what identifies it before and after the study is extended.
        words: its overrides, without the seed and numbers that are drawn.
    """

    known: object
    words: frozenset[str]
    label: str | None

    @property
    def names(self) -> frozenset[str]:
        """All words that name it: overrides, and the names of parts."""
        return names_of(self.words)


Names = Sequence[MethodNames]


def named_of(runs: Sequence[Planned], points: Sequence[Point]) -> list[MethodNames]:
    """Return what the contrasts of a study may name."""
    named = []
    for run in runs:
        words = frozenset(text for text in run.overrides if key_of(text) not in {"seed", *run.drawn})
        named.append(MethodNames(identity(run.config), words, run.parameters.get(LABEL)))
    return [*named, *(MethodNames(words := frozenset(each.overrides), words, each.label) for each in points)]


def kept_contrasts(plan: StudyPlan, before: Names, after: Names) -> list[str] | None:
    """Return the contrasts of a study, or of its experiment, in words that name the same methods in the extended one.

    None leaves the experiment's as they are.
    """
    given: list[str] | None = plan.options.get("contrasts")
    contrasts = given or plan.design.get("contrasts") or []
    kept = [_kept(words, before, after, plan.storage.place) for words in contrasts]
    return given if kept == contrasts else kept


def _kept(words: str, before: Names, after: Names, place: str) -> str:
    """Return words for the methods that some words named before: the same, if they still do, or else more of them.

    A label becomes what it is called now. Of further values of what its method may have, the best one represents it, as
    of those that a study begins with.
    """
    known = {each.known for each in _matching(words, before)}
    own = [each for each in after if each.known in known]
    if not own:
        return words
    methods = {each.words for each in own}
    labels = sorted({each.label for each in own if each.label})
    if len(labels) == 1 and words in {each.label for each in before}:
        return labels[0]
    ways = [words, *labels[:1], _with_more(words, methods, after), _own_words(methods, after)]
    found = [way for way in ways if {each.words for each in _matching(way, after)} == methods]
    what = f"what is added is named by the contrast {words!r} too"
    refuse(not found, what, place, "give contrasts=[…] of the extended study, or start another study")
    return found[0]


def _with_more(words: str, methods: Set[frozenset[str]], after: Names) -> str:
    """Return words, and with them what all of some methods have, of those that they name now, and others lack."""
    common, others = frozenset.intersection(*methods), [each.words for each in _matching(words, after)]
    more = shlex.join(sorted(common - frozenset.intersection(*(others or [common]))))
    return OR.join(f"{each} {more}" for each in words.split(OR))


def _own_words(methods: Set[frozenset[str]], after: Names) -> str:
    """Return all words of each method that not all methods have."""
    shared = frozenset.intersection(*(each.words for each in after))
    return OR.join(shlex.join(sorted(each - shared)) for each in sorted(methods, key=sorted))


def _matching(requested: str, names: Names) -> list[MethodNames]:
    """Return what has a label, or else all words of one of the alternatives, as
    `pyrite.analysis.statistics.named_methods` reads them in a study's tables."""
    if of_label := [each for each in names if each.label == requested]:
        return of_label
    wanted = alternatives(requested)
    return [each for each in names if any(words <= each.names for words in wanted)]


def kept_baseline(plan: StudyPlan, before: Sequence[Planned], after: Sequence[Planned]) -> str | None:
    """Return words that name the baseline's method also among those of the extended study.

    The values that it has of what is compared only now are added: `negatives.bm25=0 training.max_epochs=2`.
    """
    named: str | None = plan.options.get("baseline")
    parameters = {identity(run.config): run.parameters for run in after}
    own = [parameters[identity(run.config)] for run in before if is_baseline(named, run)]
    if named is None or not own:
        return named
    labelled = any(run.parameters.get(LABEL) == named for run in before)
    label = own[0][LABEL] if labelled else ""  # which may end with an option now: "hard · top"
    alike = [run.parameters for run in after if is_baseline(label or named, run)]
    keys = [*METHOD[1:], *factors(_swept_table(after, plan.options.get("factors")))]  # it is of all rankers
    pairs = _own_values(keys, own, alike)
    beginning = f"{LABEL}={label}" if label and pairs else label or named
    return " ".join([beginning, *pairs])


def _own_values(keys: Sequence[str], own: Sequence[Mapping[str, str]], alike: Sequence[Mapping[str, str]]) -> list[str]:
    """Return a method's values of the options in which those of its name differ, if all its runs have the same."""
    varied = (key for key in keys if len({each.get(key) for each in alike}) > 1)
    return [f"{key}={own[0][key]}" for key in varied if {each.get(key) for each in own} == {own[0].get(key, "")}]


def _swept_table(runs: Sequence[Planned], requested: Sequence[str] | None) -> pl.DataFrame:
    """Return what decides which swept options are part of a method (`pyrite.analysis.methods.factors`)."""
    columns = {
        "run": [run.name for run in runs],
        "ranker": [run.parameters["ranker"] for run in runs],
        "objective": [run.config[CHOICES]["objective"] for run in runs],
        "swept": pl.Series([[{"key": key, "value": value} for key, value in run.swept] for run in runs], dtype=SWEPT),
        "drawn": pl.Series([list(run.drawn) for run in runs], dtype=pl.List(pl.String)),
    }
    return with_factors(pl.DataFrame(columns), requested)
