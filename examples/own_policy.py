"""Compares a custom policy, easy negatives first and then hard ones, with a random choice for each batch.

`mine.py` has the class. It decides for each batch which retrieval function supplies the negatives.
"""

# %% A study of two policies, the custom class and one of Pyrite's, that choose between the same two functions.
import os
import shlex

import polars as pl

import pyrite

DATA = shlex.split(os.environ.get("PYRITE_EXAMPLE", "scale=tiny"))
BOTH = "function=[random,bm25]"
POLICIES = "policy._target_=mine.EasyFirst,sampling.policies.random.RandomPolicy"
study = pyrite.study(
    [*DATA, "ranker=static", "policy=random", POLICIES, BOTH, "selector=uniform", "seeds=2", "dashboard=false"]
)

# %% Means of all runs by policy, over BM25's candidates.
measures = [name for name in study.trials.columns if name.startswith("bm25:")]
print(study.trials.group_by("policy", maintain_order=True).agg(pl.col(measures).mean()))

# %% The function that the policy chooses at each update: build a training and its sampler, and step them.
from mine import EasyFirst  # noqa: E402

from cluster.config.compose import compose  # noqa: E402
from cluster.runs.artifacts import Artifacts  # noqa: E402
from cluster.runs.assemble import assemble  # noqa: E402

config = compose([*DATA, "ranker=static", "training.batch_size=4", BOTH])
policy = EasyFirst(updates=2)
training, sampler = assemble(config, Artifacts().parts(config), fold=0, policy=policy)
chosen = []
for _ in range(4):
    batch = training.next_batch()
    chosen.append(list(config["function"])[int(policy.choose(batch, training, sampler.rng)[0])])
    negatives = sampler.negatives(batch, training)
    sampler.observe(negatives, training.update(batch, negatives, sampler.source_scores))
print(chosen)
assert chosen == ["random", "random", "bm25", "bm25"]
