"""What the agent is rewarded for."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pyrite.cluster.config.build import build
from pyrite.cluster.config.groups import option
from pyrite.ranking.errors import BadInput
from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.evaluation.origins import Bm25Candidates, FullCollection
from pyrite.rl.plateau import Plateau
from pyrite.rl.rewards import Ceil, DecisionOutcome, Diff, Potential, Raw, Reward, ValidationSample
from tests.rl.trainings import environment_of

values = st.lists(st.floats(0, 1), min_size=2, max_size=12)


def outcome(before: list[float], after: list[float], gamma: float = 1.0) -> DecisionOutcome:
    """A decision on a sample of as many queries, of which the best order reaches 0.8."""
    ideal = np.full(len(before), 0.8)
    return DecisionOutcome(np.array(before), np.array(after), np.zeros(len(before)), ideal, [], gamma, False)


def test_the_four_rewards_by_hand():
    of = outcome([0.1, 0.3], [0.4, 0.6], 0.9)
    assert Raw()(of) == 0.5
    assert Ceil()(of) == pytest.approx(-0.3)
    assert Diff(scale=1)(of) == pytest.approx(0.3)
    assert Potential(scale=1)(of) == pytest.approx(0.25)


def test_differences_are_in_hundredths_by_command_and_in_python_alike():
    of = outcome([0.1, 0.3], [0.4, 0.6], 0.9)
    assert Diff()(of) == build(option("reward", "diff"), trust="composed")(of) == pytest.approx(30)
    assert Potential()(of) == build(option("reward", "potential"), trust="composed")(of) == pytest.approx(25)


class Fixed(Reward):
    """Returns what it is given."""

    def __init__(self, value: object) -> None:
        super().__init__(scale=2.0)
        self.value = value

    def of(self, outcome: DecisionOutcome) -> Any:
        return self.value


@pytest.mark.parametrize("value", [None, np.nan, np.inf, np.zeros(2)], ids=str)
def test_a_reward_that_is_no_number_is_refused(value):
    with pytest.raises(BadInput, match=r"reward: Fixed\.of returned .*; return one finite number"):
        Fixed(value)(outcome([0.1], [0.2]))


@pytest.mark.parametrize("value", [3, np.float16(3), torch.tensor(3.0), np.array(3.0)], ids=repr)
def test_a_reward_is_any_number(value):
    assert Fixed(value)(outcome([0.1], [0.2])) == 6.0


def returned(reward: Reward, maps: list[float], gamma: float) -> float:
    """The return of an episode whose measure went so."""
    rewards = [reward(outcome([before], [after], gamma)) for before, after in pairwise(maps)]
    return sum(gamma**step * each for step, each in enumerate(rewards))


@given(values, st.floats(0.1, 1))
def test_differences_telescope_and_potentials_for_any_gamma(maps, gamma):
    assert returned(Diff(scale=1), maps, 1.0) == pytest.approx(maps[-1] - maps[0], abs=1e-9)  # equation 7
    expected = gamma ** (len(maps) - 1) * maps[-1] - maps[0]
    assert returned(Potential(scale=1), maps, gamma) == pytest.approx(expected, abs=1e-9)


def test_by_its_own_discount_a_difference_pays_the_right_first_action():
    """400 decisions. One function gains .05 at once and no more; the other .01 at once, and .09 with the last."""
    early, late = [0.0] + 400 * [0.05], [0.0] + 399 * [0.01] + [0.1]
    assert Diff.gamma == 1
    assert returned(Diff(scale=1), early, Diff.gamma) == pytest.approx(0.05)
    assert returned(Diff(scale=1), late, Diff.gamma) == pytest.approx(0.10)
    # .01 + .995^399 · .09: the worse function pays more than twice as much.
    assert returned(Diff(scale=1), late, 0.995) == pytest.approx(0.01 + 0.135335 * 0.09, abs=1e-5)
    assert returned(Diff(scale=1), early, 0.995) == pytest.approx(0.05)


def test_the_sample_is_the_validation_of_some_queries(training):
    whole = next(iter(training.validation(training.ranker).values()))
    assert len(whole) == 2
    assert ValidationSample(training, 50)(training.ranker).tolist() == whole.tolist()
    assert ValidationSample(training, 1)(training.ranker).tolist() == [whole[0]]
    sample = ValidationSample(training, 50)
    assert sample.first_stage.tolist() == training.validation.of_bm25()["AP@8"].tolist()
    assert sample.ideal.tolist() == training.validation.of_ideal()["AP@8"].tolist()
    next(training.ranker.parameters()).data.fill_(np.nan)
    assert sample(training.ranker).tolist() == [0, 0]  # a diverged ranker is worth nothing


def test_the_ceiling_is_the_ideal_order_of_the_candidates(tiny_sources):
    queries = np.array([4, 6])  # q5: d30 and d31, q7: d5 and d31
    candidates = Bm25Candidates(12).candidates(tiny_sources, queries)
    assert [tiny_sources.encoded.judgements.relevant().of(query)[0].tolist() for query in queries] == [[4, 5], [5, 7]]
    found = [[document for document in row if document >= 0] for row in candidates.documents.tolist()]
    assert found == [[4, 5, 8], [7]]
    ideal = Evaluation(tiny_sources.encoded, candidates, ["AP@12"]).of_ideal()["AP@12"]
    assert ideal.tolist() == [1, 0.5]  # both that are relevant, and one of two
    one = Bm25Candidates(1).candidates(tiny_sources, queries)
    assert Evaluation(tiny_sources.encoded, one, ["AP@1"]).of_ideal()["AP@1"][0] == pytest.approx(0.5)
    whole = FullCollection(12).candidates(tiny_sources, queries)
    assert Evaluation(tiny_sources.encoded, whole, ["AP@12"]).of_ideal()["AP@12"].tolist() == [1, 1]


@pytest.mark.parametrize("every", [1, 2, 4])
def test_an_episodes_differences_add_up_to_the_gain_of_the_weights_that_are_kept(tiny_sources, every):
    environment = environment_of(tiny_sources, every=every)
    environment.reset()
    first, total, done = float(environment.values.mean()), 0.0, False
    while not done:
        _, reward, done, _, info = environment.step(1)
        total += reward
    assert total == pytest.approx(info["summary"]["validation_sample"] - first, abs=1e-12)


class Seen(Raw):
    """Remembers what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: list[DecisionOutcome] = []

    def of(self, outcome: DecisionOutcome) -> float:
        self.outcomes.append(outcome)
        return super().of(outcome)


