"""Runs a training function or command of the user's in a separate process, as a run of a study."""

from __future__ import annotations

import logging
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyrite.cluster.config.trainer_option import is_command, trains_elsewhere
from pyrite.cluster.executors.process_end import INTERRUPTED, end_group
from pyrite.cluster.executors.processes import ProcessLost
from pyrite.cluster.executors.resources import GB
from pyrite.cluster.executors.task import TaskFailed
from pyrite.cluster.lazy import ray
from pyrite.cluster.limits import POLL_S
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.plan.sweep import Planned, identity
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.outcome import AGAIN, Outcome, read_outcome
from pyrite.cluster.runs.progress import Progress
from pyrite.ranking.checkpoint import from_bytes
from pyrite.ranking.errors import refuse

_log = logging.getLogger(__name__)
BODY = "pyrite.torch.train_process"
BEGUN = Progress(0, 1, 0, 1, 0.0, math.nan, batches=1)
"""What is reported of a training while it runs: a report ends it if its command has ended."""
SHOWN = 1 << 16
"""Bytes, of what a failed training printed, that are logged."""
STATE = 4
"""Copies of the weights that a run has on disk: those that it leaves and, in a saved state, three."""


def repetitions(runs: Sequence[Planned]) -> list[Planned]:
    """Return the first run of a training of the user's once more, by another name, if seeds are compared.

    What differs between the two is not the seed's.
    """
    theirs = [planned for planned in runs if trains_elsewhere(planned.config)]
    several = len({planned.config["seed"] for planned in theirs}) > 1
    return [replace(theirs[0], name=f"{theirs[0].name}{AGAIN}")] if several else []


def disk_line(runs: Sequence[Planned]) -> list[str]:
    """Return the line that estimates the disk for the temporary folders of trainings of the user's; none without any.

    A run is counted with the weights that it leaves and a state of its training in `data.scratch`, which holds the
    weights and the two moments of Adam.
    """
    theirs = [planned.config["ranker"].get("checkpoint") for planned in runs if trains_elsewhere(planned.config)]
    if not theirs:
        return []
    place = tempfile.gettempdir()
    line = f"disk: each run has a folder in {place} for its scratch and weights until it is measured"
    sizes = [size_of(Path(str(folder))) for folder in {*theirs} if folder and Path(str(folder)).is_dir()]
    if sizes:
        each = max(sizes) * STATE
        free = shutil.disk_usage(place).free / GB
        line += f": about {each / GB:.2g} GB by its checkpoint with one saved state, {free:.3g} GB free"
    return [line]


def warn_of_unread(runs: Sequence[Planned], storage: Storage) -> None:
    """Log how many runs of a training function read nothing of `data.negatives`, if any did so."""
    theirs = [each for each in runs if trains_elsewhere(each.config) and not is_command(each.config["trainer"]["run"])]
    outcomes = [read_outcome(storage, each.name) for each in theirs]
    unread = sum(outcome is not None and not outcome.documents_read for outcome in outcomes)
    if unread:
        line = "%d of %d runs read nothing of data.negatives, in which methods differ: attach it, or iterate over it"
        _log.warning(line, unread, len(theirs))


def size_of(folder: Path) -> int:
    """Return the bytes of a folder's files."""
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file())


class SeedsAct:
    """Sees that the runs of one method with different seeds leave different weights."""

    def __init__(self) -> None:
        self._seeds: dict[tuple[str, str], int] = {}

    def check(self, config: Mapping[str, Any], learned: str | None) -> None:
        """Raise `BadInput` if a finished run's weights are those of another seed; `learned` is their digest."""
        if not learned:
            return
        method, seed = identity({**config, "seed": 0}), int(config["seed"])
        other = self._seeds.setdefault((method, learned), seed)
        what = f"seeds {min(seed, other)} and {max(seed, other)} left equal weights, so the seed does not act"
        remedy = "give it to the trainer's arguments, as seed=seed; or compare with seeds=1"
        refuse(other != seed, what, f"trainer={config['trainer']['run']}", remedy)


def run_trainer(
    config: dict[str, Any],
    parts: dict[str, Any],
    on_progress: Any,
    state: object,
    save_every: float,
    watch: Mapping[str, str] | None = None,
    name: str = "run",
) -> Outcome:
    """Train and measure once, in a separate process. The arguments are those of `pyrite.cluster.runs.execute.run`.

    The process leads its group, in which its command is too, so that only this process decides when they end. It ends
    the group, and deletes the folder, if this process is killed.

    Args:
        on_progress: called every `POLL_S` seconds. What it raises ends the training.

    Raises:
        TaskFailed: if the function raised, exited or left nothing, with what it printed as a note.
        ProcessLost: the same, if a signal ended its process.
    """
    with tempfile.TemporaryDirectory(prefix="pyrite-run-", ignore_cleanup_errors=True) as folder:
        outcome, log = Path(folder) / "outcome.safetensors", Path(folder) / "log.txt"
        request = {
            "config": config,
            "parts": parts,
            "collection": Artifacts().collection(config),
            "outcome": str(outcome),
        }
        group = {} if watch is None else {"WANDB_RUN_GROUP": watch["study"]}
        request["environment"] = {"WANDB_NAME": name, **group}
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with log.open("wb") as printed:
            process = subprocess.Popen(
                [sys.executable, "-m", BODY, folder, str(os.getpid())], stdin=subprocess.PIPE, stdout=printed,
                stderr=printed, env=environment, start_new_session=True,
            )  # fmt: skip
            try:
                content = ray.cloudpickle.dumps(request)
                training = threading.Thread(target=process.communicate, args=[content], name="training", daemon=True)
                training.start()
                while training.is_alive():
                    on_progress(BEGUN)
                    training.join(POLL_S)
            finally:
                end_group(process.pid, process.wait)
        if not outcome.is_file():
            raise _failure(_end_of(log), process.returncode)
        finished = Outcome(**from_bytes(outcome.read_bytes(), str(outcome)))
    on_progress(Progress(0, 1, 1, 1, 0.0, finished.validations[-1][-1]))
    return finished


def _end_of(log: Path) -> str:
    """Return the last part of what was printed."""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - SHOWN))
        return ("…\n" if size > SHOWN else "") + file.read().decode("utf-8", "replace")


def _failure(text: str, status: int) -> Exception:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = lines[-1] if lines else "it printed nothing"
    kind = ProcessLost if status < 0 or status == INTERRUPTED else TaskFailed  # or else the same again
    error = kind(f"training ended with status {status}: {last}")
    error.add_note(text)
    return error
