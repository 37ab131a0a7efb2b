"""Tests of `cluster.output.duration`."""

from __future__ import annotations

from cluster.output.duration import duration


def test_durations_by_hand() -> None:
    written = [duration(seconds) for seconds in (0, 45, 89.4, 90, 200, 7500)]
    assert written == ["0 s", "45 s", "89 s", "2 min", "3 min", "2 h 5 min"]
