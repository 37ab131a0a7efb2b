from dataclasses import replace

import numpy as np
import pytest

from pyrite.pooling.across_topics import AcrossTopics
from pyrite.pooling.adjudicators.adjudicator import Adjudication, topic_rng
from pyrite.pooling.adjudicators.bandit.bandit import Bandit
from pyrite.pooling.adjudicators.max_mean import MaxMean
from pyrite.pooling.adjudicators.moffat import MoffatC
from pyrite.pooling.adjudicators.posterior_fusion import PosteriorFusion
from pyrite.pooling.adjudicators.static import DocID
from pyrite.pooling.adjudicators.thompson import Thompson
from pyrite.pooling.campaign import Campaign
from pyrite.pooling.effort import total_curve
from pyrite.pooling.judging_order import side_by_side
from pyrite.pooling.pool import NO_TERMS, Pool, topic_pool
from pyrite.pooling.run_regression import RunRegression
from pyrite.pooling.shared_fusion import SharedFusion, rounds
from pyrite.pooling.simulation import found_at, needs_of, simulate
from pyrite.pooling.text_regression import TextRegression
from pyrite.ranking.errors import BadInput
from tests.pooling.made_up import judged_by


@pytest.fixture(scope="module")
def pool(random_pool) -> Pool:
    return random_pool(np.random.default_rng(8))


def test_topics_take_turns():
    assert list(rounds(3)) == [1, 2, 3]
    assert list(rounds(25))[18:] == [19, 20, 22, 24, 26]
    assert side_by_side(np.array([2, 1, 3])).tolist() == [0, 1, 2, 0, 2, 2]


def test_the_prior_is_of_the_other_topics(pool_of):
    method = SharedFusion(PosteriorFusion(alpha=0.5, beta=2), runs=None, strength=10)
    strength, means = method.prior(np.array([[4.0, 2.0], [6.0, 0.0]]), np.array([[4.0, 0.0], [3.0, 0.0]]))
    assert strength == 10
    assert means.tolist() == [[3.5 / 8.5, 0.5 / 2.5], [4.5 / 6.5, 0.5 / 4.5]]


def test_trust_in_other_topics_is_estimated():
    method, rng = SharedFusion(PosteriorFusion(), runs=None), np.random.default_rng(1)
    judged = np.full((30, 8), 40.0)
    alike = rng.binomial(40, np.linspace(0.1, 0.8, 8), (30, 8)).astype(float)
    unlike = rng.permuted(alike, axis=1)  # each topic has its own best runs
    trust, mistrust = method.prior(judged, alike)[0], method.prior(judged, unlike)[0]
    assert trust >= 80
    assert mistrust <= 5
    assert method.prior(judged[:1], alike[:1])[0] == 0  # nothing to learn from


def test_it_finds_more_where_runs_are_alike_in_all_topics(pool_of):
    rng, rankings, grades = np.random.default_rng(8), [], []
    for _ in range(20):
        relevant = rng.random(60) < 0.3
        lists = [np.argsort(rng.random(60) - quality * relevant)[:15] for quality in (2, 0, 0, 0, 0, 0)]
        held, numbers = np.unique(np.concatenate(lists), return_inverse=True)
        rankings.append(numbers.reshape(6, 15).tolist())
        grades.append(relevant[held].astype(int).tolist())
    pool = pool_of(rankings, grades)
    seeds, budgets = [0, 1, 2], [3, 6]
    alone = sum(found_at(pool, order, budgets).sum() for order in simulate(PosteriorFusion(), pool, seeds))
    orders = simulate(SharedFusion(PosteriorFusion(), runs=None), pool, seeds)
    assert sum(found_at(pool, order, budgets).sum() for order in orders) > 1.1 * alone
    # Each topic has its own budget, whatever the turns.
    assert orders[0].spent(5).tolist() == [5] * 20
    assert total_curve(pool, orders[0])[1][5] == found_at(pool, orders[0], [6]).sum()


