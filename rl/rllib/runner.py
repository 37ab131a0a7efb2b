"""Samples episodes from copies of the environment: the same for any number of runners, and after interrupts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from pyrite.rl.draws import draw_action, logits_of
from pyrite.rl.networks import PolicyNetwork
from pyrite.rl.vector_environment import IDLE, Observations

Summary = dict[str, Any]
"""The record of a finished episode: `copy`, `episode` (its number within the copy), `return` (undiscounted), `length`,
`actions`, and the environment's `summary`."""
LOOKBACK = 1
"""Steps before a cut that RLlib keeps in the rest of an episode."""


class LockstepRunner:
    """Steps its share of the copies together, a quota of steps or of whole episodes for each.

    RLlib's runner spends a vector step on each reset, returns whichever episodes finish first, and draws actions from
    torch's global generator, so its samples depend on how copies are divided. Here every copy contributes the same
    number of steps (or of episodes), in the order of the copies, and every draw is seeded by (seed, copy, decision).

    Args:
        make: makes the copies first … first + count − 1 (see `pyrite.rl.vector_environment.VectorEnvironment`).
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
        self._tallies = [_tally(0) for _ in range(count)]
        self._latest: tuple[Observations, list[dict[str, Any]]] = ({}, [])
        self._needs_initial_reset = True

    def __repr__(self) -> str:
        """Return its name in Ray's dashboard and logs."""
        return f"runner of copies {self.first} to {self.first + self.num_envs - 1}"

    def collect(
        self, weights: dict[str, Any], steps: int | None = None, episodes: int | None = None
    ) -> tuple[list[SingleAgentEpisode], list[Summary], int]:
        """Load the actor's weights, then sample `steps` steps or `episodes` whole episodes of each copy.

        With a quota of steps, an unfinished episode is cut, and continues in the next sample.

        Returns:
            The episodes by copy and time, summaries of those that ended, and the steps of all copies.
        """
        self.actor.load_state_dict(weights)
        if self._needs_initial_reset:  # the tallies of unfinished episodes are kept
            self._latest = self.env.reset()
            self._episodes = [self._open(copy) for copy in range(self.num_envs)]
            self._needs_initial_reset = False
        quota, count = np.full(self.num_envs, steps or episodes or 0), 0
        sampled: list[list[SingleAgentEpisode]] = [[] for _ in range(self.num_envs)]
        ended: list[list[Summary]] = [[] for _ in range(self.num_envs)]
        while quota.any():
            active = np.flatnonzero(quota)
            count += len(active)
            chosen, extras = self._act(active)
            sent = np.full((self.num_envs, *chosen.shape[1:]), IDLE)
            sent[active] = chosen
            observations, rewards, terminated, truncated, infos = self.env.step(sent)
            self._latest = observations, infos
            for row, copy in enumerate(active.tolist()):
                episode, tally = self._episodes[copy], self._tallies[copy]
                over = bool(terminated[copy] or truncated[copy])
                info = infos[copy]["final_info"] if over else infos[copy]
                episode.add_env_step(
                    observation=infos[copy]["final_observation"] if over else _row(observations, copy),
                    action=chosen[row],
                    reward=rewards[copy],
                    infos=info,
                    terminated=bool(terminated[copy]),
                    truncated=bool(truncated[copy]),
                    extra_model_outputs={name: values[row] for name, values in extras.items()},
                )
                tally["total"] += float(rewards[copy])
                tally["actions"].append(chosen[row].tolist())
                if over:
                    sampled[copy].append(episode.to_numpy())
                    ended[copy].append(_summary(tally, info))
                    self._episodes[copy], self._tallies[copy] = self._open(copy), _tally(tally["episode"] + 1)
                quota[copy] -= over or steps is not None
        for copy, episode in enumerate(self._episodes):
            if steps is not None and len(episode):
                self._episodes[copy] = episode.cut(len_lookback_buffer=LOOKBACK)
                sampled[copy].append(episode.to_numpy())
        return list(chain(*sampled)), list(chain(*ended)), count

    def _open(self, copy: int) -> SingleAgentEpisode:
        """Return the episode that a copy has just begun."""
        observations, infos = self._latest
        info = {key: value for key, value in infos[copy].items() if not key.startswith("final_")}
        episode = SingleAgentEpisode(
            observation_space=self.env.single_observation_space, action_space=self.env.single_action_space
        )
        episode.add_env_reset(observation=_row(observations, copy), infos=info)
        return episode

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
            "tallies": self._tallies,
        }

    def load_runner_state(self, state: Mapping[str, Any]) -> None:
        """Continue from `runner_state`."""
        if state["copies"] is not None:
            self.env.load_state_dict({"copies": state["copies"]})
        self.actor.load_state_dict(state["weights"])
        self._tallies = [tally | {"actions": list(tally["actions"])} for tally in state["tallies"]]
        self._needs_initial_reset = True

    def close(self) -> None:
        """Close the copies."""
        self.env.close()


def _tally(episode: int) -> dict[str, Any]:
    """Return the record of an episode that begins: its number within the copy, its rewards, and its actions."""
    return {"episode": episode, "total": 0.0, "actions": []}


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
