"""Runs robustness studies of rankers: many runs of one plan, spread with Ray Tune."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from pyrite.analysis.methods import ORDER
from pyrite.cluster.commands import study_end
from pyrite.cluster.commands.conduct import run_command
from pyrite.cluster.commands.experiment import Experiment, Load, Verb, Work, inputs_of
from pyrite.cluster.config.agents import checkpoint_of, learner_of
from pyrite.cluster.config.aliases import read_overrides
from pyrite.cluster.config.build import as_node
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.durations import seconds_of
from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.config.other_names import suggestion
from pyrite.cluster.config.override import key_of, root_of
from pyrite.cluster.config.refusals import refuse_renamed
from pyrite.cluster.config.schema import SHAPES
from pyrite.cluster.config.secrets import VARIABLE, resolved_in
from pyrite.cluster.config.trust import check_classes, foreign_classes, origin
from pyrite.cluster.config.validate import check_shape
from pyrite.cluster.executors.local import LocalExecutor
from pyrite.cluster.executors.processes import in_process
from pyrite.cluster.executors.reach import local_paths
from pyrite.cluster.executors.task import Executor, Once, Task
from pyrite.cluster.index.attach import live_functions, served_functions
from pyrite.cluster.limits import LOCAL_PROCESSES
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.manifest import CONFIG
from pyrite.cluster.output.provenance import content_digest
from pyrite.cluster.output.result_store import outdated_lines
from pyrite.cluster.output.storage import Storage, new_place
from pyrite.cluster.output.terminal import counted, print_lines
from pyrite.cluster.plan.extension import GROWING, extended, refused_change
from pyrite.cluster.plan.size import run_seconds, saved
from pyrite.cluster.plan.study import StudyPlan
from pyrite.cluster.plan.sweep import Planned, Point, given_seeds, identity
from pyrite.cluster.rollouts.request import LearnRequest, missing, with_agents
from pyrite.cluster.runs import what_was_read
from pyrite.cluster.runs.outcome import run_store
from pyrite.cluster.telemetry.live_table import LiveTable, duration
from pyrite.cluster.telemetry.run_watch import RunWatch, raise_unwritable
from pyrite.cluster.telemetry.tracking.tracking import Tracking
from pyrite.cluster.training.study_runs import capacity_of, check_resources, task_of
from pyrite.cluster.training.trainer_runs import SeedsAct
from pyrite.ranking.cores import cores
from pyrite.ranking.errors import BadInput

if TYPE_CHECKING:
    from ray.tune import Callback

    from pyrite.cluster.runs.artifacts import Artifacts
    from pyrite.cluster.search.proposals import Proposals
    from pyrite.cluster.search.schedulers import EarlyStopping
    from pyrite.cluster.search.time_budget import TimeBudget
    from pyrite.ranking.collections.collection import Collection


BESIDE = Path("../shared/data")
"""Where collections are looked for beside a checkout, where no folder is named and there is none of the usual name."""


LEAST = "scale=tiny"
"""The override of the smallest scale, whose time is printed next to that of the study."""
WARM_UP = "pyrite.cluster.training.study_runs:warm_up"
OF_TUNE = {"callbacks": "a callback", "trial_scheduler": "a scheduler", "stoppers": "a stopper"}
"""Options that name classes of Ray Tune, and what these are."""


def plan(arguments: list[str]) -> StudyPlan:
    """Plan a study from its overrides."""
    refuse_renamed(arguments, "study")
    of_study, of_runs = _split(arguments)
    options, design = _options(of_study)
    if options["seeds"] is not None and given_seeds(arguments):
        raise BadInput("seed= and seeds= say two things", remedy="give one of them")
    if options["time_budget"] is not None:
        seconds_of(options["time_budget"], "time_budget")
    options["out"] = options["out"] or new_place("study")
    return StudyPlan(options, of_runs, design, Storage(options["out"]))


def continued(arguments: list[str], saved: dict[str, Any], storage: Storage) -> StudyPlan:
    """Plan a study again from its manifest: as it was composed then, with options that change and what is added."""
    refuse_renamed(arguments, "study")
    of_study, of_runs = _split(arguments)
    composed, _ = _options(of_study)
    changed = {root_of(text): composed.get(root_of(text), {}) for text in of_study}  # track=[] removes the group
    saved = {**saved, "study": _with_variables(saved.get("study"), changed, storage)}
    try:
        kept, runs, design = dict(saved["study"]), list(map(str, saved["overrides"])), saved["design"]
        batches = tuple(map(int, saved.get("sample_batches", ())))
        precision = str(saved.get("precision", "float32"))
        options = kept | {key: value for key, value in changed.items() if key not in GROWING}
        check_shape(options | {"experiment": design}, "study")
    except (KeyError, TypeError, BadInput):
        where = f"{storage}/{CONFIG}"
        raise BadInput("is not what a study writes down", where, "name the folder of a study") from None
    by_path = [as_node(each) for key in ("stoppers", "callbacks") for each in options.get(key) or ()]
    check_classes([options, by_path], origin())
    planned = StudyPlan(options, runs, design, storage, batches, precision)
    growing = {key: changed[key] for key in GROWING if key in changed}
    return extended(planned, growing, of_runs) if growing or of_runs else planned


def check_change(verb: Verb, text: str, folder: str) -> None:
    """Refuse an override on resume by which nothing is added."""
    root = root_of(text)
    if root not in GROWING and (root in SHAPES["study"].model_fields or text.startswith("~")):
        raise refused_change(text, folder)


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split overrides into those of the study and those of its runs."""
    of_study = [text for text in arguments if root_of(text) in SHAPES["study"].model_fields]
    return of_study, [text for text in arguments if text not in of_study]


