"""Tests of `rl.trained`: the file of a learned agent."""

import pytest
import torch

from ranking.checkpoint import from_bytes, to_bytes
from ranking.errors import BadInput
from rl.policy import LearnedPolicy
from rl.trained import TrainedAgent
from tests.rl.trainings import agent_of, state_tables_of


def test_an_agent_survives_its_file(tiny_sources):
    agent = agent_of(tiny_sources, decision_every="epoch")
    again = TrainedAgent.from_bytes(agent.to_bytes(), "agent.safetensors")
    assert again.functions == agent.functions
    assert again.state == agent.state
    assert again.decision_every == "epoch"
    observation = {name: torch.rand(1, *part.shape) for name, part in state_tables_of(tiny_sources).space.items()}
    assert again.actor()(observation).equal(agent.actor()(observation))


def test_an_agent_with_the_options_of_an_older_version_is_refused(tiny_sources):
    agent = from_bytes(agent_of(tiny_sources).to_bytes())
    older = {"hold" if name == "decision_every" else name: value for name, value in agent.items()}
    with pytest.raises(BadInput, match="agent of another version"):
        TrainedAgent.from_bytes(to_bytes(older), "file")


def test_what_is_no_agent_is_refused():
    with pytest.raises(BadInput, match="not a learned agent"):
        TrainedAgent.from_bytes(to_bytes({"agent": "another"}), "file")
    with pytest.raises(BadInput, match="not a whole checkpoint"):
        TrainedAgent.from_bytes(b"pickle", "file")
    with pytest.raises(BadInput, match=r"agent is"):
        LearnedPolicy(agent=-1)
