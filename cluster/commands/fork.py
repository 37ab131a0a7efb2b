"""Runs `pyrite fork`: continues a run under other actions from some batches, and reports what each was worth."""

from __future__ import annotations

import json
import shlex
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import product
from math import isnan
from typing import Any

import polars as pl
from rich.console import Console

from pyrite.cluster.commands.experiment import Experiment, Work
from pyrite.cluster.commands.first_folder import absolute, recorded_folder
from pyrite.cluster.config.build import build
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.config.override import key_of
from pyrite.cluster.config.validate import check_run
from pyrite.cluster.executors.local import LocalExecutor
from pyrite.cluster.executors.resources import Resources
from pyrite.cluster.executors.task import Done, Executor, LossLines, Task, Wait
from pyrite.cluster.output.manifest import read_config_of, resume_command
from pyrite.cluster.output.result_store import ResultStore, SavedState, outdated_lines
from pyrite.cluster.output.storage import Storage, new_place
from pyrite.cluster.output.tables import as_parquet
from pyrite.cluster.output.terminal import counted, print_lines
from pyrite.cluster.reports.labels import p_value, signed, signed_interval
from pyrite.cluster.reports.report import Table
from pyrite.cluster.runs.agent_file import agent_of
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.fork import Fork, with_functions
from pyrite.cluster.statistics.fork_values import SIDES, ForkRegression, by_side, gates, regress, room_by_query, values
from pyrite.cluster.telemetry.tracking.tracking import Tracking
from pyrite.ranking.errors import BadInput
from pyrite.rl.progress import STATE
from pyrite.sampling.policies.action import Action
from pyrite.sampling.query_features import QuerySplit

AT_ONCE = 64
"""Tasks on Ray at once, unless `workers` limits them."""


