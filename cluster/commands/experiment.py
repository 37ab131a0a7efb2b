"""Runs the commands that leave a folder of results, from arguments to report: the lifecycle of every such verb."""

from __future__ import annotations

import logging
import os
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, chdir, contextmanager, nullcontext
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from rich.console import Console
from rich.markup import escape

from pyrite.cluster.commands.first_folder import STARTED_IN, absolute, recorded_folder
from pyrite.cluster.config.aliases import quoted_baseline
from pyrite.cluster.config.override import key_of, root_of
from pyrite.cluster.config.quoting import quoted_path
from pyrite.cluster.config.relocated import KEY, moves, relocated
from pyrite.cluster.config.trust import Trust, check_classes, from_folder, named_classes, trusting
from pyrite.cluster.executors.address import is_cluster, is_foreign
from pyrite.cluster.executors.session import connected
from pyrite.cluster.executors.waiting import log_wait
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.lock import output_lock
from pyrite.cluster.output.manifest import CONFIG, read_config, read_config_of, refuse_taken, write_config
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.throttle import poll
from pyrite.cluster.plan.size import RAY_START
from pyrite.cluster.telemetry.reading_line import reading_shown
from pyrite.cluster.telemetry.tracking.tracker import Tracker
from pyrite.cluster.telemetry.tracking.tracking import Tracking, tracked, trackers
from pyrite.ranking.errors import BadInput

if TYPE_CHECKING:
    from pyrite.cluster.executors.processes import Processes
    from pyrite.cluster.runs.artifacts import Artifacts

MOVED = "moved"
"""Key in `config.yaml` of the new paths of collections, by the old ones."""
SHARE = 20
"""The pause before the next report, as a multiple of the time to write one."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Work:
    """The work of an experiment, once its inputs are prepared: whether any run is left, and what the runs take.

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


