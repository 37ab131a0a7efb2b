"""Defines a verb that leaves a folder of results as data, and a command of such a verb that is under way."""

from __future__ import annotations

import argparse
import importlib
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console
from rich.markup import escape

from pyrite.cluster.config.override import key_of
from pyrite.cluster.config.quoting import override_of
from pyrite.cluster.config.trust import Trust
from pyrite.cluster.executors.address import is_cluster
from pyrite.cluster.executors.object_store import check_store
from pyrite.cluster.executors.processes import NO_PROCESSES, Processes
from pyrite.cluster.executors.session import connected, session
from pyrite.cluster.executors.waiting import log_wait
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.plan.size import RAY_START
from pyrite.cluster.runs import what_was_read
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.remote_artifacts import RemoteArtifacts
from pyrite.ranking.errors import BadInput, refuse

if TYPE_CHECKING:
    from pyrite.cluster.telemetry.tracking.tracking import Tracking
    from pyrite.ranking.collections.collection import Collection


class Plan(Protocol):
    """The work that a command will do, as its overrides request it."""

    @property
    def options(self) -> Mapping[str, Any]:
        """`address`, `dashboard` and `track`, `local` if it can run without Ray, and others of the verb."""

    @property
    def arguments(self) -> list[str]:
        """The overrides from which it is planned again, as `config.yaml` keeps them."""

    @property
    def storage(self) -> Storage | None:
        """The output folder; None if it writes none."""


@dataclass(frozen=True)
class Load:
    """Whether any run of an experiment is left, and what the runs take.

    Args:
        largest: bytes of the parts of its largest run, in Ray's object store; `shared` those of all runs, each once.
        facts: facts for the event log.
        saved: seconds that Ray's processes on this machine would save (`pyrite.cluster.plan.size`); None if unknown.
        needs: a feature that only Ray has; None if there is none.
        reads: files and folders of this machine that the nodes of a cluster read too.
    """

    left: bool
    largest: int = 0
    shared: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    saved: float | None = None
    needs: str | None = None
    reads: Sequence[str] = ()


