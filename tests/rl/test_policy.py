"""Tests of `rl.policy`: a frozen agent chooses the functions of a run."""

import itertools

import numpy as np
import pytest
import torch

from ranking.sources import Sources
from ranking.training import RankerTraining
from rl.draws import logits_of
from rl.policy import LearnedPolicy
from rl.state import State
from rl.trained import TrainedAgent
from sampling.sampler import Sampler
from tests.rl.trainings import agent_of, starts, state_tables_of
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
    agent = agent_of(tiny_sources)
    policy = LearnedPolicy()
    policy.equip(agent, state_tables_of(tiny_sources))
    training, sampler = starts(tiny_sources, lambda: policy)(np.random.SeedSequence(7))
    turned = dict(reversed(sampler.functions.items()))
    policy.start_run(turned, training)
    assert policy.indices == [1, 0]


def test_an_interrupted_run_goes_on_to_the_last_bit(tiny_sources):
    agent = agent_of(tiny_sources, decision_every=2)
    check(tiny_sources, lambda: run_of(tiny_sources, agent)[1])
