"""Forks a run at some batches: continues it under other actions, and says what each was worth."""

from __future__ import annotations

import io
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import isnan
from typing import Any

import polars as pl
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cluster.commands.experiment import Experiment, Work
from cluster.config.compose import compose
from cluster.config.groups import CHOICES
from cluster.config.validate import check_run
from cluster.executors.resources import process_options
from cluster.output.manifest import read_config_of
from cluster.output.storage import Storage, new_place
from cluster.output.tables import as_parquet
from cluster.plan.sweep import key_of
from cluster.reports.fork_values import gates, values
from cluster.runs.agent_file import agent_of
from cluster.runs.artifacts import Artifacts
from cluster.runs.fork import BASE, base_states, continue_fork, with_functions
from cluster.runs.outcome import unpacked
from cluster.runs.results import RunState
from cluster.telemetry.tracking.tracking import Tracking
from ranking.checkpoint import to_bytes
from ranking.errors import BadInput
from sampling.policies.forked import ForkAction

FOLDER = "forks"


@dataclass(frozen=True)
class Fork:
    """One continuation.

    Args:
        seed: of the training.
        at: batches before it.
        replicate: which draws.
        action: what is done; None changes nothing.
    """

    seed: int
    at: int
    replicate: int
    action: ForkAction | None

    @property
    def name(self) -> str:
        """What its action is called."""
        return BASE if self.action is None else str(self.action)

    @property
    def file(self) -> str:
        """Where its result stands in the output folder."""
        return f"{FOLDER}/s{self.seed}-{self.at}-{self.replicate}-{self.name.replace(':', '_')}.safetensors"


