"""Runs `pyrite train`: trains and evaluates one ranker in this process, with the numbers of a study."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import Console

from pyrite.cluster.commands.conduct import run_command
from pyrite.cluster.commands.experiment import Experiment, Load, Verb, Work
from pyrite.cluster.commands.taken import divided
from pyrite.cluster.commands.train_lines import TrainingLines
from pyrite.cluster.commands.train_tables import by_collection, figures, sampling
from pyrite.cluster.config.agents import learner_of
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import without_choices
from pyrite.cluster.config.precision import precision_lines, with_precision
from pyrite.cluster.config.reserved import check_reserved
from pyrite.cluster.config.validate import check_run
from pyrite.cluster.executors.reach import local_paths
from pyrite.cluster.executors.task import Done, Watch
from pyrite.cluster.executors.waiting import Ask, waits_said
from pyrite.cluster.index.demand import served_functions
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.manifest import CONFIG, read_config, refuse_other_files, verb_of
from pyrite.cluster.output.run_log import print_failures
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.terminal import print_lines
from pyrite.cluster.plan.sweep import Planned, lowest, plan, points, refuse_sweeps
from pyrite.cluster.reports.study_tables import tables_of, write_tables
from pyrite.cluster.runs.agent_file import agent_of, refuse_folds
from pyrite.cluster.runs.model_card import check_push, push, write_cards
from pyrite.cluster.runs.negative_tables import write_guarded
from pyrite.cluster.runs.outcome import Outcome, mean_best
from pyrite.cluster.runs.zero_shot import data_set_rows, zero_shot_rows
from pyrite.cluster.telemetry.live_table import LiveTable
from pyrite.cluster.telemetry.run_watch import RunWatch
from pyrite.cluster.telemetry.tracking.tracking import Tracking, trackers
from pyrite.cluster.telemetry.training_metrics import run_tags
from pyrite.cluster.training.study_runs import check_resources, later_bundles, launcher, task_of
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.precision import best_precision

if TYPE_CHECKING:
    from pyrite.cluster.runs.artifacts import Artifacts
    from pyrite.ranking.collections.collection import Collection
MEASURED = {True: "its best weights before are measured", False: "the ranker before training is measured"}
"""What is measured of a training that diverged, by whether it had better weights before."""


@dataclass(frozen=True)
class TrainPlan:
    """One run, in this process or on workers. If the folder holds a state of the same run, the run continues.

    Args:
        track: the trackers.
        push: the repository that the ranker is uploaded to; None uploads nothing.
    """

    planned: Planned
    storage: Storage | None
    track: dict[str, Any]
    push: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The options of its command."""
        alone = self.planned.config["resources"]["workers"] == 1 and not served_functions(self.planned.config)
        return {"address": None, "dashboard": False, "track": self.track, "local": alone}

    @property
    def arguments(self) -> list[str]:
        """The overrides of the run."""
        return list(self.planned.overrides)


def plan_run(arguments: list[str]) -> TrainPlan:
    """Plan a run from its overrides, without sweeps, and from `out=FOLDER`, `track=…` and `push=…`."""
    pushed, rest = divided(arguments, ["push"])
    output, overrides = divided(rest, ["out", "track"])
    repository = pushed[-1].partition("=")[2] if pushed else None
    check_reserved({"push": repository})
    options = compose(output, "study")
    track = options.get("track", {})  # track=[] removes the group
    refuse(
        options["out"] is None and len(trackers(track, "user")) > 1,
        "a tracked run needs an output folder",
        "track",
        "give out=FOLDER too",
    )
    planned = _planned(overrides)
    check_run(planned.config, agent_of(planned.config))
    if part := learner_of(planned.config):
        remedy = "learn one with `pyrite learn`, and name its folder"
        raise BadInput("there is no agent", f"{part}.checkpoint", remedy)
    planned.config["weights"] = planned.config["weights"] or options["out"] is not None
    storage = None if options["out"] is None else Storage(options["out"])
    return TrainPlan(planned, storage, track, repository)


def _planned(overrides: list[str]) -> Planned:
    """Return the one run of overrides, with the precision of its transformers."""
    refuse_sweeps(overrides, "config", "compare several values with `pyrite study`")
    (point,) = points([], [], overrides)
    precision = best_precision(lowest(point)["resources"]["gpu"] > 0)
    (planned,) = plan(
        replace(point, overrides=tuple(with_precision(point.overrides, lowest(point), precision))), [], [0]
    )
    return planned


