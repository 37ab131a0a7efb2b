"""Your own data: a CSV with columns of any name, and what Pyrite reads of it."""

import csv
import tempfile
from pathlib import Path

from pyrite import Collection

with open("pairs.csv", newline="") as file:
    rows = [(row["query"], row["passage"]) for row in csv.DictReader(file)]
path = Path(tempfile.mkdtemp()) / "support.csv"
with path.open("w", newline="") as file:
    csv.writer(file).writerows([("ticket", "solution"), *rows])

data = Collection.from_pairs(path, query="ticket", positive="solution", test=0.2)
print(data.describe())
print(data.counts())
# Folders of BEIR, MS MARCO and TREC are recognised by their files: Collection.from_path("scifact").
