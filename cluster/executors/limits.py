"""Limits of executors on waiting and retrying."""

from __future__ import annotations

MAX_RESTARTS = 5
"""Lost processes in a row that a task survives without progress. After that the task itself is the likely cause."""
POLL_S = 0.5
"""Seconds between two looks at something that another process is doing."""
