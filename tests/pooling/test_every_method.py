"""What every order of judging promises; new ones are found by their files and classes, and held to it."""

import importlib
import inspect
import pkgutil
from collections import Counter
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

import pooling.adjudicators
from benchmarks.plain_pooling import plain_simulation
from cluster.config.groups import group_options
from cluster.plan.pool_methods import Variant, variants
from pooling.across_topics import AcrossTopics
from pooling.adjudicators.adjudicator import Adjudicator
from pooling.adjudicators.bandit.bandit import Bandit
from pooling.adjudicators.bandit.index import ArmIndex
from pooling.adjudicators.max_mean import MaxMean
from pooling.adjudicators.move_to_front import MoveToFront
from pooling.adjudicators.posterior_fusion import PosteriorFusion
from pooling.adjudicators.static import Rank
from pooling.adjudicators.thompson import Thompson
from pooling.campaign import Campaign
from pooling.pool import Pool
from pooling.rewards import Graded
from pooling.simulation import Method, adjudicator_of, simulate
from tests.pooling.made_up import judged_by, judgements

VARIANTS: dict[str, Method] = {
    "max_mean in teams": Bandit(MaxMean(), teams=True),
    "max_mean with a window": Bandit(MaxMean(), "played", window=5),
    "move_to_front that replays": Bandit(MoveToFront(), "played", "replay"),
    "posterior_fusion of grades": PosteriorFusion(reward=Graded()),
    "shared": AcrossTopics(Bandit(MaxMean()), Bandit(MaxMean(), rate=0.9), 3),
    "shared by chance": AcrossTopics(PosteriorFusion(), Bandit(Thompson(), discount=0.9), 0),
    "shared alike": AcrossTopics(Rank(), Bandit(MaxMean()), 99),
}
"""Methods with options that no file has."""
METHODS = [*group_options()["method"], *VARIANTS]


def method_of(name: str) -> Method:
    return VARIANTS[name] if name in VARIANTS else with_defaults()[name].build()


@cache
def with_defaults() -> dict[str, Variant]:
    """The methods that have a name, composed together: that takes a tenth of one composition each."""
    return {variant.method: variant for variant in variants(group_options()["method"], [], [])}


@pytest.fixture(scope="module")
def pool(random_pool) -> Pool:
    return random_pool(np.random.default_rng(12), topics=3)


@pytest.mark.by_day(6)
@pytest.mark.parametrize("name", METHODS)
def test_it_judges_in_the_order_of_its_plain_form(name, pool):
    method = method_of(name)
    for seed, order in zip([0, 3], simulate(method, pool, [0, 3]), strict=True):
        plain = plain_simulation(method, pool, seed)
        assert [documents.tolist() for documents in order.documents] == [each.tolist() for each in plain.documents]
        assert (order.turns is None) == (plain.turns is None)
        if order.turns is not None and plain.turns is not None:
            assert order.turns.tolist() == plain.turns.tolist()


@pytest.mark.by_day(6)
@pytest.mark.parametrize("name", METHODS)
def test_it_judges_everything_once_and_alike_with_people_and_after_a_pause(name, pool):
    method = method_of(name)
    [order] = simulate(method, pool, [2])
    expected = judgements(order)
    assert len(set(expected)) == len(expected) == pool.size
    for pause in (0, 7, 25):
        begun, resumed = Campaign(pool, method, 2), Campaign(pool, method, 9)
        first = judged_by(begun, pool, pause)
        resumed.load_state_dict(begun.state_dict())
        assert first + judged_by(resumed, pool) == expected
    adjudicator = adjudicator_of(method)
    for function in (adjudicator.choose, adjudicator.take, adjudicator.learn, adjudicator.loop):
        compiled = Counter(tuple(map(str, types[1:3])) for types in getattr(function, "signatures", []))
        assert max(compiled.values(), default=1) == 1, "compiled once more for other types of the same things"


@pytest.mark.by_day(6)
@pytest.mark.parametrize("name", METHODS)
def test_it_hands_out_nothing_twice_to_several_assessors(name, pool):
    campaign, rng = Campaign(pool, method_of(name), 1), np.random.default_rng(4)
    handed_out = judged_by(campaign, pool, 7)
    elsewhere = {(topic, 5) for topic in range(len(pool.topics))} - set(handed_out)
    for topic, document in elsewhere:
        campaign.judge(topic, document, 1)
    out: list[tuple[int, int]] = []
    while True:
        while len(out) < 4 and (asked := campaign.next()) is not None:
            out.append(asked)
            handed_out.append(asked)
        if not out:
            break
        topic, document = out.pop(int(rng.integers(len(out))))
        campaign.judge(topic, document, int(pool.topics[topic].grades[document]))
    assert len({*handed_out, *elsewhere}) == len(handed_out) + len(elsewhere) == pool.size


def can_be_chosen(found: object, module: str) -> bool:
    """Whether it is an order or an index that is written there, with nothing left abstract, and no shared base."""
    if not inspect.isclass(found) or found.__module__ != module or inspect.isabstract(found):
        return False
    return issubclass(found, Adjudicator) or (issubclass(found, ArmIndex) and hasattr(found, "index"))


def classes() -> Iterator[type]:
    for module in pkgutil.walk_packages(pooling.adjudicators.__path__, "pooling.adjudicators."):
        everything = vars(importlib.import_module(module.name)).values()
        yield from (found for found in everything if can_be_chosen(found, module.name))


def test_each_class_can_be_chosen_by_a_file():
    used: set[type] = set()
    for name in group_options()["method"]:
        method = method_of(name)
        for part in (method.adjudicator, method.topics) if isinstance(method, AcrossTopics) else (method,):
            used |= {type(part), type(part.arm)} if isinstance(part, Bandit) else {type(part)}
    found = set(classes())
    assert not {each.__name__ for each in found - used}, "give each of them a file in cluster/conf/method"
    assert not {each.__name__ for each in found if not each.__doc__}