def prepare(experiment: Experiment, console: Console) -> StudyWork:
    """Read the collections, plan the runs, check them, and make what those share that are left."""
    callbacks = _callbacks(experiment)  # before Ray starts: a class that can't be imported is refused at once
    artifacts = experiment.artifacts_of(console)
    experiment.plan = plan = _with_precision(experiment.plan, artifacts, console)
    planned, adaptive = plan.runs()
    scheduler = _scheduler(experiment, artifacts, planned, [*planned, *adaptive])
    proposals = _proposals(plan, adaptive, artifacts, scheduler)
    runs, agents = _with_agents(plan, planned, proposals.examples)
    known = [*runs, *proposals.examples]
    # As planned: an agent that the study learns first is not there yet.
    artifacts.check([each.config for each in _distinct([*planned, *proposals.examples])])
    artifacts.make([each.config for each in _distinct(known)], only=())
    collections = {each.name: artifacts.collection(each.config) for each in known}
    _check_comparison(plan.options, known, collections, complete=not adaptive)
    store = run_store(plan.storage, runs, artifacts.provenance)
    done, outdated = store.finished(each.name for each in runs)
    if scheduler:
        done |= {each.name for each in runs} & set(scheduler.stopped)
    print_lines(console, *outdated_lines(outdated))
    # Seed by seed: an interrupted study then compares all methods, and slow methods do not all come last.
    order = plan.seeds.index
    waiting = sorted((run for run in runs if run.name not in done), key=lambda run: order(run.config["seed"]))
    work = StudyWork(
        experiment=experiment,
        load=Load(False),
        inputs=inputs_of(collections.values()),
        read=what_was_read.sentences((collections[each.name], each.config) for each in known),
        plan=plan,
        artifacts=artifacts,
        scheduler=scheduler,
        proposals=proposals,
        runs=runs,
        waiting=waiting,
        missing=missing(agents, waiting),
        collections=collections,
        ready=len(done) + proposals.finished,
        apart=experiment.on_cluster,
        callbacks=callbacks,
    )
    total = len(runs) + proposals.total
    names = dict.fromkeys(f"{each.name} ({each.fingerprint})" for each in collections.values())
    line = f"{counted(total, 'run')} ({work.ready} done) over {', '.join(names)}, results in {plan.storage}"
    print_lines(console, *itertools.chain(*work.read.values(), filter(None, [plan.reduced, plan.untyped])), line)
    facts = {"runs": total, "done": work.ready}
    work.load = work.loaded(console, facts) if work.ready < total else Load(False, facts=facts)
    return work


