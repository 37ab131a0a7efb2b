"""A first study: does one BM25 negative per query help, and is the difference more than chance?"""

from pyrite import BM25, Collection, InBatch, Static, Study

study = Study(
    Collection.from_pairs("pairs.csv"),
    negatives={"in-batch": InBatch(), "+1 BM25": InBatch() + BM25(1)},
    rankers=[Static()],
    seeds=3,
    baseline="in-batch",
    measure="nDCG@10",
    search="all",
    scale="tiny",
)
result = study.run()
print(result.verdict)
print(result.summary.select("method", "mean", "runs"))
print("the page:", result.report)
print("from the command line:", study.command)
