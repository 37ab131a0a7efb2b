"""`pyrite train`: one run, in this process, with the numbers that a study would give it."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table

from cluster.config.compose import CHOICES, compose
from cluster.index.attach import check_room, live_functions
from cluster.output.event_log import EventLog
from cluster.output.failure_summary import failure_summary, show
from cluster.output.lock import output_lock
from cluster.output.manifest import CONFIG, read_config, verb_of, write_config
from cluster.output.run_log import RunLog
from cluster.output.storage import Storage
from cluster.plan.point import root_of
from cluster.plan.sweep import Planned, plan, points
from cluster.reports.finalize import write_tables
from cluster.runs.agent_file import learner_of
from cluster.runs.artifacts import Artifacts
from cluster.runs.execute import Progress, check
from cluster.runs.outcome import Outcome, mean_best
from cluster.runs.results import execute_run, runner
from cluster.telemetry.tracking.tracker import Run, Tracker
from cluster.telemetry.tracking.tracking import tracked, trackers
from cluster.telemetry.training_metrics import run_tags
from ranking.collections.collection import Collection
from ranking.errors import BadInput


def train(overrides: Sequence[str], console: Console) -> None:
    """Train and evaluate one ranker.

    Args:
        overrides: Hydra overrides without sweeps; `out=FOLDER` besides, to keep result and weights, and `track=…`. A
            folder that holds the state of the same run is gone on with.
        console: shows the progress and the table.

    Raises:
        BadInput: where an option is wrong, or sweeps.
    """
    mine = [text for text in overrides if root_of(text) in ("out", "track")]
    options = compose(mine, "study")
    place, built = options["out"], trackers(options["track"])
    if place is None and len(built) > 1:
        raise BadInput("a run that is tracked is kept", "track", "give out=FOLDER besides")
    planned = _single([text for text in overrides if text not in mine])
    check(planned.config)
    if learner_of(planned.config):
        raise BadInput("there is no agent", "policy.checkpoint", "learn one with `pyrite learn`, and name its folder")
    console.print(f"[bold]{planned.name}[/]")
    if place is None:
        _conduct(planned, None, [], console)
        return
    storage = Storage(place)
    with output_lock(storage):
        _refuse_others(storage, planned)
        _conduct(planned, storage, built, console)


def _conduct(planned: Planned, storage: Storage | None, built: Sequence[Tracker], console: Console) -> None:
    """The run, and what there is to see of it."""

    def note(line: str) -> None:
        console.print(f"[dim]{line}[/]")

    artifacts = Artifacts(lambda line: note(f"{line} …"))
    collection = artifacts.collection(planned.config)
    parts = artifacts.parts(planned.config)
    console.print(f"collection {collection.name} ({collection.fingerprint})")

    started = time.perf_counter()

    def tell(progress: Progress) -> None:
        fold = f"fold {progress.fold + 1}/{progress.folds} " if progress.folds > 1 else ""
        measure = planned.config["validation"]["measure"]
        console.print(
            f"{fold}epoch {progress.epoch:2d}  loss {progress.loss:.4f}  {measure} {progress.validation:.4f}"
            f"  [dim]{time.perf_counter() - started:.0f} s[/]",
        )

    several = planned.config["resources"]["workers"] > 1
    shared = sum(artifacts.bytes_of(planned.config).values()) if several else 0
    with _workers(planned.config, shared, note):
        if storage is None:
            watch = run_tags("train", planned.config)
            outcome = runner(planned.config)(planned.config, parts, tell, name=planned.name, note=note, watch=watch)
        else:
            planned.config["weights"] = True
            keys = artifacts.keys(planned.config)
            resumed = storage.read(CONFIG) is not None
            _record(storage, planned, collection)
            run = Run(planned.name, planned.parameters, shlex.join(planned.overrides))
            with tracked(built, storage, console, "train", resumed, run=planned.name) as tracking:
                log = RunLog(tracking.events)
                log.started(run.name)
                tracking.begin(run)

                def tell_all(progress: Progress) -> None:
                    tell(progress)
                    step = progress.fold * progress.max_epochs + progress.epoch
                    numbers = {"loss": progress.loss, "validation": progress.validation}
                    log.reached(run.name, step, numbers)
                    tracking.log(run.name, step, numbers)

                def note_all(line: str) -> None:
                    note(line)
                    log.says(run.name, [line])

                outcome = execute_run(planned.name, planned.config, keys, parts, storage, tell_all, note=note_all)
                log.ended(run.name, mean_best(outcome))
                tracking.end(run.name, "done", outcome.means() | {"best": mean_best(outcome)})
    if storage:
        write_tables(storage, [planned], {planned.name: collection}, {})
    console.print(_figures(planned, outcome))
    console.print(_sampling(outcome))
    if storage:
        show(failure_summary(EventLog.read(storage)), console)
        console.print(f"results: {storage}", soft_wrap=True, markup=False)


@contextmanager
def _workers(config: dict[str, Any], shared: int, note: Callable[[str], None]) -> Iterator[None]:
    """The Ray session of a run that asks for several workers or for a live index; else this process needs none.

    Args:
        config: of the run.
        shared: bytes that its workers will share.
        note: told what will be slow.
    """
    if config["resources"]["workers"] == 1 and not live_functions(config):
        yield
        return
    import ray

    from cluster.object_store import check_store
    from cluster.plan.resources import check_demand
    from cluster.session import session

    with session(dashboard=False, shared=shared):
        check_store(shared, shared, note)
        if not os.environ.get("RAY_ADDRESS"):
            if config["resources"]["workers"] > 1:
                check_demand(config["resources"], ray.cluster_resources())
            check_room(config, ray.cluster_resources())
        yield


def _refuse_others(storage: Storage, planned: Planned) -> None:
    """A folder is of one run: what it says of another, or of a study, is not written over."""
    if storage.read(CONFIG) is None:
        return
    config = read_config(storage)
    verb, run = verb_of(config), config.get("run", planned.name)
    if verb != "train" or run != planned.name:
        what = "another run" if verb == "train" else f"results of `pyrite {verb}`"
        raise BadInput(f"holds {what}", storage.place, "choose another out=")


def _record(storage: Storage, planned: Planned, collection: Collection) -> None:
    """Write down what the run is; first of all, to find out now if the folder can't be written."""
    content = {key: value for key, value in planned.config.items() if key != CHOICES}
    content |= {"run": planned.name, "overrides": list(planned.overrides)}
    content["collections"] = {collection.fingerprint: collection.name}
    write_config(storage, content)


