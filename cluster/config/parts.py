"""Lists the parts that options name: in each group the class of each name.

The constructor declares a part's options: their names, types, bounds and defaults, and `Args` of its docstring
explains them. A file `conf/GROUP/NAME.yaml` replaces an entry here if a part names another part, or a value that is
not the class's default.
"""

from __future__ import annotations

OURS = ("cluster", "ranking", "sampling", "rl", "pooling")
"""Packages whose constructors declare options."""
BASES = {
    "collection": "pyrite.ranking.collections.reader.Reader",
    "function": "pyrite.sampling.retrieval.function.RetrievalFunction",
    "guard": "pyrite.sampling.guard.Guard",
    "objective": "pyrite.ranking.objectives.objective.Objective",
    "policy": "pyrite.sampling.policies.policy.SamplingPolicy",
    "ranker": "pyrite.ranking.rankers.ranker.Ranker",
    "reward": "pyrite.rl.rewards.Reward",
    "selector": "pyrite.sampling.selection.selector.Selector",
}
"""The base of each kind of part that users write."""
PARTS: dict[str, dict[str, str]] = {
    "agent": {
        "actor_critic": "pyrite.rl.agents.actor_critic.ActorCritic",
        "ppo": "pyrite.rl.agents.ppo.PPO",
        "random": "pyrite.rl.agents.random.RandomAgent",
        "reinforce": "pyrite.rl.agents.reinforce.Reinforce",
    },
    "batches": {
        "by_category": "pyrite.ranking.batches.grouped.ByCategory",
        "random": "pyrite.ranking.batches.order.Shuffled",
        "topic_balanced": "pyrite.ranking.batches.grouped.TopicBalanced",
    },
    "collection": {
        "beir": "pyrite.ranking.collections.beir.Beir",
        "ir_datasets": "pyrite.ranking.collections.ir_datasets.IrDatasets",
        "msmarco": "pyrite.ranking.collections.msmarco.MsMarco",
        "pairs": "pyrite.ranking.collections.pairs.Pairs",
        "pydocs": "pyrite.ranking.collections.pydocs.Pydocs",
        "trec": "pyrite.ranking.collections.trec.Trec",
    },
    "function": {
        "bm25": "pyrite.sampling.retrieval.bm25.Bm25Function",
        "category": "pyrite.sampling.retrieval.category.SameCategory",
        "embedding": "pyrite.sampling.retrieval.embedding.Embedding",
        "given": "pyrite.sampling.retrieval.given.Given",
        "in_batch": "pyrite.sampling.retrieval.in_batch.InBatch",
        "judged": "pyrite.sampling.retrieval.judged.Judged",
        "memory": "pyrite.sampling.retrieval.memory.Memory",
        "outside": "pyrite.sampling.retrieval.category.OtherCategory",
        "random": "pyrite.sampling.retrieval.random.RandomFunction",
        "run_file": "pyrite.sampling.retrieval.run_file.RunFile",
        "subcategory": "pyrite.sampling.retrieval.category.SameSubcategory",
        "tfidf": "pyrite.sampling.retrieval.tfidf.TfIdf",
    },
    "method": {
        "active_sampling": "pyrite.pooling.adjudicators.active_sampling.ActiveSampling",
        "autotar": "pyrite.pooling.adjudicators.autotar.AutoTar",
        "borda": "pyrite.pooling.adjudicators.rank_similarity.Borda",
        "cal": "pyrite.pooling.adjudicators.continuous_learning.ContinuousLearning",
        "combmnz": "pyrite.pooling.adjudicators.rank_similarity.Comb",
        "docid": "pyrite.pooling.adjudicators.static.DocID",
        "hedge": "pyrite.pooling.adjudicators.hedge.Hedge",
        "machine_prior": "pyrite.pooling.adjudicators.machine_prior.MachinePrior",
        "moffat_a": "pyrite.pooling.adjudicators.moffat.MoffatA",
        "moffat_b": "pyrite.pooling.adjudicators.moffat.MoffatB",
        "moffat_c": "pyrite.pooling.adjudicators.moffat.MoffatC",
        "mtc": "pyrite.pooling.adjudicators.minimal_test_collection.MinimalTestCollection",
        "posterior_fusion": "pyrite.pooling.adjudicators.posterior_fusion.PosteriorFusion",
        "rank": "pyrite.pooling.adjudicators.static.Rank",
        "rrf": "pyrite.pooling.adjudicators.reciprocal_rank.ReciprocalRank",
        "scal": "pyrite.pooling.adjudicators.scalable_learning.ScalableLearning",
        "stratified_sampling": "pyrite.pooling.adjudicators.stratified_sampling.StratifiedSampling",
    },
    "objective": {
        "approx_ndcg": "pyrite.ranking.objectives.listwise.ApproxNDCG",
        "contrastive": "pyrite.ranking.objectives.contrastive.Contrastive",
        "hinge": "pyrite.ranking.objectives.pairwise.PairwiseHinge",
        "kl": "pyrite.ranking.objectives.distillation.Distillation",
        "lambdarank": "pyrite.ranking.objectives.listwise.LambdaRank",
        "list_mle": "pyrite.ranking.objectives.listwise.ListMLE",
        "listnet": "pyrite.ranking.objectives.listwise.ListNet",
        "margin_mse": "pyrite.ranking.objectives.distillation.MarginMSE",
        "pointwise": "pyrite.ranking.objectives.pointwise.PointwiseCrossEntropy",
        "ranknet": "pyrite.ranking.objectives.pairwise.RankNet",
        "sir_v0": "pyrite.ranking.objectives.self_involvement.BlockLoss",
        "sir_v1": "pyrite.ranking.objectives.self_involvement.SequentialSIR",
        "sir_v3": "pyrite.ranking.objectives.self_involvement.JointSIR",
        "sir_v4": "pyrite.ranking.objectives.self_involvement.ConditionalSIR",
        "softmax": "pyrite.ranking.objectives.softmax.SoftmaxLikelihood",
    },
    "optimizer": {
        "lazy_adam": "pyrite.ranking.lazy_adam.LazyAdam",
    },
    "origin": {
        "bm25": "pyrite.ranking.evaluation.origins.Bm25Candidates",
        "full": "pyrite.ranking.evaluation.origins.FullCollection",
        "random": "pyrite.ranking.evaluation.origins.RandomCandidates",
        "run_file": "pyrite.ranking.evaluation.origins.RunFileCandidates",
    },
    "peft": {
        "lora": "pyrite.ranking.lora.Lora",
    },
    "policy": {
        "fixed": "pyrite.sampling.policies.fixed.Fixed",
    },
    "ranker": {
        "static": "pyrite.ranking.rankers.static.Static",
    },
    "reward": {
        "ceil": "pyrite.rl.rewards.Ceil",
        "raw": "pyrite.rl.rewards.Raw",
    },
    "scheduler": {
        "constant": "pyrite.ranking.schedules.Constant",
        "cosine": "pyrite.ranking.schedules.Cosine",
        "linear": "pyrite.ranking.schedules.Linear",
    },
    "selector": {
        "adversarial": "pyrite.sampling.selection.adversarial.Adversarial",
        "ahns": "pyrite.sampling.selection.ahns.AHNS",
        "dynamic": "pyrite.sampling.selection.dynamic.Dynamic",
        "error_reduction": "pyrite.sampling.selection.error_reduction.ErrorReduction",
        "from_margin": "pyrite.sampling.selection.from_margin.FromMargin",
        "margin_balanced": "pyrite.sampling.selection.margin_balanced.MarginBalanced",
        "shared": "pyrite.sampling.selection.shared.Shared",
        "simans": "pyrite.sampling.selection.simans.SimANS",
        "top": "pyrite.sampling.selection.top.Top",
        "tri_sampler": "pyrite.sampling.selection.tri_sampler.TriSampler",
        "uniform": "pyrite.sampling.selection.uniform.Uniform",
        "window": "pyrite.sampling.selection.window.Window",
    },
    "stopping": {
        "certified_recall": "pyrite.pooling.certified_recall.CertifiedRecall",
        "found_nothing": "pyrite.pooling.stopping.FoundNothing",
        "knee": "pyrite.pooling.knee.Knee",
        "stable_ranking": "pyrite.pooling.stopping.StableRanking",
        "target_recall": "pyrite.pooling.stopping.TargetRecall",
    },
    "teacher": {
        "bm25": "pyrite.sampling.retrieval.bm25.Bm25Function",
        "embedding": "pyrite.sampling.retrieval.embedding.Embedding",
        "given": "pyrite.sampling.retrieval.given.Given",
        "ranker": "pyrite.cluster.runs.ranker_teacher.RankerTeacher",
        "run_file": "pyrite.sampling.retrieval.run_file.RunFile",
    },
    "track": {
        "mlflow": "pyrite.cluster.telemetry.tracking.mlflow.MLflow",
        "tensorboard": "pyrite.cluster.telemetry.tracking.tensorboard.TensorBoard",
        "wandb": "pyrite.cluster.telemetry.tracking.wandb.WandB",
    },
    "until": {
        "converged": "pyrite.rl.plateau.Plateau",
    },
    "vectors": {
        "file": "pyrite.ranking.vectors.TextVectors",
        "glove": "pyrite.ranking.vectors.PackagedGlove",
        "random": "pyrite.ranking.vectors.RandomVectors",
    },
}