def test_the_last_reward_is_of_the_best_weights(tiny_sources):
    """The validation queries and the sample are the same here, and a ranker that unlearns ends with its best epoch."""
    environment = environment_of(tiny_sources, reward=Seen())
    environment.reset()
    done = False
    while not done:
        if environment.training.epoch == 2:  # what it has learned is lost in the last epoch
            for weights in environment.training.ranker.parameters():
                weights.data.mul_(-1)
        _, last, done, _, info = environment.step(1)
    best = max(environment.training.validations)
    assert environment.training.validations[-1] < best
    assert last == pytest.approx(best)
    assert info["summary"]["validation_sample"] == last


def test_a_reward_is_told_all_of_a_decision(tiny_sources):
    reward = Seen()
    environment = environment_of(tiny_sources, reward=reward, decision_every=2, every=2, gamma=0.9)
    environment.reset()
    before, done = environment.values, False
    while not done:
        done = environment.step(0)[2]
    assert [len(told.updates) for told in reward.outcomes] == [2, 2, 2, 2, 1]
    assert [told.done for told in reward.outcomes] == [False] * 4 + [True]
    assert reward.outcomes[0].updates[0].scores.shape == (2, 3)  # a positive and two negatives of two queries
    for told in reward.outcomes:
        assert told.before is before
        before = told.after
        assert told.gamma == 0.9
        assert told.first_stage.shape == told.ideal.shape == before.shape == (2,)
        assert (told.ideal >= before).all()


def episodes(values: list[float], bm25: list[float]) -> list[dict[str, Any]]:
    return [
        {"validation": value, "return": -value, "share:bm25": share, "share:random": 1 - share}
        for value, share in zip(values, bm25, strict=True)
    ]


# Windows of two: means .2, .4, .41; the standard errors of the differences are √(.0002 + .0002)/√2 = .0141.
VALUES = [0.19, 0.21, 0.39, 0.41, 0.40, 0.42]


def test_a_plateau_is_where_two_stretches_are_alike_in_standard_errors():
    plateau = Plateau(window=2)
    found = episodes(VALUES, [0.5, 0.5, 0.7, 0.7, 0.75, 0.75])
    assert plateau.converged_at(found[:4]) is None  # gains .2
    assert plateau.converged_at(found[:5]) is None  # the next stretch is not whole
    assert plateau.converged_at(found) == 6  # gains .01, less than .0141; shares moved by .05
    assert plateau.converged_at([*found, *found]) == 6  # what comes later changes nothing
    found = episodes(VALUES, [0.7] * 6)
    assert Plateau(window=2, errors=0.7).converged_at(found) is None  # .01 > .7 · .0141
    assert Plateau(window=2, errors=0.72).converged_at(found) == 6
    assert Plateau(window=2, by="return").converged_at(found) == 4  # returns fall


def test_a_policy_that_still_moves_has_not_settled():
    found = episodes(VALUES, [0.5, 0.5, 0.5, 0.5, 0.7, 0.7])
    assert Plateau(window=2).converged_at(found) is None  # .2 on average
    assert Plateau(window=2, settled=0.21).converged_at(found) == 6


def test_nothing_is_compared_before_the_episodes_of_after():
    found = episodes([*VALUES, 0.41, 0.41], [0.7] * 8)
    assert Plateau(window=2, errors=20).converged_at(found) == 4
    assert Plateau(window=2, errors=20, after=5).converged_at(found) == 6


def test_an_agent_without_a_gain_over_the_random_one_has_not_converged():
    found = episodes([0.40, 0.42, 0.41, 0.43], [0.7] * 4)
    worse, alike = episodes([0.1, 0.12, 0.11], [0.5] * 3), episodes([0.41, 0.43, 0.42], [0.5] * 3)
    assert Plateau(window=2, gain=0.05).converged_at(found, worse) == 4
    assert Plateau(window=2, gain=0.05).converged_at(found, alike) is None
    with pytest.raises(BadInput, match="random agent"):
        Plateau(window=2, gain=0.05).converged_at(found)
