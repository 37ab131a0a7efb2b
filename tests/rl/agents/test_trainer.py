"""Tests of `rl.agents.trainer`: updates, states and what is gone on with."""

import pytest

from ranking.checkpoint import from_bytes, to_bytes
from ranking.errors import BadInput
from rl.agents.actor_critic import ActorCritic
from rl.agents.trainer import AgentTrainer
from tests.rl.agents.toys import SMALL, equal, play


@pytest.mark.parametrize(
    ("name", "workers"),
    [
        pytest.param("actor_critic", 2, marks=pytest.mark.nightly),
        pytest.param("ppo", 0, marks=pytest.mark.nightly),
        pytest.param("ppo_episodes", 0, marks=pytest.mark.nightly),
        ("reinforce", 0),
    ],
)
def test_neither_runners_nor_interrupts_change_what_is_learned(name, workers, start):
    updates = {"reinforce": 2, "ppo": 3, "ppo_episodes": 2}.get(name, 9)  # in mid-episode for two of them
    agent = (lambda: ActorCritic(hidden=20, fragment=3)) if name == "actor_critic" else SMALL[name]
    whole = start(agent())
    before = play(whole, updates)
    middle = to_bytes(whole.state())
    after = play(whole, updates)
    assert whole.counters["episodes"] == len(before + after) > 0
    other, fresh = start(agent(), workers=workers), start(agent())

    def ends_alike(trainer: AgentTrainer) -> bool:
        rows = play(trainer, updates)
        return rows == after and equal(trainer.state(), whole.state()) and trainer.counters == whole.counters

    assert play(other, updates) == before
    theirs = to_bytes(other.state())
    assert equal(from_bytes(theirs), from_bytes(middle))
    assert ends_alike(other), "with other runners"
    fresh.restore(from_bytes(theirs))
    assert ends_alike(fresh), "begun by other runners"
    other.restore(from_bytes(middle))
    assert ends_alike(other), "begun in this process"


def test_the_state_of_another_agent_is_refused(start):
    trainer = start(SMALL["actor_critic"]())
    state = from_bytes(to_bytes(trainer.state()))
    with pytest.raises(BadInput, match="holds another agent"):
        start(ActorCritic(hidden=21)).restore(state)
    with pytest.raises(BadInput, match="with 2 copies, not 4"):
        trainer.restore(state | {"tallies": state["tallies"][:2]})
