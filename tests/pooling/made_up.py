"""Small runs, judgements, samples and orders of judging."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from pyrite.pooling.adjudicators.sampled import CERTAIN, Sample
from pyrite.pooling.campaign import Campaign
from pyrite.pooling.judging_order import JudgingOrder
from pyrite.pooling.pool import Pool
from pyrite.pooling.runs import Runs

HALF_OF_FOUR = Sample(np.array([2.0, 2.0, 0.0, 0.0]), np.array([0, 0, CERTAIN, CERTAIN], np.int32))
"""Two of four documents, drawn uniformly: each represents two."""


def sample_of_all(size: int) -> Sample:
    """All documents, judged for certain."""
    return Sample(np.ones(size), np.full(size, CERTAIN, np.int32))


def in_order_of_ids(pool: Pool) -> JudgingOrder:
    return JudgingOrder([np.arange(topic.pool.size, dtype=np.int32) for topic in pool.topics])


def random_order(pool: Pool, rng: np.random.Generator) -> JudgingOrder:
    return JudgingOrder([rng.permutation(topic.pool.size).astype(np.int32) for topic in pool.topics])


def judgements(order: JudgingOrder) -> list[tuple[int, int]]:
    """Topic and document of each judgement, one topic after another if each has a budget."""
    turns = order.turns
    if turns is None:
        turns = np.repeat(np.arange(len(order.documents)), [len(documents) for documents in order.documents])
    documents = [iter(documents.tolist()) for documents in order.documents]
    return [(topic, next(documents[topic])) for topic in turns.tolist()]


def judged_by(campaign: Campaign, pool: Pool, steps: int = -1) -> list[tuple[int, int]]:
    judged: list[tuple[int, int]] = []
    while len(judged) != steps and (asked := campaign.next()) is not None:
        topic, document = asked
        campaign.judge(topic, document, int(pool.topics[topic].grades[document]))
        judged.append(asked)
    return judged


def runs_of(lists: Mapping[str, Mapping[str, Sequence[str]]]) -> Runs:
    """Runs of `{run: {topic: documents}}`, best first; a run's team is its first letter."""
    names = sorted(lists)
    rows = [
        (run, topic, document, place)
        for run, name in enumerate(names)
        for topic, documents in lists[name].items()
        for place, document in enumerate(documents)
    ]
    schema = {"run": pl.UInt32, "topic": pl.String, "document": pl.String, "place": pl.UInt32}
    table = pl.DataFrame(rows, schema=schema, orient="row")
    return Runs(names, [name[0] for name in names], sorted({row[1] for row in rows}), table, {"read": 7})


def qrels_of(*rows: tuple[str, str, int]) -> pl.DataFrame:
    """Query, document and grade of each row."""
    return pl.DataFrame(rows, schema={"query": pl.String, "document": pl.String, "grade": pl.Int32}, orient="row")
