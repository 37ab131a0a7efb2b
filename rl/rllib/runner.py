"""Samples episodes from copies of the environment: the same for any number of runners, and after interrupts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import gymnasium
import numpy as np
import ray
import torch
from numpy.typing import NDArray
from ray.rllib.core import COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.env import INPUT_ENV_SPACES
from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from pyrite.rl.draws import draw_action, logits_of
from pyrite.rl.vector_environment import IDLE, Infos, Observations

Summary = dict[str, Any]
"""The record of a finished episode: `copy`, `episode` (its number within the copy), `return` (undiscounted), `length`,
`actions`, and the environment's `summary`."""
LOOKBACK = 1
"""Steps before a cut that RLlib keeps in the rest of an episode."""


@dataclass(frozen=True)
class RunnerSample:
    """The contribution of a runner's copies to an update.

    Args:
        episodes: episodes, or parts of them, by copy and time.
        ended: the records of the episodes that ended, by copy and time.
        taken: the actions of each copy, with which its steps can be repeated.
    """

    episodes: list[SingleAgentEpisode]
    ended: list[Summary]
    taken: list[list[Any]]


class LockstepRunner(EnvRunner):
    """Steps its share of the copies together, a quota of steps or of whole episodes for each.

    RLlib's own runner returns whichever episodes finish first and draws actions from torch's global generator, so its
    samples depend on how copies are divided. Here every copy contributes the same number of steps (or of episodes), in
    the order of the copies, and every draw is seeded by (seed, copy, decision).

    The configuration's `env_config` holds `make`, which makes copies first … first + count − 1 (see
    `pyrite.rl.vector_environment.VectorEnvironment`), and `quota`, `seed` and `cpus` (see
    `pyrite.rl.agents.agent.Agent`).
    """

    def __init__(self, *, config: Any, **options: Any) -> None:
        super().__init__(config=config, **options)
        self.options = self.config.env_config
        set_threads(self.options["cpus"])
        self.num_envs = self.config.num_envs_per_env_runner
        self.first = max(self.worker_index - 1, 0) * self.num_envs
        spec = self.config.get_multi_rl_module_spec(spaces=self.get_spaces(), inference_only=True)
        self.module = spec.build()[DEFAULT_MODULE_ID]
        space = self.config.action_space
        self._plain = isinstance(space, gymnasium.spaces.Discrete)
        self._picks = 1 if self._plain else len(space.nvec)
        self._tallies = [_tally(0) for _ in range(self.num_envs)]
        self._latest: tuple[Observations, Infos] | None = None
        self._episodes: list[SingleAgentEpisode] = []
        self.updates = 0

    def __repr__(self) -> str:
        """Return its name in Ray's dashboard and logs."""
        return f"runner of copies {self.first} to {self.first + self.num_envs - 1}"

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

    def sample(self, weights: Mapping[str, Any], **unused: Any) -> RunnerSample:
        """Load the module's weights, and sample the quota of each copy.

        With a quota of steps, an unfinished episode is cut, and continues in the next sample.
        """
        self.module.set_state(weights)
        self._begin()
        per_step = "steps" in self.options["quota"]
        quota = np.full(self.num_envs, *self.options["quota"].values())
        sampled: list[list[SingleAgentEpisode]] = [[] for _ in range(self.num_envs)]
        ended: list[list[Summary]] = [[] for _ in range(self.num_envs)]
        taken: list[list[Any]] = [[] for _ in range(self.num_envs)]
        while quota.any():
            active = np.flatnonzero(quota)
            chosen, extras = self._act(active)
            for row, (copy, step, summary) in enumerate(self._advance(active, chosen)):
                outputs = {name: values[row] for name, values in extras.items()}
                self._episodes[copy].add_env_step(action=chosen[row], extra_model_outputs=outputs, **step)
                taken[copy].append(chosen[row].tolist())
                if summary is not None:
                    sampled[copy].append(self._episodes[copy].to_numpy())
                    ended[copy].append(summary)
                    self._episodes[copy] = self._open(copy)
                quota[copy] -= per_step or summary is not None
        for copy, episode in enumerate(self._episodes):
            if per_step and len(episode):
                self._episodes[copy] = episode.cut(len_lookback_buffer=LOOKBACK)
                sampled[copy].append(episode.to_numpy())
        self.updates += 1
        return RunnerSample(list(chain(*sampled)), list(chain(*ended)), taken)

    def _begin(self) -> None:
        """Make the copies and start their episodes, unless they run. The tallies of unfinished episodes are kept."""
        if self.env is None:
            self.make_env()
        if self._latest is None:
            self._latest = self.env.reset()
            self._episodes = [self._open(copy) for copy in range(self.num_envs)]

    def make_env(self) -> None:
        self.env = self.options["make"](self.first, self.num_envs)

    def _advance(
        self, active: NDArray[np.int64], actions: NDArray[np.int64]
    ) -> Iterator[tuple[int, dict[str, Any], Summary | None]]:
        """Step the active copies; yield each with arguments of `add_env_step`, and its record if its episode ends."""
        sent = np.full((self.num_envs, *actions.shape[1:]), IDLE)
        sent[active] = actions
        observations, rewards, terminated, truncated, infos = self.env.step(sent)
        self._latest = observations, infos
        for copy, action in zip(active.tolist(), actions, strict=True):
            over, tally = bool(terminated[copy] or truncated[copy]), self._tallies[copy]
            info = infos[copy]["final_info"] if over else infos[copy]
            tally["total"] += float(rewards[copy])
            tally["actions"].append(action.tolist())
            tally["decisions"] += 1
            if over:
                self._tallies[copy] = _tally(tally["episode"] + 1, tally["decisions"])
            step = {
                "observation": infos[copy]["final_observation"] if over else _row(observations, copy),
                "reward": rewards[copy],
                "infos": info,
                "terminated": bool(terminated[copy]),
                "truncated": bool(truncated[copy]),
            }
            yield copy, step, _summary(tally, info) if over else None

    def _open(self, copy: int) -> SingleAgentEpisode:
        """Return the episode that a copy has just begun."""
        assert self._latest is not None
        observations, infos = self._latest
        info = {key: value for key, value in infos[copy].items() if not key.startswith("final_")}
        episode = SingleAgentEpisode()
        episode.add_env_reset(observation=_row(observations, copy), infos=info)
        return episode

    def _act(self, active: NDArray[np.int64]) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]]]:
        """Return actions of the active copies, and what episodes store with them for the learner: logits and ln π."""
        assert self._latest is not None
        observations, infos = self._latest
        # One by one: the last bits of a matrix product depend on the number of rows, and an action must not depend on
        # which copies share a runner.
        logits = np.stack([logits_of(self.module.actor, _row(observations, copy)) for copy in active])
        drawn = [
            draw_action(
                row.reshape(self._picks, -1), self.options["seed"], infos[copy]["copy"], infos[copy]["decision"]
            )
            for row, copy in zip(logits, active, strict=True)
        ]
        chances = np.array([chance for _, chance in drawn], np.float32)
        actions = np.stack([picks for picks, _ in drawn])
        extras = {Columns.ACTION_DIST_INPUTS: logits.astype(np.float32), Columns.ACTION_LOGP: chances}
        return actions[:, 0] if self._plain else actions, extras

    def get_state(self, *unused: Any, **options: Any) -> dict[str, Any]:
        """Return the state of each copy (None before its first step) and of its unfinished episode."""
        copies = [None] * self.num_envs if self._latest is None else self.env.state_dict()["copies"]
        return {
            "copies": [
                {"environment": environment, "tally": tally}
                for environment, tally in zip(copies, self._tallies, strict=True)
            ]
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Load what `state` has of the module's weights and of the copies."""
        if COMPONENT_RL_MODULE in state:
            self.module.set_state(state[COMPONENT_RL_MODULE][DEFAULT_MODULE_ID])
        if "copies" in state:
            self.stop()
            environments = [copy["environment"] for copy in state["copies"]]
            if None not in environments:
                self.make_env()
                self.env.load_state_dict({"copies": environments})
            self._tallies = [copy["tally"] | {"actions": list(copy["tally"]["actions"])} for copy in state["copies"]]

    def resume(self, copies: Sequence[Mapping[str, Any]] | None, taken: Sequence[Sequence[Any]], updates: int) -> None:
        """Load the state of the copies, None for their beginning, and repeat the decisions since."""
        self.set_state({"copies": copies or [{"environment": None, "tally": _tally(0)}] * self.num_envs})
        self._begin()
        for step in range(max(map(len, taken))):
            active = np.array([copy for copy, actions in enumerate(taken) if step < len(actions)])
            for _ in self._advance(active, np.array([taken[copy][step] for copy in active])):
                pass
        self._episodes = [self._open(copy) for copy in range(self.num_envs)]
        self.updates = updates

    def get_spaces(self) -> dict[str, tuple[gymnasium.Space[Any], gymnasium.Space[Any]]]:
        spaces = self.config.observation_space, self.config.action_space
        return {INPUT_ENV_SPACES: spaces, DEFAULT_MODULE_ID: spaces}

    def handle(self) -> Any:
        """Return this actor's handle; None if it is none."""
        return ray.get_runtime_context().current_actor if self.worker_index else None

    def assert_healthy(self) -> None:
        assert self.module is not None

    def stop(self) -> None:
        """Close the copies."""
        if self.env is not None:
            self.env.close()
        self.env = self._latest = None


def _tally(episode: int, decisions: int = 0) -> dict[str, Any]:
    """Return the record of an episode that begins: its number within the copy, its rewards and actions, and the
    decisions that the copy has taken in all.
    """
    return {"episode": episode, "total": 0.0, "actions": [], "decisions": decisions}


def _summary(tally: Mapping[str, Any], info: Mapping[str, Any]) -> Summary:
    """Return the record of an episode that has ended, from its last info."""
    actions = tally["actions"]
    row = {"copy": int(info["copy"]), "episode": tally["episode"], "return": tally["total"], "length": len(actions)}
    return row | {"actions": actions, "summary": dict(info.get("summary", {}))}


def set_threads(cpus: float) -> None:
    """Set the number of threads, on which a sum's last bits depend: the same in all processes that sample or learn."""
    torch.set_num_threads(max(1, int(cpus)))


def _row(observations: Observations, copy: int) -> dict[str, Any]:
    return {name: part[copy] for name, part in observations.items()}
