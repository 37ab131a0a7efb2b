"""Judging for real, a document at a time, gives the order of the simulation."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pooling.across_topics import AcrossTopics
from pooling.adjudicators.adjudicator import Adjudication, Adjudicator, topic_rng
from pooling.adjudicators.bandit.bandit import Bandit
from pooling.adjudicators.max_mean import MaxMean
from pooling.adjudicators.moffat import MoffatC
from pooling.adjudicators.move_to_front import MoveToFront
from pooling.adjudicators.posterior_fusion import PosteriorFusion
from pooling.adjudicators.static import DocID, Rank
from pooling.adjudicators.thompson import Thompson
from pooling.campaign import Campaign
from pooling.judging_order import JudgingOrder
from pooling.pool import Pool, Topic
from pooling.rewards import Graded
from pooling.simulation import Method, simulate
from tests.examples import few

MakesPools = Callable[..., Pool]

ADJUDICATORS: dict[str, Adjudicator] = {
    "docid": DocID(),
    "rank": Rank(),
    "thompson": Bandit(Thompson()),
    "max_mean in teams": Bandit(MaxMean(), teams=True),
    "max_mean with a window": Bandit(MaxMean(), "played", window=5),
    "move_to_front that replays": Bandit(MoveToFront(), "played", "replay"),
    "moffat_c": MoffatC(),
    "posterior_fusion": PosteriorFusion(reward=Graded()),
}
METHODS: dict[str, Method] = {
    **ADJUDICATORS,
    "shared": AcrossTopics(Bandit(MaxMean()), Bandit(MaxMean(), rate=0.9), 3),
    "shared by chance": AcrossTopics(PosteriorFusion(), Bandit(Thompson(), discount=0.9), 0),
    "shared alike": AcrossTopics(Rank(), Bandit(MaxMean()), 99),
}


@pytest.fixture(scope="module")
def pool(random_pool: MakesPools) -> Pool:
    return random_pool(np.random.default_rng(8))


def adjudication(name: str, pool: Pool, seed: int = 2) -> tuple[Adjudication, Topic]:
    topic = pool.topics[0]
    rng = topic_rng(seed, topic.name)
    return Adjudication(ADJUDICATORS[name], topic.pool, rng, pool.runs, pool.relevant_from, pool.highest), topic


def stepped(judging: Adjudication, topic: Topic, steps: int = -1) -> list[int]:
    """Judges what is asked for, until nothing is or the steps are done."""
    judged: list[int] = []
    while len(judged) != steps and (document := judging.next()) is not None:
        judging.judge(document, int(topic.grades[document]))
        judged.append(document)
    return judged


def judged_by(campaign: Campaign, pool: Pool, steps: int = -1) -> list[tuple[int, int]]:
    judged: list[tuple[int, int]] = []
    while len(judged) != steps and (asked := campaign.next()) is not None:
        topic, document = asked
        campaign.judge(topic, document, int(pool.topics[topic].grades[document]))
        judged.append(asked)
    return judged


def pairs(order: JudgingOrder) -> list[tuple[int, int]]:
    """Topic and document of each judgement of a simulation, without shared turns one topic after another."""
    turns = order.turns
    if turns is None:
        turns = np.repeat(np.arange(len(order.documents)), [len(documents) for documents in order.documents])
    documents = [iter(documents.tolist()) for documents in order.documents]
    return [(topic, next(documents[topic])) for topic in turns.tolist()]


@pytest.mark.by_day(3)
@pytest.mark.parametrize("name", ADJUDICATORS)
def test_one_topic(name: str, pool: Pool) -> None:
    judging, topic = adjudication(name, pool)
    assert not judging.judged.any()
    expected = simulate(ADJUDICATORS[name], pool, [2])[0].documents[0].tolist()
    assert stepped(judging, topic) == expected
    assert judging.judged.all()
    assert judging.next() is None


@pytest.mark.by_day(4)
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("seed", [0, 5])
def test_a_campaign(name: str, seed: int, pool: Pool) -> None:
    assert judged_by(Campaign(pool, METHODS[name], seed), pool) == pairs(simulate(METHODS[name], pool, [seed])[0])


@pytest.mark.by_day(3)
@pytest.mark.parametrize("name", METHODS)
@given(steps=st.integers(0, 60), seed=st.integers(0, 9))
@few(5)
def test_a_campaign_that_was_kept(name: str, steps: int, seed: int, pool: Pool) -> None:
    begun = Campaign(pool, METHODS[name], seed)
    first = judged_by(begun, pool, steps)
    resumed = Campaign(pool, METHODS[name], seed + 1)
    resumed.load_state_dict(copy.deepcopy(begun.state_dict()))
    assert first + judged_by(resumed, pool) == pairs(simulate(METHODS[name], pool, [seed])[0])


def test_a_state_stays_as_it_was_taken(pool: Pool) -> None:
    judging, topic = adjudication("thompson", pool)
    first = stepped(judging, topic, 5)
    state = judging.state_dict()
    rest = stepped(judging, topic)
    resumed, _ = adjudication("thompson", pool)
    resumed.load_state_dict(state)
    assert stepped(resumed, topic) == rest
    assert not set(first) & set(rest)


@pytest.mark.by_day(3)
@pytest.mark.parametrize("name", METHODS)
@given(data=st.data(), assessors=st.integers(2, 6))
@few(5)
def test_several_documents_out_at_once(name: str, data, assessors: int, pool: Pool) -> None:
    campaign = Campaign(pool, METHODS[name], 1)
    out: list[tuple[int, int]] = []
    handed_out: list[tuple[int, int]] = []
    while True:
        while len(out) < assessors and (asked := campaign.next()) is not None:
            out.append(asked)
            handed_out.append(asked)
        if not out:
            break
        topic, document = out.pop(data.draw(st.integers(0, len(out) - 1)) if len(handed_out) < 40 else 0)
        campaign.judge(topic, document, int(pool.topics[topic].grades[document]))
    assert len(set(handed_out)) == len(handed_out) == pool.size


@pytest.mark.by_day(3)
@pytest.mark.parametrize("name", METHODS)
def test_judged_elsewhere_is_not_handed_out(name: str, pool: Pool) -> None:
    campaign = Campaign(pool, METHODS[name], 1)
    elsewhere = [(topic, document) for topic in range(len(pool.topics)) for document in (0, 3, 8)]
    before = judged_by(campaign, pool, 7)
    elsewhere = [each for each in elsewhere if each not in before]
    for topic, document in elsewhere:
        campaign.judge(topic, document, int(pool.topics[topic].grades[document]))
    after = judged_by(campaign, pool)
    assert len(set(before + elsewhere + after)) == len(before) + len(elsewhere) + len(after) == pool.size


@pytest.mark.parametrize("name", ["thompson", "shared"])
def test_a_topic_of_ones_choice(name: str, pool: Pool) -> None:
    campaign = Campaign(pool, METHODS[name], 1)
    size = pool.topics[2].pool.size
    asked = [campaign.next(2) for _ in range(size)]
    assert {each for each in asked if each} == {(2, document) for document in range(size)}
    assert campaign.next(2) is None
    for each in asked:
        assert each is not None
        campaign.judge(*each, 1)
    assert len(judged_by(campaign, pool)) == pool.size - size


def test_what_was_judged_elsewhere_is_learnt(pool_of: MakesPools) -> None:
    # 3 and 4 are relevant, says someone: the second run is ahead of the first at once.
    pool = pool_of([[[0, 1, 2], [3, 4, 5]]], [[0, 0, 0, 1, 1, 0]])
    campaign = Campaign(pool, Bandit(MaxMean(), ties="first"))
    campaign.judge(0, 3, 1)
    campaign.judge(0, 4, 1)
    assert campaign.next() == (0, 5)


def test_supplied_by_a_run(pool_of: MakesPools) -> None:
    pool = pool_of([[[0, 1, -1], [2, 1, 3]]], [[0, 1, 0, 0]])
    judging, topic = adjudication("docid", pool)
    assert [judging.supply(1), judging.supply(1), judging.supply(0), judging.supply(1)] == [2, 1, 0, 3]
    with pytest.raises(ValueError, match="no document left"):
        judging.supply(0)
    assert judging.next() is None
    assert topic.pool.size == 4


def test_an_open_document(pool: Pool) -> None:
    judging, topic = adjudication("rank", pool)
    document = judging.next()
    assert document is not None
    assert not judging.is_open(document)
    others = set(range(topic.pool.size)) - {document}
    assert all(map(judging.is_open, others))
    assert not judging.is_open(-1)
    assert not judging.is_open(topic.pool.size)


def test_wrong_documents(pool: Pool) -> None:
    campaign = Campaign(pool, METHODS["shared"])
    for document in (-1, 999):
        with pytest.raises(ValueError, match="no document"):
            campaign.judge(0, document, 1)
    topic, document = campaign.next() or (0, 0)
    campaign.judge(topic, document, 0)
    with pytest.raises(ValueError, match="judged before"):
        campaign.judge(topic, document, 0)


def test_the_state_of_another_pool_or_method(pool: Pool, random_pool: MakesPools) -> None:
    state = Campaign(pool, METHODS["thompson"]).state_dict()
    for other in (
        Campaign(pool, METHODS["moffat_c"]),
        Campaign(pool, METHODS["shared"]),
        Campaign(pool.only(["1", "2"]), METHODS["thompson"]),
        Campaign(random_pool(np.random.default_rng(3), runs=4), METHODS["thompson"]),
    ):
        with pytest.raises(ValueError, match="another pool"):
            other.load_state_dict(state)
