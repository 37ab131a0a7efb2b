"""Robustness studies of rankers: many runs of one plan, spread with Ray Tune."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from rich.console import Console

from cluster.configuration import compose
from cluster.preparation import Preparation
from cluster.run import Outcome, Progress, check, run
from cluster.storage import Storage
from cluster.studies import results
from cluster.studies.sweep import Planned, Point, draws, experiment, identity, plan, points
from ranking.checkpoint import from_bytes, to_bytes
from ranking.collections.collection import Collection
from ranking.errors import BadInput

CONFIG = "config.yaml"


@dataclass(frozen=True)
class Study:
    """A study as the user asked for it.

    Args:
        options: of `conf/study.yaml`, resolved.
        arguments: the overrides of runs, with sweeps.
        storage: where it goes.
    """

    options: dict[str, Any]
    arguments: list[str]
    storage: Storage

    @property
    def design(self) -> dict[str, Any]:
        """The experiment's file."""
        return experiment(self.options["experiment"])

    @property
    def command(self) -> str:
        """What starts it, for people to copy."""
        defaults = compose([], "study")
        own = [f"{key}={value}" for key, value in self.options.items() if value != defaults.get(key)]
        return shlex.join(["pyrite", "study", *self.arguments, *own])

    @property
    def seeds(self) -> range:
        """Seeds of each point."""
        return range(self.options["seeds"] or self.design.get("seeds", 3))

    @property
    def points(self) -> list[Point]:
        """What is compared."""
        return points(self.design.get("methods", []), self.design.get("overrides", []), self.arguments)

    def plan(self) -> list[Planned]:
        """All runs that are known before it starts: all but those that Optuna proposes later."""
        runs: dict[str, Planned] = {}
        for point in self.points:
            if point.intervals and self.options["search"] == "optuna":
                continue
            samples = draws(len(point.intervals), self.options["samples"] if point.intervals else 1)
            for shares in samples:
                for planned in plan(point, shares, self.seeds):
                    runs.setdefault(identity(planned.config), planned)
        return list(runs.values())


def read_arguments(arguments: Sequence[str], resume: str | None = None) -> Study:
    """A new study from the command line, or one to continue from its folder.

    Raises:
        BadInput: where the folder holds another study, or none to continue.
    """
    if resume is not None:
        storage = Storage(resume)
        saved = storage.read(CONFIG)
        if saved is None:
            raise BadInput(f"there is no {CONFIG}", resume, "name the folder of a study")
        content = yaml.safe_load(saved)
        given = [
            text for text in arguments if text.split("=")[0] not in ("retries", "concurrent", "address", "dashboard")
        ]
        if given:
            raise BadInput(f"{given[0]} can't change a study that has begun", resume, "leave it out, or start another")
        options, overrides = content["study"], content["overrides"]
        if len(given) != len(arguments):
            options |= {
                key: value for key, value in compose(list(arguments), "study").items() if f"{key}=" in str(arguments)
            }
        return Study(options, overrides, storage)
    known = set(compose([], "study"))
    mine = [text for text in arguments if text.split("=")[0] in known]
    options = compose(mine, "study")
    options.pop("choices")
    _check_options(options)
    options["out"] = options["out"] or f"outputs/study-{time.strftime('%Y%m%d-%H%M%S')}"
    storage = Storage(options["out"])
    if storage.read(CONFIG) is not None:
        raise BadInput(
            "holds a study already",
            options["out"],
            f"continue it with `pyrite study --resume {options['out']}`, or choose another out=",
        )
    return Study(options, [text for text in arguments if text not in mine], storage)


def _check_options(options: dict[str, Any]) -> None:
    if options["search"] not in ("random", "optuna"):
        raise BadInput(f"no search {options['search']!r}", remedy="choose random or optuna")
    for name in ("seeds", "samples", "concurrent"):
        value = options[name]
        if value is not None and (not isinstance(value, int) or value < 1):
            raise BadInput(f"{name} is {value!r}", remedy="give a whole number from 1")
    if not isinstance(options["retries"], int) or options["retries"] < 0:
        raise BadInput(f"retries is {options['retries']!r}", remedy="give a whole number from 0")


