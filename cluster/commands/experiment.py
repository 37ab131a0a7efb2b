"""Runs what leaves a folder of results, from arguments to report: the one lifecycle of study, train, learn and pool."""

from __future__ import annotations

import logging
import os
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

from rich.console import Console
from rich.markup import escape

from cluster.config.trust import from_folder
from cluster.executors.session import connected
from cluster.output.lock import output_lock
from cluster.output.manifest import CONFIG, read_config, read_config_of, refuse_taken, write_config
from cluster.output.storage import Storage
from cluster.output.throttle import poll
from cluster.plan.point import root_of
from cluster.plan.size import RAY_START
from cluster.telemetry.tracking.tracker import Tracker
from cluster.telemetry.tracking.tracking import Tracking, tracked, trackers
from ranking.errors import BadInput

if TYPE_CHECKING:
    from cluster.runs.artifacts import Artifacts
    from cluster.tune.local_workers import LocalWorkers
    from pooling.systems.inputs import Rerank

SHARE = 20
"""How many times longer than its making the pause before the next page is."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Work:
    """How much an experiment has to do, once all that it reads is prepared.

    Args:
        left: whether anything is still to be run.
        largest: bytes of the parts of its largest run, in Ray's object store.
        shared: bytes of the parts of all runs, each once.
        facts: for the event log.
        saved: seconds that Ray's processes on this machine's cores would save of what this one takes for it
            (`cluster.plan.size`); None where nobody knows.
        needs: what it wants of Ray, so that no other process will do; None where nothing.
    """

    left: bool
    largest: int = 0
    shared: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    saved: float | None = None
    needs: str | None = None


class Experiment(ABC):
    """A command that leaves a folder of results.

    `conduct` calls `prepare`, `manifest`, `execute` and `finalize`, in this order. A verb fills them in.

    Args:
        options: `address`, `dashboard` and `track`, and `local` where a verb can do without Ray.
        storage: the output folder; None where nothing is kept.
    """

    verb: ClassVar[str]
    may_change: ClassVar[tuple[str, ...]]
    """Options that it may be resumed with: no result depends on them."""
    resumed: bool = False
    """Whether it goes on with what a folder says, which may come from anywhere."""
    local: bool = False
    """Whether it runs in this process, without Ray; set once it is known what there is to do."""
    workers: LocalWorkers | None = None
    """Processes beside this one, where some were started for it."""

    def __init__(self, options: Mapping[str, Any], storage: Storage | None) -> None:
        self.options, self.storage = options, storage
        self.joined = ExitStack()

    @classmethod
    def read(cls, arguments: Sequence[str], resume: str | None = None) -> Self:
        """A new experiment from its overrides, or one to continue from its folder: this is how resume works.

        The experiment is planned again from `config.yaml`. `prepare` then leaves out finished results that were built
        from the same data and code (`output.result_store.ResultStore`). The others continue from their last state
        (`output.result_store.SavedState`), or begin.

        Raises:
            BadInput: where an override is wrong, or the folder holds another experiment, or none to continue.
        """
        if resume is None:
            experiment = cls.new(list(arguments))
            if experiment.storage is not None:
                refuse_taken(experiment.storage)
            return experiment
        for text in arguments:
            if root_of(text) not in cls.may_change:
                raise BadInput(f"{text} can't change what has begun", resume, "leave it out, or start another")
        storage = Storage(resume)
        with from_folder():
            experiment = cls.continued(list(arguments), read_config_of(cls.verb, storage), storage)
        experiment.resumed = True
        return experiment

    @classmethod
    @abstractmethod
    def new(cls, arguments: list[str]) -> Self:
        """An experiment from its overrides."""

    @classmethod
    @abstractmethod
    def continued(cls, arguments: list[str], saved: dict[str, Any], storage: Storage) -> Self:
        """An experiment from the manifest in its folder, with those of its options that are given anew."""

    @abstractmethod
    def prepare(self, console: Console) -> Work:
        """Read data, plan the runs and check them, before anything is written."""

    @abstractmethod
    def manifest(self) -> dict[str, Any]:
        """What `config.yaml` says of the experiment; called once, when it begins."""

    @abstractmethod
    def check_unchanged(self, before: dict[str, Any]) -> None:
        """See that what it reads is what it began with, as the manifest has it.

        Raises:
            BadInput: where it is not.
        """

    @abstractmethod
    def execute(self, console: Console, tracking: Tracking | None) -> None:
        """Run what is left, within the Ray session."""

    @abstractmethod
    def finalize(self, console: Console) -> int:
        """Write tables and report, and print them.

        Returns:
            How many runs have failed for good.
        """

    def renew(self) -> None:  # noqa: B027  not every verb has a page
        """Make the report of what is done so far; called now and then while it runs, from a thread of its own."""

    @property
    def on_cluster(self) -> bool:
        """Whether a Ray that is there already, or is named, is to do its work: then it makes its parts as well."""
        return self.options.get("local") is not True and ray_is_there(self.options["address"])

    def artifacts_of(self, console: Console, rerank: Rerank | None = None) -> Artifacts:
        """What makes its parts, and tells the console: tasks of a Ray that is there, or this process.

        Args:
            console: told what is being made.
            rerank: as `Artifacts` has it.
        """

        def note(line: str) -> None:
            console.print(f"[dim]{escape(line)} …[/]")

        if not self.on_cluster:
            from cluster.runs.artifacts import Artifacts

            return Artifacts(note, rerank)
        from cluster.runs.remote_artifacts import RemoteArtifacts

        return RemoteArtifacts(note, rerank, join=self.join)

    def join(self) -> None:
        """Connect to the Ray that is there, until the command ends; `session` finds it connected."""
        if not connected():
            from cluster.executors.session import session

            self.joined.enter_context(session(self.options["address"], dashboard=False))

    def session(self, work: Work, console: Console) -> AbstractContextManager[None]:
        """The Ray session in which it runs."""
        if self.local:
            return nullcontext()
        if self.workers is not None:
            self.workers.close()  # Ray has its own
        return ray_session(self.options["address"], self.options["dashboard"], work, console)


def conduct(experiment: Experiment, console: Console) -> int:
    """Run what is left of an experiment.

    Returns:
        How many of its runs have failed for good.

    Raises:
        BadInput: where an option or an input is wrong, or another process writes to the folder.
    """
    storage = experiment.storage
    built = trackers(experiment.options.get("track", {}))  # track=[] leaves nothing of the group
    locked = output_lock(storage) if storage is not None else nullcontext()
    with locked, from_folder(experiment.resumed), experiment.joined:
        work = experiment.prepare(console)
        experiment.local = runs_here(experiment.options, work)
        with _recorded(experiment, built, work, console) as tracking:
            if work.left:
                with experiment.session(work, console), _renewed(experiment):
                    experiment.execute(console, tracking)
        return experiment.finalize(console)


def runs_here(options: Mapping[str, Any], work: Work) -> bool:
    """Whether work is done in this process: where the user says so, or where Ray's start would take longer.

    A Ray that is there already, or is named, costs no start, and is used unless the user says otherwise.

    Args:
        options: `address` and `local`: true, false or auto.
        work: to be done.

    Raises:
        BadInput: where it must be done here and can't.
    """
    asked = options.get("local", False)
    if asked is True and work.left and work.needs:
        raise BadInput(f"{work.needs} can't do without Ray", "local=true", "leave it out")
    if asked != "auto":
        return bool(asked)
    if ray_is_there(options["address"]) or work.needs is not None:
        return False
    return work.saved is not None and work.saved < RAY_START


def ray_is_there(address: str | None) -> bool:
    """Whether a Ray runs already that this process is part of, or that is named."""
    return bool(address or os.environ.get("RAY_ADDRESS") or connected())


@contextmanager
def _recorded(
    experiment: Experiment, built: Sequence[Tracker], work: Work, console: Console
) -> Iterator[Tracking | None]:
    """Write the manifest of an experiment that begins, and follow it; nothing where nothing is kept."""
    storage = experiment.storage
    if storage is None:
        yield None
        return
    resumed = storage.read(CONFIG) is not None
    if resumed:
        experiment.check_unchanged(read_config(storage))
    else:
        write_config(storage, experiment.manifest())
    with tracked(built, storage, console, experiment.verb, resumed, **work.facts) as tracking:
        yield tracking


@contextmanager
def ray_session(address: str | None, dashboard: bool, work: Work, console: Console) -> Iterator[None]:
    """A Ray session whose object store holds what the runs share.

    Args:
        address: of a cluster; None starts a Ray on this machine, or uses RAY_ADDRESS.
        dashboard: whether a Ray that is started serves its dashboard.
        work: says how much is shared.
        console: told where the dashboard is, and what will be slow.
    """
    from cluster.executors.object_store import check_store
    from cluster.executors.session import session

    with session(address, dashboard, work.shared) as served:
        if served:
            console.print(f"[dim]Ray's dashboard: {served}[/]")
        check_store(work.largest, work.shared, lambda line: console.print(f"[dim]{line}[/]"))
        yield


@contextmanager
def _renewed(experiment: Experiment) -> Iterator[None]:
    """Renew the report while an experiment runs: every `renew_every` seconds, for a twentieth of the time at most."""
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
            experiment.renew()
        except Exception as error:  # a page of half a study is no reason to end it
            _log.warning("the report could not be renewed (%s)", error)
        ended = time.monotonic()
        due = ended + max(every, SHARE * (ended - started))

    with poll(look, min(every, 5.0), at_the_end=False):
        yield


def resume_command(experiment: Experiment) -> str | None:
    """What continues an experiment that was interrupted; None where nothing was kept."""
    if experiment.storage is None:
        return None
    return shlex.join(["pyrite", experiment.verb, "--resume", experiment.storage.place])
