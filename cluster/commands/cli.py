"""Reads the command line and runs its verb. Heavy libraries are imported where a verb needs them."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, NoReturn

from cluster.commands import submit as jobs
from cluster.commands.arguments import parser
from cluster.config.extras import missing_extra
from cluster.tune.local_workers import LocalWorkers
from ranking.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console

    from cluster.commands.experiment import Experiment

INTERRUPTED = 130
REMOVED = {
    "jobs": "`ray job list`",
    "logs": "`ray job logs --follow ID`",
    "stop": "`ray job stop ID`",
    "dashboard": "Ray's `ray metrics launch-prometheus`, or Debian's prometheus as docs/guide/watching.md says",
}
"""Verbs that are no more, and what takes their place."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command; exit code 0 for success, 1 for runs that failed, 2 for bad input, 130 for Ctrl-C."""
    jobs.listen()
    verb = next(iter(sys.argv[1:] if arguments is None else arguments), None)
    if verb in REMOVED:
        print(f"pyrite: there is no verb {verb} any more: use {REMOVED[verb]}", file=sys.stderr)
        sys.exit(2)
    known = parser()
    chosen, more = known.parse_known_args(arguments)
    if any(text.startswith("-") for text in more) or (more and not hasattr(chosen, "overrides")):
        known.error(f"unrecognized arguments: {' '.join(more)}")
    if more:  # overrides that stand behind an option
        chosen.overrides += more
    try:
        if chosen.verb == "study" and arguments is None and not chosen.power:  # a process for this command alone
            with closing(LocalWorkers.foreseen(chosen.overrides)) as workers:
                sys.exit(_run(chosen, workers))
        sys.exit(_run(chosen))
    except BadInput as error:
        print(f"pyrite: {error}", file=sys.stderr)
        sys.exit(2)
    except ModuleNotFoundError as error:
        refused = missing_extra(error)
        if refused is None:
            raise
        print(f"pyrite: {refused}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("pyrite: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader of a pipe had enough
        sys.stderr.close()
        sys.exit(0)


def _baseline(overrides: Sequence[str]) -> str | None:
    """The one thing that the report of a pooling study may be told."""
    for text in overrides:
        if not text.startswith("baseline="):
            raise BadInput(f"{text} can't change a report", remedy="give baseline=METHOD alone")
    return overrides[-1].removeprefix("baseline=") if overrides else None


def _quoted(override: str) -> str:
    """A study's baseline is a line of key=value pairs: one text to Hydra, in the quotes that the shell has eaten."""
    key, _, value = override.partition("=")
    return f"{key}='{value}'" if key == "baseline" and "=" in value and value[0] not in "'\"" else override


def named_checkpoint(trained: str) -> str:
    """The ranker that stands alone on a command line, as an override.

    Raises:
        BadInput: where an option stands in its place.
    """
    if re.match(r"[+~]*[\w.]+=", trained) and not os.path.exists(trained):
        raise BadInput("there is no ranker to rank with", trained, "name it first: pyrite rank RANKER key=value …")
    return "checkpoint='" + trained.replace("'", "\\'") + "'"


def _run(chosen: argparse.Namespace, workers: LocalWorkers | None = None) -> int:
    if chosen.verb == "audit":  # folders of studies may stand by themselves
        folders = [text for text in chosen.overrides if "=" not in text]
        chosen.overrides = [text for text in chosen.overrides if "=" in text]
        chosen.overrides += [f"studies=[{','.join(folders)}]"] if folders else []
    if getattr(chosen, "relabel", None):
        chosen.overrides.append(f"relabel={chosen.relabel}")
    if getattr(chosen, "run", None):
        chosen.overrides.insert(0, chosen.run if "=" in chosen.run else f"run='{chosen.run}'")
    for override in getattr(chosen, "overrides", []):
        if "=" not in override and not override.startswith("~"):
            raise BadInput(f"{override!r} is not an override", remedy="write key=value")
    if hasattr(chosen, "overrides"):
        chosen.overrides = [_quoted(override) for override in chosen.overrides]
    from rich.console import Console

    console = Console(highlight=False)
    if chosen.verb == "submit":
        return jobs.run(chosen, console)
    if chosen.verb == "options":
        from cluster.config.show import show

        show(chosen.overrides, console, chosen.of or "config")
        return 0
    if chosen.verb == "watch":
        from cluster.commands.watch import watch

        return watch(chosen.out, console)
    if chosen.verb == "judge":
        from cluster.commands.judge import judge, write_qrels

        if chosen.export:
            write_qrels(chosen.overrides, chosen.export, console)
        else:
            judge(chosen.overrides, console)
        return 0
    if chosen.verb == "rank":
        from cluster.commands.rank import rank

        rank([*chosen.overrides, named_checkpoint(chosen.trained)], console)
        return 0
    if chosen.verb == "audit":
        from cluster.commands.audit import audit

        audit(chosen.overrides, console)
        return 0
    if chosen.verb == "report":
        from cluster.config.compose import compose
        from cluster.output.manifest import read_config
        from cluster.output.storage import Storage
        from cluster.reports import pool_finalize as of_pools
        from cluster.reports.finalize import report

        storage = Storage(chosen.out)
        if "pools" in read_config(storage):
            of_pools.report(storage, console, _baseline(chosen.overrides))
        else:
            told = compose(chosen.overrides, "study")
            report(storage, console, told["baseline"], told["factors"], told["contrasts"])
        return 0
    if getattr(chosen, "power", None):
        from cluster.output.storage import Storage
        from cluster.reports.finalize import show_power

        if chosen.overrides or chosen.resume:
            raise BadInput("--power runs nothing", remedy="give it the folder of a study alone")
        show_power(Storage(chosen.power), console)
        return 0
    return run_experiment(chosen.verb, chosen.overrides, getattr(chosen, "resume", None), console, workers)


def run_experiment(
    verb: str, overrides: Sequence[str], resume: str | None, console: Console, workers: LocalWorkers | None = None
) -> int:
    """Run a study, a training, a learning or a pooling study.

    Args:
        verb: which.
        overrides: of the verb.
        resume: a folder to go on with.
        console: where progress and table are shown.
        workers: processes that a study may use that needs no Ray.

    Returns:
        The exit code.
    """
    from cluster.commands.experiment import conduct, resume_command

    experiment = kind_of(verb).read(overrides, resume)
    experiment.workers = workers
    try:
        return 1 if conduct(experiment, console) else 0
    except KeyboardInterrupt:
        again = resume_command(experiment)
        if again is not None:
            console.print(f"interrupted; go on with: {again}", soft_wrap=True, markup=False)
        return INTERRUPTED


def kind_of(verb: str) -> type[Experiment]:
    """What a verb runs."""
    if verb == "study":
        from cluster.commands.study import StudyExperiment

        return StudyExperiment
    if verb == "train":
        from cluster.commands.train import TrainExperiment

        return TrainExperiment
    if verb == "learn":
        from cluster.commands.learn import LearnExperiment

        return LearnExperiment
    if verb == "fork":
        from cluster.commands.fork import ForkExperiment

        return ForkExperiment
    if verb == "mine":
        from cluster.commands.mine import MineExperiment

        return MineExperiment
    from cluster.commands.pool import PoolExperiment

    return PoolExperiment
