"""Holds a command that is under way: its verb, its plan and the Ray that it uses."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from pyrite.cluster.commands.verb import Load, Plan, Verb, Work
from pyrite.cluster.config.override import key_of
from pyrite.cluster.config.quoting import override_of
from pyrite.cluster.config.trust import Trust
from pyrite.cluster.executors.address import is_cluster
from pyrite.cluster.executors.session import connected
from pyrite.cluster.executors.waiting import log_wait
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.plan.size import RAY_START
from pyrite.ranking.errors import BadInput

if TYPE_CHECKING:
    from pyrite.cluster.executors.processes import Processes
    from pyrite.cluster.runs.artifacts import Artifacts


@dataclass
class Experiment:
    """A command that leaves a folder of results, or none if its plan has no storage.

    Args:
        typed: its overrides as the user gave them; those of the first command if it continues from a folder.
        resumed: whether it continues from a folder, which may come from anywhere.
        moved: new paths of collections that were moved since it began, by the old ones.
        additions: overrides that add to what it began with.
        joined: what it leaves when it ends: Ray, and the working folder of the first command.
        workers: other processes that were started for it, if any.
        local: whether it runs without Ray; set once the work is known.
    """

    verb: Verb
    plan: Any
    typed: Sequence[str] = ()
    resumed: bool = False
    moved: Mapping[str, str] = field(default_factory=dict)
    additions: Sequence[str] = ()
    joined: ExitStack = field(default_factory=ExitStack)
    workers: Processes | None = None
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
        return shlex.join(["pyrite", self.verb.name, *self.typed, *out])

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
            from pyrite.cluster.runs.artifacts import Artifacts

            return Artifacts(note)
        from pyrite.cluster.runs.remote_artifacts import RemoteArtifacts

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
            from pyrite.cluster.executors.session import session

            self.joined.enter_context(session(self.options["address"], dashboard=False))

    @contextmanager
    def session(self, load: Load, console: Console) -> Iterator[None]:
        """Start or join the Ray session in which it runs, and whose object store holds the parts that runs share."""
        if self.local:
            yield
            return
        from pyrite.cluster.executors.object_store import check_store
        from pyrite.cluster.executors.session import session

        if self.workers is not None:
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
    if local is True and load.left and load.needs:
        raise BadInput(f"{load.needs} needs Ray", "local=true", "leave it out")
    if local != "auto":
        return bool(local)
    if ray_is_there(options["address"]) or load.needs is not None:
        return False
    return load.saved is not None and load.saved < RAY_START


def ray_is_there(address: str | None) -> bool:
    """Return whether this process is part of a running Ray, or one is named."""
    return is_cluster(address) or connected()
