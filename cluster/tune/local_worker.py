"""Trains runs in a process of its own for a study that needs no Ray: `python -m cluster.tune.local_worker DESCRIPTOR`.

The study's process starts it (`cluster.tune.local_workers`) and speaks to it over a pair of sockets. It says `READY`,
takes (run, storage, path) again and again, and answers with any number of reports and an end: None, or what was raised.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection

from cluster.own_process import portable

READY = "ready"


def serve(connection: Connection) -> None:
    """Run what comes, until the other end is closed."""
    with suppress(EOFError, ConnectionError):  # the study has ended, or needs no other process
        _serve(connection)


def _serve(connection: Connection) -> None:
    from cluster.runs.artifacts import Artifacts
    from cluster.tune.study_run import RunsHere

    _warm_up()
    connection.send(READY)
    runs = RunsHere(Artifacts())
    while True:
        run, storage, path = connection.recv()
        sys.path[:] = path  # a user's classes are found where the study finds them
        try:
            runs.execute(run, storage, lambda result: connection.send((True, result)))
            raised = None
        except ConnectionError:  # of the reports
            raise
        except Exception as error:
            raised = portable(error)
        connection.send((False, raised))


def _warm_up() -> None:
    """Have torch import what it imports at the first optimizer, a second's work."""
    import torch

    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it reaches the study too, which ends this process
    serve(Connection(int(sys.argv[1])))
