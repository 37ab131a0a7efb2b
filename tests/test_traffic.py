"""Bytes between the nodes of a simulated cluster, from lines of `ss` that are made up here."""

from __future__ import annotations

import os

import pytest

from benchmarks import traffic
from benchmarks.traffic import Traffic, connections

HEAD, RAYLET, OTHER = 10, 20, 2**31 - 2
"""Processes: of node 0, the driver; of node 1; of nobody."""


def line(own: str, peer: str, process: int, sent: int) -> str:
    return f'ESTAB 0 0 {own} {peer} users:(("raylet",pid={process},fd=3)) bbr mss:1 bytes_sent:{sent} bytes_acked:1\n'


def test_a_line_of_ss_is_read() -> None:
    said = line("[::ffff:10.0.0.1]:5", "10.0.0.1:6", HEAD, 1450) + 'LISTEN 0 0 1:1 1:* users:(("x",pid=4,fd=1)) bbr\n'
    assert connections(said + "ESTAB 0 0 10.0.0.2:7 10.0.0.1:6\n") == {
        ("10.0.0.1:5", "10.0.0.1:6"): (HEAD, 1450),
        ("1:1", "1:*"): (4, 0),
    }


def test_bytes_are_added_up_by_node_and_those_before_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Traffic({HEAD: 0, RAYLET: 1}, HEAD)
    said = [""]
    monkeypatch.setattr(traffic.subprocess, "run", lambda *_, **__: type("Ran", (), {"stdout": said[0]}))

    def look(there: int, back: int, other: int) -> None:
        said[0] = line("a:1", "b:2", HEAD, there) + line("b:2", "a:1", RAYLET, back)
        said[0] += line("a:3", "c:4", HEAD, other) + line("c:4", "a:3", OTHER, other)
        counted.look()

    look(100, 10, 50)
    assert dict(counted.sent) == {(0, 1): 100, (1, 0): 10}
    counted.clear()
    look(130, 10, 90)
    assert (dict(counted.sent), counted.of_driver) == ({(0, 1): 30}, 30)
    look(7, 15, 90)  # the first is another connection, of the same addresses
    assert counted.by_node() == {0: 37, 1: 5}
    assert counted.of_driver == 37


def test_what_a_node_starts_belongs_to_it() -> None:
    assert Traffic({os.getppid(): 3}, 0)._node(os.getpid()) == 3