class ForkExperiment(Experiment):
    """Forks of a run that `pyrite train` has written."""

    verb = "fork"
    may_change = ("workers", "address", "dashboard", "regress")
    without_ray = "workers=0"
    storage: Storage

    def __init__(self, options: dict[str, Any], config: dict[str, Any], storage: Storage) -> None:
        super().__init__({**options, "local": options["workers"] == 0}, storage)
        self.requested = options
        self.functions = list(config["function"])
        texts = options["instead"] or self.functions
        self.actions = list(dict.fromkeys(map(Action.parse, texts)))  # bm25*.5 and bm25*0.5 are one action
        self.config = with_functions(config, self.actions)
        for action in self.actions:
            action.check_ranks(build(self.config["function"][action.function]).depth)
        self.at = sorted({options["at"]} if isinstance(options["at"], int) else set(options["at"]))
        if options["regress"] and options["by"]:
            raise BadInput("values by query are not regressed", "by", "give either by=FEATURE or --regress")
        if options["regress"] and (bases := options["bases"]) < 3:
            what = f"{counted(bases, 'training')} can't be regressed, since one is left out at a time"
            raise BadInput(what, "bases", "give bases=3 or more")
        if self.config["resources"]["workers"] > 1:
            raise BadInput("a run of several workers can't be forked", "resources.workers", "train it with one")

    @classmethod
    def new(cls, arguments: list[str]) -> ForkExperiment:
        options = compose(arguments, "fork")
        del options[CHOICES]
        if options["run"] is None:
            remedy = "give the folder of a `pyrite train out=FOLDER`: pyrite fork FOLDER"
            raise BadInput("there is no run to fork", remedy=remedy)
        return cls(options, compose(_overrides(options["run"])), Storage(options["out"] or new_place("fork")))

    @classmethod
    def continued(cls, arguments: list[str], saved: dict[str, Any], storage: Storage) -> ForkExperiment:
        changed = compose(arguments, "fork")
        options = saved["fork"] | {key_of(text): changed[key_of(text)] for text in arguments}
        return cls(options, compose(list(map(str, saved["overrides"]))), storage)

    def prepare(self, console: Console) -> Work:
        functions = {name: self.config["function"][name] for name in self.functions}
        check_run({**self.config, "function": functions}, agent_of(self.config))
        if self.options["by"]:
            built = {name: build(node, f"function.{name}") for name, node in functions.items()}
            guard = build(self.config["sampling"]["guard"], "sampling.guard")
            QuerySplit(self.options["by"], 0.5).check(built, guard.active)
        artifacts = self.artifacts_of(console)
        artifacts.make([self.config])
        collection = artifacts.collection(self.config)
        self.facts = {"collection": collection.name, "fingerprint": collection.fingerprint}
        self.parts = artifacts.parts(self.config)
        self.kept = self._kept(artifacts)
        self.store = ResultStore(self.storage, "forks", artifacts.provenance(self.config))
        forks = self.forks()
        done, outdated = self.store.finished(fork.key for fork in forks)
        print_lines(console, *outdated_lines(outdated, "forks"))
        self.waiting = [fork for fork in forks if fork.key not in done]
        line = f"{counted(len(forks), 'fork')} ({len(done)} done) of {self.options['run']}, results in {self.storage}"
        print_lines(console, line)
        size = sum(artifacts.bytes_of(self.config).values())
        return Work(bool(self.waiting), size, size, {"forks": len(forks), "runs": len(forks), "done": len(done)})

    def _kept(self, artifacts: Artifacts) -> dict[int, dict[int, bytes]]:
        """Return the states that the run has kept (`keep_at`), by seed and batch, if code and data are the same."""
        storage, config = Storage(self.options["run"]), compose(_overrides(self.options["run"]))
        state = SavedState(storage, read_config_of("train", storage)["run"], artifacts.provenance(config))
        states = {step: state.kept_at(step) for step in config["keep_at"]}
        return {config["seed"]: {step: content for step, content in states.items() if content is not None}}

    def forks(self) -> list[Fork]:
        """Return all requested forks."""
        seeds, by = range(self.config["seed"], self.config["seed"] + self.options["bases"]), self.options["by"]
        kinds = [(None, ""), *product(self.actions, SIDES if by else ("",))]
        return [
            Fork(seed, at, replicate, action, by if side else None, side)
            for seed, at, replicate, (action, side) in product(seeds, self.at, range(self.options["replicates"]), kinds)
        ]

    def manifest(self) -> dict[str, Any]:
        return {"fork": self.requested, "overrides": _overrides(self.options["run"]), "facts": self.facts}

    def check_unchanged(self, before: dict[str, Any]) -> None:
        if before.get("facts") != self.facts:
            raise BadInput("the collection has changed since these forks began", self.storage.place, "start others")

    def execute(self, console: Console, tracking: Tracking) -> None:
        executor, count = self._executor(), 0
        for done in executor.run(ForkTasks(self, executor), watch=LossLines(console, "fork")):
            line = done.result()
            if not isinstance(line, str):  # the end of a base training
                continue
            count += 1
            tracking.events.emit("run ended", run=done.task.key)  # for `pyrite watch`
            if count % max(len(self.waiting) // 10, 1) == 0 or count == len(self.waiting):
                print_lines(console, f"{count}/{len(self.waiting)} forks   {line}")

    def _executor(self) -> Executor:
        shared = {"parts": self.parts, "functions": self.functions, "batches": self.options["length"]}
        if self.local:
            return LocalExecutor(shared=shared)
        from pyrite.cluster.executors.ray_tasks import RayExecutor

        return RayExecutor(shared, at_once=lambda: self.options["workers"] or AT_ONCE)

    def finalize(self, console: Console) -> int:
        results = [(fork, self.store.read(fork.key)) for fork in self.forks()]
        rows = [
            {"base": fork.seed, "at": fork.at, "replicate": fork.replicate, "action": fork.name, "side": fork.side}
            | {key: result[key] for key in ("soon", "final", "diverged")}
            | dict(zip(STATE, result["state"] or [None] * len(STATE), strict=True))
            for fork, result in results
            if result is not None
        ]
        if not rows:
            raise BadInput(f"the run never reaches batch {self.at[0]}", "at", "give an earlier one")
        if missed := sorted({fork.at for fork, result in results if result is None}):
            console.print(f"some trainings end before batch {', '.join(map(str, missed))}")
        forks, measure = pl.DataFrame(rows), self.config["validation"]["measure"]
        self.storage.write("forks.parquet", as_parquet(forks))
        if self.options["by"]:
            show_by_query(forks, self.options["by"], measure, self.storage, console)
        else:
            show(forks, measure, self.storage, console)
        if self.options["regress"]:
            show_regression(regress(forks), self.options["length"], self.storage, console)
        return 0


def _overrides(run: str) -> list[str]:
    """Return the overrides of a run in a folder, which may have been trained in another working folder."""
    saved = read_config_of("train", Storage(run))
    return absolute(saved["overrides"], recorded_folder(saved))


class ForkTasks:
    """Hands out the base training of each seed, and its forks once it has ended."""

    def __init__(self, experiment: ForkExperiment, executor: Executor) -> None:
        self.experiment, self.executor = experiment, executor
        self.resources = Resources.of(experiment.config["resources"])
        self.waiting = deque(dict.fromkeys(fork.seed for fork in experiment.waiting))
        self.forks = deque[Task]()
        self.training: dict[str, int] = {}

    def next(self) -> Task | Wait | None:
        """Return the next fork, or else the next base training."""
        if self.forks:
            return self.forks.popleft()
        if not self.waiting:
            return Wait.WAIT if self.training else None
        seed = self.waiting.popleft()
        key, kept = f"base training {seed}", self.experiment.kept.get(seed, {})
        self.training[key] = seed
        arguments = {"config": self.experiment.config | {"seed": seed}, "at": self.experiment.at, "kept": kept}
        return Task(key, "pyrite.cluster.runs.fork:base_states", arguments, self.resources)

    def ended(self, done: Done) -> None:
        """Add the forks of a base training that has ended."""
        seed = self.training.pop(done.task.key, None)
        if seed is None or done.error is not None:
            return
        states, later = done.value
        shared = {at: self.executor.share(state) for at, state in states.items()}
        common = {"config": self.experiment.config | {"seed": seed}, "store": self.experiment.store}
        for fork in self.experiment.waiting:
            if fork.seed == seed and fork.at in shared:
                arguments = common | {"fork": fork, "state": shared[fork.at], "back": later.get(fork.at)}
                body, label = "pyrite.cluster.runs.fork:train_fork", f"fork at {fork.at} {fork.name}"
                self.forks.append(Task(fork.key, body, arguments, self.resources, label=label))


def show(forks: pl.DataFrame, measure: str, storage: Storage, console: Console) -> None:
    """Write and print what each action was worth, and the gates."""
    worth, tested = values(forks), gates(forks)
    rows = [
        [
            row["action"], row["at"], row["pairs"], signed(row["final"]), signed_interval(row["low"], row["high"]),
            p_value(row["p"]), "" if isnan(row["soon"]) else signed(row["soon"]),
        ]
        for row in worth.iter_rows(named=True)
    ]  # fmt: skip
    head = ["action", "at", "pairs", "in the end", "95%", "p", "directly after"]
    table = Table(head, rows, caption=f"What each action was worth: {measure} less that of the unchanged run")
    gains = {
        "one decision of an oracle that knows each training": tested.oracle,
        "one action per batch for all trainings, chosen on the others": tested.schedule,
        "one action for all": tested.fixed,
        "feedback over a schedule, at most (95%)": tested.room_high,
    }
    of_training = "trainings, bases=2, and forks of each, replicates=2"
    tests = [
        ("at every batch", tested.time_p, "a schedule", "batches, at=[…]"),
        ("in every training", tested.state_p, "feedback", of_training),
    ]
    _write_and_print(worth, worth, measure, table, gains, tests, storage, console)


def show_by_query(forks: pl.DataFrame, feature: str, measure: str, storage: Storage, console: Console) -> None:
    """Write and print what each action is worth for the queries below and above the median of a feature."""
    worth, room = by_side(forks), room_by_query(forks)
    halves = [
        worth.select("at", pl.col("action") + f" {side}", final=side, low=f"{side}_low", high=f"{side}_high")
        for side in SIDES
    ]
    rows = [
        [
            row["action"], row["at"], row["pairs"], signed(row["below"]), signed(row["above"]),
            signed(row["difference"]), signed_interval(row["low"], row["high"]), p_value(row["p"]),
        ]
        for row in worth.iter_rows(named=True)
    ]  # fmt: skip
    head = ["action", "at", "pairs", "below", "above", "difference", "95%", "p"]
    caption = f"{measure} less that of the unchanged run, of an action for queries below or above the median {feature}"
    gains = {
        "one action per half, chosen on the other trainings": room.by_query,
        "one action for all, chosen on the other trainings": room.fixed,
        "one action per half over one for all, at most (95%)": room.high,
    }
    tests = [("in both halves", room.p, "policy=by_query", "trainings or replicates")]
    cells, table = pl.concat(halves), Table(head, rows, caption=caption)
    _write_and_print(worth, cells, measure, table, gains, tests, storage, console)


def _write_and_print(
    worth: pl.DataFrame,
    cells: pl.DataFrame,
    measure: str,
    table: Table,
    gains: Mapping[str, float],
    tests: Sequence[tuple[str, float, str, str]],
    storage: Storage,
    console: Console,
) -> None:
    """Write the values and the figure, and print the table and its conclusions.

    Args:
        cells: what the figure shows.
        gains: what could be gained, by the policy that gains it; nan if that is unknown.
        tests: where actions may differ, p, the policy that could gain if they do, and what a test needs.
    """
    from pyrite.cluster.reports.learning_figures import fork_map

    storage.write("values.csv", worth.write_csv().encode())
    storage.write("figures/forks.png", fork_map(cells, measure))
    console.print(table, crop=False)
    for label, value in gains.items():
        if not isnan(value):
            console.print(f"gain of {label}: {signed(value)}")
    for unit, p, gainer, needed in tests:
        known = f"p = {p_value(p)} (if p is small, {gainer} can gain)".replace("= <", "< ")
        print_lines(console, f"are actions worth the same {unit}? {f'needs several {needed}' if isnan(p) else known}")
    again = resume_command("fork", storage.shown())
    print_lines(console, f"forks, values and figure: {storage.shown()}; to make them again: {again}")


def show_regression(fitted: ForkRegression, length: int, storage: Storage, console: Console) -> None:
    """Write regression.json, which `policy=from_forks` reads, and print how well it predicts other trainings."""
    plain = {key: value.tolist() if hasattr(value, "tolist") else value for key, value in vars(fitted).items()}
    storage.write("regression.json", json.dumps({**plain, "length": length}, indent=1, allow_nan=True).encode())
    for label, value in (("action", fitted.action_r2), ("clock", fitted.clock_r2), ("state", fitted.state_r2)):
        console.print(f"R² in a training that was left out, by {label}: {value:.3f}")
    interval = f"95% {fitted.low:+.3f} … {fitted.high:+.3f}"
    console.print(f"gain of the state over the clock: {fitted.gain:+.3f} ({interval})", soft_wrap=True)
    print_lines(console, f"follow it: {shlex.join(['policy=from_forks', f'policy.forks={storage.shown()}'])}")
