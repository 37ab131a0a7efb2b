"""On a cluster: the same study on Ray; your own classes travel with it.

Set RAY_ADDRESS=HEAD:6379 to join a cluster; without it a local Ray starts.
"""

import os

from pyrite import BM25, Collection, InBatch, Ray, Study

study = Study(
    Collection.from_pairs("pairs.csv"),
    {"in-batch": InBatch(), "+1 BM25": InBatch() + BM25(1)},
    seeds=3,
    scale="tiny",
)
address = os.environ.get("RAY_ADDRESS")
print((study.run(Ray(address)) if address else study.run()).verdict)
