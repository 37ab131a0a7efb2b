"""Runs studies, trainings, learnings, minings and pooling studies from Python, and reads what they leave.

>>> import pyrite
>>> study = pyrite.study(["scale=tiny", "seeds=2", "function=random,bm25"])
>>> study.summary, study.trials, study.report

Overrides are those of the command line. What a folder holds is read again with `Study(FOLDER)`.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console

from cluster.config.aliases import named_checkpoint
from cluster.plan.sweep import key_of
from pyrite.results import Learning, Mining, PoolStudy, Reported, Results, Study, Training
from pyrite.running import run
from ranking.errors import BadInput

__all__ = [
    "BadInput",
    "Learning",
    "Mining",
    "PoolStudy",
    "Reported",
    "Results",
    "Study",
    "Training",
    "learn",
    "mine",
    "pool",
    "rank",
    "study",
    "train",
]


def study(overrides: Iterable[str] = (), *, resume: str | None = None, console: Console | None = None) -> Study:
    """Compare ways of choosing negatives, spread with Ray Tune, as `pyrite study` does.

    Args:
        overrides: of runs, with sweeps, and of the study.
        resume: a folder to go on with.
        console: where progress and table are shown; None shows nothing.

    Raises:
        BadInput: where an option or an input is wrong.
    """
    return Study(*run("study", overrides, resume, console))


def train(overrides: Iterable[str] = (), *, console: Console | None = None) -> Training:
    """Train and evaluate one ranker in this process, as `pyrite train` does, into a new folder or `out=`.

    Args:
        overrides: without sweeps.
        console: where progress and table are shown; None shows nothing.

    Raises:
        BadInput: where an option or an input is wrong.
    """
    given = list(overrides)
    if "out" not in map(key_of, given):
        from cluster.output.storage import new_place

        given.append(f"out={new_place('train')}")
    return Training(*run("train", given, None, console))


def learn(overrides: Iterable[str] = (), *, resume: str | None = None, console: Console | None = None) -> Learning:
    """Let an agent learn a sampling policy, as `pyrite learn` does; arguments as of `study`."""
    return Learning(*run("learn", overrides, resume, console))


def mine(overrides: Iterable[str] = (), *, resume: str | None = None, console: Console | None = None) -> Mining:
    """Mine negatives into a data set, as `pyrite mine` does; arguments as of `study`."""
    return Mining(*run("mine", overrides, resume, console))


def rank(checkpoint: str, overrides: Iterable[str] = (), *, console: Console | None = None) -> str:
    """Rank a collection by a trained ranker, as `pyrite rank` does.

    Args:
        checkpoint: a folder of `train` with `weights=true`, weights in it, or a checkpoint.
        overrides: of conf/rank.yaml.
        console: where progress and measures are shown; None shows nothing.

    Returns:
        The path of the TREC run.

    Raises:
        BadInput: where an option or an input is wrong.
    """
    from cluster.commands.rank import rank as write_run

    return write_run([*overrides, named_checkpoint(checkpoint)], console or Console(quiet=True))


def pool(overrides: Iterable[str] = (), *, resume: str | None = None, console: Console | None = None) -> PoolStudy:
    """Compare orders of judging in simulation, as `pyrite pool` does; arguments as of `study`."""
    return PoolStudy(*run("pool", overrides, resume, console))
