"""The learned policy at work."""

from __future__ import annotations

import itertools
from dataclasses import asdict

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ranking.checkpoint import from_bytes, to_bytes
from ranking.errors import BadInput
from ranking.sources import Sources
from ranking.training import RankerTraining
from rl.draws import inverse_cdf, logits_of
from rl.networks import PolicyNetwork
from rl.policy import LearnedPolicy
from rl.state import State
from rl.trained import TrainedAgent
from sampling.sampler import Sampler
from tests.rl.trainings import starts, state_tables_of


def agent_of(sources: Sources, decision_every: int | str = 1, seed: int = 0) -> TrainedAgent:
    """An agent with weights by chance, large enough to have opinions."""
    tables = state_tables_of(sources)
    network = PolicyNetwork(tables.space, 2, torch.Generator().manual_seed(seed), last=3.0)
    return TrainedAgent(
        ["bm25", "random"], tables.options, decision_every, tables.pairs, tables.compressed.dimension,
        network.description(), network.state_dict(), None, {},
    )  # fmt: skip


def run_of(sources: Sources, agent: TrainedAgent, greedy: bool = False) -> tuple[RankerTraining, Sampler, list[int]]:
    """A training under the frozen agent, and the functions that it will choose."""
    chosen: list[int] = []

    class Watched(LearnedPolicy):
        def choose(self, batch, training, rng):  # type: ignore[no-untyped-def]
            indices = super().choose(batch, training, rng)
            assert len(set(indices)) == 1
            chosen.append(int(indices[0]))
            return indices

    policy = Watched(greedy=greedy)
    policy.equip(agent, state_tables_of(sources))
    training, sampler = starts(sources, lambda: policy)(np.random.SeedSequence(7))
    return training, sampler, chosen


def weights_of(training: RankerTraining) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in training.ranker.state_dict().values()]


def test_it_sees_what_the_agent_saw_and_draws_from_its_chances(tiny_sources: Sources) -> None:
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


def test_the_same_seed_draws_the_same(tiny_sources: Sources) -> None:
    runs = [run_of(tiny_sources, agent_of(tiny_sources)) for _ in range(2)]
    for training, sampler, _ in runs:
        training.fit(sampler)
    assert runs[0][2] == runs[1][2]
    assert all(a.equal(b) for a, b in zip(weights_of(runs[0][0]), weights_of(runs[1][0]), strict=True))


@pytest.mark.parametrize(("decision_every", "lengths"), [(2, [2, 2, 2, 2, 1]), ("epoch", [3, 3, 3])])
def test_it_holds_an_action_as_the_agent_did(
    tiny_sources: Sources, decision_every: int | str, lengths: list[int]
) -> None:
    training, sampler, chosen = run_of(tiny_sources, agent_of(tiny_sources, decision_every))
    asked = itertools.count()

    def alternating(observation: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.tensor([[0.0, 100.0 if next(asked) % 2 else -100.0]])

    sampler.policy.actor = alternating  # type: ignore[attr-defined]
    training.fit(sampler)
    assert next(asked) == len(lengths)
    assert chosen == [index % 2 for index, length in enumerate(lengths) for _ in range(length)]


def test_the_functions_are_found_by_name(tiny_sources: Sources) -> None:
    agent = agent_of(tiny_sources)
    policy = LearnedPolicy()
    policy.equip(agent, state_tables_of(tiny_sources))
    training, sampler = starts(tiny_sources, lambda: policy)(np.random.SeedSequence(7))
    turned = dict(reversed(sampler.functions.items()))
    policy.start_run(turned, training)
    assert policy.places == [1, 0]


def test_an_interrupted_run_goes_on_to_the_last_bit(tiny_sources: Sources) -> None:
    agent = agent_of(tiny_sources, decision_every=2)
    training, sampler, chosen = run_of(tiny_sources, agent)
    training.fit(sampler)

    class Enough(Exception):
        pass

    def stop(training: RankerTraining) -> None:
        if training.epoch == 1:
            raise Enough

    first, its, before = run_of(tiny_sources, agent)
    with pytest.raises(Enough):
        first.fit(its, stop)
    kept = from_bytes(to_bytes([first.state_dict(), its.state_dict()]))
    second, other, behind = run_of(tiny_sources, agent)
    second.load_state_dict(kept[0])
    other.load_state_dict(kept[1])
    second.fit(other)
    assert before + behind == chosen
    assert all(a.equal(b) for a, b in zip(weights_of(training), weights_of(second), strict=True))


def test_an_agent_survives_its_file(tiny_sources: Sources) -> None:
    agent = agent_of(tiny_sources, decision_every="epoch")
    again = TrainedAgent.from_bytes(agent.to_bytes(), "agent.safetensors")
    assert again.functions == agent.functions
    assert again.state == agent.state
    assert again.decision_every == "epoch"
    observation = {name: torch.rand(1, *part.shape) for name, part in state_tables_of(tiny_sources).space.items()}
    assert again.actor()(observation).equal(agent.actor()(observation))


def test_what_is_no_agent_is_refused() -> None:
    with pytest.raises(BadInput, match="not a learned agent"):
        TrainedAgent.from_bytes(to_bytes({"agent": "another"}), "file")
    with pytest.raises(BadInput, match="not a whole checkpoint"):
        TrainedAgent.from_bytes(b"pickle", "file")
    with pytest.raises(BadInput, match=r"policy\.agent"):
        LearnedPolicy(agent=-1)


@given(st.lists(st.floats(-20, 20), min_size=2, max_size=5), st.floats(0, 1, exclude_max=True))
def test_draws_follow_the_softmax(logits: list[float], chance: float) -> None:
    chosen = int(inverse_cdf(np.array([logits]), np.array([[chance]]))[0, 0])
    edges = np.cumsum(np.exp(np.array(logits) - max(logits)))
    edges /= edges[-1]
    assert chosen == 0 or edges[chosen - 1] <= chance + 1e-12
    assert chance < edges[chosen] + 1e-12


def test_draws_by_hand() -> None:
    logits = np.log([[0.2, 0.5, 0.3]])
    drawn = inverse_cdf(logits, np.array([[0.0, 0.19, 0.21, 0.69, 0.71, 0.999]]))
    assert drawn.tolist() == [[0, 0, 1, 1, 2, 2]]


def test_an_agent_of_version_0_1_is_read(tiny_sources: Sources) -> None:
    agent = agent_of(tiny_sources, decision_every=3)
    old = {("hold" if name == "decision_every" else name): value for name, value in vars(agent).items()}
    content = to_bytes({"agent": "pyrite-agent-1", **old, "state": asdict(agent.state)})
    assert TrainedAgent.from_bytes(content, "agent.safetensors").decision_every == 3
