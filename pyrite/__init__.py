"""Runs studies, trainings, learnings, minings and pooling studies from Python, and reads their results.

Describe a study with objects (`Study`), a pool of runs (`Pool`), or run another verb (`train`, `learn`, `mine`, `rank`,
`audit`). The verbs also take the overrides of the command line:

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

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from pyrite.parts import Part
    from pyrite.pools import MM, MTF, Hedge, Method, Pool, Pooled, PosteriorFusion, SharedFusion
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
    from pyrite.ranking.errors import BadInput
    from pyrite.results import (
        AuditResult,
        Best,
        LearningResult,
        MiningResult,
        Picture,
        PoolResult,
        ReportedResult,
        Result,
        Shown,
        StudyResult,
        Trained,
        TrainingResult,
    )
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
    from pyrite.verbs import audit, learn, mine, pool, rank, study, train

__all__ = [
    "BM25",
    "DSSM",
    "MM",
    "MTF",
    "SIR",
    "Adversarial",
    "AuditResult",
    "BadInput",
    "Best",
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
    "Hedge",
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
    "Method",
    "MiningResult",
    "Mixture",
    "Negatives",
    "Objective",
    "OtherCategory",
    "Part",
    "Picture",
    "Policy",
    "Pool",
    "PoolResult",
    "Pooled",
    "PosteriorFusion",
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
    "SharedFusion",
    "Shown",
    "SimANS",
    "Softmax",
    "Sparse",
    "Static",
    "Study",
    "StudyResult",
    "TfIdf",
    "Top",
    "Trained",
    "TrainingResult",
    "Uniform",
    "Window",
    "audit",
    "learn",
    "mine",
    "pool",
    "rank",
    "study",
    "train",
]

_HOMES = {
    "pyrite.comparison": "Ray Study",
    "pyrite.data": "Collection",
    "pyrite.guard": "Guard",
    "pyrite.negatives": (
        "BM25 Curriculum Dense Embedding Function Given InBatch Judged Memory Mixture Negatives "
        "OtherCategory Policy Random RandomPolicy Refined RunFile SameCategory SameSubcategory Schedule "
        "TfIdf"
    ),
    "pyrite.objectives": "Contrastive Hinge LambdaRank ListNet MarginMSE Matryoshka Objective RankNet SIR Softmax",
    "pyrite.parts": "Part",
    "pyrite.pools": "Hedge MM MTF Method Pool Pooled PosteriorFusion SharedFusion",
    "pyrite.rankers": (
        "BiEncoder CrossEncoder DSSM Decoder FeedForward LateInteraction MatchPyramid Ranker Sparse Static"
    ),
    "pyrite.ranking.errors": "BadInput",
    "pyrite.results": (
        "AuditResult Best LearningResult MiningResult Picture PoolResult ReportedResult "
        "Result Shown StudyResult Trained TrainingResult"
    ),
    "pyrite.selectors": "Adversarial Dynamic ErrorReduction MarginBalanced Selector Shared SimANS Top Uniform Window",
    "pyrite.verbs": "audit learn mine pool rank study train",
}
"""Public names by the module that defines them, which is imported when one is used."""
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}
_RENAMED = {
    "Training": "TrainingResult",
    "Learning": "LearningResult",
    "Mining": "MiningResult",
    "PoolStudy": "PoolResult",
    "Reported": "ReportedResult",
    "Results": "Result",
}

if not (Path(__file__).parent / "ranking").is_dir():  # a checkout whose links were written as files (Windows, a zip)
    __path__.append(str(Path(__file__).parents[1]))


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used; raise an error with the new name of a class that was renamed."""
    if name in _HOME_OF:
        value = globals()[name] = getattr(importlib.import_module(_HOME_OF[name]), name)
        return value
    if name == "__version__":
        from pyrite.cluster.output.provenance import release

        return release().get("version", "unknown")
    if name in _RENAMED:
        raise AttributeError(f"pyrite.{name} is called pyrite.{_RENAMED[name]} now")
    raise AttributeError(f"module 'pyrite' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
