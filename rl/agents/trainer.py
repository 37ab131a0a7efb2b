"""Trains an agent: updates it, saves its state and restores it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray.rllib.core import DEFAULT_MODULE_ID
from torch import Tensor

from ranking.errors import BadInput
from rl.rllib.lockstep import Lockstep
from rl.rllib.runner import Summary


class AgentTrainer:
    """Runs an algorithm and its runners.

    Attributes:
        counters: `updates`, `decisions` (of all copies together) and finished `episodes` so far.
    """

    def __init__(self, algorithm: Lockstep) -> None:
        self.algorithm = algorithm
        self.counters = {"updates": 0, "decisions": 0, "episodes": 0}

    def update(self) -> list[Summary]:
        """Make one training step.

        Returns:
            One dict per episode that ended, by copy and episode: `copy`, `episode` (its number within the copy),
            `return` (undiscounted), `length`, `actions` and the environment's `summary`.
        """
        self.algorithm.updates = self.counters["updates"]
        self.algorithm.training_step()
        ended = self.algorithm.ended
        self.counters["decisions"] += self.algorithm.decisions
        self.counters["updates"] += 1
        self.counters["episodes"] += len(ended)
        return ended

    def state(self) -> dict[str, Any]:
        """Return everything that learning resumes from: nested numbers, strings, lists, arrays and tensors.

        A restored trainer continues as if it had never stopped.
        """
        learner = self.algorithm.learner
        shares = self._runners("runner_state")
        copies = [state["copies"] for state in shares]
        return {
            "weights": _copied(self.algorithm.learner.module[DEFAULT_MODULE_ID]),
            "optimizers": {name: optimizer.state_dict() for name, optimizer in learner._named_optimizers.items()},
            "copies": None if None in copies else [state for share in copies for state in share],
            "tallies": [tally for state in shares for tally in state["tallies"]],
            "counters": dict(self.counters),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`, with any number of runners.

        Raises:
            BadInput: if the state has another number of copies or another network.
        """
        copies = self.algorithm.config.num_envs_per_env_runner * max(1, self.algorithm.config.num_env_runners)
        if len(state["tallies"]) != copies:
            raise BadInput(
                f"was learnt with {len(state['tallies'])} copies, not {copies}", "checkpoint", "give the same copies"
            )
        learner = self.algorithm.learner
        try:
            learner.module[DEFAULT_MODULE_ID].load_state_dict(state["weights"])
            for name, optimizer in learner._named_optimizers.items():
                optimizer.load_state_dict(state["optimizers"][name])
        except (KeyError, RuntimeError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise BadInput(f"holds another agent ({reason})", "checkpoint", "give the same agent and options") from None
        self.counters = dict(state["counters"])
        share = copies // len(self._shares())
        weights = learner.module[DEFAULT_MODULE_ID].get_state(inference_only=True)
        states = [
            {
                "copies": state["copies"] and state["copies"][first : first + share],
                "tallies": state["tallies"][first : first + share],
                "weights": weights,
            }
            for first in range(0, copies, share)
        ]
        self._runners("load_runner_state", states)

    def begin_with(self, weights: Mapping[str, Tensor]) -> None:
        """Set the actor's weights before the first update, for example from imitation."""
        self._actor().load_state_dict(dict(weights))  # runners receive them with the first request to sample

    @property
    def network(self) -> dict[str, Any]:
        """The description of the actor's network, for `rl.networks.described`."""
        return self._actor().description()

    def policy_weights(self) -> dict[str, Tensor]:
        """Return the actor's current weights by name, on the CPU."""
        return _copied(self._actor())

    def close(self) -> None:
        """End the runners and close the copies."""
        self.algorithm.stop()
        with suppress(OSError):  # RLlib makes a folder in ~/ray_results, and writes no logs
            Path(self.algorithm.logdir).rmdir()

    def _actor(self) -> Any:
        return self.algorithm.learner.module[DEFAULT_MODULE_ID].actor

    def _shares(self) -> list[Any]:
        """Return the runners in the order of their copies: actors, or the one in this process."""
        return self.algorithm.runners or [self.algorithm.env_runner]

    def _runners(self, method: str, arguments: list[Any] | None = None) -> list[Any]:
        """Call a method of every runner; with `arguments`, each with one of them."""
        runners = self._shares()
        packed = [()] * len(runners) if arguments is None else [(argument,) for argument in arguments]
        calls = zip(runners, packed, strict=True)
        if isinstance(runners[0], ray.actor.ActorHandle):
            return ray.get([getattr(runner, method).remote(*values) for runner, values in calls])
        return [getattr(runner, method)(*values) for runner, values in calls]


def _copied(module: Any) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().clone() for name, tensor in module.state_dict().items()}
