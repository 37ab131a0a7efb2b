"""Robustness studies of rankers: many runs of one plan, spread with Ray Tune."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from cluster.config.compose import CHOICES, compose
from cluster.config.schema import SHAPES, check_shape
from cluster.output.manifest import CONFIG, read_config, read_config_of, refuse_taken, write_config
from cluster.output.storage import Storage, new_place
from cluster.plan.point import root_of
from cluster.plan.sweep import Planned, Point, draws, given_seeds, identity, key_of, plan, points
from cluster.reports.finalize import check_baseline, report, write_tables
from cluster.runs.artifacts import Artifacts
from cluster.runs.execute import check
from cluster.runs.results import finished
from cluster.telemetry.tracking.tracking import as_overrides, tracked, trackers
from ranking.collections.collection import Collection
from ranking.errors import BadInput

MAY_CHANGE = ("retries", "concurrent", "address", "dashboard", "baseline", "track")
"""Options that a study may be resumed with: no run's result depends on them."""


@dataclass(frozen=True)
class Study:
    """A study as the user asked for it.

    Args:
        options: of `conf/study.yaml`, resolved.
        arguments: the overrides of runs, with sweeps.
        design: the experiment's file, as it was when the study began.
        storage: where it goes.
    """

    options: dict[str, Any]
    arguments: list[str]
    design: dict[str, Any]
    storage: Storage

    @property
    def command(self) -> str:
        """What starts it, for people to copy."""
        defaults = _options([])[0]
        own = [f"{key}={value}" for key, value in self.options.items() if value != defaults.get(key) and key != "track"]
        return shlex.join(["pyrite", "study", *self.arguments, *own, *as_overrides(self.options.get("track", {}))])

    @property
    def seeds(self) -> list[int]:
        """Seeds of each point."""
        count = self.options["seeds"] or self.scaled.get("seeds") or self.design["seeds"]
        return given_seeds(self.arguments) or list(range(count))

    def points(self) -> list[Point]:
        """What is compared: each point runs with every seed."""
        return points(
            self.scaled.get("methods") or self.design["methods"],
            [*self.design.get("overrides", []), *self.scaled.get("overrides", [])],
            [text for text in self.arguments if key_of(text) != "seed"],
        )

    @property
    def scaled(self) -> dict[str, Any]:
        """What the experiment changes at the scale that the user, or else the experiment itself, asks for."""
        scales = [text for text in [*self.design.get("overrides", []), *self.arguments] if key_of(text) == "scale"]
        name = scales[-1].split("=", 1)[1] if scales else ""
        scaled: dict[str, Any] = self.design.get("scales", {}).get(name, {})
        return scaled


def read_arguments(arguments: Sequence[str], resume: str | None = None) -> Study:
    """A new study from the command line, or one to continue from its folder.

    Raises:
        BadInput: where the folder holds another study, or none to continue.
    """
    mine = [text for text in arguments if root_of(text) in SHAPES["study"].model_fields]
    options, design = _options(mine)
    if resume is not None:
        return _continued(arguments, options, Storage(resume))
    if options["seeds"] is not None and given_seeds(arguments):
        raise BadInput("seed= and seeds= say two things", remedy="give one of them")
    options["out"] = options["out"] or new_place("study")
    storage = Storage(options["out"])
    refuse_taken(storage)
    runs = [text for text in arguments if text not in mine]
    return Study(options, runs, design, storage)


