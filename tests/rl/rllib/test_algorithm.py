"""Updates with all shares: a runner that is lost or late repeats what it did, and what is learned is the same."""

import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import NodeDiedError
from ray.rllib.algorithms.algorithm import Algorithm

from benchmarks.toys import EarlyLate
from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.rl.agents.actor_critic import ActorCritic
from pyrite.rl.agents.agent import Agent
from pyrite.rl.agents.ppo import PPO
from pyrite.rl.rllib.algorithm import Lockstep
from pyrite.rl.rllib.runner import LockstepRunner
from tests.ranking.trained import equal
from tests.rl.agents.conftest import play


class Ending(EarlyLate):
    """Copy 2 ends or stops its process once, at decision 25: in the middle of its second episode."""

    def __init__(self, copy: int, how: str, marker: Path) -> None:
        super().__init__(copy)
        self.how, self.marker = how, marker

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.copy == 2 and self.decision == 25 and not self.marker.exists():
            self.marker.touch()
            self.end()
        return super().step(action)

    def end(self) -> None:
        os.kill(os.getpid(), {"killed": signal.SIGKILL, "frozen": signal.SIGSTOP}[self.how])


class Ended(BaseException):
    """Stands for the end of a runner's process."""


class EndingHere(Ending):
    """Ends a runner that is in this process."""

    def end(self) -> None:
        raise Ended(self.how)


