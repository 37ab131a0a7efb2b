import numpy as np
import pytest

from ranking.errors import BadInput
from sampling.policies.action import Action
from sampling.selection.dynamic import Dynamic

OWN = ["in_batch", "bm25"]


@pytest.mark.parametrize(
    "text", ["in_batch", "bm25:1-4", "bm25@simans", "bm25@dynamic:16", "bm25:5-20@top*0.5", "bm25*0", "bm25*4"]
)
def test_an_action_is_read_as_it_is_written(text):
    assert str(Action.parse(text)) == text


def test_an_action_names_its_parts():
    action = Action.parse("bm25:1-20@dynamic:64*.5")
    assert action == Action("bm25", (1, 20), "dynamic", 64, 0.5)
    selector = action.selectors()["bm25"]
    assert isinstance(selector, Dynamic)
    assert (selector.lam, selector.candidates) == (0, 64)
    assert Action.parse("bm25").selectors() == {}


@pytest.mark.parametrize("text", ["bm25:4-1", "bm25@best", "bm25*1.5", "bm25@simans:0", "bm 25", "bm25:1"])
def test_an_action_that_is_none_is_bad_input(text):
    with pytest.raises(BadInput):
        Action.parse(text)


def test_shares_of_queries_and_of_negatives():
    rng = np.random.default_rng(0)
    half = Action.parse("bm25*.5")
    of_queries = half.assign(OWN, OWN, 8, 4, 1, rng)
    assert sorted((of_queries == 1).sum(1).tolist()) == [0] * 4 + [1] * 4
    assert ((of_queries == 0).sum(1) == 3).all()
    assert (half.assign(OWN, OWN, 8, 4, None, rng) == [0, 0, 1, 1]).all()
    assert (Action.parse("bm25").assign(OWN, OWN, 8, 4, None, rng) == 1).all()
    # So many times `each`, and the same part of the first function for all actions of a policy.
    twice = Action.parse("bm25*2")
    assert (twice.assign(OWN, OWN, 3, 5, 1, rng) == [0, 0, 0, 1, 1]).all()
    assert (Action.parse("bm25").assign(OWN, OWN, 3, 5, 1, rng, times=2) == [0, 0, 0, 1, -1]).all()
    with pytest.raises(BadInput, match="which is not given"):
        twice.assign(OWN, OWN, 3, 5, None, rng)
    # The first function's action: nothing but what it supplies anyway.
    assert (Action.parse("in_batch").assign(OWN, OWN, 8, 4, 1, rng) == [0, 0, 0, -1]).all()
