"""Judging one document at a time: what a topic and a campaign hand out, and what they refuse."""

import numpy as np
import pytest

from pooling.across_topics import AcrossTopics
from pooling.adjudicators.adjudicator import Adjudication, topic_rng
from pooling.adjudicators.bandit.bandit import Bandit
from pooling.adjudicators.max_mean import MaxMean
from pooling.adjudicators.moffat import MoffatC
from pooling.adjudicators.static import DocID, Rank
from pooling.adjudicators.thompson import Thompson
from pooling.campaign import Campaign
from pooling.pool import Pool
from tests.pooling.made_up import judged_by

THOMPSON = Bandit(Thompson())
SHARED = AcrossTopics(Bandit(MaxMean()), Bandit(MaxMean(), rate=0.9), 3)


@pytest.fixture(scope="module")
def pool(random_pool) -> Pool:
    return random_pool(np.random.default_rng(8))


@pytest.mark.parametrize("method", [THOMPSON, SHARED], ids=["thompson", "shared"])
def test_a_topic_of_ones_choice(method, pool):
    campaign = Campaign(pool, method, 1)
    size = pool.topics[2].pool.size
    asked = [campaign.next(2) for _ in range(size)]
    assert {each for each in asked if each} == {(2, document) for document in range(size)}
    assert campaign.next(2) is None
    for each in asked:
        campaign.judge(*each, 1)
    assert len(judged_by(campaign, pool)) == pool.size - size


def test_what_was_judged_elsewhere_is_learnt(pool_of):
    # 3 and 4 are relevant, says someone: the second run is ahead of the first at once.
    pool = pool_of([[[0, 1, 2], [3, 4, 5]]], [[0, 0, 0, 1, 1, 0]])
    campaign = Campaign(pool, Bandit(MaxMean(), ties="first"))
    campaign.judge(0, 3, 1)
    campaign.judge(0, 4, 1)
    assert campaign.next() == (0, 5)


def test_supplied_by_a_run(pool_of):
    [topic] = pool_of([[[0, 1, -1], [2, 1, 3]]], [[0, 1, 0, 0]]).topics
    judging = Adjudication(DocID(), topic.pool, topic_rng(2, "1"), ["run0", "run1"])
    assert not judging.judged.any()
    assert [judging.supply(1), judging.supply(1), judging.supply(0), judging.supply(1)] == [2, 1, 0, 3]
    with pytest.raises(ValueError, match="no document left"):
        judging.supply(0)
    assert judging.next() is None


def test_an_open_document(pool):
    [topic] = pool.only(["1"]).topics
    judging = Adjudication(Rank(), topic.pool, topic_rng(2, "1"), pool.runs)
    document = judging.next()
    assert document is not None
    assert not judging.is_open(document)
    others = set(range(topic.pool.size)) - {document}
    assert all(map(judging.is_open, others))
    assert not judging.is_open(-1)
    assert not judging.is_open(topic.pool.size)


def test_wrong_documents(pool):
    campaign = Campaign(pool, SHARED)
    for document in (-1, 999):
        with pytest.raises(ValueError, match="no document"):
            campaign.judge(0, document, 1)
    topic, document = campaign.next() or (0, 0)
    campaign.judge(topic, document, 0)
    with pytest.raises(ValueError, match="judged before"):
        campaign.judge(topic, document, 0)


def test_the_state_of_another_pool_or_method(pool, random_pool):
    state = Campaign(pool, THOMPSON).state_dict()
    for other in (
        Campaign(pool, MoffatC()),
        Campaign(pool, SHARED),
        Campaign(pool.only(["1", "2"]), THOMPSON),
        Campaign(random_pool(np.random.default_rng(3), runs=4), THOMPSON),
    ):
        with pytest.raises(ValueError, match="another pool"):
            other.load_state_dict(state)
