"""Conducts the commands that leave a folder of results, from reading to report: the life cycle of every such verb."""

from __future__ import annotations

import argparse
import logging
import os
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import Any

from rich.console import Console

from pyrite.cluster.commands.experiment import Experiment, Verb, Work, runs_here
from pyrite.cluster.commands.first_folder import STARTED_IN
from pyrite.cluster.commands.resuming import EXTENDED, MOVED, TYPED, read
from pyrite.cluster.commands.signals import exit_code, ignore_further_signals
from pyrite.cluster.config.trust import from_folder
from pyrite.cluster.executors.processes import NO_PROCESSES, Processes
from pyrite.cluster.executors.reach import check_nodes
from pyrite.cluster.output.lock import output_lock
from pyrite.cluster.output.manifest import CONFIG, read_config, resume_command, write_config
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.terminal import print_lines
from pyrite.cluster.output.throttle import poll
from pyrite.cluster.telemetry.reading_line import reading_shown
from pyrite.cluster.telemetry.silence_line import silence_shown
from pyrite.cluster.telemetry.tracking.tracker import Tracker
from pyrite.cluster.telemetry.tracking.tracking import tracked, trackers
from pyrite.ranking.errors import BadInput

SHARE = 20
"""The pause before the next report, as a multiple of the time to write one."""
OF_INPUTS = ("collections", "read", "facts", "skipped")
"""Keys of `config.yaml` to which an experiment adds those of new inputs."""
_log = logging.getLogger(__name__)


def run_command(verb: Verb, chosen: argparse.Namespace, console: Console) -> int:
    """Run a verb of the command line, and return the exit code."""
    if (code := verb.before(chosen, console)) is not None:
        return code
    storage: Storage | None = None
    warm = verb.warm_up and chosen.from_shell
    try:
        with Processes.for_command(chosen.overrides, verb.warm_up) if warm else NO_PROCESSES as workers:
            experiment = read(verb, chosen.overrides, chosen.resume)
            storage, experiment.workers = experiment.storage, workers
            return 1 if conduct(experiment, console) else 0
    except KeyboardInterrupt as error:
        try:
            ignore_further_signals()
        except KeyboardInterrupt:  # Ctrl-C twice
            ignore_further_signals()
        if storage is not None:
            _print_stopped(verb, storage, console)
        return exit_code(error)


def _print_stopped(verb: Verb, storage: Storage, console: Console) -> None:
    """Print how to continue what was interrupted."""
    begun, recorded = storage.read(CONFIG) is not None, None
    with suppress(BadInput):  # the command that continues says what is wrong with it
        recorded = read_config(storage) if begun else None
    again = resume_command(verb.name, storage.place, recorded) if begun else "the same command again"
    print_lines(console, f"Stopped. To {'continue' if begun else 'start'}: {again}")


def conduct(experiment: Experiment, console: Console) -> int:
    """Run the work that is left of an experiment, and return the number of runs that failed for good."""
    storage = experiment.storage
    with ExitStack() as left:
        left.callback(experiment.joined.close)  # goes back to the working folder, also if the output folder is locked
        built = trackers(experiment.options.get("track", {}), experiment.trust)  # track=[] removes the group
        left.enter_context(output_lock(storage) if storage is not None else nullcontext())
        left.enter_context(from_folder(experiment.resumed))
        left.enter_context(experiment.joined)
        left.enter_context(silence_shown(console))
        with reading_shown(console):
            work = experiment.prepare(console)
        experiment.local = runs_here(experiment.options, work.load)
        if work.load.left and experiment.on_cluster and not experiment.local:
            experiment.join()
            check_nodes(storage, work.load.reads)
        with _removal_reported(storage), _recorded(experiment, work, built, console) as tracking:
            if work.load.left:
                with experiment.session(work.load, console), _renewed(experiment, work):
                    work.execute(console, tracking)
        return work.report(console)


