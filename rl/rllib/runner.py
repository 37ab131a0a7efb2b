"""Samples episodes from copies of the environment: the same for any number of runners, and after interrupts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rl.draws import draw_action, logits_of
from rl.networks import PolicyNetwork
from rl.vector_environment import IDLE, Observations

Summary = dict[str, Any]
"""The record of a finished episode: copy, episode, return, length, actions, and the environment's summary."""
LOOKBACK = 1
"""Steps before a cut that RLlib keeps in the rest of an episode."""


class LockstepRunner:
    """Steps its share of the copies together, a quota of steps or of whole episodes for each.

    RLlib's runner spends a vector step on each reset, returns whichever episodes finish first, and draws actions from
    torch's global generator, so its samples depend on how copies are divided. Here every copy contributes the same
    number of steps (or of episodes), in the order of the copies, and every draw is seeded by (seed, copy, decision).

    Args:
        make: makes the copies first … first + count − 1 (see `rl.vector_environment.VectorEnvironment`).
        actor: the network that chooses actions.
        seed: seed of the draws.
        cpus: cores of this process.
    """

    def __init__(
        self, make: Callable[[int, int], Any], first: int, count: int, actor: PolicyNetwork, seed: int, cpus: float
    ) -> None:
        set_threads(cpus)
        self.env, self.first, self.num_envs = make(first, count), first, count
        self.actor, self.seed = actor, seed
        space = self.env.single_action_space
        self._plain = isinstance(space, gymnasium.spaces.Discrete)
        self._picks = 1 if self._plain else len(space.nvec)
        self._tallies = [Tally() for _ in range(count)]
        self._summaries: list[Summary] = []
        self._steps = 0
        self._latest: tuple[Observations, list[dict[str, Any]]] = ({}, [])
        self._needs_initial_reset = True

    def __repr__(self) -> str:
        """Return its name in Ray's dashboard and logs."""
        return f"runner of copies {self.first} to {self.first + self.num_envs - 1}"

    def collect(
        self, weights: dict[str, Any], steps: int | None = None, episodes: int | None = None
    ) -> tuple[list[SingleAgentEpisode], list[Summary], int]:
        """Load the actor's weights, then sample a quota of steps or of whole episodes from each copy.

        Returns:
            The episodes by copy and time, summaries of those that ended, and the steps of all copies.
        """
        self.actor.load_state_dict(weights)
        return self._sample(steps, episodes), *self._progress()

    def _progress(self) -> tuple[list[Summary], int]:
        """Return the summaries of episodes that ended since the last call, by copy, and the steps of all copies."""
        ended, steps = sorted(self._summaries, key=lambda row: (row["copy"], row["episode"])), self._steps
        self._summaries, self._steps = [], 0
        return ended, steps

    def _sample(self, steps: int | None, episodes: int | None) -> list[SingleAgentEpisode]:
        """Return episodes by copy and time: `steps` steps of each copy, or `episodes` whole episodes."""
        if self._needs_initial_reset:  # the tallies of unfinished episodes are kept
            self._latest = self.env.reset()
            self._episodes = [self._open(copy) for copy in range(self.num_envs)]
            self._needs_initial_reset = False
        by_steps = steps is not None
        quota = np.full(self.num_envs, steps or episodes or 0)
        finished: list[list[SingleAgentEpisode]] = [[] for _ in range(self.num_envs)]
        while quota.any():
            active = np.flatnonzero(quota)
            chosen, extras = self._act(active)
            sent = np.full((self.num_envs, *chosen.shape[1:]), IDLE)
            sent[active] = chosen
            observations, rewards, terminated, truncated, infos = self.env.step(sent)
            self._latest = observations, infos
            self._steps += len(active)
            for row, copy in enumerate(active.tolist()):
                over = bool(terminated[copy] or truncated[copy])
                ended = infos[copy]["final_info"] if over else infos[copy]
                self._episodes[copy].add_env_step(
                    observation=infos[copy]["final_observation"] if over else _row(observations, copy),
                    action=chosen[row],
                    reward=rewards[copy],
                    infos=ended,
                    terminated=bool(terminated[copy]),
                    truncated=bool(truncated[copy]),
                    extra_model_outputs={name: values[row] for name, values in extras.items()},
                )
                self._tallies[copy].add(chosen[row], float(rewards[copy]))
                if over:
                    finished[copy].append(self._end(copy, ended))
                quota[copy] -= by_steps or over
        return [episode for copy in range(self.num_envs) for episode in finished[copy] + self._cut(copy, by_steps)]

    def _open(self, copy: int) -> SingleAgentEpisode:
        """Return the episode that a copy has just begun."""
        observations, infos = self._latest
        info = {key: value for key, value in infos[copy].items() if not key.startswith("final_")}
        episode = SingleAgentEpisode(
            observation_space=self.env.single_observation_space, action_space=self.env.single_action_space
        )
        episode.add_env_reset(observation=_row(observations, copy), infos=info)
        return episode

    def _end(self, copy: int, info: Mapping[str, Any]) -> SingleAgentEpisode:
        """Close a copy's episode, keep its summary and open the next."""
        episode = self._episodes[copy]
        self._summaries.append(
            {"copy": int(info["copy"])} | self._tallies[copy].close() | {"summary": dict(info.get("summary", {}))}
        )
        self._episodes[copy] = self._open(copy)
        return episode.to_numpy()

    def _cut(self, copy: int, by_steps: bool) -> list[SingleAgentEpisode]:
        """Return what a copy's unfinished episode has so far; it continues in the next sample."""
        episode = self._episodes[copy]
        if not by_steps or not len(episode):
            return []
        self._episodes[copy] = episode.cut(len_lookback_buffer=LOOKBACK)
        return [episode.to_numpy()]

    def _act(self, active: NDArray[np.int64]) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]]]:
        """Return actions of the active copies, and what episodes store with them for the learner: logits and ln π."""
        observations, infos = self._latest
        # One by one: the last bits of a matrix product depend on the number of rows, and an action must not depend on
        # which copies share a runner.
        logits = np.stack([logits_of(self.actor, _row(observations, copy)) for copy in active])
        drawn = [
            draw_action(row.reshape(self._picks, -1), self.seed, infos[copy]["copy"], infos[copy]["decision"])
            for row, copy in zip(logits, active, strict=True)
        ]
        chances = np.array([chance for _, chance in drawn], np.float32)
        actions = np.stack([picks for picks, _ in drawn])
        extras = {Columns.ACTION_DIST_INPUTS: logits.astype(np.float32), Columns.ACTION_LOGP: chances}
        return actions[:, 0] if self._plain else actions, extras

    def runner_state(self) -> dict[str, Any]:
        """Return the state of the copies and of their unfinished episodes, one entry per copy."""
        return {
            "copies": self.env.state_dict()["copies"] if not self._needs_initial_reset else None,
            "tallies": [vars(tally).copy() for tally in self._tallies],
        }

    def load_runner_state(self, state: Mapping[str, Any]) -> None:
        """Continue from `runner_state`."""
        if state["copies"] is not None:
            self.env.load_state_dict({"copies": state["copies"]})
        self.actor.load_state_dict(state["weights"])
        self._tallies = [Tally(**tally) for tally in state["tallies"]]
        self._needs_initial_reset = True

    def close(self) -> None:
        """Close the copies."""
        self.env.close()


class Tally:
    """The record of a copy's unfinished episode: its number, the sum of its rewards, and its actions."""

    def __init__(self, episode: int = 0, total: float = 0.0, actions: list[Any] | None = None) -> None:
        self.episode, self.total, self.actions = episode, total, list(actions or [])

    def add(self, action: NDArray[np.int64], reward: float) -> None:
        """Count one step."""
        self.total += reward
        self.actions.append(action.tolist())

    def close(self) -> Summary:
        """Return the finished episode, and start the next one."""
        row = {"episode": self.episode, "return": self.total, "length": len(self.actions), "actions": self.actions}
        self.episode, self.total, self.actions = self.episode + 1, 0.0, []
        return row


def set_threads(cpus: float) -> None:
    """Set the number of threads, on which the last bits of a sum depend: the same in every process that samples or
    learns.
    """
    torch.set_num_threads(max(1, int(cpus)))


def _row(observations: Observations, copy: int) -> dict[str, Any]:
    return {name: part[copy] for name, part in observations.items()}