def _with_precision(plan: StudyPlan, artifacts: Artifacts, console: Console) -> StudyPlan:
    """Return the plan, with the precision of transformers in every run's command; one that has it is unchanged."""
    if plan.precision is not None or (gpu := plan.gpu_of_automatic) is None:
        return plan
    precision = artifacts.best_precision(gpu)
    print_lines(console, f"transformers compute in {precision} (ranker.precision)")
    return replace(plan, precision=precision)


def _with_agents(
    plan: StudyPlan, planned: Sequence[Planned], examples: Sequence[Planned]
) -> tuple[list[Planned], dict[str, LearnRequest]]:
    """Return the known runs, with the folders of agents that the study learns first, and the requests of these."""
    _look_for_data(plan.options.get("data"), [*planned, *examples])
    runs, agents = with_agents(planned, plan.storage, plan.scaled.get("learn", []))
    if not runs and not examples:
        raise BadInput("nothing to run", remedy="see `pyrite study --help`")
    if any(learner_of(each.config) for each in [*runs, *examples]):
        remedy = "learn one first, and give policy.checkpoint="
        raise BadInput("what is proposed while a study runs can't learn agents", "search", remedy)
    return runs, agents


def _check_comparison(
    options: Mapping[str, Any], known: Sequence[Planned], collections: dict[str, Collection], complete: bool
) -> None:
    """Refuse a baseline, factors and contrasts that the runs don't have."""
    baseline, factors, contrasts = (options.get(key) for key in ("baseline", "factors", "contrasts"))
    if baseline is not None or factors is not None or contrasts is not None:
        from pyrite.cluster.reports.study_tables import check_comparison

        check_comparison(baseline, factors, known, collections, contrasts, complete=complete)


def _callbacks(experiment: Experiment) -> list[Callback]:
    """Return the user's callbacks of Ray Tune, built."""
    if not (nodes := experiment.plan.options.get("callbacks", [])):
        return []
    from ray.tune import Callback

    from pyrite.cluster.search.schedulers import built_as

    return built_as(Callback, nodes, "callbacks", experiment.trust)


def _proposals(
    plan: StudyPlan, adaptive: Sequence[Point], artifacts: Artifacts, scheduler: EarlyStopping | None
) -> Proposals:
    if plan.options.get("stop") == "decided":
        from pyrite.cluster.search.decided_runs import DecidedRuns

        return DecidedRuns(plan, adaptive, artifacts.provenance)
    from pyrite.cluster.search.optuna_runs import OptunaRuns

    return OptunaRuns(plan, adaptive, artifacts.provenance, scheduler)


def _scheduler(
    experiment: Experiment, artifacts: Artifacts, known: Sequence[Planned], planned: Sequence[Planned | Point]
) -> EarlyStopping | None:
    """Return what stops runs of the search early; None if the study requests nothing."""
    options = experiment.plan.options
    asked = [key for key in ("trial_scheduler", "stoppers") if options.get(key)]
    if not asked:
        return None
    if not any(each.drawn if isinstance(each, Planned) else each.intervals or each.searched for each in planned):
        what = f"{asked[0]} would stop runs that are compared by their seeds, for what they reach"
        raise BadInput(what, remedy="leave it out, or search: 'optimizer.lr=tag(log,interval(1e-4,1e-2))'")
    from ray.tune import Stopper

    from pyrite.cluster.search.schedulers import EarlyStopping, built_as, schedulers_of

    scheduler = EarlyStopping(
        schedulers_of(options.get("trial_scheduler"), experiment.trust),
        built_as(Stopper, options.get("stoppers", []), "stoppers", experiment.trust),
        EventLog.read(experiment.plan.storage),
        lambda config: content_digest(artifacts.provenance(config)),
    )
    scheduler.enter(known)
    return scheduler


