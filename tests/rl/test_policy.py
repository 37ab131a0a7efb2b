"""What was learned chooses the functions of a run: agents, regressions of forks, and mixtures by a rule."""

import itertools
import json

import numpy as np
import pytest
import torch

from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.ranking.errors import BadInput
from pyrite.ranking.sources import Sources
from pyrite.ranking.training import RankerTraining
from pyrite.rl.draws import logits_of
from pyrite.rl.fork_values import FromForks
from pyrite.rl.mixture import LinearRule, MixtureActions, MixtureAgent, MixturePolicy, ScheduleRule
from pyrite.rl.policy import LearnedPolicy
from pyrite.rl.progress import FEATURES, ProgressOptions, TrainingProgress
from pyrite.rl.state import State
from pyrite.rl.trained import TrainedAgent
from pyrite.sampling.sampler import Sampler
from tests.ranking.trained import equal
from tests.rl.trainings import agent_of, functions_of, starts, state_tables_of
from tests.sampling.test_contracts import check


def run_of(sources: Sources, agent: TrainedAgent, greedy: bool = False) -> tuple[RankerTraining, Sampler, list[int]]:
    """A training under the frozen agent, and the functions that it will choose."""
    chosen: list[int] = []

    class Watched(LearnedPolicy):
        def choose(self, batch, training, rng):
            indices = super().choose(batch, training, rng)
            assert len(set(indices)) == 1
            chosen.append(int(indices[0]))
            return indices

    policy = Watched(greedy=greedy)
    policy.equip(agent, state_tables_of(sources))
    training, sampler = starts(sources, lambda: policy)(np.random.SeedSequence(7))
    return training, sampler, chosen


def test_it_sees_what_the_agent_saw_and_draws_from_its_chances(tiny_sources):
    agent = agent_of(tiny_sources)
    training, sampler, chosen = run_of(tiny_sources, agent, greedy=True)
    state, expected = State(state_tables_of(tiny_sources)), []
    while not training.done:
        batch = training.next_batch()
        expected.append(int(logits_of(agent.actor(), state.observe(batch, training)).argmax()))
        negatives = sampler.negatives(batch, training)
        step = training.update(batch, negatives)
        sampler.observe(negatives, step)
        state.note(step, first=training.step == 1)
        if training.epoch_over:
            training.validate()
    assert chosen == expected
    assert len(chosen) == 9


