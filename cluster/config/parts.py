"""Lists the parts that options name: in each group the class of each name.

The constructor declares a part's options: their names, types, bounds and defaults, and `Args` of its docstring
explains them. A file `conf/GROUP/NAME.yaml` replaces an entry here if a part names another part, or a value that is
not the class's default.
"""

from __future__ import annotations

OURS = ("cluster", "ranking", "sampling", "rl", "pooling")
"""Packages whose constructors declare options."""
BASES = {
    "collection": "ranking.collections.reader.Reader",
    "function": "sampling.retrieval.function.RetrievalFunction",
    "guard": "sampling.guard.Guard",
    "objective": "ranking.objectives.objective.Objective",
    "policy": "sampling.policies.policy.SamplingPolicy",
    "ranker": "ranking.rankers.ranker.Ranker",
    "reward": "rl.rewards.Reward",
    "selector": "sampling.selection.selector.Selector",
}
"""The base of each kind of part that users write."""
PARTS: dict[str, dict[str, str]] = {
    "agent": {
        "actor_critic": "rl.agents.actor_critic.ActorCritic",
        "ppo": "rl.agents.ppo.PPO",
        "random": "rl.agents.random.RandomAgent",
        "reinforce": "rl.agents.reinforce.Reinforce",
    },
    "batches": {
        "by_category": "ranking.batches.grouped.ByCategory",
        "random": "ranking.batches.order.Shuffled",
        "topic_balanced": "ranking.batches.grouped.TopicBalanced",
    },
    "collection": {
        "beir": "ranking.collections.beir.Beir",
        "ir_datasets": "ranking.collections.ir_datasets.IrDatasets",
        "msmarco": "ranking.collections.msmarco.MsMarco",
        "pairs": "ranking.collections.pairs.Pairs",
        "pydocs": "ranking.collections.pydocs.Pydocs",
        "trec": "ranking.collections.trec.Trec",
    },
    "function": {
        "bm25": "sampling.retrieval.bm25.Bm25Function",
        "category": "sampling.retrieval.category.SameCategory",
        "embedding": "sampling.retrieval.embedding.Embedding",
        "given": "sampling.retrieval.given.Given",
        "in_batch": "sampling.retrieval.in_batch.InBatch",
        "judged": "sampling.retrieval.judged.Judged",
        "memory": "sampling.retrieval.memory.Memory",
        "outside": "sampling.retrieval.category.OtherCategory",
        "random": "sampling.retrieval.random.RandomFunction",
        "run_file": "sampling.retrieval.run_file.RunFile",
        "subcategory": "sampling.retrieval.category.SameSubcategory",
        "tfidf": "sampling.retrieval.tfidf.TfIdf",
    },
    "method": {
        "active_sampling": "pooling.adjudicators.active_sampling.ActiveSampling",
        "autotar": "pooling.adjudicators.autotar.AutoTar",
        "borda": "pooling.adjudicators.rank_similarity.Borda",
        "cal": "pooling.adjudicators.continuous_learning.ContinuousLearning",
        "combmnz": "pooling.adjudicators.rank_similarity.Comb",
        "docid": "pooling.adjudicators.static.DocID",
        "hedge": "pooling.adjudicators.hedge.Hedge",
        "machine_prior": "pooling.adjudicators.machine_prior.MachinePrior",
        "moffat_a": "pooling.adjudicators.moffat.MoffatA",
        "moffat_b": "pooling.adjudicators.moffat.MoffatB",
        "moffat_c": "pooling.adjudicators.moffat.MoffatC",
        "mtc": "pooling.adjudicators.minimal_test_collection.MinimalTestCollection",
        "posterior_fusion": "pooling.adjudicators.posterior_fusion.PosteriorFusion",
        "rank": "pooling.adjudicators.static.Rank",
        "rrf": "pooling.adjudicators.reciprocal_rank.ReciprocalRank",
        "scal": "pooling.adjudicators.scalable_learning.ScalableLearning",
        "stratified_sampling": "pooling.adjudicators.stratified_sampling.StratifiedSampling",
    },
    "objective": {
        "approx_ndcg": "ranking.objectives.listwise.ApproxNDCG",
        "contrastive": "ranking.objectives.contrastive.Contrastive",
        "hinge": "ranking.objectives.pairwise.PairwiseHinge",
        "kl": "ranking.objectives.distillation.Distillation",
        "lambdarank": "ranking.objectives.listwise.LambdaRank",
        "list_mle": "ranking.objectives.listwise.ListMLE",
        "listnet": "ranking.objectives.listwise.ListNet",
        "margin_mse": "ranking.objectives.distillation.MarginMSE",
        "pointwise": "ranking.objectives.pointwise.PointwiseCrossEntropy",
        "ranknet": "ranking.objectives.pairwise.RankNet",
        "sir_v0": "ranking.objectives.self_involvement.BlockLoss",
        "sir_v1": "ranking.objectives.self_involvement.SequentialSIR",
        "sir_v3": "ranking.objectives.self_involvement.JointSIR",
        "sir_v4": "ranking.objectives.self_involvement.ConditionalSIR",
        "softmax": "ranking.objectives.softmax.SoftmaxLikelihood",
    },
    "optimizer": {
        "lazy_adam": "ranking.lazy_adam.LazyAdam",
    },
    "origin": {
        "bm25": "ranking.evaluation.origins.Bm25Candidates",
        "full": "ranking.evaluation.origins.FullCollection",
        "random": "ranking.evaluation.origins.RandomCandidates",
        "run_file": "ranking.evaluation.origins.RunFileCandidates",
    },
    "peft": {
        "lora": "ranking.lora.Lora",
    },
    "policy": {
        "fixed": "sampling.policies.fixed.Fixed",
    },
    "ranker": {
        "static": "ranking.rankers.static.Static",
    },
    "reward": {
        "ceil": "rl.rewards.Ceil",
        "raw": "rl.rewards.Raw",
    },
    "scheduler": {
        "constant": "ranking.schedules.Constant",
        "cosine": "ranking.schedules.Cosine",
        "linear": "ranking.schedules.Linear",
    },
    "selector": {
        "adversarial": "sampling.selection.adversarial.Adversarial",
        "ahns": "sampling.selection.ahns.AHNS",
        "dynamic": "sampling.selection.dynamic.Dynamic",
        "error_reduction": "sampling.selection.error_reduction.ErrorReduction",
        "from_margin": "sampling.selection.from_margin.FromMargin",
        "margin_balanced": "sampling.selection.margin_balanced.MarginBalanced",
        "shared": "sampling.selection.shared.Shared",
        "simans": "sampling.selection.simans.SimANS",
        "top": "sampling.selection.top.Top",
        "tri_sampler": "sampling.selection.tri_sampler.TriSampler",
        "uniform": "sampling.selection.uniform.Uniform",
        "window": "sampling.selection.window.Window",
    },
    "stopping": {
        "certified_recall": "pooling.certified_recall.CertifiedRecall",
        "found_nothing": "pooling.stopping.FoundNothing",
        "knee": "pooling.knee.Knee",
        "stable_ranking": "pooling.stopping.StableRanking",
        "target_recall": "pooling.stopping.TargetRecall",
    },
    "teacher": {
        "bm25": "sampling.retrieval.bm25.Bm25Function",
        "embedding": "sampling.retrieval.embedding.Embedding",
        "given": "sampling.retrieval.given.Given",
        "ranker": "cluster.runs.ranker_teacher.RankerTeacher",
        "run_file": "sampling.retrieval.run_file.RunFile",
    },
    "track": {
        "mlflow": "cluster.telemetry.tracking.mlflow.MLflow",
        "tensorboard": "cluster.telemetry.tracking.tensorboard.TensorBoard",
        "wandb": "cluster.telemetry.tracking.wandb.WandB",
    },
    "until": {
        "converged": "rl.plateau.Plateau",
    },
    "vectors": {
        "file": "ranking.vectors.TextVectors",
        "glove": "ranking.vectors.PackagedGlove",
        "random": "ranking.vectors.RandomVectors",
    },
}