@dataclass(kw_only=True)
class Work(ABC):
    """The prepared work of an experiment: `conduct` calls `execute` if any is left, and then `report`.

    Args:
        used: its collections, each with a configuration by which it is used.
    """

    experiment: Experiment
    load: Load
    used: Sequence[tuple[Collection, Mapping[str, Any]]] = ()

    @property
    def inputs(self) -> Mapping[str, str]:
        """The names of its collections or pools, by their fingerprints."""
        return {collection.fingerprint: collection.name for collection, _ in self.used}

    @cached_property
    def read(self) -> dict[str, list[str]]:
        """Sentences about what was read and what was left out, by collection."""
        return what_was_read.sentences(self.used)

    @property
    def read_lines(self) -> list[str]:
        """These sentences."""
        return [*chain(*self.read.values())]

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """Return the entries of `config.yaml` that only this verb has; called once, when the experiment starts."""

    @abstractmethod
    def execute(self, console: Console, tracking: Tracking) -> None:
        """Run the work that is left, within the Ray session."""

    @abstractmethod
    def report(self, console: Console) -> int:
        """Write tables and report, print them, and return the number of runs that failed for good."""

    def renew(self) -> None:  # noqa: B027  not every verb has a report
        """Write the report of the runs so far; called regularly from another thread while the experiment runs."""

    def difference(self, name: str, before: Mapping[str, Any]) -> str:
        """Return how an input differs from that of the manifest, if that is known."""
        return ""

    def extension(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """Return the new content of `config.yaml` if the command adds to the experiment."""
        return {}


def refuse_change(verb: Verb, text: str, folder: str) -> None:
    """Refuse an override that is given on resume."""
    changeable = ", ".join(sorted(verb.may_change)) or "nothing"
    remedy = f"leave it out, or start another; --resume may change {changeable}"
    raise BadInput(f"{text} can't change on resume", folder, remedy)


Continue = Callable[[list[str], dict[str, Any], "Storage"], Plan]
"""Plans an experiment again from options that are given again, its manifest and its folder."""


@dataclass(frozen=True)
class Verb:
    """A verb that leaves a folder of results. `commands.conduct` is the life cycle of all of them.

    Args:
        name: the word on the command line.
        noun: what it leaves, for messages.
        plan: plans it from overrides, and refuses wrong ones.
        prepare: reads the data, plans the runs and checks them; it writes nothing.
        may_change: options that may change on resume, because no result depends on them.
        recorded: those of `may_change` that `config.yaml` keeps if the command also adds to the experiment.
        without_ray: the option by which it does its work without Ray, for messages; None if there is none.
        continued: plans it again from its manifest; None plans it from the recorded overrides and the new ones.
        check_change: refuses an override that is given on resume and is not in `may_change`; one that it lets pass
            adds to the experiment.
        input: what its inputs are, for messages.
        same_folder: whether the same command continues in its folder also without `--resume`.
        warm_up: what other processes import while this one prepares a command of a shell; empty starts none.
        before: looks at the command line first; returns an exit code if nothing else is to be done.
    """

    name: str
    noun: str
    plan: Callable[[list[str]], Plan]
    prepare: Callable[[Experiment, Console], Work]
    may_change: Sequence[str]
    recorded: Sequence[str] = ()
    without_ray: str | None = None
    continued: Continue | None = None
    check_change: Callable[[Verb, str, str], None] = refuse_change
    input: str = "collection"
    same_folder: bool = False
    warm_up: str = ""
    before: Callable[[argparse.Namespace, Console], int | None] = lambda chosen, console: None


def verb_named(name: str) -> Verb:
    """Return the verb of a name: `MINE` of `commands/mine.py`."""
    verb: Verb = getattr(importlib.import_module(f"pyrite.cluster.commands.{name}"), name.upper())
    return verb


@dataclass
class Experiment:
    """A command that leaves a folder of results, or none if its plan has no storage.

    Args:
        typed: its overrides as the user gave them; those of the first command if it continues from a folder.
        chosen: overrides for what this machine chose, so that its command gives the same elsewhere.
        resumed: whether it continues from a folder, which may come from anywhere.
        moved: new paths of collections that were moved since it began, by the old ones.
        additions: overrides that add to what it began with, and those given with them that are recorded too.
        joined: what it leaves when it ends: Ray, and the working folder of the first command.
        workers: other processes that were started for it, if any.
        local: whether it runs without Ray; set once the work is known.
    """

    verb: Verb
    plan: Any
    typed: Sequence[str] = ()
    chosen: Sequence[str] = ()
    resumed: bool = False
    moved: Mapping[str, str] = field(default_factory=dict)
    additions: Sequence[str] = ()
    joined: ExitStack = field(default_factory=ExitStack)
    workers: Processes = NO_PROCESSES
    local: bool = False

    @property
    def storage(self) -> Storage | None:
        """The output folder."""
        plan: Plan = self.plan
        return plan.storage

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of its verb."""
        plan: Plan = self.plan
        return plan.options

    @property
    def command(self) -> str:
        """The command that starts it, to be copied."""
        out = (
            [] if self.storage is None or "out" in map(key_of, self.typed) else [override_of("out", self.storage.place)]
        )
        return shlex.join(["pyrite", self.verb.name, *self.typed, *self.chosen, *out])

    def prepare(self, console: Console) -> Work:
        """Read the data, plan the runs and check them, before anything is written."""
        return self.verb.prepare(self, console)

    @property
    def on_cluster(self) -> bool:
        """Whether a running or named Ray does the work; it then builds the parts too."""
        return self.options.get("local") is not True and ray_is_there(self.options["address"])

    def artifacts_of(self, console: Console) -> Artifacts:
        """Return the builder of its parts: tasks of a running Ray, or this process."""

        def note(line: str) -> None:
            console.print(f"[dim]{escape(line)} …[/]")

        if not self.on_cluster:
            return Artifacts(note)

        def on_wait(line: str | None) -> None:
            events = None if self.storage is None else EventLog(self.storage)
            log_wait(line, note, events, verb=self.verb.name)

        return RemoteArtifacts(note, join=self.join, on_wait=on_wait)

    @property
    def trust(self) -> Trust:
        """The origin of its options."""
        return "file" if self.resumed else "user"

    def join(self) -> None:
        """Connect to the running Ray until the command ends; `session` then finds it connected."""
        if not connected():
            self.joined.enter_context(session(self.options["address"], dashboard=False))

    @contextmanager
    def session(self, load: Load, console: Console) -> Iterator[None]:
        """Start or join the Ray session in which it runs, and whose object store holds the parts that runs share."""
        if self.local:
            yield
            return

        self.workers.close()  # Ray starts processes itself
        without = None if load.needs else self.verb.without_ray
        with session(self.options["address"], self.options["dashboard"], load.shared, without) as served:
            if served:
                console.print(f"[dim]Ray's dashboard: {served} (its token: ray get-auth-token)[/]", soft_wrap=True)
            check_store(load.largest, load.shared, lambda line: console.print(f"[dim]{escape(line)}[/]"))
            yield


def runs_here(options: Mapping[str, Any], load: Load) -> bool:
    """Return whether work is done without Ray: if the user requests it, or starting Ray would take longer.

    A running or named Ray needs no start.
    """
    local = options.get("local", False)
    refuse(local is True and load.left and load.needs, f"{load.needs} needs Ray", "local=true", "leave it out")
    if local != "auto":
        return bool(local)
    if ray_is_there(options["address"]) or load.needs is not None:
        return False
    return load.saved is not None and load.saved < RAY_START


def ray_is_there(address: str | None) -> bool:
    """Return whether this process is part of a running Ray, or one is named."""
    return is_cluster(address) or connected()
