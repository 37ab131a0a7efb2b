import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom, poisson

from pooling.judging.outlook import _quantile, estimate_recall, expected_yield
from pooling.judging.progress import CURVE_POINTS, TopicProgress
from pooling.stopping import TargetRecall


def judged(relevant: list[bool]) -> TopicProgress:
    progress = TopicProgress()
    for document, each in enumerate(relevant):
        progress.set(document, each)
    return progress


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(0, 200), st.sampled_from([0.5, 0.8, 0.9]))
def test_the_page_says_stop_when_the_rule_does(relevant, rest, target):
    rule = TargetRecall(target)
    whole = np.array(relevant + [False] * rest)
    said = estimate_recall(judged(relevant), len(whole), 0, rule)
    assert (said is not None and said.may_stop) == bool(rule.holds(whole)[len(relevant) - 1])
    if said is not None:
        assert 0 <= said.most <= rest
        assert said.recall == pytest.approx(sum(relevant) / (sum(relevant) + said.most))


def test_what_was_known_before_counts_as_found():
    progress = judged([True] * 5 + [False] * 40)
    alone, more = (estimate_recall(progress, 100, known, TargetRecall(0.9)) for known in (0, 95))
    assert more.most == alone.most
    assert more.recall == pytest.approx(100 / (100 + more.most))
    assert estimate_recall(judged([False] * 9), 10, 3, TargetRecall()) is None
    assert estimate_recall(progress, 45, 0, TargetRecall()) == (0, 1.0, True)


@given(st.floats(0, 500), st.floats(0.5, 0.999))
def test_the_bound_is_the_poisson_quantile(mean, share):
    number = _quantile(share, mean)
    assert poisson.cdf(number, mean) >= share - 1e-9
    assert poisson.cdf(number - 1, mean) < share + 1e-9


@given(st.lists(st.booleans(), max_size=20), st.integers(0, 15))
def test_the_interval_holds_nine_tenths(recent, left):
    found = expected_yield(recent, left)
    if found is None:
        assert left == 0
        return
    assert (found.documents, found.recent) == (min(left, 10), len(recent))
    number = betabinom(min(left, 10), 0.5 + sum(recent), 0.5 + len(recent) - sum(recent))
    assert number.cdf(found.high) - number.cdf(found.low - 1) >= 0.9 - 1e-9
    assert number.cdf(found.low - 1) < 0.05
    assert found.mean == pytest.approx(min(left, 10) * (0.5 + sum(recent)) / (1 + len(recent)))


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([True, False, None])), max_size=40))
def test_running_figures_are_those_of_all_judgements(changes):
    progress, kept = TopicProgress(), dict[int, bool]()
    for document, relevant in changes:
        if relevant is None and document not in kept:
            continue
        progress.set(document, relevant)
        if relevant is None:
            del kept[document]
        else:
            kept[document] = relevant
    order = list(kept.values())
    assert len(progress) == len(order)
    assert progress.found == sum(order)
    assert progress.places == pytest.approx(sum(place + 0.5 for place, relevant in enumerate(order) if relevant))
    assert progress.recent(3) == order[::-1][:3]
    assert progress.curve() == [(place, sum(order[:place])) for place in range(1, len(order) + 1) if order[place - 1]]


def test_a_long_curve_has_few_points_and_its_last():
    progress = TopicProgress()
    for document in range(5000):
        progress.set(document, document % 2 == 1)
    curve = progress.curve()
    assert len(curve) <= CURVE_POINTS
    assert curve[-1] == (5000, 2500)
    assert all(judged == 2 * found for judged, found in curve)
