"""Simulates the judging of a pool: in which order, and how good is the ranking of runs after a few judgements?

Set PYRITE_EXAMPLE="runs=FOLDER qrels=FILE" to use other runs; by default runs are made up here.
"""

# %% Four systems of three teams over five topics, later ones better, and judgements.
import os
import shlex
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import pyrite

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
relevant = rng.random((5, 60)) < 0.2
(folder / "runs").mkdir()
for number, name in enumerate(["early1", "middle1", "middle2", "late1"]):
    lines = []
    for topic in range(5):
        scores = rng.random(60) + 0.4 * number * relevant[topic]
        for rank, document in enumerate(np.argsort(-scores)[:20], 1):
            lines.append(f"{topic} Q0 d{document} {rank} {scores[document]:.4f} {name}")
    (folder / "runs" / name).write_text("\n".join(lines) + "\n")
judged = [f"{topic} 0 d{document} {int(relevant[topic, document])}" for topic in range(5) for document in range(60)]
(folder / "qrels.txt").write_text("\n".join(judged) + "\n")
DATA = shlex.split(os.environ.get("PYRITE_EXAMPLE", f"runs={folder / 'runs'} qrels={folder / 'qrels.txt'} depth=20"))

# %% Orders of judging, compared in simulation: relevant documents found after 5, 10 and 20 judgements per topic.
study = pyrite.pool([*DATA, "method=mtf,mm,posterior_fusion,random", "seeds=3", "budgets=[5,10,20]", "dashboard=false"])
print(study.summary)
print(study.budgets.group_by("method", "budget", maintain_order=True).agg(pl.selectors.numeric().mean()))
print("the page:", study.report)

# %% One topic by hand: an adjudicator chooses a document, receives its grade, and chooses the next.
from pooling.adjudicators.adjudicator import Adjudication  # noqa: E402
from pooling.adjudicators.posterior_fusion import PosteriorFusion  # noqa: E402
from pooling.pool import make_pool  # noqa: E402
from pooling.runs import read_runs  # noqa: E402

pool = make_pool(read_runs(str(folder / "runs")), None, depth=20)
topic = pool.topics[0]
judging = Adjudication(PosteriorFusion(), topic.pool, np.random.default_rng(0), pool.runs)
for _ in range(5):
    document = judging.next()
    assert document is not None
    name = topic.documents[document]
    grade = int(relevant[int(topic.name), int(name.removeprefix("d"))])  # a person would judge here
    judging.judge(document, grade)
    print(f"topic {topic.name}: {name} is {'relevant' if grade else 'not relevant'}")
