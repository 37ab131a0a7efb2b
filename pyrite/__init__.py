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

The parts are the classes that train: `pyrite.SimANS` is `pyrite.sampling.selection.simans.SimANS`. A module is imported
when one of its names is first used. `StudyResult(FOLDER)` reads the results in a folder again.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyrite.pooling.across_topics import AcrossTopics as AcrossTopics
    from pyrite.pooling.adjudicators.active_sampling import ActiveSampling as ActiveSampling
    from pyrite.pooling.adjudicators.autotar import AutoTar as AutoTar
    from pyrite.pooling.adjudicators.bandit.bandit import Bandit as Bandit
    from pyrite.pooling.adjudicators.bandit.methods import (
        BLA as BLA,
        MM as MM,
        MTF as MTF,
        UCB as UCB,
        BLANonStationary as BLANonStationary,
        BLATeams as BLATeams,
        DiscountedBLA as DiscountedBLA,
        DiscountedUCB as DiscountedUCB,
        EpsilonNGreedy as EpsilonNGreedy,
        MMAgreement as MMAgreement,
        MMGraded as MMGraded,
        MMNonStationary as MMNonStationary,
        MMTeams as MMTeams,
        RandomRuns as RandomRuns,
        SlidingBLA as SlidingBLA,
        SlidingUCB as SlidingUCB,
        UCBTuned as UCBTuned,
    )
    from pyrite.pooling.adjudicators.continuous_learning import ContinuousLearning as ContinuousLearning
    from pyrite.pooling.adjudicators.hedge import Hedge as Hedge
    from pyrite.pooling.adjudicators.machine_prior import MachinePrior as MachinePrior
    from pyrite.pooling.adjudicators.minimal_test_collection import MinimalTestCollection as MinimalTestCollection
    from pyrite.pooling.adjudicators.moffat import MoffatA as MoffatA, MoffatB as MoffatB, MoffatC as MoffatC
    from pyrite.pooling.adjudicators.posterior_fusion import PosteriorFusion as PosteriorFusion
    from pyrite.pooling.adjudicators.rank_similarity import Borda as Borda, CombMNZ as CombMNZ, CombSUM as CombSUM
    from pyrite.pooling.adjudicators.reciprocal_rank import ReciprocalRank as ReciprocalRank
    from pyrite.pooling.adjudicators.sample_beside import SampleBeside as SampleBeside
    from pyrite.pooling.adjudicators.scalable_learning import ScalableLearning as ScalableLearning
    from pyrite.pooling.adjudicators.shallow_first import ShallowFirst as ShallowFirst
    from pyrite.pooling.adjudicators.static import DocID as DocID, Rank as Rank
    from pyrite.pooling.adjudicators.stratified_sampling import StratifiedSampling as StratifiedSampling
    from pyrite.pooling.method import Method as Method
    from pyrite.pooling.shared_fusion import SharedFusion as SharedFusion
    from pyrite.comparison import Ray as Ray, Study as Study
    from pyrite.data import Collection as Collection
    from pyrite.parts import overrides as overrides
    from pyrite.pools import Pool as Pool, Pooled as Pooled
    from pyrite.results import (
        AuditResult as AuditResult,
        Best as Best,
        LearningResult as LearningResult,
        MiningResult as MiningResult,
        Picture as Picture,
        PoolResult as PoolResult,
        ReportedResult as ReportedResult,
        Result as Result,
        Shown as Shown,
        StudyResult as StudyResult,
        Trained as Trained,
        TrainingResult as TrainingResult,
    )
    from pyrite.evaluation import EvaluationResult as EvaluationResult, evaluate as evaluate
    from pyrite.verbs import (
        audit as audit,
        learn as learn,
        mine as mine,
        pool as pool,
        rank as rank,
        study as study,
        train as train,
    )
    from pyrite.ranking.collections.beir import Beir as Beir
    from pyrite.ranking.collections.ir_datasets import IrDatasets as IrDatasets
    from pyrite.ranking.collections.mix import Mix as Mix
    from pyrite.ranking.collections.msmarco import MsMarco as MsMarco
    from pyrite.ranking.collections.pairs import Pairs as Pairs
    from pyrite.ranking.collections.pydocs import Pydocs as Pydocs
    from pyrite.ranking.collections.reader import Reader as Reader
    from pyrite.ranking.collections.trec import Trec as Trec
    from pyrite.ranking.errors import BadInput as BadInput
    from pyrite.ranking.objectives.contrastive import Contrastive as Contrastive
    from pyrite.ranking.objectives.distillation import Distillation as Distillation, MarginMSE as MarginMSE
    from pyrite.ranking.objectives.listwise import (
        ApproxNDCG as ApproxNDCG,
        LambdaRank as LambdaRank,
        ListMLE as ListMLE,
        ListNet as ListNet,
    )
    from pyrite.ranking.objectives.matryoshka import Matryoshka as Matryoshka
    from pyrite.ranking.objectives.objective import Objective as Objective
    from pyrite.ranking.objectives.pairwise import Hinge as Hinge, RankNet as RankNet
    from pyrite.ranking.objectives.pointwise import PointwiseCrossEntropy as PointwiseCrossEntropy
    from pyrite.ranking.objectives.self_involvement import (
        SIR as SIR,
        FlowingSIR as FlowingSIR,
        JointSIR as JointSIR,
        SequentialSIR as SequentialSIR,
    )
    from pyrite.ranking.objectives.softmax import Softmax as Softmax
    from pyrite.ranking.objectives.weighted_sum import WeightedSum as WeightedSum
    from pyrite.ranking.part import Part as Part
    from pyrite.ranking.rankers.bi_encoder import BiEncoder as BiEncoder
    from pyrite.ranking.rankers.cross_encoder import CrossEncoder as CrossEncoder
    from pyrite.ranking.rankers.dssm import DSSM as DSSM
    from pyrite.ranking.rankers.feed_forward import FeedForward as FeedForward
    from pyrite.ranking.rankers.late_interaction import LateInteraction as LateInteraction
    from pyrite.ranking.rankers.match_pyramid import MatchPyramid as MatchPyramid
    from pyrite.ranking.rankers.ranker import Ranker as Ranker
    from pyrite.ranking.rankers.sparse import Sparse as Sparse
    from pyrite.ranking.rankers.static import Static as Static
    from pyrite.rl.policy import LearnedPolicy as LearnedPolicy
    from pyrite.sampling.guard import Guard as Guard
    from pyrite.sampling.suppliers import Negatives as Negatives
    from pyrite.sampling.policies.aligned import Aligned as Aligned, Recommended as Recommended
    from pyrite.sampling.policies.curriculum import Curriculum as Curriculum
    from pyrite.sampling.policies.fixed import Fixed as Fixed
    from pyrite.sampling.policies.mixture import Mixture as Mixture, Refined as Refined
    from pyrite.sampling.policies.policy import SamplingPolicy as SamplingPolicy
    from pyrite.sampling.policies.random import RandomPolicy as RandomPolicy
    from pyrite.sampling.policies.schedule import Schedule as Schedule
    from pyrite.sampling.retrieval.bm25 import BM25 as BM25
    from pyrite.sampling.retrieval.category import (
        OtherCategory as OtherCategory,
        SameCategory as SameCategory,
        SameSubcategory as SameSubcategory,
    )
    from pyrite.sampling.retrieval.dense import Dense as Dense, Refresh as Refresh
    from pyrite.sampling.retrieval.embedding import Embedding as Embedding
    from pyrite.sampling.retrieval.function import RetrievalFunction as RetrievalFunction
    from pyrite.sampling.retrieval.given import Given as Given
    from pyrite.sampling.retrieval.in_batch import InBatch as InBatch
    from pyrite.sampling.retrieval.judged import Judged as Judged
    from pyrite.sampling.retrieval.memory import Memory as Memory
    from pyrite.sampling.retrieval.random import Random as Random
    from pyrite.sampling.retrieval.run_file import RunFile as RunFile
    from pyrite.sampling.retrieval.tfidf import TfIdf as TfIdf
    from pyrite.sampling.selection.adversarial import Adversarial as Adversarial
    from pyrite.sampling.selection.ahns import AHNS as AHNS
    from pyrite.sampling.selection.dynamic import Dynamic as Dynamic
    from pyrite.sampling.selection.error_reduction import ErrorReduction as ErrorReduction
    from pyrite.sampling.selection.from_margin import FromMargin as FromMargin
    from pyrite.sampling.selection.margin_balanced import MarginBalanced as MarginBalanced
    from pyrite.sampling.selection.selector import Selector as Selector
    from pyrite.sampling.selection.shared import Shared as Shared
    from pyrite.sampling.selection.simans import SimANS as SimANS
    from pyrite.sampling.selection.top import Top as Top
    from pyrite.sampling.selection.tri_sampler import TriSampler as TriSampler
    from pyrite.sampling.selection.uniform import Uniform as Uniform
    from pyrite.sampling.selection.window import Window as Window

    Function = RetrievalFunction  # the names of version 0.2
    Policy = SamplingPolicy