class RunnersHere:
    """Stands for RLlib's group of two runners, and for Ray, which starts those again that end: imports take seconds."""

    def __init__(self, trainer: Lockstep) -> None:
        self.group, self.killed, self.going = trainer.env_runner_group, list[int](), {1, 2}
        config = trainer.config.copy(copy_frozen=False)
        self.config = config.env_runners(num_env_runners=2, num_envs_per_env_runner=trainer.share // 2)
        self.runners = {number: self.started(number) for number in (1, 2)}
        trainer.config, trainer.share, trainer.env_runner_group = self.config, trainer.share // 2, self
        trainer._handles = {1: 1, 2: 2}
        trainer._since(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.group, name)

    def started(self, number: int) -> LockstepRunner:
        return LockstepRunner(config=self.config, worker_index=number, num_workers=2)

    def healthy_worker_ids(self) -> list[int]:
        return sorted(self.going)

    def foreach_env_runner(self, call: Any, *, remote_worker_ids: list[int], **options: Any) -> list[Any]:
        answers = []
        for number in remote_worker_ids:
            try:
                answers.append(call(self.runners[number]))
                self.going.add(number)
            except Ended as ended:
                if str(ended) == "killed":
                    self.going.remove(number)
                    self.runners[number] = self.started(number)
        return answers

    def kill(self, number: int, no_restart: bool = True) -> None:
        if not no_restart:
            self.killed.append(number)
            self.runners[number] = self.started(number)


class Failing(EarlyLate):
    """An environment with an error."""

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        raise LookupError("no such document")


@pytest.fixture
def built(ray_session) -> Any:
    algorithms = []

    def build(agent: Agent, make: Any, workers: int = 2) -> Lockstep:
        toy = EarlyLate()
        spaces = toy.observation_space, toy.action_space
        algorithms.append(agent.build(make, *spaces, workers=workers, copies=4, cpus=0.5))
        return algorithms[-1]

    yield build
    for algorithm in algorithms:
        algorithm.stop()


def ending(how: str, marker: Path, kind: type[Ending] = Ending) -> Any:
    return lambda numbers: [kind(copy, how, marker) for copy in numbers]


LOSSES = pytest.mark.parametrize(
    ("agent", "saved", "how"),
    [
        (ActorCritic(hidden=8, fragment=3), 4, "killed"),
        (PPO(hidden=8, fragment=9, minibatch=16, epochs=2), 0, "killed"),
        (ActorCritic(hidden=8), 4, "killed"),
        (PPO(hidden=8, episodes=1, epochs=2), 1, "killed"),
        (ActorCritic(hidden=8, fragment=3), 4, "frozen"),
    ],
)


@pytest.mark.by_day(2)
@LOSSES
def test_a_runner_that_is_lost_in_the_middle_of_an_episode_repeats_it(agent, saved, how, built, tmp_path, monkeypatch):
    """Ray starts one again that has ended, and is asked to only for one that is late."""
    disturbed = built(agent, ending(how, tmp_path / "lost", EndingHere), workers=0)
    runners = RunnersHere(disturbed)
    with monkeypatch.context() as patch:
        patch.setattr("pyrite.rl.rllib.algorithm.ray.kill", runners.kill)
        repeats(agent, saved, built, disturbed, tmp_path)
    disturbed._handles.clear()  # which no process has
    assert runners.killed == [2] * (how == "frozen")


@pytest.mark.nightly
@LOSSES
def test_a_runner_whose_process_is_lost_repeats_an_episode(agent, saved, how, built, tmp_path, monkeypatch):
    monkeypatch.setattr("pyrite.rl.rllib.algorithm.LEAST_S", 5.0 if how == "frozen" else 60.0)
    monkeypatch.setattr("pyrite.rl.rllib.algorithm.LATE", 1.0)
    repeats(agent, saved, built, built(agent, ending(how, tmp_path / "lost")), tmp_path)


def repeats(agent: Agent, saved: int, built: Any, disturbed: Lockstep, folder: Path) -> None:
    """Assert that an agent learns with a runner that is lost what it learns without."""
    lost, undisturbed = folder / "lost", folder / "none"
    undisturbed.touch()  # nothing happens
    whole, lines = built(agent, ending("killed", undisturbed), workers=0), list[str]()
    disturbed.on_loss = lines.append
    updates = 3 if "episodes" in agent.quota else 30 // agent.quota["steps"] + 1  # past decision 25
    assert play(disturbed, saved) == play(whole, saved)
    if saved:
        state = from_bytes(to_bytes(disturbed.get_state()))
        disturbed.recall = lambda: state
    assert play(disturbed, updates) == play(whole, updates)
    assert lost.exists()
    assert lines == ["the runner of copies 2 to 3 was lost, and repeats its decisions"]
    assert disturbed.counters == whole.counters
    assert equal(disturbed.get_state(), whole.get_state())


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_an_error_of_an_environment_ends_the_learning(workers, built):
    algorithm = built(ActorCritic(hidden=8), lambda numbers: [Failing(copy) for copy in numbers], workers=workers)
    with pytest.raises(LookupError, match="no such document"):
        algorithm.train()


def test_an_iteration_ends_with_an_episode_and_gives_rllibs_metrics(built):
    algorithm = built(ActorCritic(hidden=8), ending("killed", Path("/")), workers=0)
    started = time.monotonic()
    result = algorithm.train()
    assert {(row["copy"], row["decisions"]) for row in algorithm.ended} == {(copy, 20) for copy in range(4)}
    assert algorithm.counters == {"updates": 20, "decisions": 80, "episodes": 4}
    runners, learners = result["env_runners"], result["learners"]["default_policy"]
    assert runners["num_env_steps_sampled_lifetime"] == 80
    assert runners["episode_return_mean"] == pytest.approx(sum(row["return"] for row in algorithm.ended) / 4)
    assert learners["num_module_steps_trained_lifetime"] == 80
    assert result["timers"]["training_step"] < time.monotonic() - started


@pytest.mark.nightly
@pytest.mark.parametrize("agent", [ActorCritic, PPO])
def test_a_learner_that_is_an_actor_learns_the_same_and_two_nearly(agent, built):
    options = {"hidden": 8, "fragment": 6} | ({"minibatch": 8, "epochs": 2} if agent is PPO else {})
    quiet = ending("killed", Path("/"))
    weights = []
    for learners in (0, 1, 2):
        algorithm = built(agent(**options, learners=learners), quiet, workers=0)
        play(algorithm, 4)
        weights.append(algorithm.policy_weights())
        algorithm.stop()
    assert equal(weights[0], weights[1])
    assert all((weights[0][name] - weights[2][name]).abs().max() < 0.05 for name in weights[0])


@pytest.mark.parametrize(("healthy", "error"), [(1, NodeDiedError), (2, IndexError)])
def test_a_runner_that_is_lost_while_it_starts_is_a_loss(healthy, error, monkeypatch):
    """RLlib takes the first answer to a question that only this runner was asked."""

    def setup(self: Lockstep, config: Any) -> None:
        counts = {"num_healthy_remote_workers": lambda: healthy, "num_remote_workers": lambda: 2}
        self.env_runner_group = SimpleNamespace(**counts)
        raise IndexError("list index out of range")

    monkeypatch.setattr(Algorithm, "setup", setup)
    with pytest.raises(error):
        object.__new__(Lockstep).setup(None)
