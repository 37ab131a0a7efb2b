"""Trains once with a function or a command of the user's, in a separate process, and measures what it leaves.

`pyrite.cluster.training.trainer_runs` starts it and writes the request to its input; the outcome is written to a file.
"""

from __future__ import annotations

import importlib.util
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ray import cloudpickle

from pyrite.cluster.runs.measure import PeakMemory
from pyrite.cluster.runs.outcome import Outcome
from pyrite.ranking.checkpoint import to_bytes
from pyrite.ranking.errors import BadInput
from pyrite.ranking.whole_file import replace_file
from pyrite.torch.left_rankers import left_by
from pyrite.torch.training_data import TrainingData

NAMED = ("run", "format")
"""Options of `trainer` that are not the training function's."""


def train_all_folds(config: dict[str, Any], parts: dict[str, Any], collection: Any) -> Outcome:
    """Train and measure once per fold."""
    outcome, peak = Outcome(), PeakMemory()
    torch.set_num_threads(max(1, int(config["resources"]["cpu"])))
    for fold in range(len(parts["base"].splits)):
        with tempfile.TemporaryDirectory(prefix="pyrite-run-") as scratch:
            data = TrainingData(config, parts, collection, fold, Path(scratch) / "scratch")
            data.scratch.mkdir()
            folder = Path(scratch) / "trained"
            folder.mkdir()
            started = time.perf_counter()
            result = _train(data, config, folder)
            outcome.seconds += time.perf_counter() - started
            _measure(data, result, folder, outcome)
    outcome.memory = peak.mib()
    return outcome


def _train(data: TrainingData, config: dict[str, Any], folder: Path) -> Any:
    trainer, seed = config["trainer"], config["seed"]
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  what the user's function may draw from
    torch.manual_seed(seed)
    options = {name: value for name, value in trainer.items() if name not in NAMED}
    if " " not in trainer["run"]:
        return function_of(trainer["run"])(data, seed, str(folder), **options)
    form = trainer.get("format") or "json"
    fields = {"data": data.write_rows(form), "out": folder, "folder": folder, "seed": seed, "scratch": data.scratch}
    fields |= {"checkpoint": data.checkpoint or "", **options}
    try:
        command = shlex.split(trainer["run"].format(**fields))
    except KeyError as error:
        raise BadInput(
            f"{{{error.args[0]}}} is no field of a command", "trainer", f"give trainer.{error.args[0]}="
        ) from None
    subprocess.run(command, check=True)
    return None


def function_of(place: str) -> Any:
    """Import a training function.

    Args:
        place: its file and name, as `train.py:train`.
    """
    path, _, name = place.rpartition(":")
    sys.path.insert(0, str(Path(path).absolute().parent))
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
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
    callback = getattr(vars(data).get("negatives"), "_callback", None)
    outcome.steps += data.steps or getattr(callback, "steps", 0)
    outcome.documents_read += data.examples or getattr(callback, "examples", 0)
    outcome.learned += left.digest
    for origin in config["origin"]:
        candidates = parts[f"origin:{origin}"].take(split.test)
        values = left.measure(candidates, config["measures"])
        measured = [(outcome.values, values), (outcome.bm25, _first_stage(encoded, candidates, config["measures"]))]
        if (before := parts.get(f"untrained:{origin}")) is not None and before.values:
            measured.append((outcome.untrained, before.of(split.test)))
        nothing = np.zeros(0)
        queries = outcome.queries.get(origin, nothing)
        outcome.queries[origin] = np.concatenate([queries, split.test]).astype(np.int64)
        for table, by_measure in measured:
            kept = table.setdefault(origin, {})
            for name, value in by_measure.items():
                kept[name] = np.concatenate([kept.get(name, nothing), value])


def _first_stage(encoded: Any, candidates: Any, measures: list[str]) -> Any:
    from pyrite.ranking.evaluation.evaluation import Evaluation

    return Evaluation(encoded, candidates, measures).of_bm25()


def main() -> None:
    """Train as the request specifies, and write the outcome."""
    request = cloudpickle.loads(sys.stdin.buffer.read())
    os.environ.update(request["environment"])
    outcome = train_all_folds(request["config"], request["parts"], request["collection"])
    with replace_file(request["outcome"]) as temporary:
        temporary.write_bytes(to_bytes(vars(outcome)))


if __name__ == "__main__":
    main()
