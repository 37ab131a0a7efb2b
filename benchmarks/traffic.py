"""Counts the bytes that nodes of a simulated cluster send each other, from the kernel's figures per connection."""

from __future__ import annotations

import re
import subprocess
import threading
from collections import Counter
from collections.abc import Mapping
from types import TracebackType

import psutil

EVERY = 0.3
"""Seconds between two looks."""
Ends = tuple[str, str]
"""A connection's own address and its peer's."""
_PROCESS, _SENT = re.compile(r"\bpid=(\d+)"), re.compile(r"\bbytes_sent:(\d+)")


def connections(said: str) -> dict[Ends, tuple[int, int]]:
    """Return each connection's process and the bytes sent so far, from the output of `ss -tnpiOH`."""
    found = {}
    for line in said.splitlines():
        words, process, sent = line.split(maxsplit=5), _PROCESS.search(line), _SENT.search(line)
        if process and len(words) > 4:
            found[_plain(words[3]), _plain(words[4])] = int(process[1]), int(sent[1]) if sent else 0
    return found


def _plain(address: str) -> str:
    """An address of IPv4 as the other end writes it, which may have another kind of socket."""
    return address.replace("[::ffff:", "").replace("]", "")


class Traffic:
    """Bytes that went from node to node since `clear`.

    Connections are looked at several times a second: what one sends between the last look and its end is missed.

    Args:
        processes: the node of each process that a node began with, by its id; those that they start belong to it.
        driver: the process of these that is counted by itself.

    Attributes:
        sent: bytes by (node, node), none from a node to itself.
        of_driver: bytes that the driver's process has sent to other nodes.
    """

    def __init__(self, processes: Mapping[int, int], driver: int) -> None:
        self.sent, self.of_driver = Counter[tuple[int, int]](), 0
        self._nodes, self._driver = dict[int, int | None](processes), driver
        self._before: dict[Ends, int] = {}
        self._looking, self._over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Traffic:
        self.clear()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def clear(self) -> None:
        """Begin to count at 0."""
        self.look()
        with self._looking:
            self.sent.clear()
            self.of_driver = 0

    def look(self) -> None:
        """Ask the kernel."""
        said = subprocess.run(["ss", "-tnpiOH"], check=True, capture_output=True, text=True).stdout
        with self._looking:
            self.add(connections(said))

    def add(self, found: Mapping[Ends, tuple[int, int]]) -> None:
        """Count what connections have sent since they were last seen; those to processes of no node are left out."""
        before = {}
        for (own, peer), (process, sent) in found.items():
            other = found.get((peer, own))
            if other is None:  # one end is being opened or closed
                if (own, peer) in self._before:
                    before[own, peer] = self._before[own, peer]
                continue
            before[own, peer] = sent
            here, there = self._node(process), self._node(other[0])
            last = self._before.get((own, peer), 0)
            more = sent - last if sent >= last else sent  # less: another connection of the same addresses
            if here is None or there is None or here == there or not more:
                continue
            self.sent[here, there] += more
            self.of_driver += more if process == self._driver else 0
        self._before = before

    def by_node(self) -> Counter[int]:
        """Bytes that each node has sent."""
        total = Counter[int]()
        for (node, _), count in self.sent.items():
            total[node] += count
        return total

    def _node(self, process: int) -> int | None:
        """Return the node that a process belongs to; None if it belongs to none."""
        if process not in self._nodes:
            try:
                parent = psutil.Process(process).ppid()
            except psutil.Error:
                return None
            self._nodes[process] = self._node(parent) if parent > 1 else None
        return self._nodes[process]

    def _watch(self) -> None:
        while not self._over.wait(EVERY):
            self.look()
