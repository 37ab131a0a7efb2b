"""Defines a verb that leaves a folder of results, as data: what it plans, prepares, runs and reports."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pyrite.ranking.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console

    from pyrite.cluster.commands.experiment import Experiment
    from pyrite.cluster.output.storage import Storage
    from pyrite.cluster.telemetry.tracking.tracking import Tracking
    from pyrite.ranking.collections.collection import Collection


class Plan(Protocol):
    """What a command will do, as its overrides request it."""

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
        inputs: names of its collections or pools, by their fingerprints.
        read: sentences about what was read and what was left out, by collection.
    """

    experiment: Experiment
    load: Load
    inputs: Mapping[str, str]
    read: Mapping[str, list[str]] = field(default_factory=dict)

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """Return what `config.yaml` says of this verb alone; called once, when the experiment starts."""

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


def inputs_of(collections: Iterable[Collection]) -> dict[str, str]:
    """Return the names of collections by their fingerprints."""
    return {collection.fingerprint: collection.name for collection in collections}


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
        without_ray: the option by which it does its work without Ray, for messages; None if there is none.
        continued: plans it again from its manifest; None plans it from the recorded overrides and the new ones.
        check_change: refuses an override that is given on resume and is not in `may_change`; one that it lets pass
            adds to the experiment.
        input: what its inputs are, for messages.
        same_folder: whether the same command goes on in its folder also without `--resume`.
    """

    name: str
    noun: str
    plan: Callable[[list[str]], Plan]
    prepare: Callable[[Experiment, Console], Work]
    may_change: Sequence[str]
    without_ray: str | None = None
    continued: Continue | None = None
    check_change: Callable[[Verb, str, str], None] = refuse_change
    input: str = "collection"
    same_folder: bool = False


def verb_named(name: str) -> Verb:
    """Return the verb of a name: `MINE` of `commands/mine.py`."""
    verb: Verb = getattr(importlib.import_module(f"pyrite.cluster.commands.{name}"), name.upper())
    return verb
