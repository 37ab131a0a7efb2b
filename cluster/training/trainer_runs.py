"""Runs a training function or command of the user's in a separate process, as a run of a study."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyrite.cluster.executors.task import Done, TaskFailed
from pyrite.cluster.lazy import ray
from pyrite.cluster.plan.sweep import Planned, identity
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.outcome import Outcome
from pyrite.cluster.runs.progress import Progress
from pyrite.ranking.checkpoint import from_bytes
from pyrite.ranking.errors import BadInput

BODY = "pyrite.torch.train_process"


class SeedsAct:
    """Sees that the runs of one method with different seeds leave different weights.

    Args:
        find: returns the plan of a run by its name.
    """

    def __init__(self, find: Callable[[str], Planned]) -> None:
        self.find = find
        self._seeds: dict[tuple[str, str], int] = {}

    def check(self, done: Done) -> None:
        """Raise `BadInput` if the weights of a finished run are those of another seed."""
        learned = (done.value or {}).get("learned")
        if not learned:
            return
        config = self.find(done.task.key).config
        method, seed = identity(config | {"seed": 0}), int(config["seed"])
        other = self._seeds.setdefault((method, learned), seed)
        if other != seed:
            what = f"seeds {min(seed, other)} and {max(seed, other)} left equal weights, so the seed does not act"
            remedy = "give it to the trainer's arguments, as seed=seed; or compare with seeds=1"
            raise BadInput(what, f"trainer={config['trainer']['run']}", remedy)


def run_trainer(
    config: dict[str, Any],
    parts: dict[str, Any],
    on_progress: Any,
    state: object,
    save_every: float,
    watch: object = None,
    name: str = "run",
) -> Outcome:
    """Train and measure once, in a separate process. The arguments are those of `pyrite.cluster.runs.execute.run`.

    Raises:
        TaskFailed: if the function raised, exited or left nothing, with what it printed as a note.
        RuntimeError: the same, if its process was killed.
    """
    with tempfile.TemporaryDirectory(prefix="pyrite-outcome-") as folder:
        outcome, log = Path(folder) / "outcome.safetensors", Path(folder) / "log.txt"
        request = {
            "config": config,
            "parts": parts,
            "collection": Artifacts().collection(config),
            "outcome": str(outcome),
        }
        request["environment"] = {"WANDB_RUN_GROUP": os.path.basename(os.getcwd()), "WANDB_NAME": name}
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with log.open("wb") as printed:
            process = subprocess.Popen(
                [sys.executable, "-m", BODY], stdin=subprocess.PIPE, stdout=printed, stderr=printed, env=environment
            )  # fmt: skip
            try:
                process.communicate(ray.cloudpickle.dumps(request))
            finally:
                process.kill()
        text = log.read_text("utf-8", "replace")
        if not outcome.is_file():
            raise _failure(text, process.returncode)
        finished = Outcome(**from_bytes(outcome.read_bytes(), str(outcome)))
    on_progress(Progress(0, 1, 1, 1, 0.0, finished.validations[-1][-1]))
    return finished


def _failure(text: str, status: int) -> RuntimeError:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = lines[-1] if lines else "it printed nothing"
    kind = RuntimeError if status < 0 else TaskFailed  # killed, or else the same again
    error = kind(f"training ended with status {status}: {last}")
    error.add_note(text)
    return error
