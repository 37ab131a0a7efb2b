"""Stands for the process of a training, which never ends: it runs a command of two processes that name themselves."""

import sys
from functools import partial
from pathlib import Path

from pyrite.cluster.executors.process_end import run_command, run_ending

HANGS = """
import os, signal, sys, time
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
kind = "command" if os.fork() else "child"
open(f"{sys.argv[1]}/{kind}-{os.getppid()}-{os.getpid()}", "w").close()
time.sleep(600)
"""

if __name__ == "__main__":
    folder, parent = Path(sys.argv[1]), int(sys.argv[2])
    words = sys.stdin.buffer.read().decode().split()  # in place of a request
    run_ending(partial(run_command, [sys.executable, "-c", HANGS, *words]), folder, parent)