def _single(overrides: Sequence[str]) -> Planned:
    found = points([], [], overrides)
    if len(found) != 1 or found[0].intervals:
        raise BadInput("train takes one value an option", remedy="sweep with `pyrite study`")
    return plan(found[0], [], [0])[0]


def _figures(planned: Planned, outcome: Outcome) -> Table:
    """The measures, origins side by side, BM25's own beside the ranker's."""
    table = Table(title=f"{planned.config[CHOICES]['ranker']} after {outcome.best_epoch} epochs", title_justify="left")
    table.add_column("measure")
    for origin in outcome.values:
        table.add_column(f"over {origin}", justify="right")
        table.add_column("BM25's order", justify="right", style="dim")
    for measure in planned.config["measures"]:
        cells = []
        for origin in outcome.values:
            cells += [f"{float(source[origin][measure].mean()):.4f}" for source in (outcome.values, outcome.bm25)]
        table.add_row(measure, *cells)
    return table


def _sampling(outcome: Outcome) -> Table:
    """What each function supplied, and how the ranker scored it when it was shown."""
    several = len({row["stage"] for row in outcome.sampler}) > 1
    table = Table(title="negatives", title_justify="left")
    if several:
        table.add_column("stage", justify="right")
    counted = ["batches", "negatives", "missing", "guarded"]
    if any(row["fallback"] for row in outcome.sampler):
        counted.append("fallback")
    for column in ("function", *counted, "score of positives", "of negatives"):
        table.add_column(column, justify="left" if column == "function" else "right")
    for row in outcome.sampler:
        scores = [f"{row[f'{kind}_mean']:.2f} ± {row[f'{kind}_std']:.2f}" for kind in ("positive", "negative")]
        counts = [f"{row[key]:,}" for key in counted]
        stage = [str(row["stage"] + 1)] if several else []
        table.add_row(*stage, row["function"], *counts, *scores)
    return table
