"""Judging from a script: the pool chooses a document, receives its grade, and chooses the next."""

import tempfile
from pathlib import Path

from pyrite import Pool, PosteriorFusion

folder = Path(tempfile.mkdtemp())
for name, order in {"one": "abcdef", "two": "bdfghi"}.items():
    lines = [f"q1 Q0 {document} {rank} {10 - rank} {name}\n" for rank, document in enumerate(order, 1)]
    (folder / name).write_text("".join(lines))

pool = Pool(folder, method=PosteriorFusion())
for _ in range(4):
    document = pool.next()
    if document is None:
        break
    grade = int(document.document in "bd")  # a person, or a model, would judge here
    pool.judge(document, grade)
    print(f"{document.topic}: {document.document} is {'relevant' if grade else 'not relevant'}")