class ForkExperiment(Experiment):
    """Forks of a run that `pyrite train` has kept.

    Args:
        options: of `conf/fork.yaml`.
        config: of the run.
        storage: where results go.
    """

    verb = "fork"
    may_change = ("workers", "address", "dashboard")

    def __init__(self, options: dict[str, Any], config: dict[str, Any], storage: Storage) -> None:
        super().__init__(options, storage)
        self.place = storage
        self.own = list(config["function"])
        texts = options["instead"] or self.own
        self.actions = [ForkAction.parse(text) for text in dict.fromkeys(texts)]
        self.config = with_functions(config, self.actions)
        at = [options["at"]] if isinstance(options["at"], int) else options["at"]
        self.at = sorted(set(at))
        if self.config["resources"]["workers"] > 1:
            raise BadInput("a run of several workers can't be forked", "resources.workers", "train it with one")

    @classmethod
    def new(cls, arguments: list[str]) -> ForkExperiment:
        options = compose(arguments, "fork")
        del options[CHOICES]
        if options["run"] is None:
            raise BadInput("which run?", remedy="give the folder of a `pyrite train out=FOLDER`: pyrite fork FOLDER")
        config = _config_of(options["run"])
        return cls(options, config, Storage(options["out"] or new_place("fork")))

    @classmethod
    def continued(cls, arguments: list[str], saved: dict[str, Any], storage: Storage) -> ForkExperiment:
        changed = compose(arguments, "fork")
        options = saved["fork"] | {key_of(text): changed[key_of(text)] for text in arguments}
        return cls(options, compose(list(map(str, saved["overrides"]))), storage)

    @property
    def on_cluster(self) -> bool:
        return self.options["workers"] != 0 and super().on_cluster

    def prepare(self, console: Console) -> Work:
        own = {name: self.config["function"][name] for name in self.own}
        check_run({**self.config, "function": own}, agent_of(self.config))
        artifacts = self.artifacts_of(console)
        artifacts.make([self.config])
        collection = artifacts.collection(self.config)
        self.facts = {"collection": collection.name, "fingerprint": collection.fingerprint}
        self.parts = artifacts.parts(self.config)
        self.kept = self._kept(artifacts)
        forks = self.forks()
        self.left = [fork for fork in forks if unpacked(self.place.read(fork.file)) is None]
        done = len(forks) - len(self.left)
        said = f"{len(forks)} forks ({done} done) of {self.options['run']}, results in {self.place}"
        console.print(escape(said), soft_wrap=True)
        size = sum(artifacts.bytes_of(self.config).values())
        return Work(bool(self.left), size, size, {"forks": len(forks)})

    def _kept(self, artifacts: Artifacts) -> dict[int, dict[int, bytes]]:
        """States that the run has kept (`keep_at`), by seed and batch, where code and data are still what they were."""
        saved = read_config_of("train", Storage(self.options["run"]))
        config = compose(list(map(str, saved["overrides"])))
        state = RunState(Storage(self.options["run"]), saved["run"], artifacts.provenance(config))
        found = {step: state.kept_at(step) for step in config["keep_at"]}
        return {config["seed"]: {step: content for step, content in found.items() if content is not None}}

    def forks(self) -> list[Fork]:
        """All that are asked for."""
        seeds = range(self.config["seed"], self.config["seed"] + self.options["bases"])
        return [
            Fork(seed, at, replicate, action)
            for seed in seeds
            for at in self.at
            for replicate in range(self.options["replicates"])
            for action in [None, *self.actions]
        ]

    def manifest(self) -> dict[str, Any]:
        overrides = read_config_of("train", Storage(self.options["run"]))["overrides"]
        return {"fork": self.options, "overrides": list(overrides), "facts": self.facts}

    def check_unchanged(self, before: dict[str, Any]) -> None:
        if before.get("facts") != self.facts:
            raise BadInput("the collection has changed since these forks began", self.place.place, "start others")

    def session(self, work: Work, console: Console) -> AbstractContextManager[None]:
        return nullcontext() if self.options["workers"] == 0 else super().session(work, console)

    def execute(self, console: Console, tracking: Tracking | None) -> None:
        seeds = list(dict.fromkeys(fork.seed for fork in self.left))
        jobs = [(self._configured(seed), [fork for fork in self.left if fork.seed == seed]) for seed in seeds]
        run = self._here if self.options["workers"] == 0 else self._on_ray
        for count, said in enumerate(run(jobs), 1):
            if count % max(len(self.left) // 10, 1) == 0 or count == len(self.left):
                console.print(f"{count}/{len(self.left)} forks   {said}", soft_wrap=True, markup=False)

    def _configured(self, seed: int) -> dict[str, Any]:
        return self.config | {"seed": seed}

    def _here(self, jobs: Sequence[tuple[dict[str, Any], list[Fork]]]) -> Iterator[str]:
        for config, forks in jobs:
            states, later = base_states(
                config, self.parts, self.own, self.at, self.options["length"], self.kept.get(config["seed"], {})
            )
            for fork in forks:
                if fork.at in states:
                    yield self._one(config, self.parts, fork, states[fork.at], later.get(fork.at))

    def _one(self, config: dict[str, Any], parts: Any, fork: Fork, state: bytes, back: Any) -> str:
        return run_fork(config, parts, self.own, state, back, fork, self.options["length"], self.place)

    def _on_ray(self, jobs: Sequence[tuple[dict[str, Any], list[Fork]]]) -> Iterator[str]:
        import ray

        shared = {name: ray.put(part) for name, part in self.parts.items()}
        batches = self.options["length"]
        options: dict[str, Any] = {**process_options(self.config["resources"]), "max_retries": 5}
        first: Any = ray.remote(**options)(_base_task)
        then: Any = ray.remote(**options)(_fork_task)
        waiting: list[Callable[[], Any]] = []
        for config, forks in jobs:
            named = first.options(name=f"base training {config['seed']}")
            before = self.kept.get(config["seed"], {})
            states, later = ray.get(named.remote(config, shared, self.own, self.at, batches, before))
            kept = {at: ray.put(state) for at, state in states.items()}
            for fork in forks:
                if fork.at in kept:
                    task = then.options(name=f"fork at {fork.at} {fork.name}")
                    state, back = kept[fork.at], later.get(fork.at)

                    def start(task=task, config=config, state=state, back=back, fork=fork):  # type: ignore[no-untyped-def]
                        return task.remote(config, shared, self.own, state, back, fork, batches, self.place)

                    waiting.append(start)
        running: list[Any] = []
        while waiting or running:
            while waiting and len(running) < (self.options["workers"] or 64):
                running.append(waiting.pop(0)())
            ready, running = ray.wait(running)
            yield from ray.get(ready)

    def finalize(self, console: Console) -> int:
        found = [(fork, unpacked(self.place.read(fork.file))) for fork in self.forks()]
        rows = [
            {"base": fork.seed, "at": fork.at, "replicate": fork.replicate, "action": fork.name}
            | {key: result[key] for key in ("soon", "final", "diverged")}
            for fork, result in found
            if result is not None
        ]
        if not rows:
            raise BadInput(f"the run never reaches batch {self.at[0]}", "at", "give an earlier one")
        missed = sorted({fork.at for fork, result in found if result is None})
        if missed:
            console.print(f"some trainings end before batch {', '.join(map(str, missed))}")
        forks = pl.DataFrame(rows)
        self.place.write("forks.parquet", as_parquet(forks))
        show(forks, self.config["validation"]["measure"], self.place, console)
        return 0


def _config_of(place: str) -> dict[str, Any]:
    """The configuration of a kept run."""
    saved = read_config_of("train", Storage(place))
    return compose(list(map(str, saved["overrides"])))


def run_fork(
    config: dict[str, Any],
    parts: Any,
    own: Sequence[str],
    state: bytes,
    back: Any,
    fork: Fork,
    batches: int,
    storage: Storage,
) -> str:
    """Continue one fork and keep what came of it; a line about it."""
    result, _ = continue_fork(config, parts, own, state, back, fork.action, fork.at, batches, fork.replicate)
    storage.write(fork.file, to_bytes(result))
    return f"at {fork.at}: {fork.name} {result['final']:.4f}"


def _base_task(
    config: dict[str, Any],
    shared: Any,
    own: Sequence[str],
    at: Sequence[int],
    batches: int,
    kept: Mapping[int, bytes],
) -> tuple[dict[int, bytes], dict[int, Any]]:
    import ray

    parts = dict(zip(shared, ray.get(list(shared.values())), strict=True))
    return base_states(config, parts, own, at, batches, kept)


def _fork_task(
    config: dict[str, Any],
    shared: Any,
    own: Sequence[str],
    state: bytes,
    back: Any,
    fork: Fork,
    batches: int,
    storage: Storage,
) -> str:
    import ray

    parts = dict(zip(shared, ray.get(list(shared.values())), strict=True))
    return run_fork(config, parts, own, state, back, fork, batches, storage)


def show(forks: pl.DataFrame, measure: str, storage: Storage, console: Console) -> None:
    """Write table and figure, and print them with the gates."""
    from cluster.reports.fork_figure import fork_map

    worth, found = values(forks), gates(forks)
    content = io.BytesIO()
    worth.write_csv(content)
    storage.write("values.csv", content.getvalue())
    storage.write("figures/forks.png", fork_map(worth, measure))
    table = Table(title=f"what each action was worth: {measure} over the unchanged run's", title_justify="left")
    for column in ("at", "action", "pairs", "in the end", "95%", "p", "right behind it"):
        table.add_column(column, justify="left" if column == "action" else "right")
    for row in worth.iter_rows(named=True):
        interval = f"{row['low']:+.4f} … {row['high']:+.4f}"
        figures = [
            f"{row['final']:+.4f}",
            interval,
            f"{row['p']:.3g}",
            "" if isnan(row["soon"]) else f"{row['soon']:+.4f}",
        ]
        table.add_row(str(row["at"]), row["action"], str(row["pairs"]), *figures)
    console.print(table)
    for label, value in (
        ("one decision of an oracle that knows each training", found.oracle),
        ("one action a batch for all trainings, chosen by the others", found.schedule),
        ("one action for all", found.fixed),
    ):
        if not isnan(value):
            console.print(f"gain of {label}: {value:+.4f}")
    for asked, p, who in (("batch", found.time_p, "a schedule"), ("training", found.state_p, "feedback")):
        needed = "batches, at=[…]" if asked == "batch" else "trainings, bases=2"
        said = f"takes several {needed}" if isnan(p) else f"p = {p:.3g} (else {who} can gain)"
        console.print(f"are actions worth the same at every {asked}? {said}", soft_wrap=True, markup=False)
    command = shlex.join(["pyrite", "fork", "--resume", storage.shown()])
    console.print(escape(f"forks, values and figure: {storage.shown()}; to make them again: {command}"), soft_wrap=True)