def conduct(study: Study, console: Console) -> int:
    """Run what is left of a study, write its tables and its report.

    Returns:
        How many runs failed in the end.
    """
    from cluster.session import session
    from cluster.studies.tuning import spread

    preparation = Preparation(lambda line: console.print(f"[dim]{line} …[/]"))
    runs = study.plan()
    adaptive = [point for point in study.points if point.intervals] if study.options["search"] == "optuna" else []
    examples = [plan(point, [0.5] * len(point.intervals), study.seeds[:1])[0] for point in adaptive]
    if not runs and not adaptive:
        raise BadInput("nothing to run", remedy="see `pyrite study --help`")
    for planned in _distinct([*runs, *examples]):
        check(planned.config)
    collections = {planned.name: preparation.collection(planned.config) for planned in [*runs, *examples]}
    _record(study, {collection.fingerprint: collection for collection in collections.values()})
    done = finished(study.storage, runs)
    total = len(runs) + len(adaptive) * study.options["samples"] * len(study.seeds)
    console.print(
        f"{total} runs ({len(done)} done) over {_named(collections.values())}, results in {study.storage}",
    )
    errors: dict[str, str] = {}
    if len(done) < total:
        with session(study.options["address"], study.options["dashboard"]) as dashboard:
            if dashboard:
                console.print(f"[dim]Ray's dashboard: {dashboard}[/]")
            more, errors = spread(study, runs, adaptive, preparation, console)
            runs += more
            collections |= {planned.name: preparation.collection(planned.config) for planned in more}
    write_results(study, runs, collections, errors, console)
    return len(errors)


def _distinct(runs: Iterable[Planned]) -> list[Planned]:
    """One run of each seedless configuration: all that checking needs to see."""
    return list({identity(planned.config | {"seed": 0}): planned for planned in runs}.values())


def _named(collections: Iterable[Collection]) -> str:
    distinct = {collection.fingerprint: collection.name for collection in collections}
    return ", ".join(f"{name} ({fingerprint})" for fingerprint, name in distinct.items()) or "a collection"


def _record(study: Study, collections: dict[str, Collection]) -> None:
    """Write down what the study is, or see that it still is what was written down.

    Raises:
        BadInput: where a collection has changed since the study began.
    """
    fingerprints = {fingerprint: collection.name for fingerprint, collection in collections.items()}
    saved = study.storage.read(CONFIG)
    if saved is not None:
        before = yaml.safe_load(saved)["collections"]
        changed = [name for fingerprint, name in fingerprints.items() if fingerprint not in before]
        if changed and before:
            raise BadInput(
                f"the collection {changed[0]} has changed since this study began",
                study.storage.place,
                "start another study",
            )
        return
    content = {
        "command": study.command,
        "study": study.options,
        "overrides": study.arguments,
        "design": study.design,
        "collections": fingerprints,
        "facts": {
            name: collection.facts for name, collection in zip(fingerprints.values(), collections.values(), strict=True)
        },
        "skipped": {collection.name: collection.skipped for collection in collections.values() if collection.skipped},
    }
    study.storage.write(CONFIG, yaml.safe_dump(content, sort_keys=False, allow_unicode=True).encode())


def finished(storage: Storage, runs: Iterable[Planned]) -> set[str]:
    """Names of the runs whose results are there."""
    there = set(storage.names("runs"))
    return {planned.name for planned in runs if result_file(planned.name).split("/")[1] in there}


def result_file(name: str) -> str:
    """Where a run's outcome stands."""
    return f"runs/{name}.safetensors"