class Experiment(ABC):
    """A command that leaves a folder of results, or none if `storage` is None.

    `conduct` calls `prepare`, `manifest`, `execute` and `finalize`, in this order. A verb fills them in. Its options
    have `address`, `dashboard` and `track`, and `local` if the verb can run without Ray.
    """

    verb: ClassVar[str]
    may_change: ClassVar[tuple[str, ...]]
    """Options that may change on resume, because no result depends on them."""
    without_ray: str | None = None
    """The option by which the verb does its work without Ray, for messages; None if there is none."""
    moved: Mapping[str, str] = MappingProxyType({})
    """New paths of collections that were moved since it began, by the old ones."""
    resumed: bool = False
    """Whether it continues from a folder, which may come from anywhere."""
    local: bool = False
    """Whether it runs without Ray; set once the work is known."""
    workers: Processes | None = None
    """Other processes that were started for it, if any."""

    def __init__(self, options: Mapping[str, Any], storage: Storage | None) -> None:
        self.options, self.storage = options, storage
        self.joined = ExitStack()

    @classmethod
    def read(cls, arguments: Sequence[str], resume: str | None = None) -> Self:
        """Create an experiment from its overrides, or continue one from its folder.

        The experiment is planned again from `config.yaml`. `prepare` then leaves out finished results that were built
        from the same data and code (`output.result_store.ResultStore`). The others continue from their last state
        (`output.result_store.SavedState`), or start.
        """
        arguments = [quoted_baseline(quoted_path(text)) for text in arguments]
        if resume is None:
            experiment = cls.new(arguments)
            if experiment.storage is not None:
                refuse_taken(experiment.storage)
            return experiment
        return cls._resumed(arguments, resume)

    @classmethod
    def _resumed(cls, arguments: list[str], resume: str) -> Self:
        """Continue an experiment from its folder, which may come from anywhere."""
        storage = Storage(resume)
        saved = read_config_of(cls.verb, storage)
        typed, folder, started = named_classes(arguments), recorded_folder(saved), os.getcwd()
        with nullcontext() if folder is None else chdir(folder):
            moved = _moved(saved, cls._recorded(saved), absolute(arguments, started))
        arguments = [text for text in arguments if not cls._says_nothing_new(text, saved, moved)]
        for text in arguments:
            if root_of(text) not in cls.may_change:
                cls.check_change(text, resume)
        with ExitStack() as entered:
            entered.enter_context(relocated(moved))
            entered.enter_context(trusting(typed))  # recorded classes that are typed again
            check_classes(saved, "file")
            if folder is not None:
                storage = storage if "://" in resume else Storage(os.path.abspath(resume))
                arguments = absolute(arguments, started)
                entered.enter_context(chdir(folder))
            with from_folder():
                experiment = cls.continued(arguments, saved, storage)
            _refuse_foreign_cluster(experiment.options.get("address"), arguments, resume)
            experiment.joined.enter_context(entered.pop_all())
        experiment.resumed, experiment.moved = True, moved
        return experiment

    @classmethod
    def _recorded(cls, saved: Mapping[str, Any]) -> list[str]:
        """Return the overrides in a manifest."""
        lists = [texts for texts in (saved.get("overrides"), saved.get(cls.verb)) if isinstance(texts, list)]
        return [str(text) for texts in lists for text in texts]

    @classmethod
    def _says_nothing_new(cls, text: str, saved: Mapping[str, Any], moved: Mapping[str, str]) -> bool:
        """Return whether an override only trusts a class that is recorded, or names the new path of a collection."""
        return bool(named_classes([text]) and cls.is_recorded(text, saved)) or bool(moved and key_of(text) == KEY)

    @classmethod
    def is_recorded(cls, text: str, saved: Mapping[str, Any]) -> bool:
        """Return whether an override that is given on resume repeats one of the manifest."""
        return text in cls._recorded(saved)

    @classmethod
    def check_change(cls, text: str, folder: str) -> None:
        """Refuse an override that is given on resume and not in `may_change`."""
        changeable = ", ".join(sorted(cls.may_change)) or "nothing"
        remedy = f"leave it out, or start another; --resume may change {changeable}"
        raise BadInput(f"{text} can't change on resume", folder, remedy)

    def extended_manifest(self, before: dict[str, Any]) -> dict[str, Any] | None:
        """Return the new content of `config.yaml` if this command extends the experiment; None if it does not."""
        return None

    @classmethod
    @abstractmethod
    def new(cls, arguments: list[str]) -> Self:
        """Create an experiment from its overrides."""

    @classmethod
    @abstractmethod
    def continued(cls, arguments: list[str], saved: dict[str, Any], storage: Storage) -> Self:
        """Create an experiment from the manifest in its folder, with options that the user gives again."""

    @abstractmethod
    def prepare(self, console: Console) -> Work:
        """Read the data, plan the runs and check them, before anything is written."""

    @abstractmethod
    def manifest(self) -> dict[str, Any]:
        """Return the content of `config.yaml`; called once, when the experiment starts."""

    @abstractmethod
    def check_unchanged(self, before: dict[str, Any]) -> None:
        """Refuse to continue if the inputs are not those of the manifest."""

    @abstractmethod
    def execute(self, console: Console, tracking: Tracking) -> None:
        """Run the work that is left, within the Ray session."""

    @abstractmethod
    def finalize(self, console: Console) -> int:
        """Write tables and report, print them, and return the number of runs that failed for good."""

    def renew(self) -> None:  # noqa: B027  not every verb has a report
        """Write the report of the runs so far; called regularly from another thread while the experiment runs."""

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
            log_wait(line, note, events, verb=self.verb)

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
    def session(self, work: Work, console: Console) -> Iterator[None]:
        """Start or join the Ray session in which it runs, and whose object store holds the parts that runs share."""
        if self.local:
            yield
            return
        from pyrite.cluster.executors.object_store import check_store
        from pyrite.cluster.executors.session import session

        if self.workers is not None:
            self.workers.close()  # Ray starts processes itself
        without = None if work.needs else self.without_ray
        with session(self.options["address"], self.options["dashboard"], work.shared, without) as served:
            if served:
                console.print(f"[dim]Ray's dashboard: {served} (its token: ray get-auth-token)[/]", soft_wrap=True)
            check_store(work.largest, work.shared, lambda line: console.print(f"[dim]{escape(line)}[/]"))
            yield


