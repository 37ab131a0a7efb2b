"""Runs a step's units, each of which leaves one file, until the time is over; what has a file is not run again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from pyrite.ranking.whole_file import replace_file

Result = dict[str, Any]


@dataclass(frozen=True)
class Unit:
    """A part of a step that is run whole, and what it is run with."""

    name: str
    run: Callable[[Path], Result]


def conduct(folder: Path, units: Sequence[Unit], hours: float, cores: int) -> None:
    """Run the units that have no result, until the hours are over."""
    until = time.time() + 3600 * hours
    folder.mkdir(parents=True, exist_ok=True)
    done = {result["unit"] for result in results_of(folder)}
    waiting = [unit for unit in units if unit.name not in done]
    print(f"{folder.name}: {len(units) - len(waiting)} of {len(units)} units are done", flush=True)
    body = partial(_unit, folder, until)
    if cores == 1:
        for unit in waiting:
            body(unit)
        return
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        list(pool.map(body, waiting))


def _unit(folder: Path, until: float, unit: Unit) -> None:
    if time.time() > until:
        return
    torch.set_num_threads(1)
    started = time.time()
    result = unit.run(folder / unit.name) | {"unit": unit.name, "seconds": round(time.time() - started)}
    with replace_file(folder / f"{unit.name}.json") as temporary:
        temporary.write_text(json.dumps(result))
    print(f"{folder.name} {unit.name}: {result['seconds']} s", flush=True)


def results_of(folder: Path) -> list[Result]:
    """Return the results of a step, by name: of its folder, and of its archive (see `archive`)."""
    kept = _archive_of(folder)
    texts = kept.read_text("utf-8").splitlines() if kept.exists() else []
    texts += [path.read_text("utf-8") for path in folder.glob("*.json")]
    results = {result["unit"]: result for result in map(json.loads, texts)}
    return [result for _, result in sorted(results.items())]


def archive(folder: Path) -> None:
    """Write the results of a step into one file next to its folder, one line per unit, to six decimals.

    A step continues from it too.
    """
    texts = map(json.dumps, results_of(folder))
    lines = [json.dumps(json.loads(text, parse_float=lambda number: round(float(number), 6))) for text in texts]
    with replace_file(_archive_of(folder)) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in lines))


def _archive_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.jsonl")
