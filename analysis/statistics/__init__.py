"""Tests what the runs of a study show; draws nothing and starts nothing.

`trials` and `queries` are the frames of `trials.parquet` and `queries.parquet`, and `summary` is that of
`pyrite.analysis.statistics.summary.summarise`. No result depends on the order of the rows of `trials`.
"""