def test_one_topic_is_judged_as_by_posterior_fusion(random_pool):
    pool = random_pool(np.random.default_rng(8), topics=1)
    [shared], [alone] = (
        simulate(SharedFusion(PosteriorFusion(), runs=None), pool, [4]),
        simulate(PosteriorFusion(), pool, [4]),
    )
    assert shared.documents[0].tolist() == alone.documents[0].tolist()


def test_odds_over_runs_by_hand(pool_of):
    # One team, whose two runs hold documents 0 and 1 at the top, one each: x is 1 for both, .5 for none (constant 0).
    pool = pool_of([[[0, 1], [1, 0]]], [[1, 0]], teams=["a", "a"])
    [odds] = RunRegression(constant=0).log_odds([pool.topics[0].pool], [np.full(2, np.nan)])
    assert odds.tolist() == [-2 + 3, -2 + 3]  # nothing judged: the prior
    [odds] = RunRegression(constant=0).log_odds([pool.topics[0].pool], [np.array([0.0, np.nan])])
    assert odds[0] == odds[1] < 1


def test_copies_of_a_run_count_once(random_pool):
    topic = random_pool(np.random.default_rng(3), topics=1).topics[0].pool
    ranking = np.concatenate([topic.ranking, topic.ranking[[0, 0, 0]]])
    copied = topic_pool(ranking, topic.size, np.concatenate([topic.teams, topic.teams[[0, 0, 0]]]))
    heard = np.where(np.arange(topic.size) < 9, (np.arange(topic.size) % 3 == 0).astype(float), np.nan)
    [alone], [many] = (RunRegression().log_odds([own], [heard]) for own in (topic, copied))
    assert many == pytest.approx(alone, abs=2e-6)


@pytest.mark.parametrize("runs", [RunRegression(weight=0), RunRegression(until=1e-6)])
def test_regressions_fade_and_can_be_left_out(pool, runs):
    [one], [two] = (
        simulate(SharedFusion(PosteriorFusion(), **given), pool, [4]) for given in ({"runs": None}, {"runs": runs})
    )
    assert [own.tolist() for own in one.documents] == [own.tolist() for own in two.documents]


def test_texts_tell_relevant_documents(random_pool):
    pool = random_pool(np.random.default_rng(8), topics=6, documents=60, depth=20)
    pools, rng = [topic.pool for topic in pool.topics], np.random.default_rng(1)
    heard = [np.where(rng.random(topic.pool.size) < 0.5, pool.is_relevant(topic), np.nan) for topic in pool.topics]
    odds = np.concatenate(TextRegression(weight=1).log_odds(pools, heard))
    waiting, relevant = np.isnan(np.concatenate(heard)), np.concatenate([pool.is_relevant(own) for own in pool.topics])
    assert odds[waiting & relevant].mean() > odds[waiting & ~relevant].mean() + 0.5
    nothing = [np.full(topic.pool.size, np.nan) for topic in pool.topics]
    assert not np.concatenate(TextRegression(weight=1).log_odds(pools, nothing)).any()


def test_texts_are_asked_for_where_they_have_a_weight(pool):
    without = SharedFusion(PosteriorFusion(), runs=None, texts=TextRegression())
    reading = SharedFusion(PosteriorFusion(), runs=None, texts=TextRegression(weight=1))
    assert (needs_of(without), needs_of(reading)) == ((), ("texts",))
    [first], [second] = simulate(without, pool, [0]), simulate(reading, pool, [0])
    assert any(one.tolist() != two.tolist() for one, two in zip(first.documents, second.documents, strict=True))
    bare = replace(pool, topics=[replace(own, pool=own.pool._replace(terms=NO_TERMS)) for own in pool.topics])
    with pytest.raises(BadInput, match="the pool has none"):
        simulate(reading, bare, [0])


THOMPSON = Bandit(Thompson())
SHARED = AcrossTopics(Bandit(MaxMean()), Bandit(MaxMean(), rate=0.9), 3)


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
