"""Limits on waiting and retrying, in one place. Times are in seconds."""

from __future__ import annotations

MAX_RESTARTS = 5
"""Lost processes in a row that a task survives without progress. After that the task itself is the likely cause."""
CLOSE_TIMEOUT_S = 5.0
"""Time that an actor has to flush its last metrics before it is ended."""
POLL_S = 0.5
"""Pause between two looks at something that another process is doing."""
RETRY_BACKOFF_S = (0.1, 2.0)
"""First and longest pause before a lost actor is called again; the pause doubles in between."""
DEAD_AFTER_S = 2.0
"""Time without an answer after which an actor counts as lost until it answers again."""
