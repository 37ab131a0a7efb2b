"""Declares the options of `pyrite evaluate`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pyrite.cluster.config.schema.kinds import Config, Count, Measures, Name, Order, OrderPrecision, Repeated


class EvaluateConfig(Config):
    runs: str | Annotated[list[str], Field(min_length=1)]
    """Files, folders or patterns of runs: TREC's lines, CSV, JSON or parquet."""
    qrels: str | Annotated[list[str], Field(min_length=1)]
    """Judgements: a file, or several whose topics or documents differ, as [a.txt,b.txt]."""
    measures: Measures = ["AP", "nDCG@10", "RR@10", "P@10", "R@1000", "judged@10"]
    """Measures of ir-measures, and judged@k: the share that is judged."""
    baseline: str | None = None
    """The run from which the others' differences are tested, paired by topic."""
    per_query: bool = False
    """Also show the values of each topic."""
    judged_only: bool = False
    """Leave documents that are not judged out of the runs (condensed lists)."""
    complete: bool = True
    """A topic that a run lacks counts as 0. false: means are over the topics that a run has."""
    relevant_from: Count = 1
    """The lowest grade that counts as relevant."""
    order: Order = "score"
    """The order of a run: score, rank, or file (the order of the lines)."""
    order_precision: OrderPrecision = "single"
    """The precision of scores: single, as in trec_eval 9, or double, as in trec_eval 10."""
    qrels_repeated: Repeated = "max"
    """The grade of a document judged again: max or mean, or stop."""
    encoding: str = "utf-8"
    """The encoding of all files."""
    strict: bool = True
    """false: skip and count broken lines."""
    out: Name | None = None
    """A table of run, topic, measure and value: .csv, .tsv, .json, .jsonl or .parquet, also .gz."""
