"""Resume and more seeds: results stay, and only what is missing runs."""

from pyrite import BM25, Collection, InBatch, Study, StudyResult

study = Study(
    Collection.from_pairs("pairs.csv"),
    {"in-batch": InBatch(), "+1 BM25": InBatch() + BM25(1)},
    seeds=2,
    scale="tiny",
)
first = study.run()
before = len(first.runs)
more = study.more_seeds(1)  # in the same folder
print(f"{before} runs, then {len(more.runs)} in {more.folder}")
again = StudyResult.restore(more.folder)  # what `pyrite study --resume FOLDER` does after a crash: nothing is left here
print(again.compare(first))
