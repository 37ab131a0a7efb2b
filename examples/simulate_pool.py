"""A pool simulated: in which order should the documents of some runs be judged?"""

import random
import tempfile
from pathlib import Path

from pyrite import MM, MTF, Pool, SharedFusion

rng = random.Random(0)
folder = Path(tempfile.mkdtemp())
(folder / "runs").mkdir()
relevant = {(topic, document) for topic in range(5) for document in range(60) if rng.random() < 0.2}
for skill in range(4):  # four runs, later ones better
    with (folder / "runs" / f"run{skill}").open("w") as file:
        for topic in range(5):
            score = {d: rng.random() + 0.4 * skill * ((topic, d) in relevant) for d in range(60)}
            for rank, document in enumerate(sorted(score, key=score.__getitem__, reverse=True)[:20], 1):
                file.write(f"{topic} Q0 d{document} {rank} {score[document]:.4f} run{skill}\n")
judged = [f"{topic} 0 d{d} {int((topic, d) in relevant)}\n" for topic in range(5) for d in range(60)]
(folder / "qrels.txt").write_text("".join(judged))

pool = Pool(folder / "runs", folder / "qrels.txt", depth=20)
result = pool.simulate([MTF(), MM(), SharedFusion()], seeds=3, budgets=[5, 10, 20])
print(result.verdict)
