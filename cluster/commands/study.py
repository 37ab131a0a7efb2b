"""Runs robustness studies of rankers: many runs of one plan, spread with Ray Tune."""

from __future__ import annotations

import argparse
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from pyrite.analysis.methods import ORDER
from pyrite.cluster.commands.conduct import run_command
from pyrite.cluster.commands.experiment import Experiment, Load, Verb, Work
from pyrite.cluster.commands.study_methods import check_comparison, configs_of, distinct, needs_of, planned_with_agents
from pyrite.cluster.commands.study_plan import check_change, continued, plan
from pyrite.cluster.commands.study_search import EARLY, callbacks_of, proposals_of, scheduler_of
from pyrite.cluster.commands.study_time import RunsAhead, Timing
from pyrite.cluster.config.agents import checkpoint_of
from pyrite.cluster.config.aliases import read_overrides
from pyrite.cluster.config.trainer_option import trains_elsewhere
from pyrite.cluster.config.trust import foreign_classes
from pyrite.cluster.executors.local import LocalExecutor
from pyrite.cluster.executors.nodes import alive_nodes
from pyrite.cluster.executors.object_store import largest_and_all
from pyrite.cluster.executors.processes import in_process
from pyrite.cluster.executors.ray_tasks import RayExecutor
from pyrite.cluster.executors.reach import local_paths
from pyrite.cluster.executors.resources import room_for
from pyrite.cluster.executors.task import Executor, Once, Task, located
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.result_store import begun_again_lines, outdated_lines, unfinished
from pyrite.cluster.output.terminal import counted, print_lines
from pyrite.cluster.plan.extension import COMPARISON, GROWING
from pyrite.cluster.plan.study import StudyPlan
from pyrite.cluster.plan.sweep import Planned
from pyrite.cluster.rollouts.request import LearnRequest, missing
from pyrite.cluster.runs.agent_file import refuse_folds
from pyrite.cluster.runs.artifacts import Artifacts, OpenedParts
from pyrite.cluster.runs.outcome import AGAIN, Outcome, Stop, read_outcome, run_store
from pyrite.cluster.search.proposals import Proposals
from pyrite.cluster.search.time_budget import TimeBudget
from pyrite.cluster.telemetry.live_table import LiveTable
from pyrite.cluster.telemetry.run_watch import RunWatch, raise_unwritable
from pyrite.cluster.telemetry.tracking.tracking import Tracking
from pyrite.cluster.training.study_runs import capacity_of, check_resources, task_of
from pyrite.cluster.training.trainer_runs import SeedsAct, disk_line, repetitions, warn_of_unread
from pyrite.ranking.collections.collection import Collection

if TYPE_CHECKING:
    from ray.tune import Callback

    from pyrite.cluster.search.schedulers import TrialStopping

WARM_UP = "pyrite.cluster.training.study_runs:warm_up"
END = "pyrite.cluster.commands.study_end"
"""The module that writes tables and report."""
REPEATED = "one run is repeated with its seed, to see what differs between two equal trainings"
OF_TUNE = {"callbacks": "a callback", "trial_scheduler": "a scheduler", "stoppers": "a stopper"}
"""Options that name classes of Ray Tune, and what these are."""


def prepare(experiment: Experiment, console: Console) -> StudyWork:
    """Read the collections, plan the runs, check them, and make what those share that are left."""
    callbacks = callbacks_of(experiment)  # before Ray starts: a class that can't be imported is refused at once
    artifacts = experiment.artifacts_of(console)
    experiment.plan = plan = _with_precision(experiment.plan, artifacts, console)
    planned, adaptive = plan.runs()
    scheduler = scheduler_of(experiment, artifacts, planned, [*planned, *adaptive])
    proposals = proposals_of(plan, adaptive, artifacts, scheduler)
    runs, agents = planned_with_agents(plan, planned, proposals.examples)
    known = [*runs, *proposals.examples]
    # As planned: an agent that the study learns first is not there yet.
    artifacts.check(configs_of([*planned, *proposals.examples]))
    artifacts.make(configs_of(known), only=())
    repeated = repetitions(runs)
    collections = {each.name: artifacts.collection(each.config) for each in [*known, *repeated]}
    learned_on = {each.storage.place: artifacts.collection(each.config).fingerprint for each in agents.values()}
    for request in agents.values():
        refuse_folds(request.config, artifacts.collection(request.config), {})
    for each in distinct(known):
        refuse_folds(each.config, collections[each.name], learned_on)
    check_comparison(plan, known, collections, complete=not adaptive)
    whole = [*runs, *repeated]
    store = run_store(plan.storage, whole, artifacts.provenance)
    done, outdated = store.finished(whole)
    if scheduler:
        done |= {each.name for each in runs} & set(scheduler.stopped)
    again = unfinished(repeated, done)
    waiting = [*_by_seed(plan, runs, done), *again]
    left, changed = missing(agents, waiting, artifacts.keys)
    for request in left.values():
        request.check(artifacts.collection(request.config))
    lines = [*outdated_lines(outdated), *outdated_lines(changed, "agents")]
    print_lines(console, *lines, *begun_again_lines(store.outdated_states(waiting)))
    work = StudyWork(
        experiment=experiment,
        load=Load(False),
        used=[(collections[each.name], each.config) for each in known],
        plan=plan,
        artifacts=artifacts,
        scheduler=scheduler,
        proposals=proposals,
        runs=runs,
        waiting=waiting,
        missing=left,
        collections=collections,
        ready=len(done) + proposals.finished,
        repeated=repeated,
        apart=experiment.on_cluster,
        callbacks=callbacks,
    )
    total = len(runs) + len(repeated) + proposals.total
    print_lines(console, *work.read_lines, *work.about(total, bool(again)))
    facts = {"runs": total, "done": work.ready}
    work.load = work.loaded(console, facts) if work.ready < total else Load(False, facts=facts)
    return work


