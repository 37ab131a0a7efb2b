"""Runs studies, trainings, learnings, minings and pooling studies from Python, and reads their results.

>>> import pyrite
>>> study = pyrite.study(["scale=tiny", "seeds=2", "function=random,bm25"])
>>> study.summary, study.trials, study.report

Overrides are those of the command line. `StudyResult(FOLDER)` reads the results in a folder again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console

from cluster.config.aliases import named_checkpoint
from cluster.plan.sweep import key_of
from pyrite.results import (
    LearningResult,
    MiningResult,
    PoolResult,
    ReportedResult,
    Result,
    StudyResult,
    TrainingResult,
)
from pyrite.running import run
from ranking.errors import BadInput

__all__ = [
    "BadInput",
    "LearningResult",
    "MiningResult",
    "PoolResult",
    "ReportedResult",
    "Result",
    "StudyResult",
    "TrainingResult",
    "learn",
    "mine",
    "pool",
    "rank",
    "study",
    "train",
]

_RENAMED = {
    "Study": "StudyResult",
    "Training": "TrainingResult",
    "Learning": "LearningResult",
    "Mining": "MiningResult",
    "PoolStudy": "PoolResult",
    "Reported": "ReportedResult",
    "Results": "Result",
}


def __getattr__(name: str) -> Any:
    """Raise an error with the new name of a class that was renamed."""
    if name in _RENAMED:
        raise AttributeError(f"pyrite.{name} is called pyrite.{_RENAMED[name]} now")
    raise AttributeError(f"module 'pyrite' has no attribute {name!r}")


def study(overrides: Iterable[str] = (), *, resume: str | None = None, console: Console | None = None) -> StudyResult:
    """Compare ways of choosing negatives, on Ray Tune or in this process, as `pyrite study` does.

    Args:
        overrides: overrides of the runs, with sweeps, and of the study.
        resume: the folder of a study to resume; None starts a new one.
        console: the console for progress and tables; None shows nothing.

    Raises:
        BadInput: if an option or an input is wrong.
    """
    return StudyResult(*run("study", overrides, resume, console))


def train(overrides: Iterable[str] = (), *, console: Console | None = None) -> TrainingResult:
    """Train and evaluate one ranker in this process, as `pyrite train` does, into a new folder or `out=`.

    Args:
        overrides: overrides without sweeps.
        console: the console for progress and tables; None shows nothing.

    Raises:
        BadInput: if an option or an input is wrong.
    """
    given = list(overrides)
    if "out" not in map(key_of, given):
        from cluster.output.storage import new_place

        given.append(f"out={new_place('train')}")
    return TrainingResult(*run("train", given, None, console))


def learn(
    overrides: Iterable[str] = (), *, resume: str | None = None, console: Console | None = None
) -> LearningResult:
    """Let an agent learn a sampling policy, as `pyrite learn` does. For the arguments see `pyrite.study`."""
    return LearningResult(*run("learn", overrides, resume, console))


def mine(overrides: Iterable[str] = (), *, resume: str | None = None, console: Console | None = None) -> MiningResult:
    """Mine negatives into a data set, as `pyrite mine` does. For the arguments see `pyrite.study`."""
    return MiningResult(*run("mine", overrides, resume, console))


def rank(checkpoint: str, overrides: Iterable[str] = (), *, console: Console | None = None) -> str:
    """Rank a collection by a trained ranker, as `pyrite rank` does.

    Args:
        checkpoint: a folder of `train` with `weights=true`, weights in it, or a checkpoint.
        overrides: options of conf/rank.yaml.
        console: the console for progress and measures; None shows nothing.

    Returns:
        The path of the TREC run.

    Raises:
        BadInput: if an option or an input is wrong.
    """
    from cluster.commands.rank import rank as write_run

    return write_run([*overrides, named_checkpoint(checkpoint)], console or Console(quiet=True))


def pool(overrides: Iterable[str] = (), *, resume: str | None = None, console: Console | None = None) -> PoolResult:
    """Compare orders of judging in simulation, as `pyrite pool` does. For the arguments see `pyrite.study`."""
    return PoolResult(*run("pool", overrides, resume, console))