def manifest(experiment: Experiment, work: Work) -> dict[str, Any]:
    """Return the content of `config.yaml` of a new experiment."""
    return {
        "verb": experiment.verb.name,
        "command": experiment.command,
        TYPED: list(experiment.typed),
        **work.content(),
        "overrides": experiment.plan.arguments,
        "collections": dict(work.inputs),
        "read": dict(work.read),
    }


def check_unchanged(experiment: Experiment, work: Work, before: dict[str, Any]) -> None:
    """Refuse to continue if the inputs are not those of the manifest; one that is added may be new."""
    known = before.get("collections") or {}
    for fingerprint, name in work.inputs.items():
        if fingerprint in known or (experiment.additions and name not in known.values()):
            continue
        how = work.difference(name, before)
        what = f"the {experiment.verb.input} {name} has changed since this {experiment.verb.noun} began"
        raise BadInput(what + (f": {how}" if how else ""), str(experiment.storage), "put it back, or start another")


def extended(experiment: Experiment, work: Work, before: dict[str, Any]) -> dict[str, Any] | None:
    """Return the new content of `config.yaml` if the command adds to the experiment; None if it does not."""
    if not experiment.additions or experiment.storage is None:
        return None
    now = manifest(experiment, work)
    added = {key: (before.get(key) or {}) | now.get(key, {}) for key in OF_INPUTS}
    again = shlex.join(["pyrite", experiment.verb.name, "--resume", experiment.storage.place, *experiment.additions])
    grown = {"overrides": now["overrides"], EXTENDED: [*before.get(EXTENDED, []), again]}
    return before | added | grown | work.extension(before)


def _recorded(
    experiment: Experiment, work: Work, built: Sequence[Tracker], console: Console
) -> AbstractContextManager[Any]:
    """Write the manifest of a new experiment, and return what tracks it: None if nothing is saved."""
    storage = experiment.storage
    if storage is None:
        return nullcontext()
    if resumed := storage.read(CONFIG) is not None:
        before = read_config(storage)
        check_unchanged(experiment, work, before)
        content = extended(experiment, work, before)
        if content is not None or experiment.moved != before.get(MOVED, {}):
            write_config(storage, (content or before) | {MOVED: dict(experiment.moved)})
    else:
        write_config(storage, {**manifest(experiment, work), STARTED_IN: os.getcwd()})
    return tracked(built, storage, console, experiment.verb.name, resumed, **work.load.facts)


@contextmanager
def _removal_reported(storage: Storage | None) -> Iterator[None]:
    """Report that the output folder was removed during the run, also if there is another folder now.

    What is in that one is left: it may be the user's, or of another command.
    """
    if storage is None or not storage.local:
        yield
        return
    root = storage.path("")
    before = os.stat(root).st_ino  # the lock is in it

    def removed() -> bool:
        gone = not os.path.exists(root)
        return gone or (os.stat(root).st_ino != before and storage.read(CONFIG) is None)

    try:
        yield
    except BadInput as error:
        if not removed():
            raise
        raise _removed(storage) from error
    if removed():
        raise _removed(storage)


def _removed(storage: Storage) -> BadInput:
    remedy = "delete what was written there since, or choose another out=, and give the command again"
    return BadInput("was removed during the run", storage.place, remedy)


@contextmanager
def _renewed(experiment: Experiment, work: Work) -> Iterator[None]:
    """Write the report again while an experiment runs, every `renew_every` seconds, for at most 5% of the time."""
    every = experiment.options.get("renew_every")
    if every is None or experiment.storage is None:
        yield
        return
    due = time.monotonic() + every

    def look() -> None:
        nonlocal due
        if time.monotonic() < due:
            return
        started = time.monotonic()
        try:
            work.renew()
        except Exception as error:  # a missing report is no reason to end the study
            _log.warning("the report could not be written (%s)", error)
        ended = time.monotonic()
        due = ended + max(every, SHARE * (ended - started))

    with poll(look, min(every, 5.0), at_the_end=False):
        yield