def _options(overrides: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of a study, and the experiment that they name."""
    options = compose(overrides, "study")
    name, design = options.pop(CHOICES)["experiment"], options.pop("experiment")
    return {"experiment": name, **options}, design


def _continued(arguments: Sequence[str], options: dict[str, Any], storage: Storage) -> Study:
    """The study of a folder, with those of its options that may change."""
    fixed = [text for text in arguments if root_of(text) not in MAY_CHANGE]
    if fixed:
        raise BadInput(
            f"{fixed[0]} can't change a study that has begun", storage.place, "leave it out, or start another"
        )
    saved = read_config_of("study", storage)
    try:
        kept, runs, design = saved["study"], list(map(str, saved["overrides"])), saved["design"]
        options = kept | {root_of(text): options[root_of(text)] for text in arguments}
        check_shape(options | {"experiment": design}, "study")
    except (KeyError, TypeError, BadInput):
        raise BadInput("is not what a study writes down", f"{storage}/{CONFIG}", "name the folder of a study") from None
    return Study(options, runs, design, storage)


def conduct(study: Study, console: Console) -> int:
    """Run what is left of a study, write its tables and its report.

    Returns:
        How many runs failed in the end.
    """
    from cluster.object_store import check_store, largest_and_all
    from cluster.runs.agent_file import checkpoint_of, learner_of
    from cluster.session import session
    from cluster.tune.agents import learn_agents, with_agents
    from cluster.tune.optuna_runs import OptunaRuns
    from cluster.tune.trainable import run_on_tune

    built = trackers(study.options.get("track", {}))
    artifacts = Artifacts(lambda line: console.print(f"[dim]{line} …[/]"))
    planned_runs, adaptive = _planned(study)
    proposals = OptunaRuns(adaptive, study.options["samples"], study.seeds, study.storage)
    _look_for_data(study.options.get("data"), [*planned_runs, *proposals.examples()])
    runs, agents = with_agents(planned_runs, study.storage, study.scaled.get("learn", []))
    known = [*runs, *proposals.examples()]
    if not known:
        raise BadInput("nothing to run", remedy="see `pyrite study --help`")
    if any(learner_of(planned.config) for planned in known):
        raise BadInput(
            "a search by Optuna can't learn agents", "search", "learn one first, and give policy.checkpoint="
        )
    # As planned: an agent that the study learns first is not there yet.
    for planned in _distinct([*planned_runs, *proposals.examples()]):
        check(planned.config)
    collections = {planned.name: artifacts.collection(planned.config) for planned in known}
    check_baseline(study.options["baseline"], known, collections)
    resumed = study.storage.read(CONFIG) is not None
    _record(study, collections.values())
    done = finished(study.storage, runs)
    total, ready = len(runs) + proposals.total, len(done) + proposals.finished
    over = ", ".join(dict.fromkeys(f"{each.name} ({each.fingerprint})" for each in collections.values()))
    console.print(escape(f"{total} runs ({ready} done) over {over}, results in {study.storage}"), soft_wrap=True)
    errors: dict[str, str] = {}
    with tracked(built, study.storage, console, "study", resumed, runs=total, done=ready) as tracking:
        if ready < total:
            waiting = [planned for planned in runs if planned.name not in done]
            missing = agents.missing(waiting)
            learned = {request.storage.place for request in missing.values()}
            distinct = _distinct([*waiting, *proposals.examples()])
            configs = [planned.config for planned in distinct if checkpoint_of(planned.config) not in learned]
            configs += [request.config for request in missing.values()]
            largest, shared = largest_and_all([artifacts.bytes_of(config) for config in configs])
            with session(study.options["address"], study.options["dashboard"], shared) as dashboard:
                if dashboard:
                    console.print(f"[dim]Ray's dashboard: {dashboard}[/]")
                check_store(largest, shared, lambda line: console.print(f"[dim]{line}[/]"))
                if missing:
                    learn_agents(missing, study.storage, study.options, artifacts, console, tracking)
                errors = run_on_tune(study, waiting, proposals, ready, artifacts, console, tracking)
    # A search over few whole numbers may come back to one: it is the same run, and counts once.
    runs = list({planned.name: planned for planned in [*runs, *proposals.proposed]}.values())
    collections = {planned.name: artifacts.collection(planned.config) for planned in runs}
    failed = write_tables(study.storage, runs, collections, errors)
    report(study.storage, console, study.options["baseline"])
    return failed


def _planned(study: Study) -> tuple[list[Planned], list[Point]]:
    """The runs that are known before it starts, and the points whose runs Optuna proposes later."""
    runs: dict[str, Planned] = {}
    adaptive = []
    for point in study.points():
        if point.intervals and study.options["search"] == "optuna":
            adaptive.append(point)
            continue
        for shares in draws(len(point.intervals), study.options["samples"] if point.intervals else 1):
            for planned in plan(point, point.at(shares), study.seeds):
                runs.setdefault(identity(planned.config), planned)
    return list(runs.values()), adaptive


def _look_for_data(folder: str | None, runs: Iterable[Planned]) -> None:
    """See that the collections that an experiment takes from the folder `data` are there.

    Raises:
        BadInput: where one is not.
    """
    for path in dict.fromkeys(str(planned.config["collection"].get("path")) for planned in runs):
        place = Path(path)
        if folder is not None and place.is_relative_to(folder) and not place.exists():
            remedy = (
                f"put the collection {place.name} there, name the folder that holds it by data=FOLDER or PYRITE_DATA, "
                "or take another, as collection=pydocs (docs/collections.md)"
            )
            raise BadInput("there is no such folder", path, remedy)


def _distinct(runs: Iterable[Planned]) -> list[Planned]:
    """One run of each seedless configuration: all that checking needs to see."""
    return list({identity(planned.config | {"seed": 0}): planned for planned in runs}.values())


def _record(study: Study, collections: Iterable[Collection]) -> None:
    """Write down what the study is, or see that it still is what was written down.

    Raises:
        BadInput: where a collection has changed since the study began.
    """
    distinct = {collection.fingerprint: collection for collection in collections}
    if study.storage.read(CONFIG) is not None:
        before = read_config(study.storage)["collections"]
        for fingerprint, collection in distinct.items():
            if fingerprint not in before:
                what = f"the collection {collection.name} has changed since this study began"
                raise BadInput(what, study.storage.place, "start another study")
        return
    content = {
        "command": study.command,
        "study": study.options,
        "overrides": study.arguments,
        "design": study.design,
        "collections": {fingerprint: collection.name for fingerprint, collection in distinct.items()},
        "facts": {collection.name: collection.facts for collection in distinct.values()},
        "skipped": {collection.name: collection.skipped for collection in distinct.values() if collection.skipped},
    }
    write_config(study.storage, content)
