"""Lists the limits and timeouts of processes, connections and calls."""

from __future__ import annotations

TASK_RESTARTS = 5
"""Lost processes that a task survives without progress. After that the task itself is the likely cause."""
WORKER_RESTARTS = 3
"""Restarts of a run's workers after one was lost. Nodes that are taken away on notice do not count."""
INDEX_RESTARTS = 3
"""How often one block, or one version's shards, are tried again after actors died; then the error is raised."""
RAY_STARTS = 3
"""Attempts at starting a local Ray."""

POLL_S = 0.5
"""Seconds between two looks at something that another process is doing."""
AFTER_LOSS_S = 0.5
"""Seconds to wait after the loss of a process, to see whether the command was stopped."""
RETRY_BACKOFF_S = (0.1, 2.0)
"""First and longest pause between two calls to an actor that is lost."""
WAIT_LINE_AFTER_S = 15.0
"""Seconds that work waits for a node of a size that the cluster does not have, before a line says so."""
WAIT_LINE_EVERY_S = 300.0
"""Seconds between two such lines."""
REACH_S = 60.0
"""Seconds that nodes have to show that they can write to the output folder."""
INPUTS_S = 60.0
"""Seconds that inputs may take from Ray's object store after a node was lost, before they are opened elsewhere."""
LOCK_RENEW_S = 10.0
"""Seconds between two renewals of a claim without a lock."""

ROOM_LOOK_S = 5.0
"""Seconds between two looks at how much room the cluster has."""
TRAINING_END_S = 5.0
"""Seconds that a training of the user's has to end in order, before it is killed."""
PARENT_LOOK_S = 0.5
"""Seconds between two looks of a process at whether its parent is alive."""
PROGRESS_EVERY_S = 5.0
"""Seconds between two reports within an epoch, and before the first estimate of the time left."""
LINE_EVERY_S = 30.0
"""Seconds between two lines without a terminal."""
READING_LINE_EVERY_S = 10
"""Seconds between two lines without a terminal while runs are read."""
TIMING_S = 8.0
"""Seconds after which the timing of a method's steps ends, whatever it has reached."""

PROBE_S = 5
"""Seconds that a cluster has to answer."""
CONNECT_TIMEOUT_S = 10
"""Seconds until a connection to a cluster, or to its job server, must exist."""
START_TIMEOUT_S = 60.0
"""Seconds to wait for a cluster that is starting."""
WORKER_TIMEOUT_S = 6 * 3600
"""Seconds that a worker waits for the others, one of which may wait for an index. Losses are noticed much sooner."""
SEARCH_TIMEOUT_S = 2.0
"""Seconds that a search waits for its version before the client checks that the actor has all publications."""
INDEX_CLOSE_TIMEOUT_S = 5.0
"""Seconds that the end of an index waits for actors to delete their files."""
DELETE_PAUSE_S = 0.1
"""Seconds between two attempts to delete the folder of an index at the end."""
TRACKER_CLOSE_TIMEOUT_S = 60.0
"""Seconds that the end of a command waits for a tracker that makes no progress."""

LOCAL_PROCESSES = 3
"""Processes of a study next to its own; each takes 300 MiB."""
MOST_AT_ONCE = 200
"""Runs with several workers at once, at most: as many as Ray Tune lets wait."""
MAX_SEARCHES = 16
"""Searches that an actor runs at once; others wait."""
MAX_PACKAGE_BYTES = 100 * 2**20
"""Ray's job server takes no larger package."""
