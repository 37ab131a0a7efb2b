import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ranking.ascending import find

NUMBERS = st.lists(st.integers(-5, 30))


@given(NUMBERS, NUMBERS)
def test_what_is_there_is_found_and_nothing_else(known, wanted):
    ascending, asked = np.unique(np.array(known, np.int64)), np.array([wanted], np.int64)
    places, there = find(ascending, asked)
    assert places.shape == there.shape == asked.shape
    assert there[0].tolist() == [each in known for each in wanted]
    assert ascending[places[there]].tolist() == asked[there].tolist()
