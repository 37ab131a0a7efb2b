"""Studies a custom ranker: which negatives train it best, and how much depends on the seed?

Run it as a script or cell by cell. `mine.py` has the class; a ranker is one class with four methods.
"""

# %% The class replaces Pyrite's ranker; +ranker.NAME= sets one of its options.
import os
import shlex

import polars as pl

import pyrite

DATA = shlex.split(os.environ.get("PYRITE_EXAMPLE", "scale=tiny"))  # PYRITE_EXAMPLE="scale=small" takes longer
RANKER = ["ranker._target_=mine.MeanOfWords", "+ranker.scale=10.0", "objective=softmax"]

# %% A study: two functions, two selectors, two seeds each.
study = pyrite.study(
    [*DATA, *RANKER, "policy=fixed", "function=random,bm25", "selector=uniform,dynamic", "seeds=2", "local=true"]
)  # local=true: in this process; without it, Ray spreads the runs
print(study.summary.select("ranker", "function", "selector", "runs"))
print("the page:", study.report)

# %% Tables are polars data frames: the negatives of each function, and the measures of each query.
print(study.samplers.select("run", "function", "negatives"))
print(study.queries.group_by("run", "origin", maintain_order=True).agg(pl.col(pl.Float64).mean()))

# %% The same parts without a study: a training and its sampler, stepped three times.
from cluster.config.compose import compose  # noqa: E402
from cluster.runs.artifacts import Artifacts  # noqa: E402
from cluster.runs.assemble import assemble  # noqa: E402

config = compose([*DATA, *RANKER, "function=bm25", "selector=dynamic"])
training, sampler = assemble(config, Artifacts().parts(config), fold=0)
for _ in range(3):
    batch = training.next_batch()
    negatives = sampler.negatives(batch, training)  # documents [queries, negatives]
    result = training.update(batch, negatives, sampler.source_scores)
    sampler.observe(negatives, result)
    print(f"step {training.step}: loss {result.loss:.4f}, {(negatives >= 0).sum()} negatives")
