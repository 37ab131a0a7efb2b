"""A policy of one's own: easy negatives first, then hard ones, against a coin and either alone.

`mine.py` holds the class. It decides for each batch which retrieval function supplies the negatives.
"""

# %% Methods differ in policy and function, so there is a study for each; the folder of each is kept.
import os
import shlex

import polars as pl

import pyrite

DATA = shlex.split(os.environ.get("PYRITE_EXAMPLE", "scale=tiny"))
SAME = [*DATA, "ranker=static", "selector=uniform", "seeds=2", "dashboard=false"]
BOTH = "function=[random,bm25]"
studies = {
    "easy first": pyrite.study([*SAME, "policy._target_=mine.EasyFirst", "+policy.updates=4", BOTH]),
    "coin": pyrite.study([*SAME, "policy=random", BOTH]),
    "bm25": pyrite.study([*SAME, "policy=fixed", "function=bm25"]),
}

# %% One table of all runs.
runs = pl.concat(
    [study.trials.with_columns(pl.lit(name).alias("negatives")) for name, study in studies.items()],
    how="diagonal_relaxed",
)
measures = [name for name in runs.columns if name.startswith("bm25:")]
print(runs.group_by("negatives", maintain_order=True).agg(pl.col(measures).mean()))

# %% Which function did the policy choose, update by update? Build its sampler, and watch.
from mine import EasyFirst  # noqa: E402

from cluster.config.compose import compose  # noqa: E402
from cluster.runs.artifacts import Artifacts  # noqa: E402
from cluster.runs.execute import assemble  # noqa: E402

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
