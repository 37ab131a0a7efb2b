"""Trains an agent: samples from all copies, updates it, saves its state and restores it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ray
from ray.rllib.core import DEFAULT_MODULE_ID
from torch import Tensor

from pyrite.ranking.errors import BadInput
from pyrite.rl.rllib.runner import Summary

CLOSE_TIMEOUT_S = 5.0
"""How long the end of a learning waits for runners to close their copies."""


class AgentTrainer:
    """The learner of an agent, in this process, and its runners.

    All runners receive the newest weights with the request to sample, then sample the same quota from each copy.

    Args:
        agent: the `pyrite.rl.agents.agent.Agent`, which updates the learner.
        copies: number of copies of the environment.
        runners: `pyrite.rl.rllib.runner.LockstepRunner` actors in the order of their copies, or one in this process.

    Attributes:
        counters: `updates`, `decisions` (of all copies together) and finished `episodes` so far.
    """

    def __init__(self, agent: Any, learner: Any, copies: int, runners: Sequence[Any]) -> None:
        self.agent, self.learner, self.copies, self.runners = agent, learner, copies, runners
        self.module = learner.module[DEFAULT_MODULE_ID]
        self.remote = isinstance(runners[0], ray.actor.ActorHandle)
        self.counters = {"updates": 0, "decisions": 0, "episodes": 0}

    def update(self) -> list[Summary]:
        """Make one training step, and return the records of the episodes that ended, by copy and episode."""
        weights = self.policy_weights()
        requests = [ray.put(weights) if self.remote else weights] * len(self.runners)
        episodes, summaries, steps = zip(*self._call("collect", requests, **self.agent.quota), strict=True)
        self.agent.update(self.learner, [part for share in episodes for part in share], self.counters["updates"])
        ended = [row for share in summaries for row in share]
        self.counters["decisions"] += sum(steps)
        self.counters["updates"] += 1
        self.counters["episodes"] += len(ended)
        return ended

    def state(self) -> dict[str, Any]:
        """Return everything that learning resumes from: nested numbers, strings, lists, arrays and tensors.

        A restored trainer continues as if it had never stopped.
        """
        shares = self._call("runner_state")
        copies = [state["copies"] for state in shares]
        return {
            "weights": _copied(self.module),
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self.learner._named_optimizers.items()},
            "copies": None if None in copies else [state for share in copies for state in share],
            "tallies": [tally for state in shares for tally in state["tallies"]],
            "counters": dict(self.counters),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`, with any number of runners.

        Raises:
            BadInput: if the state has another number of copies or another network.
        """
        if len(state["tallies"]) != self.copies:
            what = f"was learnt with {len(state['tallies'])} copies, not {self.copies}"
            raise BadInput(what, "checkpoint", "give the same copies")
        try:
            self.module.load_state_dict(state["weights"])
            for name, optimizer in self.learner._named_optimizers.items():
                optimizer.load_state_dict(state["optimizers"][name])
        except (KeyError, RuntimeError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise BadInput(f"holds another agent ({reason})", "checkpoint", "give the same agent and options") from None
        self.counters = dict(state["counters"])
        share = self.copies // len(self.runners)
        weights = self.policy_weights()
        states = [
            {
                "copies": state["copies"] and state["copies"][first : first + share],
                "tallies": state["tallies"][first : first + share],
                "weights": weights,
            }
            for first in range(0, self.copies, share)
        ]
        self._call("load_runner_state", states)

    def begin_with(self, weights: Mapping[str, Tensor]) -> None:
        """Set the actor's weights before the first update, for example from imitation."""
        self.module.actor.load_state_dict(dict(weights))  # runners receive them with the first request to sample

    @property
    def network(self) -> dict[str, Any]:
        """The description of the actor's network, for `pyrite.rl.networks.described`."""
        return self.module.actor.description()

    def policy_weights(self) -> dict[str, Tensor]:
        """Return the actor's current weights by name, on the CPU."""
        return _copied(self.module.actor)

    def close(self) -> None:
        """Close the copies and end the runners."""
        if not self.remote:
            self.runners[0].close()
            return
        ray.wait(
            [actor.close.remote() for actor in self.runners], num_returns=len(self.runners), timeout=CLOSE_TIMEOUT_S
        )
        for actor in self.runners:
            ray.kill(actor)

    def _call(self, method: str, *arguments: Sequence[Any], **options: Any) -> list[Any]:
        """Call a method of every runner; each sequence of arguments has one value per runner."""
        calls = zip(self.runners, *arguments, strict=True)
        if self.remote:
            return ray.get([getattr(actor, method).remote(*values, **options) for actor, *values in calls])
        return [getattr(runner, method)(*values, **options) for runner, *values in calls]


def _copied(module: Any) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().clone() for name, tensor in module.state_dict().items()}
