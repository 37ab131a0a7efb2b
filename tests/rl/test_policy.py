"""What was learned chooses the functions of a run."""

import itertools

import numpy as np
import pytest
import torch

from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.ranking.errors import BadInput
from pyrite.ranking.sources import Sources
from pyrite.ranking.training import RankerTraining
from pyrite.rl.draws import logits_of
from pyrite.rl.policy import LearnedPolicy
from pyrite.rl.state import State
from pyrite.rl.trained import TrainedAgent
from pyrite.sampling.sampler import Sampler
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


def test_a_mixture_of_an_older_version_is_refused_with_what_to_do():
    with pytest.raises(BadInput, match=r"mixture of version 0\.2.*search=optuna policy=schedule"):
        TrainedAgent.from_bytes(to_bytes({"agent": "pyrite-mixture-1", "rule": "linear"}), "here")
