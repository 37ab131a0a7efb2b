import re

import numpy as np
import pytest
import torch

from pyrite.cluster.config.build import build
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.validate import check_counts
from pyrite.ranking.errors import BadInput
from pyrite.ranking.sources import Sources
from pyrite.sampling.policies.action import Action
from pyrite.sampling.policies.aligned import Aligned, dot
from pyrite.sampling.selection.dynamic import Dynamic
from tests.ranking.trained import equal
from tests.sampling.test_contracts import random_and_bm25, training_of

OWN = ["in_batch", "bm25"]


# An action


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


@pytest.mark.parametrize("text", ["bm25:4-1", "bm25:0-4", "bm25@best", "bm25*1.5", "bm25@simans:0", "bm 25", "bm25:1"])
def test_an_action_that_is_none_is_bad_input(text):
    with pytest.raises(BadInput, match=f"{re.escape(repr(text))}"):
        Action.parse(text)


@pytest.mark.parametrize(
    ("text", "depth", "message"),
    [
        ("bm25:100-200", 100, None), ("in_batch", 0, None),
        ("bm25:101-200", 100, "bm25 has lists of 100 documents; choose ranks up to 100"),
        ("in_batch:1-4", 0, "in_batch has no lists, so that its documents have no ranks; leave them out"),
    ],
)  # fmt: skip
def test_ranks_that_no_list_has_are_refused(text, depth, message):
    if message is None:
        Action.parse(text).check_ranks(depth)
        return
    with pytest.raises(BadInput, match=message):
        Action.parse(text).check_ranks(depth)
    policy = ["policy=aligned", "function=[in_batch,bm25]", f"policy.actions=[bm25,'{text}']"]
    with pytest.raises(BadInput, match=message):
        check_counts(compose(policy))


def test_shares_of_queries_and_of_negatives():
    rng = np.random.default_rng(0)
    half = Action.parse("bm25*.5")
    of_queries = half.assign(OWN, 8, 4, 1, rng)
    assert sorted((of_queries == 1).sum(1).tolist()) == [0] * 4 + [1] * 4
    assert ((of_queries == 0).sum(1) == 3).all()
    assert (half.assign(OWN, 8, 4, None, rng) == [0, 0, 1, 1]).all()
    assert (Action.parse("bm25").assign(OWN, 8, 4, None, rng) == 1).all()
    # So many times `each`, and the same part of the first function for all actions of a policy.
    twice = Action.parse("bm25*2")
    assert (twice.assign(OWN, 3, 5, 1, rng) == [0, 0, 0, 1, 1]).all()
    assert (Action.parse("bm25").assign(OWN, 3, 5, 1, rng, times=2) == [0, 0, 0, 1, -1]).all()
    with pytest.raises(BadInput, match="which is not given"):
        twice.assign(OWN, 3, 5, None, rng)
    # The first function's action: nothing but what it supplies anyway.
    assert (Action.parse("in_batch").assign(OWN, 8, 4, 1, rng) == [0, 0, 0, -1]).all()


def policy_of(sources: Sources, **options: object) -> tuple[Aligned, object]:
    functions = random_and_bm25(sources)
    policy, training = Aligned(**{"batches": 1, **options}), training_of(sources)
    policy.set_functions(list(functions))
    policy.start_run(functions, training)
    return policy, training


# The action that is aligned with the validation sample


def test_the_dot_product_of_a_gradient_by_rows():
    rows = torch.sparse_coo_tensor(torch.tensor([[0, 2]]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), (3, 2))
    dense = torch.arange(6.0).reshape(3, 2)
    assert dot([dense, None], [rows, torch.ones(1)]) == 0 * 1 + 1 * 2 + 4 * 3 + 5 * 4
    assert dot([dense], [rows]) == dot([dense], [rows.to_dense()])


