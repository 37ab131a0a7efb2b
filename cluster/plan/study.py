"""Describes a study as the user requested it: options, sweeps, seeds and the experiment."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from pyrite.analysis.counted import applying
from pyrite.analysis.methods import FIRST_SEEDS
from pyrite.cluster.config.override import key_of, values_by_key, without
from pyrite.cluster.config.precision import automatic, with_precision
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.plan.methods import NAMED, Addition, Line, Method, compared, lines_of
from pyrite.cluster.plan.searches import Search, searches
from pyrite.cluster.plan.shared_options import is_shared, refuse_unlike_measurement
from pyrite.cluster.plan.sweep import (
    Planned,
    Point,
    draws,
    given_seeds,
    identity,
    lowest,
    plan,
    points,
    swept_keys,
)
from pyrite.ranking.errors import BadInput, refuse

OF_OPTUNA = ("sampler", "search.storage", "search_storage", "parallel")
"""Options that only a search by Optuna reads."""


@dataclass(frozen=True)
class StudyPlan:
    """A study as the user requested it.

    Args:
        options: the options of `StudyConfig`, resolved.
        arguments: the overrides of runs, with sweeps.
        design: the experiment's file, as it was when the study began.
        sample_batches: numbers of samples that were drawn one after another, if the study was extended; each batch is a
            Latin hypercube.
        added: what the study was extended by, one after another: overrides of one value each, of options in which its
            methods differ, and further lines (`pyrite.cluster.plan.methods.further`).
        precision: the precision of transformers whose options leave it to the machine; None leaves it there.
    """

    options: dict[str, Any]
    arguments: list[str]
    design: dict[str, Any]
    storage: Storage
    sample_batches: tuple[int, ...] = ()
    precision: str | None = None
    added: tuple[Addition, ...] = ()

    def __post_init__(self) -> None:
        if not self.sample_batches:
            object.__setattr__(self, "sample_batches", (self.options["samples"],))

    @property
    def seeds(self) -> list[int]:
        """The seeds of each point."""
        given = given_seeds(self.arguments)
        if self.options.get("stop") == "decided":
            count = self.options["max_seeds"]
        elif self.options.get("trial_scheduler") or self.options.get("stoppers"):
            count = self.options["seeds"] or 1
            what = "settings are compared by their seeds, so no seed may be stopped by its result"
            remedy = "search with seeds=1, and give the best setting many seeds then"
            refuse(max(count, len(given)) > 1, what, "trial_scheduler", remedy)
        else:
            count = self.options["seeds"] or self.scaled.get("seeds") or self.design["seeds"]
        return given or list(range(count))

    def points(self) -> list[Point]:
        """Return the points; each runs with every seed."""
        if self.precision is None:
            return self._points()
        return [
            replace(point, overrides=tuple(with_precision(point.overrides, lowest(point), self.precision)))
            for point in self._points()
        ]

    @property
    def gpu_of_automatic(self) -> bool | None:
        """Whether the transformers that leave their precision to the machine compute on a GPU; None if none do so."""
        configs = [config for point in self._points() if any(automatic(config := lowest(point)))]
        return any(config["resources"]["gpu"] for config in configs) if configs else None

    def _points(self) -> list[Point]:
        common = [*self.design.get("overrides", []), *self.scaled.get("overrides", [])]
        given = without(self.arguments, {"seed"})
        named = self.options.get("methods")
        return points(named or self._designed, common, given, bool(named), self.added)

    @property
    def lines(self) -> list[Line]:
        """The lines that are compared as they were given: those of which the user replaced nothing."""
        named, given = self.options.get("methods"), without(self.arguments, {"seed"})
        keys = set(map(key_of, given))
        first = [line for line, _ in compared(named or self._designed, given, bool(named))]
        kept = [line for line in first if named or keys.isdisjoint(line.keys)]
        return [*kept, *lines_of([each for each in self.added if not isinstance(each, str)])]

    @property
    def _designed(self) -> Sequence[Method]:
        """The methods of the experiment at the requested scale."""
        methods: Sequence[Method] = self.scaled.get("methods") or self.design["methods"]
        return methods

    @property
    def scaled(self) -> dict[str, Any]:
        """The changes of the experiment at the requested scale."""
        name = values_by_key([*self.design.get("overrides", []), *self.arguments]).get("scale", "")
        return self.design.get("scales", {}).get(name, {})

    @property
    def reduced(self) -> str:
        """A line with the options that the experiment sets at the requested scale and the user does not; or nothing."""
        given = set(map(key_of, self.arguments))
        texts = without(self.scaled.get("overrides", []), given)
        scale = values_by_key([*self.design.get("overrides", []), *self.arguments]).get("scale", "")
        return f"experiment={self.options['experiment']} sets at scale={scale}: {' '.join(texts)}" if texts else ""

    @property
    def untyped(self) -> str:
        """A line with what the experiment varies in addition to the negatives that are typed; empty for nothing."""
        typed = set(map(key_of, self.arguments))
        if typed.isdisjoint(NAMED) or self.options.get("methods"):
            return ""
        points = replace(self, added=())._points()
        varied = {key: each for key in NAMED if key not in typed and len(each := _values(points, key)) > 1}
        if not varied:
            return ""
        of_experiment = " ".join(f"{key}={','.join(each)}" for key, each in varied.items())
        first = " ".join(f"{key}={each[0]}" for key, each in varied.items())
        return f"{of_experiment} is of experiment={self.options['experiment']}; for less, type {first}"

    @property
    def unlabelled(self) -> str:
        """A line with the labels that methods of the experiment lose, since the user replaces options of theirs, or
        that end with what differs, since the user sweeps over other negatives."""
        lines = [line for line in lines_of(self._designed) if line.label]
        of_lines = set(chain.from_iterable(line.keys for line in lines))
        replaced = sorted(of_lines.intersection(map(key_of, self.arguments)))
        left = {point.label or "" for point in self._points()}
        lost = [line.label for line in lines if line.label not in left]
        if self.options.get("methods") or not lost:
            return ""
        beginnings = tuple(map("{} · ".format, lost))
        apart = sorted(name for name in left if name.startswith(beginnings))
        is_compared = self.design.get("baseline") in lost and not self.options.get("baseline")
        ending = "; no method is the baseline now, unless baseline='KEY=VALUE …' names one" * is_compared
        what = f"{' and '.join(replaced)} replaces what {len(lost)} of the experiment's {len(lines)} labels mean"
        said = {
            f"{what}: these methods go by their options, and equal ones count once": replaced,
            f"labels of the experiment end with what is swept, as in {''.join(map(repr, apart[:1]))}": apart,
        }
        return next((f"{line}{ending}" for line in applying(said)), "")

    def runs(self) -> tuple[list[Planned], list[Point]]:
        """Return the runs that are known before it starts, and the points whose runs are proposed later.

        Raises:
            BadInput: if runs that are compared are measured differently (`refuse_unlike_measurement`).
        """
        runs, proposed = self._runs()
        refuse_unlike_measurement(configs_of(runs, proposed))
        drawn = [key for point in proposed for key in point.drawn if is_shared(key)]
        what = "{} is drawn from an interval, and all compared runs share it"
        refuse(drawn, what, "methods", "give it one value, for all methods")
        return runs, proposed

    def refuse_unread(self, typed: Collection[str]) -> None:
        """Refuse options of a search, of those that were typed, that this study does not read."""
        if self.options["search"] == "optuna":
            return
        of_optuna = [f"{key}=" for key in OF_OPTUNA if key in typed]
        refuse(of_optuna, "{} is read by search=optuna alone", remedy="leave it out, or add search=optuna")
        unread = "samples" in typed and not any(point.intervals for point in self.points())
        what = "samples= draws from intervals, and no option has one"
        remedy = "for more runs of each method: seeds=N; to draw: 'optimizer.lr=tag(log,interval(1e-4,1e-2))'"
        refuse(unread, what, remedy=remedy)

    def _runs(self) -> tuple[list[Planned], list[Point]]:
        if self.options.get("stop") == "decided":
            return [], self._to_decide()
        runs: dict[str, Planned] = {}
        adaptive = list(chain.from_iterable(search.points for search in self.searches))
        proposed = {(point.overrides, point.intervals) for point in adaptive}
        for point in self.points():
            if (point.overrides, point.intervals) in proposed:
                continue
            for shares in draws(len(point.intervals), self.sample_batches) if point.intervals else [()]:
                for planned in plan(point, point.at(shares), self.seeds):
                    runs.setdefault(identity(planned.config), planned)
        return list(runs.values()), adaptive

    @property
    def swept(self) -> set[str]:
        """The keys for which the user gave several values."""
        return swept_keys(self.arguments)

    @property
    def searches(self) -> list[Search]:
        """The searches: of methods with intervals, or with more combinations of values than samples."""
        if self.options["search"] != "optuna":
            return []
        most = self.sample_batches[0]  # a study that was extended keeps its searches
        found = [
            search
            for search in searches(self.points(), self.swept)
            if any(point.intervals for point in search.points) or len(search.points) > most
        ]
        for search in found:
            search.check_sampler(self.options.get("sampler", "tpe"))
        return found

    def _to_decide(self) -> list[Point]:
        """Return the methods of a sequential comparison."""
        refuse(
            self.options["seeds"] is not None,
            "seeds= and stop=decided exclude each other",
            remedy="give max_seeds=, or leave one out",
        )
        clip, margin = self.options["clip"], self.options["equal_within"]
        if clip is not None and clip <= margin:
            what = f"clip is {clip:g} and equal_within {margin:g}"
            raise BadInput(what, "clip", "give several times equal_within: differences above it are cut to it")
        if clip is None and (count := len(self.seeds)) <= FIRST_SEEDS:
            what = f"stop=decided has {count} seed{'s' * (count > 1)}, and the first {FIRST_SEEDS} only set its bound"
            raise BadInput(what, remedy=f"give max_seeds= (or values of seed=) above {FIRST_SEEDS}, or clip=")
        for key in ("trial_scheduler", "stoppers"):
            what = f"stop=decided compares seeds, and {key} would stop some by their results"
            refuse(self.options.get(key), what, remedy="leave one of them out")
        compared = self.points()
        for point in compared:
            drawn = [f"{key} is drawn" for key in point.drawn]
            drawn += [f"{key} names an agent" for key in point.texts if key.endswith(".agent")]
            what = "stop=decided compares methods by common seeds, but {}"
            refuse(drawn, what, "stop", "sweep over named values, or leave stop=decided out")
        return compared


def configs_of(runs: Sequence[Planned], proposed: Sequence[Point]) -> list[dict[str, Any]]:
    """Return the configurations of runs, and of points with the lowest number of each interval."""
    return [*(run.config for run in runs), *map(lowest, proposed)]


def _values(points: Sequence[Point], key: str) -> list[str]:
    """Return the values that points give a key, in their order."""
    return list(dict.fromkeys(point.values[key] for point in points if key in point.values))
