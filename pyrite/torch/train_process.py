"""Trains once with a function or a command of the user's, in a separate process, and measures what it leaves.

`pyrite.cluster.training.trainer_runs` starts it as `train_process FOLDER PARENT` and writes the request to its input;
the outcome is a file of the folder, in which all its files are. SIGTERM and the end of the parent end it in order, with
the processes that it has started.
"""

from __future__ import annotations

import importlib.util
import math
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ray import cloudpickle

from pyrite.cluster.config.trainer_option import NAMED, is_command, words_of
from pyrite.cluster.executors.process_end import run_command, run_ending
from pyrite.cluster.runs.measure import MIB, PeakMemory, append_queries, append_values
from pyrite.cluster.runs.outcome import Outcome
from pyrite.cluster.training.trainer_runs import size_of
from pyrite.ranking.checkpoint import to_bytes
from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.threads import use_threads
from pyrite.ranking.whole_file import replace_file
from pyrite.running import IMPORTED
from pyrite.torch.left_rankers import left_by
from pyrite.torch.training_data import TrainingData


def train_all_folds(config: dict[str, Any], parts: dict[str, Any], collection: Any, folder: Path) -> Outcome:
    """Train and measure once per fold, with temporary files in a folder."""
    outcome, peak = Outcome(), PeakMemory()
    use_threads(config["resources"]["cpu"])
    for fold in range(len(parts["base"].splits)):
        with tempfile.TemporaryDirectory(prefix="fold-", dir=folder, ignore_cleanup_errors=True) as scratch:
            data = TrainingData(config, parts, collection, fold, Path(scratch) / "scratch")
            data.scratch.mkdir()
            trained = Path(scratch) / "trained"
            trained.mkdir()
            started = _processor_seconds()
            try:
                result = _train(data, config, trained)
            except SystemExit as error:
                raise RuntimeError(f"it called sys.exit({error.code}), and is not measured; return instead") from error
            outcome.seconds += _processor_seconds() - started
            outcome.scratch = max(outcome.scratch or 0.0, size_of(Path(scratch)) / MIB)
            data.spend(outcome)
            _measure(data, result, trained, outcome)
    outcome.memory = peak.mib()
    return outcome


def _processor_seconds() -> float:
    """Return the processor time of this process, and of those that it started and waited for."""
    return math.fsum(os.times()[:4])


def _train(data: TrainingData, config: dict[str, Any], folder: Path) -> Any:
    trainer, seed = config["trainer"], config["seed"]
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  what the user's function may draw from
    torch.manual_seed(seed)
    options = {name: value for name, value in trainer.items() if name not in NAMED}
    if not is_command(trainer["run"]):
        return function_of(trainer["run"])(data, seed, str(folder), **options)
    form = trainer.get("format") or "json"
    fields = {"data": data.write_rows(form), "out": folder, "folder": folder, "seed": seed, "scratch": data.scratch}
    fields |= {"checkpoint": data.checkpoint or "", **options}
    run_command([word.format(**fields) for word in words_of(trainer["run"])])
    return None


def function_of(place: str) -> Any:
    """Import a training function.

    Args:
        place: its file and name, as `train.py:train`.

    Raises:
        BadInput: if the file starts a study, or another command, when it is imported.
    """
    file, _, name = place.rpartition(":")
    path = Path(file).absolute()
    root = path.parent
    while (root / "__init__.py").is_file():  # a module of a package is imported as one
        root = root.parent
    sys.path.insert(0, str(root))
    dotted = ".".join(path.relative_to(root).with_suffix("").parts)
    spec = importlib.util.spec_from_file_location(dotted, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    token = IMPORTED.set(file)
    try:
        spec.loader.exec_module(module)
    finally:
        IMPORTED.reset(token)
    return getattr(module, name)


def _measure(data: TrainingData, result: Any, folder: Path, outcome: Outcome) -> None:
    config, parts = data.config, data.parts
    split, encoded = parts["base"].splits[data.fold], parts["base"].encoded
    left = left_by(result, folder, data.collection, encoded)
    measure = config["validation"]["measure"]
    dev = parts["validation"].take(split.dev)
    outcome.validations.append([float(left.measure(dev, [measure])[measure].mean())] if len(split.dev) else [0.0])
    outcome.losses.append([0.0])
    outcome.dev_losses.append([])
    outcome.epochs = outcome.best_epoch = 1
    for origin in config["origin"]:
        candidates = parts[f"origin:{origin}"].take(split.test)
        first_stage = Evaluation(encoded, candidates, config["measures"]).of_bm25()
        append_values(outcome.values, origin, left.measure(candidates, config["measures"]))
        append_values(outcome.bm25, origin, first_stage)
        append_queries(outcome, origin, split.test, parts.get(f"untrained:{origin}"))
    outcome.learned += left.digest()


def main() -> None:
    """Train as the request specifies, and write the outcome."""
    request = cloudpickle.loads(sys.stdin.buffer.read())
    os.environ.update(request["environment"])
    place = Path(request["outcome"])
    outcome = train_all_folds(request["config"], request["parts"], request["collection"], place.parent)
    with replace_file(place) as temporary:
        temporary.write_bytes(to_bytes(vars(outcome)))


if __name__ == "__main__":
    run_ending(main, Path(sys.argv[1]), int(sys.argv[2]))