def test_a_step_along_the_best_action_lowers_the_loss_on_the_sample_most(tiny_sources):
    """What the dot product says is what a small step of plain descent does."""
    policy, training = policy_of(tiny_sources, actions=["random", "bm25:1-2"], after=0.0)
    actions = policy.actions
    before = [weight.detach().clone() for weight in training.trained_weights]
    values = policy.alignments(actions, 3, training, np.random.default_rng(5))
    assert equal(before, training.trained_weights)
    again = policy.alignments(actions, 3, training, np.random.default_rng(5))
    assert equal(again, values)
    assert set(values) == {"random", "bm25:1-2", "bm25@simans"}
    wanted = policy._sample_gradients(training)[0]
    with torch.no_grad():  # against the sample's own gradient the dot product with it shrinks: a bowl
        for weight, slope in zip(training.trained_weights, wanted, strict=True):
            weight -= 0.5 * slope
    assert dot(wanted, policy._sample_gradients(training)[0]) < dot(wanted, wanted)


def test_it_begins_with_scores_and_then_takes_the_largest(tiny_sources):
    policy, training = policy_of(tiny_sources, actions=["random", "bm25:1-2"], after=0.0, every=1)
    certain = {"random": np.array([1.0, 1.0]), "bm25:1-2": np.array([2.0, 2.5]), "bm25@simans": np.zeros(2)}
    policy.alignments = lambda *_: certain
    assigned = policy.assign(training.next_batch(), 2, training, np.random.default_rng(0))
    assert (assigned == 1).all()
    assert policy.window == (1, 2)
    means = {"random": 1.0, "bm25:1-2": 2.25, "bm25@simans": 0.0}
    assert policy.taken == [{"step": 0, "action": "bm25:1-2", "values": means}]
    later, other = policy_of(tiny_sources)
    later.assign(other.next_batch(), 2, other, np.random.default_rng(0))
    assert later.action == Action("bm25", selector="simans")
    assert later.taken == []
    assert [str(action) for action in later.actions or ()] == [
        "random", "bm25", "bm25:1-4", "bm25:1-20", "bm25@simans", "bm25@dynamic:64",
    ]  # fmt: skip


def test_a_lead_within_its_error_changes_nothing(tiny_sources):
    policy, _ = policy_of(tiny_sources, actions=["random", "bm25"], first="bm25", otherwise="bm25")
    values = {"bm25": np.zeros(4), "random": np.array([3.0, -1.0, 3.0, -1.0])}  # 1 on average, with an error of 1.15
    assert policy.best(values) == Action("bm25")
    policy.evidence = 0.5
    assert policy.best(values) == Action("random")
    policy.evidence = 2.0
    assert policy.best({"bm25": np.zeros(4), "random": np.array([1.0, 0.9, 1.0, 1.1])}) == Action("random")


def test_the_number_of_negatives_is_an_action_if_there_is_room(tiny_sources):
    policy, training = policy_of(tiny_sources, each=1, after=0.0, evidence=1e9)
    assigned = policy.assign(training.next_batch(), 9, training, np.random.default_rng(0))
    assert policy.action == Action("bm25", share=4)  # nothing leads it
    assert ((assigned == 1).sum(1) == 4).all()
    assert ((assigned == 0).sum(1) == 5).all()
    narrow, other = policy_of(tiny_sources, each=1, after=0.0, evidence=1e9)
    assigned = narrow.assign(other.next_batch(), 3, other, np.random.default_rng(0))
    assert narrow.action == Action("bm25", selector="simans")
    assert ((assigned == 0).sum(1) == 2).all()


def test_an_action_of_no_function_is_bad_input(tiny_sources):
    with pytest.raises(BadInput, match="no function 'dense'"):
        policy_of(tiny_sources, actions=["dense"])


def test_the_recommended_policy_is_aligned_with_the_batch_and_bm25():
    config = compose(["policy=recommended", "sampling.negatives=9"])
    policy = build(config["policy"], "policy", trust="composed")
    policy.set_functions(list(config["function"]))
    assert isinstance(policy, Aligned)
    assert list(config["function"]) == ["in_batch", "bm25"]
    assert (policy.each, str(policy.first), str(policy.otherwise)) == (1, "bm25@simans", "bm25*4")