_RENAMED = {
    "Training": "TrainingResult",
    "Learning": "LearningResult",
    "Mining": "MiningResult",
    "PoolStudy": "PoolResult",
    "Reported": "ReportedResult",
    "Results": "Result",
}


def _places() -> dict[str, tuple[str, str]]:
    """Return the module and the name behind each public name, as the imports above declare them for type checkers."""
    blocks = [node for node in ast.parse(Path(__file__).read_text("utf-8")).body if isinstance(node, ast.If)]
    places: dict[str, tuple[str, str]] = {}
    for node in blocks[0].body:
        if isinstance(node, ast.ImportFrom):
            places |= {str(each.asname): (str(node.module), each.name) for each in node.names}
        elif isinstance(node, ast.Assign):  # another name of a class
            places |= {ast.unparse(each): places[ast.unparse(node.value)] for each in node.targets}
    return places


if not (Path(__file__).parent / "ranking").is_dir():  # a checkout whose links were written as files (Windows, a zip)
    __path__.append(str(Path(__file__).parents[1]))

from pyrite.ranking.arguments import ELSEWHERE


def _meant(of: Callable[..., Any], name: str, value: Any) -> str | None:
    """Return the remedy for an argument that does not exist; what knows it is imported by the first mistake."""
    remedy: str | None = import_module("pyrite.words").meant(of, name, value)
    return remedy


ELSEWHERE.append(_meant)
_PLACES = _places()
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used; raise an error with the new name of a class that was renamed."""
    if name == "__version__":
        from pyrite.cluster.output.provenance import release

        return release().get("version", "unknown")
    if name in _RENAMED:
        raise AttributeError(f"pyrite.{name} is called pyrite.{_RENAMED[name]} now")
    if name not in _PLACES:
        instead = "" if name[0] == "_" else import_module("pyrite.words").attribute(name, __all__)
        raise AttributeError(f"module 'pyrite' has no attribute {name!r}{instead}", name="")
    module, original = _PLACES[name]
    globals()[name] = value = getattr(import_module(module), original)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