@pytest.mark.parametrize(("decision_every", "lengths"), [(2, [2, 2, 2, 2, 1]), ("epoch", [3, 3, 3])])
def test_it_holds_an_action_as_the_agent_did(tiny_sources, decision_every, lengths):
    training, sampler, chosen = run_of(tiny_sources, agent_of(tiny_sources, decision_every))
    asked = itertools.count()

    def alternating(observation: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.tensor([[0.0, 100.0 if next(asked) % 2 else -100.0]])

    sampler.policy.actor = alternating
    training.fit(sampler)
    assert next(asked) == len(lengths)
    assert chosen == [index % 2 for index, length in enumerate(lengths) for _ in range(length)]


def test_the_functions_are_found_by_name(tiny_sources):
    policy = LearnedPolicy()
    policy.equip(agent_of(tiny_sources), state_tables_of(tiny_sources))
    training, sampler = starts(tiny_sources, lambda: policy)(np.random.SeedSequence(7))
    policy.start_run(dict(reversed(sampler.functions.items())), training)
    assert policy.indices == [1, 0]


def test_an_interrupted_run_goes_on_to_the_last_bit(tiny_sources):
    agent = agent_of(tiny_sources, decision_every=2)
    check(tiny_sources, lambda: run_of(tiny_sources, agent)[1])


def test_an_agent_survives_its_file(tiny_sources):
    agent = agent_of(tiny_sources, decision_every="epoch")
    again = TrainedAgent.from_bytes(agent.to_bytes(), "agent.safetensors")
    assert again.functions == agent.functions
    assert again.state == agent.state
    assert again.decision_every == "epoch"
    observation = {name: torch.rand(1, *part.shape) for name, part in state_tables_of(tiny_sources).space.items()}
    assert again.actor()(observation).equal(agent.actor()(observation))


def test_what_is_no_agent_or_one_of_an_older_version_is_refused(tiny_sources):
    agent = from_bytes(agent_of(tiny_sources).to_bytes())
    older = {"hold" if name == "decision_every" else name: value for name, value in agent.items()}
    with pytest.raises(BadInput, match="agent of another version"):
        TrainedAgent.from_bytes(to_bytes(older), "file")
    with pytest.raises(BadInput, match="not a learned agent"):
        TrainedAgent.from_bytes(to_bytes({"agent": "another"}), "file")
    with pytest.raises(BadInput, match="not a whole checkpoint"):
        TrainedAgent.from_bytes(b"pickle", "file")
    with pytest.raises(BadInput, match=r"agent is"):
        LearnedPolicy(agent=-1)


def test_a_regression_takes_the_best_action_by_the_clock(tmp_path, tiny_sources):
    """bm25 is worth −spent, its highest of 4 is worth spent: the one in the first half, the other in the second."""
    fitted = {"actions": ["bm25", "bm25@dynamic:4"], "clock": [[0, -1], [0, 1]], "length": 2}
    (tmp_path / "regression.json").write_text(json.dumps({**fitted, "state": np.zeros((2, 5)).tolist()}))
    policy = FromForks(str(tmp_path), "clock")
    assert policy.every == 2
    training, sampler = starts(tiny_sources, lambda: policy)(np.random.SeedSequence(7))
    taken: list[str] = []
    training.fit(sampler, on_step=lambda _: taken.append(str(policy.action)))
    assert taken[0] == "bm25"
    assert taken[-1] == "bm25@dynamic:4"
    assert taken == sorted(taken)


def test_without_a_regression_or_the_functions_of_its_forks_it_is_bad_input(tmp_path):
    with pytest.raises(BadInput, match="can't read a regression of forks"):
        FromForks(str(tmp_path))
    with pytest.raises(BadInput, match="by is"):
        FromForks(str(tmp_path), "weather")
    fitted = {"actions": ["bm25", "random", "random:1-4"], "clock": [[0, 0]] * 3, "length": 2}
    (tmp_path / "regression.json").write_text(json.dumps(fitted))
    with pytest.raises(BadInput, match=r"need random too; give function=\[in_batch,bm25,random\]"):
        FromForks(str(tmp_path), "clock").set_functions(["in_batch", "bm25"])


CLOCK = ("one", "spent")


def mixture_of(parameters: object = None, decision_every: int = 2, **actions: object) -> MixtureAgent:
    """Random first, BM25 second; weights by chance where none are given."""
    options = MixtureActions(**{"least": 1, **actions})
    chance = np.random.default_rng(0).normal(0, 2, 9 * (1 + options.values))
    weights = chance if parameters is None else np.asarray(parameters, float)
    return MixtureAgent(["random", "bm25"], options, ProgressOptions(probes=4), decision_every, "linear", weights, {})


def test_a_linear_rule_is_a_softmax_of_weighted_features():
    shares, hardness = LinearRule(np.array([0.5, 2.0, -1.0, 0.0]), 2, 1, CLOCK)(np.array([1.0, 0.25]))
    assert shares[1] == pytest.approx(1 / (1 + np.exp(-(0.5 + 0.25 * 2))))
    assert shares.sum() == pytest.approx(1)
    assert hardness == pytest.approx([1 / (1 + np.exp(1))])
    assert LinearRule.size(2, 1, FEATURES) == 18


def test_a_schedule_goes_from_start_to_end_by_the_clock_alone():
    # Begins at ¼ of the budget, takes ½ of it, in a line; the share from .2 to .8, the window from 1 to 0.
    rule = ScheduleRule(np.array([0.25, 0.5, 0.5, 0.2, 0.8, 1.0, 0.0]), 2, 1, CLOCK)
    at = [rule(np.array([1.0, 2 * spent - 1])) for spent in (0, 0.25, 0.5, 0.75, 1)]
    assert [shares[1] for shares, _ in at] == pytest.approx([0.2, 0.2, 0.5, 0.8, 0.8])
    assert [hardness[0] for _, hardness in at] == pytest.approx([1, 1, 0.5, 0, 0])
    cube = ScheduleRule(np.array([0.0, 1.0, 1.0, 0.0, 1.0]), 2, 0, CLOCK)
    assert cube(np.array([1.0, 0.0]))[0][1] == pytest.approx(0.125)
    several = ScheduleRule(np.array([0.0, 0.0, 0.5, 1.0, 1.0, 1.0, 1.0]), 3, 0, CLOCK)
    assert several(np.array([1.0, 1.0]))[0] == pytest.approx([0, 0.5, 0.5])


def test_a_window_lies_between_the_least_rank_and_the_whole_list():
    actions = MixtureActions(least=4)
    assert [actions.ranks(np.array([hardness]), 100) for hardness in (0, 0.5, 1)] == [(1, 4), (1, 20), (1, 100)]
    assert actions.ranks(np.zeros(0), 100) is None
    assert MixtureActions(window="from_to").ranks(np.array([1.0, 1.0]), 100) == (96, 100)
    assert actions.ranks(np.array([0.3]), 2) == (1, 2)  # a list that is shorter
    with pytest.raises(BadInput, match="window"):
        MixtureActions(window="wide")


def test_a_choice_by_scores_contains_uniform_the_top_and_the_neighbourhood():
    actions = MixtureActions(scores=True)
    assert actions.values == 4
    assert actions.ranks(np.array([0.5, 1, 1, 1]), 100) == (1, 20)
    assert actions.choice(np.array([0.5, 0.5, 0.0, 0.5]), 100) == (10, 0, 0)  # uniform
    assert actions.choice(np.array([0.5, 1.0, 0.5, 0.5]), 100) == (100, 1, 0)  # SimANS
    assert actions.choice(np.array([0.5, 1.0, 1.0, 1.0]), 100) == (100, 99, 10)  # the top
    assert MixtureActions().choice(np.array([0.5]), 100) is None


def test_features_are_bounded_and_worked_out_by_hand(tiny_sources):
    training, sampler = starts(tiny_sources)(np.random.SeedSequence(3))
    progress = TrainingProgress(ProgressOptions(probes=4), functions_of(tiny_sources), training)
    before = dict(zip(FEATURES, progress.observe(training, None), strict=True))
    assert (before["one"], before["spent"], before["share"], before["change"]) == (1, -1, -1, 0)
    assert (before["gain"], before["waited"]) == (-1, 0)
    scores = training.score(progress.queries, np.concatenate([progress.positives[:, None], *progress.negatives], 1))
    hard, random = progress.negatives
    of_hard, of_random = np.split(scores[:, 1:], [hard.shape[1]], axis=1)
    assert before["hard"] == pytest.approx(2 * (of_hard >= scores[:, :1])[hard >= 0].mean() - 1)
    near, far = of_hard[hard >= 0].mean(), of_random[random >= 0].mean()
    apart = scores[:, 0].mean() - far
    assert before["near"] == pytest.approx(np.clip((near - far) / apart, -1, 1) if apart > 0 else 1, abs=1e-5)
    assert not np.isin(hard[hard >= 0], [8]).all()
    training.fit(sampler)
    after = dict(zip(FEATURES, progress.observe(training, 0.75), strict=True))
    assert (after["spent"], after["share"]) == (1, 0.5)
    assert after["gain"] == pytest.approx(2 * max(training.validations) / progress.ceiling - 1)
    assert all(-1 <= value <= 1 for value in after.values())
    clock = TrainingProgress(ProgressOptions(features=["one", "spent"]), functions_of(tiny_sources), training)
    assert not clock.probed
    assert len(clock.observe(training, 0.5)) == 2


def test_probes_are_the_same_in_every_run_and_never_relevant(tiny_sources):
    made = []
    for seed in range(2):
        training, _ = starts(tiny_sources)(np.random.SeedSequence(seed))
        made.append(TrainingProgress(ProgressOptions(), functions_of(tiny_sources), training))
    assert equal(made[0].negatives, made[1].negatives)
    for one in made[0].negatives:
        assert not tiny_sources.encoded.judgements.are_relevant(made[0].queries, one).any()


def run_of_mixture(sources: Sources, agent: MixtureAgent) -> tuple[object, object, MixturePolicy]:
    policy = MixturePolicy(agent)
    training, sampler = starts(sources, lambda: policy)(np.random.SeedSequence(7))
    return training, sampler, policy


def test_a_mixture_decides_every_so_many_batches_and_the_rule_is_obeyed(tiny_sources):
    training, sampler, policy = run_of_mixture(tiny_sources, mixture_of([20.0, *[0] * 8, -20.0, *[0] * 8]))
    training.fit(sampler)
    assert [each[0] for each in policy.decisions] == [0, 2, 4, 6, 8]  # nothing but the count of batches
    rows = {row["function"]: row["negatives"] + row["missing"] for row in sampler.report()}
    assert rows["random"] == 0
    assert rows["bm25"] > 0
    assert policy.window == (1, 1)
    assert policy.indices == [1, 0]  # the run has BM25 first, the agent random
    easy = run_of_mixture(tiny_sources, mixture_of([-20.0, *[0] * 17]))
    easy[0].fit(easy[1])
    assert easy[1].report()[0]["negatives"] == 0


@pytest.mark.parametrize("scores", [False, True])
def test_an_interrupted_mixture_goes_on_to_the_last_bit(tiny_sources, scores):
    check(tiny_sources, lambda: run_of_mixture(tiny_sources, mixture_of(scores=scores))[1])


def test_the_file_of_a_mixture_is_read_as_it_was_written():
    agent = mixture_of(each=1, window="from_to")
    read = MixtureAgent.from_bytes(agent.to_bytes(), "here")
    assert np.array_equal(read.parameters, agent.parameters)
    plain = [vars(each) | {"parameters": None} for each in (read, agent)]
    assert plain[0] == plain[1]
    with pytest.raises(BadInput, match="not a learned mixture"):
        MixtureAgent.from_bytes(to_bytes({"agent": "other"}), "here")
    older = {name: value for name, value in from_bytes(agent.to_bytes()).items() if name != "rule"}
    with pytest.raises(BadInput, match="mixture of another version"):
        MixtureAgent.from_bytes(to_bytes(older | {"renamed": 1}), "here")