@dataclass(kw_only=True)
class StudyWork(Work):
    """A study: the runs that it takes, those that are still to be done, and what they share.

    Args:
        missing: the agents that must be learned first, by name.
        ready: runs that are finished.
        apart: whether tables and report are written in a separate process (`commands.study_end`).
    """

    plan: StudyPlan
    artifacts: Artifacts
    scheduler: EarlyStopping | None
    proposals: Proposals
    runs: list[Planned]
    waiting: list[Planned]
    missing: dict[str, LearnRequest]
    collections: dict[str, Collection]
    ready: int
    apart: bool
    callbacks: Sequence[Callback]
    errors: Mapping[str, str] = field(default_factory=dict)
    shown: int = 0
    budget: TimeBudget | None = None

    def loaded(self, console: Console, facts: dict[str, Any]) -> Load:
        """Make what the runs share that are left, and return what they take."""
        from pyrite.cluster.executors.object_store import largest_and_all

        learned = {request.storage.place for request in self.missing.values()}
        configs = [each.config for each in _distinct(self._known) if checkpoint_of(each.config) not in learned]
        configs += [request.config for request in self.missing.values()]
        self.artifacts.make(configs)
        print_lines(console, *self.artifacts.cut_texts(configs))
        sizes = largest_and_all([self.artifacts.bytes_of(config) for config in configs])
        reads = [path for config in configs for path in local_paths(config["ranker"])]
        built = (each.config["collection"] for each in self.proposals.examples)  # runs build inputs
        reads += [path for node in built for path in local_paths(node)]
        return Load(True, *sizes, facts, self._saved(), self._needs(), reads)

    def _saved(self) -> float:
        """Seconds that waiting runs take less on all cores than in the processes of this command."""
        examples, proposals = self.proposals.examples, self.proposals
        each = (proposals.total - proposals.finished) / max(len(examples), 1)
        total = 0.0
        for planned, times in [*((run, 1.0) for run in self.waiting), *((run, each) for run in examples)]:
            collection = self.collections[planned.name]
            sizes = len(collection.queries), len(collection.judgements)
            seconds = run_seconds(planned.config, planned.config[CHOICES]["ranker"], *sizes)
            if seconds is None:
                return saved(None, self._processes())
            total += times * seconds
        return saved(total, self._processes())

    def _processes(self) -> int:
        """Return how many runs this command trains at once without Ray."""
        cores_each = max((planned.config["resources"]["cpu"] for planned in self._known), default=1)
        most = self.plan.options["concurrent"] or LOCAL_PROCESSES + 1
        return max(1, min(most, LOCAL_PROCESSES + 1, int(cores() // cores_each)))

    def _needs(self) -> str | None:
        """Return a feature of the study that only Ray has."""
        named = ["agents that are still to be learned"] if self.missing else []
        named += [f"{name} of Ray Tune" for key, name in OF_TUNE.items() if self.plan.options.get(key)]
        named += filter(None, (_needs_of(planned.config) for planned in self._known))
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
        options = before["study"] | {key: self.plan.options[key] for key in GROWING}
        return {"study": options, "sample_batches": list(self.plan.sample_batches)}

    def execute(self, console: Console, tracking: Tracking) -> None:
        from pyrite.cluster.search.decided_runs import DecidedRuns
        from pyrite.cluster.search.time_budget import TimeBudget

        plan = self.plan
        finished = self.scheduler.finished if self.scheduler else None
        self.budget = budget = TimeBudget(plan.options.get("time_budget"), finished)
        if isinstance(self.proposals, DecidedRuns):
            self.proposals.start(tracking.events)
        if self.scheduler is not None:
            asked = [key for key in ("trial_scheduler", "stoppers") if plan.options.get(key)]
            tracking.events.emit("early stopping", by=asked, says=ORDER)
            print_lines(console, f"{' and '.join(asked)}: {ORDER}")
        if not self.experiment.local:
            known = [planned.config for planned in _distinct(self._known)]
            known += [request.config for request in self.missing.values()]
            check_resources(known, plan.options["address"])
        if self.missing:
            from pyrite.cluster.rollouts.study_agents import learn_agents

            learn_agents(self.missing, plan.storage, plan.options, self.artifacts, console, tracking)
            self.artifacts.make([each.config for each in _distinct(self.waiting)])
        estimated = self._estimate(console)
        executor = self._executor()
        make_task = partial(task_of, artifacts=self.artifacts, storage=plan.storage)
        sources: list[list[Task] | Proposals] = [list(map(make_task, self.waiting))] if self.waiting else []
        proposals, before = self.proposals, self.proposals.finished
        if proposals.total > before:
            proposals.task_of = make_task
            sources.append(proposals)
        others = self.ready + len(self.waiting) - before
        measure = self._known[0].config["validation"]["measure"]
        with LiveTable(console, others + proposals.total, self.ready, measure) as table:
            table.estimated = estimated
            proposals.on_total = lambda count: setattr(table, "total", others + count)
            stopped = self.scheduler.stopped if self.scheduler else None
            watch = RunWatch(table, tracking, stopped=stopped)
            seeds = SeedsAct(lambda name: next(each for each in self._planned if each.name == name))
            for source in sources:
                for done in executor.run(source, watch=watch, retries=plan.options["retries"], stop=budget.spent):
                    raise_unwritable(done)
                    seeds.check(done)
            watch.record_states()
        self.errors = watch.errors

    def _estimate(self, console: Console) -> float | None:
        """Print how long the runs will take, by a few steps of each method; None if nothing can be timed here."""
        from pyrite.cluster.runs.artifacts import OpenedParts
        from pyrite.cluster.training.estimate import can_be_timed, time_run, whole_seconds

        examples = self.proposals.examples
        methods = [each for each in _distinct(self._known) if can_be_timed(each.config)]
        if not self.experiment.local or not methods:
            return None
        print_lines(console, f"timing a few steps of {counted(len(methods), 'method')} …")
        opened = OpenedParts(artifacts=self.artifacts)
        times = {
            _seedless(each): time_run(each.config, opened.of(each.config, self.artifacts.keys(each.config)))
            for each in methods
        }
        more = (self.proposals.total - self.proposals.finished) / max(len(examples), 1)
        runs = [*self.waiting, *(each for each in examples for _ in range(round(more)))]
        found = [times.get(_seedless(each)) for each in runs]
        seconds = whole_seconds(found, self._processes())
        line = f"{counted(len(runs), 'run')}, about {duration(seconds or 0.0)} at most"
        if LEAST not in self.plan.arguments:
            small = [
                time and time.reduced(compose([*run.overrides, LEAST])) for run, time in zip(runs, found, strict=True)
            ]
            line += f"; with {LEAST} about {duration(whole_seconds(small, self._processes()) or 0.0)}"
        print_lines(console, line)
        return seconds

    @property
    def _known(self) -> list[Planned]:
        """All runs that wait, and one per method whose runs are proposed later."""
        return [*self.waiting, *self.proposals.examples]

    @property
    def _planned(self) -> list[Planned]:
        """All runs so far, each once: a search over few whole numbers may come back to one."""
        return list({each.name: each for each in [*self.runs, *self.proposals.proposed]}.values())

    def _executor(self) -> Executor:
        from pyrite.cluster.runs.artifacts import OpenedParts

        options = self.plan.options
        if self.experiment.local:
            if (workers := self.experiment.workers) is not None:
                workers.keep(self._processes() - 1)
            shared = {"opened": Once("pyrite.cluster.runs.artifacts:OpenedParts")}
            return LocalExecutor(1, self.experiment.workers, shared, {"opened": OpenedParts(artifacts=self.artifacts)})
        from pyrite.cluster.executors.tune import TuneExecutor

        configs = [planned.config for planned in _distinct(self._known)]
        capacity = capacity_of(configs, options["address"])
        shared_parts = {"opened": OpenedParts(self.artifacts.share(configs))}
        return TuneExecutor(shared_parts, options["concurrent"], capacity, self.scheduler, self.callbacks, "StudyRun")

    def renew(self) -> None:
        runs = self._planned
        store = run_store(self.plan.storage, runs, self.artifacts.provenance)
        names, _ = store.finished(planned.name for planned in runs)
        done = [planned for planned in runs if planned.name in names]
        if len(done) == self.shown:
            return
        self.shown = len(done)
        waiting = len(self.runs) + self.proposals.total - len(done)
        arguments: dict[str, Any] = {"storage": self.plan.storage, "runs": done, "waiting": waiting}
        if self.apart:
            in_process("pyrite.cluster.commands.study_end:renew", arguments)
        else:
            study_end.renew(**arguments, artifacts=self.artifacts)

    def report(self, console: Console) -> int:
        arguments: dict[str, Any] = {
            "storage": self.plan.storage,
            "runs": self._planned,
            "errors": self.errors,
            "out_of_time": self.budget is not None and self.budget.over,
            "stopped": self.scheduler.stopped if self.scheduler else {},
            "baseline": self.plan.options["baseline"],
            "factors": self.plan.options.get("factors"),
        }
        if self.apart:
            return study_end.finalize_apart(console, **arguments)
        return study_end.finalize(console, **arguments, artifacts=self.artifacts)


def _with_variables(kept: Any, given: Mapping[str, Any], storage: Storage) -> Any:
    """Return recorded options with the values of the variables of the environment that they name.

    Those that connect to a server are given again: another author's folder could send any variable to another server.
    """
    if not isinstance(kept, dict):
        return kept
    for key in ("track", "search_storage", "address"):
        if key not in given and (found := VARIABLE.search(str(kept.get(key)))):
            what = f"the folder names a variable of your environment, {found[1]}, for a server"
            raise BadInput(what, f"{storage}/{CONFIG}: {key}", f"give {key}= again beside --resume, as at first")
    return {key: value if key in given else resolved_in(value, key) for key, value in kept.items()}


STUDY = Verb(
    "study",
    "study",
    plan,
    prepare,
    may_change=(
        "retries", "concurrent", "address", "dashboard", "baseline", "factors", "contrasts", "track", "local",
        "renew_every", "search_storage", "never_below", "time_budget",
    ),
    without_ray="local=true",
    continued=continued,
    check_change=check_change,
)  # fmt: skip


def run_verb(chosen: argparse.Namespace, console: Console) -> int:
    """Run `pyrite study`, or print the power of a finished one."""
    for path in chosen.words:
        if foreign := foreign_classes(read_overrides(path)):
            print_lines(console, f"{path} names classes outside Pyrite, which it runs: {', '.join(foreign)}")
    if chosen.power:
        from pyrite.cluster.commands.report import show_power

        return show_power(chosen, console)
    return run_command(STUDY, chosen, console, WARM_UP if chosen.from_shell else None)


def _needs_of(config: Mapping[str, Any]) -> str | None:
    """Return a feature of a run that only Ray has."""
    asked = config["resources"]
    if asked["workers"] > 1:
        return f"resources.workers={asked['workers']}"
    if live := live_functions(config):
        return f"function.{live[0]}.refresh"
    if served := served_functions(config):
        return f"function.{served[0]}.shards"
    if asked["gpu"] or asked["memory"] or asked["custom"]:
        return "a run that reserves a GPU, memory or resources of its own"
    return None


def _options(overrides: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    options = compose(overrides, "study")
    given = [text for text in overrides if key_of(text) == "data"]
    reads_data = f"'{options['data']}/" in str(options["experiment"])
    if reads_data and not given and not Path(options["data"]).exists() and BESIDE.is_dir():
        options = compose([*overrides, f"data={BESIDE}"], "study")
    if given and not reads_data:
        remedy = f"leave it out; for a file of your own: {suggestion(given[-1])}"
        raise BadInput("this experiment takes no collections from a folder of them", given[-1], remedy)
    for key in ("callbacks", "stoppers"):
        options[key] = [as_node(each) for each in options[key]]
    name, design = options.pop(CHOICES)["experiment"], options.pop("experiment")
    return {"experiment": name, **options}, design


def _look_for_data(folder: str | None, runs: Iterable[Planned]) -> None:
    """See that the collections that an experiment takes from the folder `data` are there."""
    for path in dict.fromkeys(str(planned.config["collection"].get("path")) for planned in runs):
        place = Path(path)
        if folder is not None and place.is_relative_to(folder) and not place.exists():
            remedy = (
                f"put the collection {place.name} there, name the folder that holds it by data=FOLDER or PYRITE_DATA, "
                "or take another, as collection=pydocs (docs/guide/collections.md)"
            )
            raise BadInput("there is no such folder", path, remedy)


def _seedless(run: Planned) -> str:
    return identity(run.config | {"seed": 0})


def _distinct(runs: Iterable[Planned]) -> list[Planned]:
    """One run of each seedless configuration: all that checking needs to see."""
    return list({_seedless(planned): planned for planned in runs}.values())
