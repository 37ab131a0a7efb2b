"""Runs studies, trainings, learnings, minings and pooling studies from Python, and reads their results.

Describe a study with objects (`Study`), or run a verb with the overrides of its command line (`study`, `train`,
`learn`, `mine`, `pool`, `rank`):

>>> import pyrite
>>> from pyrite import BM25, InBatch, Static
>>> study = pyrite.Study(
...     pyrite.Collection.pydocs(), {"in-batch": InBatch(), "+1 BM25": InBatch() + BM25(1)}, [Static()], scale="tiny"
... )
>>> same = "pyrite study collection=pydocs scale=tiny"
>>> study.command.startswith(same)
True

`StudyResult(FOLDER)` reads the results in a folder again.
"""

from __future__ import annotations

from pyrite.hidden import refuse_hidden_packages

refuse_hidden_packages()

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console

from cluster.config.aliases import named_checkpoint
from cluster.plan.sweep import key_of
from pyrite.comparison import Ray, Study
from pyrite.data import Collection
from pyrite.guard import Guard
from pyrite.negatives import (
    BM25,
    Curriculum,
    Dense,
    Embedding,
    Function,
    Given,
    InBatch,
    Judged,
    Memory,
    Mixture,
    Negatives,
    OtherCategory,
    Policy,
    Random,
    RandomPolicy,
    Refined,
    RunFile,
    SameCategory,
    SameSubcategory,
    Schedule,
    TfIdf,
    as_negatives,
)
from pyrite.objectives import (
    SIR,
    Contrastive,
    Hinge,
    LambdaRank,
    ListNet,
    MarginMSE,
    Matryoshka,
    Objective,
    RankNet,
    Softmax,
)
from pyrite.parts import Part, override, written
from pyrite.rankers import (
    DSSM,
    BiEncoder,
    CrossEncoder,
    Decoder,
    FeedForward,
    LateInteraction,
    MatchPyramid,
    Ranker,
    Sparse,
    Static,
)
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
from pyrite.selectors import (
    Adversarial,
    Dynamic,
    ErrorReduction,
    MarginBalanced,
    Selector,
    Shared,
    SimANS,
    Top,
    Uniform,
    Window,
)
from ranking.errors import BadInput

__all__ = [
    "BM25",
    "DSSM",
    "SIR",
    "Adversarial",
    "BadInput",
    "BiEncoder",
    "Collection",
    "Contrastive",
    "CrossEncoder",
    "Curriculum",
    "Decoder",
    "Dense",
    "Dynamic",
    "Embedding",
    "ErrorReduction",
    "FeedForward",
    "Function",
    "Given",
    "Guard",
    "Hinge",
    "InBatch",
    "Judged",
    "LambdaRank",
    "LateInteraction",
    "LearningResult",
    "ListNet",
    "MarginBalanced",
    "MarginMSE",
    "MatchPyramid",
    "Matryoshka",
    "Memory",
    "MiningResult",
    "Mixture",
    "Negatives",
    "Objective",
    "OtherCategory",
    "Part",
    "Policy",
    "PoolResult",
    "Random",
    "RandomPolicy",
    "RankNet",
    "Ranker",
    "Ray",
    "Refined",
    "ReportedResult",
    "Result",
    "RunFile",
    "SameCategory",
    "SameSubcategory",
    "Schedule",
    "Selector",
    "Shared",
    "SimANS",
    "Softmax",
    "Sparse",
    "Static",
    "Study",
    "StudyResult",
    "TfIdf",
    "Top",
    "TrainingResult",
    "Uniform",
    "Window",
    "learn",
    "mine",
    "pool",
    "rank",
    "study",
    "train",
]

_RENAMED = {
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


def mine(
    data: Collection | Iterable[str] = (),
    negatives: object = None,
    *,
    guard: Guard | None = None,
    ranker: str | None = None,
    options: Mapping[str, object] | None = None,
    resume: str | None = None,
    console: Console | None = None,
) -> MiningResult:
    """Mine negatives into a data set, as `pyrite mine` does.

    Args:
        data: the collection, or the overrides of the command line instead of all other arguments.
        negatives: the functions that supply them, as `BM25(5)`.
        guard: what is left out as probably relevant.
        ranker: a trained run or a checkpoint that scores; required by `Dense` and by selectors that use scores.
        options: further overrides by key, as `{"rows": "triplets"}`.
        resume: the folder of a mining to resume; None starts a new one.
        console: receives progress and the table. None shows nothing.

    Raises:
        BadInput: if an option or an input is wrong.
    """
    if not isinstance(data, Collection):
        return MiningResult(*run("mine", data, resume, console))
    chosen = as_negatives(negatives if negatives is not None else BM25())
    counts = [function.count for function in chosen.functions]
    overrides = [*data.overrides(), *chosen.overrides(), *(guard.overrides() if guard else [])]
    if len(counts) == 1 and counts[0] is not None:  # `count` is the number of negatives of a single function
        overrides = [text for text in overrides if not text.startswith("negatives.")] + [f"count={counts[0]}"]
    if ranker is not None:
        overrides.append(f"checkpoint={written(ranker)}")
    overrides += [text for key, value in (options or {}).items() for text in override(key, value)]
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