def _by_seed(plan: StudyPlan, runs: Sequence[Planned], done: Container[str]) -> list[Planned]:
    """Return the runs that are left, seed by seed.

    An interrupted study then compares all methods, and slow methods do not all come last.
    """
    order = plan.seeds.index
    return sorted(unfinished(runs, done), key=lambda run: order(run.config["seed"]))


def _with_precision(plan: StudyPlan, artifacts: Artifacts, console: Console) -> StudyPlan:
    """Return the plan, with the precision of transformers in every run's command; one that has it is unchanged."""
    if plan.precision is not None or (gpu := plan.gpu_of_automatic) is None:
        return plan
    precision = artifacts.best_precision(gpu)
    print_lines(console, f"transformers compute in {precision} (ranker.precision)")
    return replace(plan, precision=precision)


@dataclass(kw_only=True)
class StudyWork(Work):
    """A study: the runs that it takes, those that are still to be done, and what they share.

    Args:
        missing: the agents that must be learned first, by name.
        ready: runs that are finished.
        repeated: a run of a training of the user's that repeats another with its seed; in no table.
        ended: the runs that ended in this command.
        apart: whether tables and report are written in a separate process (`commands.study_end`).
    """

    plan: StudyPlan
    artifacts: Artifacts
    scheduler: TrialStopping | None
    proposals: Proposals
    runs: list[Planned]
    waiting: list[Planned]
    missing: dict[str, LearnRequest]
    collections: dict[str, Collection]
    ready: int
    repeated: list[Planned]
    apart: bool
    callbacks: Sequence[Callback]
    errors: Mapping[str, str] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    shown: int = 0
    budget: TimeBudget | None = None

    def about(self, total: int, again: bool) -> list[str]:
        """Return lines about a study of a number of runs; `again` is whether one is repeated."""
        names = dict.fromkeys(f"{each.name} ({each.fingerprint})" for each in self.collections.values())
        line = f"{counted(total, 'run')} ({self.ready} done) over {', '.join(names)}, results in {self.plan.storage}"
        repeated = [REPEATED] if again else []
        plan = [self.plan.reduced, self.plan.unlabelled, self.plan.untyped]
        return [*filter(None, plan), line, *repeated, *disk_line(self.waiting)]

    def loaded(self, console: Console, facts: dict[str, Any]) -> Load:
        """Make what the runs share that are left, and return what they take."""
        learned = {request.storage.place for request in self.missing.values()}
        configs = [config for config in configs_of(self._ahead.known) if checkpoint_of(config) not in learned]
        configs += [request.config for request in self.missing.values()]
        self.artifacts.make(configs)
        print_lines(console, *self.artifacts.cut_texts(configs))
        sizes = largest_and_all([self.artifacts.bytes_of(config) for config in configs])
        built = [each.config["collection"] for each in self.proposals.examples]  # runs build inputs
        read = [*(config["ranker"] for config in configs), *built]
        reads = [path for node in read for path in local_paths(node)]
        return Load(True, *sizes, facts, self._ahead.saved(self.collections, self._processes), self._needs(), reads)

    @property
    def _ahead(self) -> RunsAhead:
        return RunsAhead.of(self.waiting, self.proposals)

    @property
    def _processes(self) -> int:
        """How many runs this command trains at once without Ray."""
        return self._ahead.processes(self.plan.options["concurrent"])

    @property
    def _stopped(self) -> Mapping[str, Stop]:
        """The runs that were stopped early."""
        return self.scheduler.stopped if self.scheduler else {}

    def _needs(self) -> str | None:
        """Return a feature of the study that only Ray has."""
        named = ["agents that are still to be learned"] if self.missing else []
        named += [f"{name} of Ray Tune" for key, name in OF_TUNE.items() if self.plan.options.get(key)]
        named += filter(None, (needs_of(planned.config) for planned in self._ahead.known))
        return next(iter(named), None)

    def content(self) -> dict[str, Any]:
        plan = self.plan
        distinct = {each.fingerprint: each for each in self.collections.values()}.values()
        return {
            "study": plan.options,
            "design": plan.design,
            **({"precision": plan.precision} if plan.precision else {}),
            "facts": {collection.name: collection.facts for collection in distinct},
            "skipped": {collection.name: collection.skipped for collection in distinct if collection.skipped},
        }

    def extension(self, before: Mapping[str, Any]) -> dict[str, Any]:
        options = before["study"] | {
            key: self.plan.options[key] for key in (*GROWING, *COMPARISON) if key in self.plan.options
        }
        added = {"added": list(self.plan.added)} if self.plan.added else {}
        return {"study": options, "sample_batches": list(self.plan.sample_batches), **added}

    def execute(self, console: Console, tracking: Tracking) -> None:
        plan, proposals = self.plan, self.proposals
        finished = self.scheduler.finished if self.scheduler else None
        self.budget = budget = TimeBudget(plan.options.get("time_budget"), finished)
        self._begin(console, tracking)
        estimated = self._estimate(console)
        executor, before = self._executor(), proposals.finished
        sources = self._sources()
        others = self.ready + len(self.waiting) - before
        measure = self._ahead.known[0].config["validation"]["measure"]
        with LiveTable(console, others + proposals.total, self.ready, measure) as table:
            table.estimated = estimated
            proposals.on_total = lambda count: setattr(table, "total", others + count)
            watch = RunWatch(table, tracking, stopped=self._stopped)
            seeds = self._seeds()
            for source in sources:
                for done in executor.run(source, watch=watch, retries=plan.options["retries"], stop=budget.spent):
                    raise_unwritable(done)
                    self.ended.add(done.task.key)
                    seeds.check(done.task.arguments["config"], (done.value or {}).get("learned"))
            watch.record_states()
        warn_of_unread(self.runs, plan.storage)
        self.errors = watch.errors

    def _seeds(self) -> SeedsAct:
        """Return what compares the weights of different seeds, with those of the runs that are finished."""
        seeds, waiting = SeedsAct(), {each.name for each in self.waiting}
        for planned in self.runs:
            if trains_elsewhere(planned.config) and planned.name not in waiting:
                outcome = read_outcome(self.plan.storage, planned.name) or Outcome()
                seeds.check(planned.config, outcome.learned)
        return seeds

    def _begin(self, console: Console, tracking: Tracking) -> None:
        """Log what decides about runs, check that they fit, and learn the agents that they need first."""
        options = self.plan.options
        self.proposals.start(tracking.events)
        if self.scheduler is not None:
            asked = [key for key in EARLY if options.get(key)]
            tracking.events.emit("early stopping", by=asked, says=ORDER)
            print_lines(console, f"{' and '.join(asked)}: {ORDER}")
        if not self.experiment.local:
            known = configs_of(self._ahead.known)
            known += [request.config for request in self.missing.values()]
            check_resources(known, options["address"])
        if self.missing:
            from pyrite.cluster.rollouts.study_agents import learn_agents

            learn_agents(self.missing, options, self.artifacts, console, tracking)
            self.artifacts.make(configs_of(self.waiting))

    def _sources(self) -> Iterator[list[Task] | Proposals]:
        """Yield the tasks that are known, and then those that are proposed.

        If one runs after the other, the repeated run is the last. It is left out if the run that it repeats has failed.
        """
        make_task = partial(task_of, artifacts=self.artifacts, storage=self.plan.storage)
        last = [each for each in self.waiting if each in self.repeated] if self._one_by_one else []
        if first := [each for each in self.waiting if each not in last]:
            yield list(map(make_task, first))
        if self.proposals.total > self.proposals.finished:
            self.proposals.task_of = make_task
            yield self.proposals
        if last and read_outcome(self.plan.storage, last[0].name.removesuffix(AGAIN)):
            yield list(map(make_task, last))

    @property
    def _one_by_one(self) -> bool:
        return bool(self.experiment.local) and self._processes == 1

    def _estimate(self, console: Console) -> float | None:
        """Print how long the runs will take, here or on Ray; None if nothing can be timed."""
        timing = self._timing_here() if self.experiment.local else self._timing_on_ray()
        return self._ahead.print_time(self.artifacts, timing, self.plan.arguments, self.collections, console)

    def _timing_here(self) -> Timing:
        return Timing(LocalExecutor(shared={"opened": OpenedParts(artifacts=self.artifacts)}), self._processes)

    def _timing_on_ray(self) -> Timing:
        """Return what times methods in tasks on Ray, as many runs at once as it has room for now."""
        resources = [planned.config["resources"] for planned in self._ahead.known]
        room = room_for(resources, [node["Resources"] for node in alive_nodes()])
        return Timing(RayExecutor({"opened": self._shared}), min(room, self.plan.options["concurrent"] or room))

    @cached_property
    def _shared(self) -> OpenedParts:
        """The parts of all runs in Ray's object store."""
        return OpenedParts(self.artifacts.share(configs_of(self._ahead.known)))

    @property
    def _planned(self) -> list[Planned]:
        """All runs so far, each once: a search over few whole numbers may come back to one."""
        return list({each.name: each for each in [*self.runs, *self.proposals.proposed]}.values())

    def _executor(self) -> Executor:
        options = self.plan.options
        if self.experiment.local:
            self.experiment.workers.keep(self._processes - 1)
            shared = {"opened": Once("pyrite.cluster.runs.artifacts:OpenedParts")}
            return LocalExecutor(1, self.experiment.workers, shared, {"opened": OpenedParts(artifacts=self.artifacts)})
        from pyrite.cluster.executors.tune import TuneExecutor

        configs = configs_of(self._ahead.known)
        capacity = capacity_of(configs, options["address"])
        shared_parts = {"opened": self._shared}
        return TuneExecutor(shared_parts, options["concurrent"], capacity, self.scheduler, self.callbacks, "StudyRun")

    def renew(self) -> None:
        runs = self._planned
        store = run_store(self.plan.storage, runs, self.artifacts.provenance)
        names, _ = store.finished(runs)
        done = [planned for planned in runs if planned.name in names]
        if len(done) == self.shown:
            return
        self.shown = len(done)
        waiting = len(self.runs) + self.proposals.total - len(done)
        arguments: dict[str, Any] = {"storage": self.plan.storage, "runs": done, "waiting": waiting}
        if self.apart:
            in_process(f"{END}:renew", arguments)
        else:
            located(f"{END}:renew")(**arguments, artifacts=self.artifacts)

    def report(self, console: Console) -> int:
        if not self.load.left:  # a search of which nothing is left is copied to the user's storage all the same
            self.proposals.start(EventLog(self.plan.storage))
        arguments: dict[str, Any] = {
            "storage": self.plan.storage,
            "runs": self._planned,
            "errors": self.errors,
            "out_of_time": self.budget is not None and self.budget.over,
            "stopped": self._stopped,
            "left": {each.name for each in [*self.waiting, *self.proposals.left]} - self.ended,
            "baseline": self.plan.options["baseline"],
            "factors": self.plan.options.get("factors"),
        }
        if not self.apart:
            failed: int = located(f"{END}:finalize")(console, **arguments, artifacts=self.artifacts)
            return failed
        look = {"width": console.width, "force_terminal": console.is_terminal, "color_system": console.color_system}
        failed, printed = in_process(f"{END}:finalize_apart", {"look": look, **arguments})
        console.print(Text.from_ansi(printed), end="", soft_wrap=True)
        return failed


def before(chosen: argparse.Namespace, console: Console) -> int | None:
    """Name classes of the user's in files of overrides, and print the power of a finished study if that is asked."""
    for path in chosen.words:
        if foreign := foreign_classes(read_overrides(path)):
            print_lines(console, f"{path} names classes outside Pyrite, which it runs: {', '.join(foreign)}")
    if not chosen.power:
        return None
    from pyrite.cluster.commands.report import show_power

    return show_power(chosen, console)


STUDY = Verb(
    "study",
    "study",
    plan,
    prepare,
    may_change=(
        "retries", "concurrent", "address", "dashboard", *COMPARISON, "track", "local",
        "renew_every", "search_storage", "never_below", "time_budget",
    ),
    recorded=COMPARISON,
    without_ray="local=true",
    continued=continued,
    check_change=check_change,
    warm_up=WARM_UP,
    before=before,
)  # fmt: skip
run_verb = partial(run_command, STUDY)
"""Runs `pyrite study`."""