def _moved(saved: Mapping[str, Any], recorded: Sequence[str], typed: Sequence[str]) -> dict[str, str]:
    """Return the new paths of collections, those of earlier commands included."""
    before = saved.get(MOVED)
    return {**(before if isinstance(before, dict) else {}), **moves(recorded, typed)}


def _refuse_foreign_cluster(address: str | None, arguments: Sequence[str], folder: str) -> None:
    """Refuse to join a cluster that only a folder names."""
    if is_foreign(address) and "address" not in map(key_of, arguments):
        what = f"the folder names a cluster, {address}, whose owner could make this machine run any code"
        raise BadInput(what, folder, f"if it is yours, give it again: address={address}")


def conduct(experiment: Experiment, console: Console) -> int:
    """Run the work that is left of an experiment, and return the number of runs that failed for good."""
    storage = experiment.storage
    with ExitStack() as left:
        left.callback(experiment.joined.close)  # goes back to the working folder, also if the output folder is locked
        built = trackers(experiment.options.get("track", {}), experiment.trust)  # track=[] removes the group
        left.enter_context(output_lock(storage) if storage is not None else nullcontext())
        left.enter_context(from_folder(experiment.resumed))
        left.enter_context(experiment.joined)
        with reading_shown(console):
            work = experiment.prepare(console)
        experiment.local = runs_here(experiment.options, work)
        if work.left and experiment.on_cluster and not experiment.local:
            from pyrite.cluster.executors.reach import check_nodes

            experiment.join()
            check_nodes(storage, work.reads)
        with _removal_reported(storage), _recorded(experiment, built, work, console) as tracking:
            if work.left:
                with experiment.session(work, console), _renewed(experiment):
                    experiment.execute(console, tracking)
        return experiment.finalize(console)


def runs_here(options: Mapping[str, Any], work: Work) -> bool:
    """Return whether work is done without Ray: if the user requests it, or starting Ray would take longer.

    A running or named Ray needs no start.
    """
    local = options.get("local", False)
    if local is True and work.left and work.needs:
        raise BadInput(f"{work.needs} needs Ray", "local=true", "leave it out")
    if local != "auto":
        return bool(local)
    if ray_is_there(options["address"]) or work.needs is not None:
        return False
    return work.saved is not None and work.saved < RAY_START


def ray_is_there(address: str | None) -> bool:
    """Return whether this process is part of a running Ray, or one is named."""
    return is_cluster(address) or connected()


def _recorded(
    experiment: Experiment, built: Sequence[Tracker], work: Work, console: Console
) -> AbstractContextManager[Any]:
    """Write the manifest of a new experiment, and return what tracks it: None if nothing is saved."""
    storage = experiment.storage
    if storage is None:
        return nullcontext()
    if resumed := storage.read(CONFIG) is not None:
        before = read_config(storage)
        experiment.check_unchanged(before)
        manifest = experiment.extended_manifest(before)
        if manifest is not None or experiment.moved != before.get(MOVED, {}):
            write_config(storage, (manifest or before) | {MOVED: dict(experiment.moved)})
    else:
        write_config(storage, {**experiment.manifest(), STARTED_IN: os.getcwd()})
    return tracked(built, storage, console, experiment.verb, resumed, **work.facts)


@contextmanager
def _removal_reported(storage: Storage | None) -> Iterator[None]:
    """Report that the output folder was removed during the run, and remove what was written into it since."""
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
    shutil.rmtree(storage.path(""), ignore_errors=True)  # made by this command since, without a configuration
    return BadInput("was removed during the run", storage.place, "give the command again")


@contextmanager
def _renewed(experiment: Experiment) -> Iterator[None]:
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
            experiment.renew()
        except Exception as error:  # a missing report is no reason to end the study
            _log.warning("the report could not be written (%s)", error)
        ended = time.monotonic()
        due = ended + max(every, SHARE * (ended - started))

    with poll(look, min(every, 5.0), at_the_end=False):
        yield
