"""Reports work that waits for what no node of the cluster has.

Ray waits too, since clusters may grow, and reports nothing to a driver that does not print the logs of its workers.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyrite.cluster.executors.nodes import alive_nodes
from pyrite.cluster.executors.resources import amounts, fits, taken, total
from pyrite.cluster.lazy import ray
from pyrite.cluster.limits import ROOM_LOOK_S, WAIT_LINE_AFTER_S, WAIT_LINE_EVERY_S
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.throttle import poll

WAITS, CONTINUES = "waiting", "continues"
"""Events of the log: work waits for a node, and no longer waits."""
ROOM = "the cluster has room now, and the work continues"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ask:
    """The resources of a cluster that work takes: each bundle of one node. The name begins a sentence, as "a run"."""

    name: str
    bundles: tuple[Mapping[str, float], ...]

    @property
    def needs(self) -> str:
        """Return all that it takes, in words."""
        return amounts(taken(total(self.bundles)))

    def lack(self, nodes: Sequence[Mapping[str, float]]) -> str | None:
        """Return a sentence if no nodes of this size could run it, busy or not; None otherwise."""
        for bundle in self.bundles:
            if not any(fits(bundle, node) for node in nodes):
                largest = max(nodes, key=partial(_share, taken(bundle)), default={})
                return self._sentence("a node", bundle, "the largest node has", largest)
        whole, together = total(self.bundles), total(nodes)
        if fits(whole, together):
            return None
        return self._sentence("nodes", whole, f"all {len(nodes)} nodes together have", together)

    def _sentence(self, what: str, wanted: Mapping[str, float], whose: str, present: Mapping[str, float]) -> str:
        wanted = taken(wanted)
        has = amounts({kind: present.get(kind, 0) for kind in wanted})
        missing = f"{self.name} waits for {what} that the cluster does not have"
        return f"{missing}: it asks for {amounts(wanted)}, and {whose} {has}"


def _share(wanted: Mapping[str, float], node: Mapping[str, float]) -> list[float]:
    """Return which share of each resource a node has, the smallest first."""
    return sorted(min(node.get(kind, 0) / amount, 1) for kind, amount in wanted.items())


class Waits:
    """Reports soon, and then every few minutes, what work waits for.

    Args:
        say: called with a line, and with None once there is room.
    """

    def __init__(self, say: Callable[[str | None], object], clock: Callable[[], float] = time.monotonic) -> None:
        self.say, self.clock = say, clock
        self._due: dict[str, float] = {}
        self._said = False

    def look(self, asks: Iterable[Ask], nodes: Sequence[Mapping[str, float]]) -> None:
        """Compare what work asks for with nodes."""
        lacks = {str(ask): lack for ask in asks if (lack := ask.lack(nodes)) is not None}
        now = self.clock()
        self._due = {key: self._due.get(key, now + WAIT_LINE_AFTER_S) for key in lacks}
        for key, lack in lacks.items():
            if now >= self._due[key]:
                self._due[key] = now + WAIT_LINE_EVERY_S
                self._said = True
                self.say(lack)
        if self._said and not lacks:
            self._said = False
            self.say(None)


def log_wait(line: str | None, show: Callable[[str], object], events: EventLog | None, **facts: Any) -> None:
    """Show that work waits, or no longer waits (None), and log the event."""
    says = ROOM if line is None else line
    show(says)
    if events is not None:
        events.emit(CONTINUES if line is None else WAITS, says=says, **facts)
        events.flush()


def nodes_alive() -> list[dict[str, float]]:
    """Return the resources of each node that is alive."""
    return [node["Resources"] for node in alive_nodes()]


@contextmanager
def waits_said(asks: Callable[[], Iterable[Ask]], say: Callable[[str | None], object]) -> Iterator[None]:
    """Compare what work asks for with the nodes of the cluster until the context ends, in a separate thread."""
    waits = Waits(say)

    def look() -> None:
        try:
            waits.look(asks(), nodes_alive())
        except Exception as error:  # a head that is restarting
            _log.debug("the nodes are not known (%s)", error)

    with poll(look, ROOM_LOOK_S, at_the_end=False):
        yield


def forward_ray_events(warn: Callable[[str], object], clock: Callable[[], float] = time.monotonic) -> None:
    """Call a function with what Ray itself reports of the cluster's size, instead of printing logs of all workers.

    These are the autoscaler's lines: resources that no type of node has, nodes that are added or fail. Ray repeats some
    every minute; here a line comes again after a few minutes.
    """
    due: dict[str, float] = {}

    def on_lines(data: Mapping[str, Any]) -> None:
        if data.get("pid") == "autoscaler":
            for line in ray._private.worker.filter_autoscaler_events(data.get("lines", [])):
                if not line.startswith("Tip:") and clock() >= due.get(line, 0):
                    due[line] = clock() + WAIT_LINE_EVERY_S
                    warn(f"Ray: {line.strip()}")

    for name in ("ray_print_logs", "pyrite"):
        ray._private.ray_logging.global_worker_stdstream_dispatcher.remove_handler(name)
    ray._private.ray_logging.global_worker_stdstream_dispatcher.add_handler("pyrite", on_lines)
