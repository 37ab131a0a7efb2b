"""Samples episodes from copies of the environment: the same for any number of runners, and after interrupts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
import ray
from numpy.typing import NDArray
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.env import INPUT_ENV_SPACES
from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from pyrite.ranking.threads import use_threads
from pyrite.rl.draws import draw_action, logits_of
from pyrite.rl.state import Observation

Act = Callable[[Observation, Mapping[str, Any]], tuple[NDArray[np.int64], dict[str, Any]]]
"""Returns the action for an observation and its info, and what an episode stores with it for the learner."""


class Copy:
    """A copy of the environment, and its steps since the last sample."""

    def __init__(self, environment: Any) -> None:
        self.environment = environment
        self.begin()

    def begin(self) -> None:
        """Start the next episode, or continue the one that the environment has loaded."""
        self.seen = self.environment.reset()
        self.chunk = SingleAgentEpisode()
        self.chunk.add_env_reset(*self.seen)

    def step(self, action: NDArray[np.int64], outputs: dict[str, Any]) -> bool:
        """Take an action, and return whether the episode has ended."""
        observation, reward, terminated, truncated, info = self.environment.step(action)
        self.seen = observation, info
        self.chunk.add_env_step(
            observation, action, np.float32(reward), info,
            terminated=terminated, truncated=truncated, extra_model_outputs=outputs,
        )  # fmt: skip
        return terminated or truncated

    def sample(self, quota: Mapping[str, int], act: Act) -> Iterator[SingleAgentEpisode]:
        """Yield a quota of steps or of whole episodes; an unfinished one is cut, and continues in the next sample."""
        ((unit, left),) = quota.items()
        while left:
            if over := self.step(*act(*self.seen)):
                yield self.chunk.to_numpy()
                self.begin()
            left -= over or unit == "steps"
        if len(self.chunk):
            chunk, self.chunk = self.chunk, self.chunk.cut()
            yield chunk.to_numpy()

    def repeat(self, actions: Iterator[NDArray[np.int64]]) -> None:
        """Take actions again that a lost runner has taken."""
        for action in actions:
            if self.step(action, {}):
                self.begin()
        self.chunk = self.chunk.cut()


class LockstepRunner(EnvRunner):
    """Steps its share of the copies, a quota of steps or of whole episodes for each.

    RLlib's own runner returns whichever episodes finish first and draws actions from torch's global generator, so its
    samples depend on how copies are divided. Here every copy contributes the same number of steps (or of episodes), in
    the order of the copies, and every draw is seeded by (seed, copy, decision).

    The configuration's `env_config` holds `make`, which makes the copies of some numbers, and `quota`, `seed` and
    `cpus` (see `pyrite.rl.agents.agent.Agent`).
    """

    def __init__(self, *, config: Any, **options: Any) -> None:
        super().__init__(config=config, **options)
        self.options = self.config.env_config
        use_threads(self.options["cpus"])
        share = self.config.num_envs_per_env_runner
        first = max(self.worker_index - 1, 0) * share
        self.numbers = range(first, first + share)
        spec = self.config.get_multi_rl_module_spec(spaces=self.get_spaces(), inference_only=True)
        self.module = spec.build()[DEFAULT_MODULE_ID]
        self.copies: list[Copy] = []
        self.updates = 0

    def __repr__(self) -> str:
        """Return its name in Ray's dashboard and logs."""
        first, last = self.numbers[0], self.numbers[-1]
        return f"runner of copies {first} to {last}" if last > first else f"runner of copy {first}"

    def answer(self, update: int | None, method: str, **arguments: Any) -> tuple[int, Any]:
        """Call a method, for an update if one is given.

        RLlib ends a runner that raises an error, and the error is lost. So it is returned here.

        Returns:
            The runner's number, and the result or the error; None if this runner was started again in the meantime and
            has lost the state that the update needs.
        """
        if update not in (None, self.updates):
            return self.worker_index, None
        try:
            return self.worker_index, getattr(self, method)(**arguments)
        except Exception as error:
            return self.worker_index, error

    def sample(self, weights: Mapping[str, Any], **unused: Any) -> list[list[SingleAgentEpisode]]:
        """Load the module's weights, and return the quota of each copy: episodes, or parts of them, by time."""
        self.module.set_state(weights)
        sampled = [list(copy.sample(self.options["quota"], self._act)) for copy in self._running()]
        self.updates += 1
        return sampled

    def _running(self) -> list[Copy]:
        """Return the copies, which begin with the first call."""
        self.copies = self.copies or [Copy(environment) for environment in self.options["make"](self.numbers)]
        return self.copies

    def _act(self, observation: Observation, info: Mapping[str, Any]) -> tuple[NDArray[np.int64], dict[str, Any]]:
        # One observation at a time: the last bits of a matrix product depend on the number of rows, and an action must
        # not depend on which copies share a runner.
        logits, shape = logits_of(self.module.actor, observation), self.config.action_space.shape
        picks, chance = draw_action(
            logits.reshape(math.prod(shape), -1), self.options["seed"], info["copy"], info["decision"]
        )
        outputs = {Columns.ACTION_DIST_INPUTS: logits.astype(np.float32), Columns.ACTION_LOGP: np.float32(chance)}
        return picks.reshape(shape), outputs

    def get_state(self, *unused: Any, **options: Any) -> dict[str, Any]:
        """Return the states of the copies, with their unfinished episodes."""
        return {"copies": [copy.environment.state_dict() for copy in self._running()]}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Load the `copies` of a state, and repeat the actions that each has `taken` since (None: none).

        RLlib's own state is ignored: weights come with the request to sample.
        """
        if "taken" in state:
            environments = self.options["make"](self.numbers)
            for environment, loaded in zip(environments, state["copies"] or [], strict=False):
                environment.load_state_dict(loaded)
            self.copies = [Copy(environment) for environment in environments]
            for copy, actions in zip(self.copies, state["taken"], strict=True):
                copy.repeat(actions)
            self.updates = state["updates"]

    def get_spaces(self) -> dict[str, tuple[gymnasium.Space[Any], gymnasium.Space[Any]]]:
        spaces = self.config.observation_space, self.config.action_space
        return {INPUT_ENV_SPACES: spaces, DEFAULT_MODULE_ID: spaces}

    def handle(self) -> Any:
        """Return this actor's handle; None if it is none."""
        return ray.get_runtime_context().current_actor if self.worker_index else None

    def assert_healthy(self) -> None:
        assert self.module is not None
