"""Tests of `run_command`; how groups end is tested with trainings (`tests/cluster/training/test_trainer_runs.py`)."""

import subprocess
import sys

import pytest

from pyrite.cluster.executors.process_end import run_command


def test_the_status_of_a_command_is_its_end():
    run_command([sys.executable, "-c", "pass"])
    with pytest.raises(subprocess.CalledProcessError, match="exit status 3"):
        run_command([sys.executable, "-c", "import sys; sys.exit(3)"])
    with pytest.raises(KeyboardInterrupt):
        run_command([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])