def prepare(experiment: Experiment, console: Console) -> TrainWork:
    """Make the inputs of the run."""
    planned, storage = experiment.plan.planned, experiment.plan.storage
    if experiment.plan.push is not None:
        check_push(experiment.plan.push, storage)
    if storage is not None:
        _refuse_others(storage, planned)
    console.print(f"[bold]{planned.name}[/]")
    artifacts = experiment.artifacts_of(console)
    artifacts.make([planned.config])
    collection = artifacts.collection(planned.config)
    refuse_folds(planned.config, collection, {})
    several = planned.config["resources"]["workers"] > 1
    shared = sum(artifacts.bytes_of(planned.config).values()) if several else 0
    kind = TrainWork if storage is None else partial(StoredTraining, storage=storage)
    work = kind(
        experiment=experiment,
        load=Load(True, shared, shared, {"run": planned.name}, reads=list(local_paths(planned.config["ranker"]))),
        used=[(collection, planned.config)],
        planned=planned,
        artifacts=artifacts,
        collection=collection,
    )
    print_lines(console, *work.read_lines, *artifacts.cut_texts([planned.config]), *precision_lines(planned.config))
    console.print(f"collection {collection.name} ({collection.fingerprint})", markup=False)
    return work


@dataclass(kw_only=True)
class TrainWork(Work):
    """A run with its inputs, and what it has reached once it is trained. It leaves nothing but what it prints."""

    planned: Planned
    artifacts: Artifacts
    collection: Collection
    outcome: Outcome = field(init=False)

    def content(self) -> dict[str, Any]:
        return without_choices(self.planned.config) | {"run": self.planned.name}

    def execute(self, console: Console, tracking: Tracking | None) -> None:
        config, lines = self.planned.config, TrainingLines(self.planned, console, Watch(), None)
        with self._begun(lines) as (start, parts):
            self.outcome = start(config, parts, lines.progress, watch=run_tags("train", config))

    @contextmanager
    def _begun(self, lines: TrainingLines) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Give what starts the run, and its parts; meanwhile say what workers wait for."""
        config, local = self.planned.config, self.experiment.local
        if not local:
            check_resources([config], None)
        later = () if local else later_bundles(config)
        start, parts = launcher(config, self.planned.name, lines.note), self.artifacts.parts(config)
        with waits_said(lambda: [Ask("a run", later)], lines.wait) if later else nullcontext():
            yield start, parts

    def report(self, console: Console) -> int:
        if self.outcome.diverged:
            measured = MEASURED[self.outcome.best_epoch > 0]
            print_lines(console, f"The training diverged (its loss is no longer a number); {measured}.")
        for table in (figures(self.planned, self.outcome), sampling(self.outcome)):
            console.print(table, crop=False)
        for rows in zero_shot_rows(self.planned.name, self.outcome):
            console.print(by_collection(rows, "zero-shot"), crop=False)
        for rows in data_set_rows(self.planned.name, self.outcome, self.collection):
            console.print(by_collection(rows, "by collection of the mixture"), crop=False)
        return 0


@dataclass(kw_only=True)
class StoredTraining(TrainWork):
    """A run whose state, result and weights are in a folder."""

    storage: Storage

    def execute(self, console: Console, tracking: Tracking | None) -> None:
        assert tracking is not None  # it is stored
        from pyrite.cluster.runs.execute import execute_run

        planned, storage = self.planned, self.storage
        watch = RunWatch(LiveTable(Console(quiet=True), 1, 0, planned.config["validation"]["measure"]), tracking)
        lines, task = TrainingLines(planned, console, watch, tracking.events), task_of(planned, self.artifacts, storage)
        with self._begun(lines) as (start, parts):
            watch.started(task)
            made_of = self.artifacts.provenance(planned.config)
            self.outcome = execute_run(planned.name, planned.config, made_of, parts, storage, lines.progress, start)
        watch.ended(Done(task, {"best": mean_best(self.outcome), "numbers": self.outcome.means()}))

    def report(self, console: Console) -> int:
        runs, collections = [self.planned], {self.planned.name: self.collection}
        write_tables(self.storage, tables_of(self.storage, runs, collections, {}))
        write_guarded(self.storage, runs, self.artifacts)
        write_cards(self.storage, runs, collections)
        super().report(console)
        print_failures(self.storage, console)
        print_lines(console, f"results: {self.storage}")
        if (repository := self.experiment.plan.push) is not None:
            console.print(f"pushed: {push(self.storage, self.planned.name, repository)}", markup=False)
        return 0


TRAIN = Verb("train", "training", plan_run, prepare, may_change=("push", "track"), same_folder=True)
run_verb = partial(run_command, TRAIN)
"""Runs `pyrite train`."""


def _refuse_others(storage: Storage, planned: Planned) -> None:
    """Raise if the folder holds results of another run or command, so that they are not overwritten."""
    if storage.read(CONFIG) is None:
        refuse_other_files(storage, EventLog.exists(storage))
        return
    config = read_config(storage)
    verb, run = verb_of(config), config.get("run", planned.name)
    what = "another run" if verb == "train" else f"results of `pyrite {verb}`"
    refuse(verb != "train" or run != planned.name, f"holds {what}", storage.place, "choose another out=")
