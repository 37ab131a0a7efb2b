import numpy as np
import pytest
from scipy.stats import chisquare

from ranking.errors import BadInput
from ranking.training import Batch
from sampling.policies.curriculum import Curriculum
from sampling.policies.fixed import Fixed
from sampling.policies.mixture import Mixture
from sampling.policies.policy import SamplingPolicy
from sampling.policies.random import RandomPolicy
from sampling.policies.schedule import Schedule

BATCH = Batch(np.arange(6), np.arange(6, dtype=np.int32))


def chosen(policy: SamplingPolicy, names: list[str], times: int) -> np.ndarray:
    policy.set_functions(names)
    rng = np.random.default_rng(0)
    return np.array([policy.choose(BATCH, None, rng) for _ in range(times)])


def test_fixed_takes_the_one_function_or_a_number_of_each():
    assert not chosen(Fixed(), ["bm25"], 3).any()
    policy = Fixed()
    policy.set_functions(["random", "bm25"])
    policy.set_counts([2, 1])
    assert policy.assign(BATCH, 3, None, np.random.default_rng(0)).tolist() == [[0, 0, 1]] * len(BATCH)
    for counts in ([1], [-1, 2], [0, 0]):
        with pytest.raises(BadInput, match="numbers of negatives"):
            policy.set_counts(counts)


@pytest.mark.parametrize("policy", [RandomPolicy(), Mixture(), Schedule(), Curriculum()])
def test_choosing_needs_several_functions(policy):
    with pytest.raises(BadInput, match="chooses between functions"):
        policy.set_functions(["bm25"])


@pytest.mark.parametrize("policy", [RandomPolicy(), Mixture()])
def test_every_function_is_as_probable_and_serves_the_whole_batch(policy):
    choices = chosen(policy, ["a", "b", "c"], 6000)
    assert choices.dtype == np.int64
    assert (choices == choices[:, :1]).all()
    assert chisquare(np.bincount(choices[:, 0], minlength=3)).pvalue > 0.01


@pytest.mark.parametrize(("per", "draws"), [("batch", 6000), ("query", 1000)])
def test_a_mixture_follows_its_weights(per, draws):
    choices = chosen(Mixture([2, 0, 3, 5], per), ["a", "b", "c", "d"], draws)
    assert choices.shape == (draws, 6)
    if per == "batch":
        assert (choices == choices[:, :1]).all()
        choices = choices[:, :1]
    else:
        assert (choices != choices[:, :1]).any()
    frequencies = np.bincount(choices.ravel(), minlength=4)
    assert frequencies[1] == 0
    assert chisquare(frequencies[[0, 2, 3]], np.array([0.2, 0.3, 0.5]) * choices.size).pvalue > 0.01


def test_weights_at_the_edges_are_never_drawn():
    class Edge:
        def random(self, size: int) -> np.ndarray:
            return np.array([0.0, np.nextafter(1, 0)])[:size]

    policy = Mixture([0, 1, 0], "query")
    policy.set_functions(["a", "b", "c"])
    two = BATCH.take(np.arange(2))
    assert policy.choose(two, None, Edge()).tolist() == [1, 1]


@pytest.mark.parametrize("weights", [[], [0, 0], [-1, 2], [float("nan"), 1], [float("inf"), 1]])
def test_wrong_weights_are_bad_input(weights):
    with pytest.raises(BadInput, match=r"policy\.weights|weights is \[nan, 1\]; choose a number"):
        Mixture(weights)


def test_as_many_weights_as_functions_and_a_known_unit():
    with pytest.raises(BadInput, match="2 weights"):
        Mixture([1, 2]).set_functions(["a", "b", "c"])
    with pytest.raises(BadInput, match="'epoch'"):
        Mixture(per="epoch")
