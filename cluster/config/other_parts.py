"""Lists what other tools and papers call our parts: rankers, functions, objectives and others, by group.

tests/cluster/config/test_meant.py follows each one until a command is accepted.
"""

from __future__ import annotations

from pyrite.ranking.similar import plain

OF_NAME: dict[str, dict[str, str]] = {
    "agent": {"actor_critic": "a2c a3c", "reinforce": "policy_gradient vpg"},
    "batches": {"random": "shuffled", "distinct": "no_duplicates"},
    "collection": {"pairs": "csv tsv json jsonl parquet file triplets tuples", "trec": "trec_eval", "pydocs": "python"},
    "function": {
        "dense": "ance ann faiss hnsw index",
        "given": "own mined hard_negatives",
        "in_batch": "inbatch_negatives batch",
        "memory": "moco queue xbm cross_batch",
        "random": "easy uniform",
        "run_file": "run trec_run",
    },
    "method": {
        "bla": "thompson thompson_sampling",
        "cal": "continuous_active_learning",
        "eps_n_greedy": "epsilon_greedy",
        "mm": "max_mean",
        "mtc": "minimal_test_collections",
        "mtf": "move_to_front",
        "rank": "depth depth_pooling pooling",
        "rrf": "reciprocal_rank_fusion",
    },
    "objective": {
        "approx_ndcg": "ndcg",
        "hinge": "triplet triplet_loss triplet_margin margin_ranking margin_ranking_loss",
        "kl": "distillation distill_kl_div_loss kl_divergence kldiv",
        "lambdarank": "lambda_loss",
        "pointwise": "bce bce_with_logits binary_cross_entropy binary_cross_entropy_loss",
        "ranknet": "bpr",
        "softmax": (
            "infonce mnr mnrl multiple_negatives_ranking multiple_negatives_ranking_loss nt_xent "
            "cached_multiple_negatives_ranking_loss"
        ),
        "matryoshka": "mrl",
    },
    "optimizer": {"adamw": "adamw_hf adamw_torch adamw_torch_fused"},
    "origin": {"full": "all corpus exact"},
    "peft": {"lora": "qlora adapter adapters"},
    "policy": {"fixed": "constant none", "learned": "agent rl", "schedule": "anneal annealing"},
    "ranker": {
        "bi_encoder": "bge dense dpr dual_encoder e5 embedder encoder minilm sbert sentence_transformer two_tower",
        "cross_encoder": "bert monobert monot5 reranker",
        "late_interaction": "col colbert pylate",
        "sparse": "splade sparse_encoder",
        "static": "glove model2vec static_embedding word2vec",
    },
    "reward": {"diff": "delta difference"},
    "scale": {"full": "all big large", "small": "quick", "tiny": "debug mini toy"},
    "selector": {"top": "hard hardest topk", "uniform": "random"},
    "stopping": {"target_recall": "recall"},
    "teacher": {"ranker": "bi_encoder checkpoint cross_encoder model"},
    "track": {"tensorboard": "tb", "wandb": "weights_and_biases"},
    "trial_scheduler": {"asha": "sha successive_halving", "median": "median_stopping"},
    "until": {"converged": "plateau"},
    "vectors": {"file": "fasttext word2vec", "glove": "glove_6b"},
}
"""Names elsewhere by names here whose parts do the same, in each group."""
NAMES: dict[str, dict[str, str]] = {
    group: {plain(word): name for name, words in of_name.items() for word in words.split()}
    for group, of_name in OF_NAME.items()
}
"""Names here by plain names elsewhere, in each group."""


def name_here(group: str, name: str) -> str:
    """Return the name here of a part that is called otherwise elsewhere; other names as they are.

    >>> name_here("ranker", "ColBERT")
    'late_interaction'
    """
    return NAMES.get(group, {}).get(plain(name), name)
