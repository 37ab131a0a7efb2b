"""Steps the training of a ranker as an environment: an agent chooses its negatives and receives a reward."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pyrite.ranking.errors import refuse
from pyrite.ranking.training import Batch, RankerTraining, UpdateResult
from pyrite.rl.rewards import DecisionOutcome, Reward, ValidationSample, ValidationSampleOptions, Values
from pyrite.rl.state import Observation, State, StateTables
from pyrite.sampling.policies.policy import SamplingPolicy
from pyrite.sampling.sampler import Sampler

Start = Callable[[np.random.SeedSequence], tuple[RankerTraining, Sampler]]
"""Makes a fresh ranker's training, and the sampler of its negatives, from a seed."""


class AgentPolicy(SamplingPolicy):
    """Chooses the function that the agent has chosen."""

    def __init__(self) -> None:
        self.action = 0

    def choose(self, batch: Batch, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        return np.full(len(batch), self.action, np.int64)


class Actions(ABC):
    """The actions that an agent can take, and how a sampler follows them.

    Attributes:
        space: the action space.
        names: the names of the shares that `shares` returns, in order.
        lasting: whether an action can be held for more batches than the one that it was chosen for.
    """

    space: spaces.Space[Any]
    names: list[str]
    lasting = True

    def policy(self) -> SamplingPolicy | None:
        """Return a policy that replaces the sampler's and follows the actions; None keeps the configured one."""
        return None

    @abstractmethod
    def apply(self, sampler: Sampler, action: Any) -> None:
        """Make the sampler follow an action until the next one."""

    @abstractmethod
    def to_record(self, action: Any, batch: Batch, tables: StateTables) -> Any:
        """Return what an episode records of an action on a batch: numbers or lists of numbers."""

    @abstractmethod
    def shares(self, taken: Sequence[Any]) -> dict[str, float]:
        """Return the shares of the actions in an episode, from what `to_record` returned for each."""


class FunctionActions(Actions):
    """Actions that are retrieval functions, in the sampler's order (Cohen et al. 2019, section 3.1.1)."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self.space = spaces.Discrete(len(self.names))

    def policy(self) -> SamplingPolicy:
        return AgentPolicy()

    def apply(self, sampler: Sampler, action: Any) -> None:
        assert isinstance(sampler.policy, AgentPolicy)
        sampler.policy.action = int(action)

    def to_record(self, action: Any, batch: Batch, tables: StateTables) -> int:
        return int(action)

    def shares(self, taken: Sequence[Any]) -> dict[str, float]:
        counts = np.bincount(np.asarray(taken, np.int64), minlength=len(self.names))
        return {name: float(count / max(len(taken), 1)) for name, count in zip(self.names, counts, strict=True)}


def check_decision_every(decision_every: int | str, actions: Actions) -> None:
    """Raise if a decision would be held for more batches than its actions can last."""
    refuse(
        decision_every != 1 and not actions.lasting,
        f"decision_every is {decision_every}, and documents are picked for one batch",
        "decision_every",
        "leave it at 1 with actions=documents",
    )


class SamplingEnvironment(gymnasium.Env[Observation, Any]):
    """One copy of the environment: an episode trains a fresh ranker until early stopping or the epoch limit.

    It steps a `pyrite.ranking.training.RankerTraining`, as `pyrite train` does. The seed of a copy's n-th episode is
    `SeedSequence(seed, spawn_key=(1, copy, n))`: no two copies share one, on whichever worker they are, and none is the
    seed of a run that is evaluated (those have no spawn key that begins so).

    Args:
        start: makes an episode's training and sampler from a seed.
        sample: how the ranker is measured for the reward.
        seed: the seed of the whole learning.
        copy: index of this copy among all copies.
        gamma: γ, for rewards that discount.
        decision_every: number of batches that an action is held for, or `epoch` for one decision per epoch. The paper
            has 1.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self,
        start: Start,
        tables: StateTables,
        actions: Actions,
        reward: Reward,
        sample: ValidationSampleOptions,
        seed: int,
        copy: int = 0,
        gamma: float = 1.0,
        decision_every: int | str = 1,
    ) -> None:
        self.start, self.tables, self.actions = start, tables, actions
        self.reward, self.options, self.gamma, self.decision_every = reward, sample, gamma, decision_every
        self.seed, self.copy = seed, copy
        self.observation_space, self.action_space = tables.space, actions.space
        self.episode, self.decision = -1, 0
        self.sample: ValidationSample | None = None
        self._resumed = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin the copy's next episode; with `seed`, the first one under that seed.

        After `load_state_dict` it resumes the episode that was saved.
        """
        super().reset(seed=seed)
        if seed is not None:
            self.seed, self.episode, self.decision, self._resumed = seed, -1, 0, False
        if self._resumed:
            self._resumed = False
        else:
            self.episode += 1
            self._begin()
            assert self.sample is not None
            self.values = self.sample(self.training.ranker)
        return self._observe(), self._info()

    def _begin(self) -> None:
        """Start a fresh ranker from this episode's seed."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=(1, self.copy, self.episode))
        self.training, self.sampler = self.start(sequence)
        self._steps = self.training.steps(self.sampler)
        self.state = State(self.tables)
        self.unmeasured, self.taken, self.total = 0, list[Any](), 0.0
        if self.sample is None:
            self.sample = ValidationSample(self.training, self.options.size, self.options.depth)

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Train on the batches that the action is held for.

        An episode ends (`terminated`) when the training does, with the best weights restored as in a run; then the info
        has a `summary` of the episode.
        """
        self.actions.apply(self.sampler, action)
        self.taken.append(self.actions.to_record(action, self.training.next_batch(), self.tables))
        self.decision += 1
        updates: list[UpdateResult] = []
        while self._lasts(len(updates)):
            result = next(self._steps)
            self.state.note(result, first=self.training.step == 1)
            self.unmeasured += 1
            updates.append(result)
        done = self.training.done
        before, self.values = self.values, self._measured(done)
        assert self.sample is not None
        first_stage, ideal = self.sample.first_stage, self.sample.ideal
        outcome = DecisionOutcome(before, self.values, first_stage, ideal, updates, self.gamma, done)
        reward = self.reward(outcome)
        self.total += reward
        info = self._info()
        if done:
            info["summary"] = self._summary()
        return self._observe(), reward, done, False, info

    def _lasts(self, batches: int) -> bool:
        """Return whether a decision that was held for this many batches is held for another one."""
        if self.training.done or (self.decision_every == "epoch" and batches and not self.training.position):
            return False
        return self.decision_every == "epoch" or batches < int(self.decision_every)

    def _measured(self, done: bool) -> Values:
        """Return the sample's values: measured now if a measurement is due, otherwise the last ones."""
        assert self.sample is not None
        if not done and self.unmeasured < self.options.every:
            return self.values
        self.unmeasured = 0
        if done:  # a run ends with the weights that validated best, and so does the episode
            if not self.training.best_epoch:
                return np.zeros_like(self.values)
            self.training.restore_best()
        return self.sample(self.training.ranker)

    def _observe(self) -> Observation:
        return self.state.observe(self.training.next_batch(), self.training)

    def _info(self) -> dict[str, Any]:
        return {"copy": self.copy, "decision": self.decision, "episode": self.episode}

    def _summary(self) -> dict[str, Any]:
        """Return the record of the episode: the figures that are shown and that agents are compared by.

        `return` is the sum of its rewards, undiscounted.
        """
        training = self.training
        known = [value for value in training.validations if value == value]
        shares = {f"share:{name}": share for name, share in self.actions.shares(self.taken).items()}
        return {
            "copy": self.copy,
            "episode": self.episode,
            "return": self.total,
            "decisions": len(self.taken),
            "actions": self.taken,
            "validation": max(known, default=0.0),
            "last_validation": known[-1] if known else 0.0,
            "validation_sample": float(self.values.mean()),
            "epochs": float(training.epoch),
            "steps": float(training.step),
            "diverged": float(training.diverged),
            **shares,
        }

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume the episode in another process, to the last bit."""
        return {
            "seed": self.seed,
            "episode": self.episode,
            "decision": self.decision,
            "values": self.values,
            "unmeasured": self.unmeasured,
            "taken": self.taken,
            "total": self.total,
            "training": self.training.state_dict(),
            "sampler": self.sampler.state_dict(),
            "state": self.state.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`: the next `reset` resumes the episode."""
        self.seed, self.episode, self.decision = state["seed"], state["episode"], state["decision"]
        self._begin()
        self.values, self.unmeasured = state["values"], state["unmeasured"]
        self.taken, self.total = list(state["taken"]), state["total"]
        self.training.load_state_dict(state["training"])
        self.sampler.load_state_dict(state["sampler"])
        self.state.load_state_dict(state["state"])
        self._resumed = True
