"""Runs studies, trainings, learnings, minings and pooling studies from Python, and reads their results.

Describe a study with objects (`Study`), a pool of runs (`Pool`), or run another verb (`train`, `learn`, `mine`, `rank`,
`fork`, `audit`). The verbs also take the overrides of the command line:

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

from typing import Any

from pyrite.cluster.output.provenance import release
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
    ForkResult,
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
from pyrite.verbs import audit, fork, learn, mine, pool, rank, study, train

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
    "ForkResult",
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
    "fork",
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
    """Return the version; raise an error with the new name of a class that was renamed."""
    if name == "__version__":
        return release().get("version", "unknown")
    if name in _RENAMED:
        raise AttributeError(f"pyrite.{name} is called pyrite.{_RENAMED[name]} now")
    raise AttributeError(f"module 'pyrite' has no attribute {name!r}")