class RunState:
    """Keeps a run's state between interrupts in the study's folder."""

    def __init__(self, storage: Storage, name: str) -> None:
        self.storage, self.file = storage, f"states/{name}.safetensors"

    def load(self) -> bytes | None:
        """The last state, None at the start."""
        return self.storage.read(self.file)

    def save(self, state: bytes) -> None:
        """Keep the state whole."""
        self.storage.write(self.file, state)


def conduct_run(
    name: str, config: dict[str, Any], parts: dict[str, Any], storage: Storage, on_epoch: Any, save_every: float = 30.0
) -> Outcome:
    """One run of a study, from its last state to its result in the study's folder."""
    state = RunState(storage, name)

    def tell(progress: Progress) -> None:
        on_epoch(progress)

    outcome = run(config, parts, tell, state, save_every)
    weights, outcome.weights = outcome.weights, None
    if weights is not None:
        from safetensors.torch import save

        storage.write(f"weights/{name}.safetensors", save(weights))
    storage.write(result_file(name), to_bytes(vars(outcome)))
    storage.delete(state.file)
    return outcome


def read_outcome(storage: Storage, name: str) -> Outcome | None:
    """A finished run's outcome."""
    content = storage.read(result_file(name))
    return Outcome(**from_bytes(content, result_file(name))) if content is not None else None


def write_results(
    study: Study, runs: Sequence[Planned], collections: dict[str, Collection], errors: dict[str, str], console: Console
) -> None:
    """Tables, summary, figures and report of what is done, and a word on screen."""
    import polars as pl

    rows, queries, samplers = [], [], []
    for planned in runs:
        outcome, collection = read_outcome(study.storage, planned.name), collections[planned.name]
        error = None if outcome else errors.get(planned.name, "did not run")
        rows.append(results.trial_row(planned, collection, outcome, error))
        if outcome:
            queries.append(results.query_rows(planned, collection, outcome))
            samplers += results.sampler_rows(planned, outcome)
    study.storage.write("trials.parquet", results.parquet(results.trials_table(rows)))
    study.storage.write(
        "queries.parquet", results.parquet(pl.concat(queries, how="diagonal") if queries else pl.DataFrame())
    )
    study.storage.write("samplers.parquet", results.parquet(pl.DataFrame(samplers)))
    report(study.storage, console, study.options["baseline"])


def report(storage: Storage, console: Console, baseline: str | None = None) -> None:
    """Make summary, figures and report.html from a study's tables, and print the table.

    Raises:
        BadInput: where the folder holds no finished study.
    """
    import io

    import polars as pl

    from cluster.studies.analysis import summarise
    from cluster.studies.report import render
    from cluster.studies.table import table

    files = {name: storage.read(name) for name in ("trials.parquet", "queries.parquet", CONFIG)}
    missing = [name for name, content in files.items() if content is None]
    if missing:
        raise BadInput(f"there is no {missing[0]}", storage.place, "name the folder of a study that has ended")
    trials, queries = (
        pl.read_parquet(io.BytesIO(files[name] or b"")) for name in ("trials.parquet", "queries.parquet")
    )
    if not (trials["status"] == "done").any():
        failures = trials["error"].drop_nulls().to_list()
        console.print(f"[red]no run came to its end[/]: {failures[0] if failures else 'nothing ran'}")
        return
    summary = summarise(trials, baseline)
    storage.write("summary.csv", summary.write_csv().encode())
    config = (files[CONFIG] or b"").decode()
    page = render(trials, queries, summary, config, yaml.safe_load(config).get("command", ""))
    for name, content in page.figures.items():
        storage.write(f"figures/{name}", content)
    storage.write("report.html", page.html.encode())
    console.print(table(summary))
    failed = trials.filter(pl.col("status") == "failed")
    for name, error in failed.select("run", "error").rows():
        console.print(f"[red]failed[/] {name}: {error}")
    where = os.path.relpath(storage.path("report.html")) if storage.local else storage.path("report.html")
    console.print(f"report: {where}", soft_wrap=True)
