import pytest
from hypothesis import given
from hypothesis import strategies as st

from pooling.judging.progress import CURVE_POINTS, TopicProgress


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
