"""Trains an agent by RLlib's Algorithm, with all shares of an update or none."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any

import ray
import torch
from ray.exceptions import NodeDiedError
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import COMPONENT_LEARNER, COMPONENT_OPTIMIZER, COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    ENV_RUNNER_SAMPLING_TIMER,
    EPISODE_LEN_MEAN,
    EPISODE_RETURN_MEAN,
    LEARNER_RESULTS,
    LEARNER_UPDATE_TIMER,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    NUM_EPISODES_LIFETIME,
    TIMERS,
)
from torch import Tensor

from pyrite.ranking.errors import BadInput, refuse
from pyrite.rl.rllib.module import PolicyModule
from pyrite.rl.rllib.runner import LockstepRunner

REPORT_S = 5.0
"""Seconds of updates between two reports if no episode ends."""
LEAST_S, FIRST_S, LATE = 60.0, 3600.0, 10.0
"""A runner is late after `LATE` times the longest answer so far, and `LEAST_S` at least; after `FIRST_S` at first."""
RESTART_S = 300.0
"""Seconds in which a runner is started again: a lost node is replaced within minutes."""
ATTEMPTS = 3
"""How often a runner is asked for one answer."""
WEIGHTS = f"{COMPONENT_LEARNER}/{COMPONENT_RL_MODULE}"
_log = logging.getLogger(__name__)


class LockstepConfig(AlgorithmConfig):
    """The configuration of agents that are not RLlib's."""

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        return RLModuleSpec(PolicyModule)


class Lockstep(Algorithm):
    """RLlib's Algorithm over `pyrite.rl.rllib.runner.LockstepRunner`.

    RLlib continues without the share of a runner that fails. Here a runner that fails or is late is started again,
    loads the last saved state of its copies and repeats its decisions since, while the others wait. So an update has
    the shares of all copies, in their order, and what is learned depends neither on the number of runners nor
    on losses.

    Attributes:
        ended: the summaries of the episodes that ended in the last call of `train`, by copy and episode.
        counters: `updates`, `decisions` (of all copies together) and finished `episodes` so far.
        recall: returns the last state of `get_state` that was saved, None if none was.
        on_loss: called with a line about each runner that is started again.
    """

    @classmethod
    def get_default_config(cls) -> AlgorithmConfig:
        return LockstepConfig(algo_class=cls)

    def _setup_logdir(self) -> None:
        self._logdir = None  # RLlib would leave an empty folder in the user's home

    def setup(self, config: AlgorithmConfig) -> None:
        try:
            super().setup(config)
        except IndexError as error:  # RLlib takes the first of the answers, and there is none if the runner was lost
            group = self.env_runner_group
            if group.num_healthy_remote_workers() == group.num_remote_workers():
                raise
            raise NodeDiedError("a runner was lost while it started") from error
        self.share = config.num_envs_per_env_runner
        self.ended: list[dict[str, Any]] = []
        self.counters = {"updates": 0, "decisions": 0, "episodes": 0}
        self.recall: Callable[[], Mapping[str, Any] | None] = lambda: None
        self.on_loss: Callable[[str], None] = _log.warning
        self._since(0)
        self._longest: list[float] = []
        self._waiting = ThreadPoolExecutor(1, "learners")
        self._handles = self._answers(lambda runner: (runner.worker_index, runner.handle()), None, RESTART_S)

    def _since(self, update: int) -> None:
        """Forget the actions of each copy before an update, at which the state was saved."""
        self._saved, copies = update, self.share * max(1, self.config.num_env_runners)
        self._taken: list[list[Any]] = [[] for _ in range(copies)]

    def training_step(self) -> None:
        """Make updates until an episode ends or a report is due."""
        until = time.monotonic() + REPORT_S
        self._update()
        while not self.ended and time.monotonic() < until:
            self._update()

    def _update(self) -> None:
        with self.metrics.log_time((TIMERS, ENV_RUNNER_SAMPLING_TIMER)):
            copies = list(chain.from_iterable(self._ask("sample", weights=self._weights())))
        episodes = list(chain.from_iterable(copies))  # as sampled: a learner may add a step to each
        counts = {"updates": 1, "decisions": sum(map(len, episodes))}
        self.ended = [episode.get_infos(-1)["summary"] for episode in episodes if episode.is_done]
        for taken, chunks in zip(self._taken, copies, strict=True):
            taken.extend(chain.from_iterable(chunk.get_actions() for chunk in chunks))
        with self.metrics.log_time((TIMERS, LEARNER_UPDATE_TIMER)):
            agent: Any = self.config.env_config["agent"]
            if arguments := agent.update_arguments(episodes, self.counters["updates"], self.config):
                self.metrics.aggregate(self._learn(**arguments), key=LEARNER_RESULTS)
        self._count(counts | {"episodes": len(self.ended)})

    def _learn(self, **arguments: Any) -> Any:
        if self.learner_group.is_local:
            return self.learner_group.update(**arguments)
        # RLlib waits for learners that are actors without a limit.
        return self._waiting.submit(self.learner_group.update, **arguments).result(FIRST_S)

    def _count(self, counts: Mapping[str, int]) -> None:
        self.counters = {name: self.counters[name] + count for name, count in counts.items()}
        for name, key in ((NUM_ENV_STEPS_SAMPLED_LIFETIME, "decisions"), (NUM_EPISODES_LIFETIME, "episodes")):
            self.metrics.log_value((ENV_RUNNER_RESULTS, name), counts[key], reduce="lifetime_sum")
        for summary in self.ended:
            self.metrics.log_value((ENV_RUNNER_RESULTS, EPISODE_RETURN_MEAN), summary["return"], window=32)
            self.metrics.log_value((ENV_RUNNER_RESULTS, EPISODE_LEN_MEAN), summary["decisions"], window=32)

    def _ask(self, method: str, **arguments: Any) -> list[Any]:
        """Call a method of all runners for the coming update, and return the results in the order of their copies."""
        call = partial(LockstepRunner.answer, update=self.counters["updates"], method=method, **arguments)
        results: dict[int, Any] = {}
        for _ in range(ATTEMPTS):
            started, wanted = time.monotonic(), sorted(self._handles.keys() - results.keys())
            answers = self._answers(call, wanted, max(LEAST_S, LATE * max(self._longest, default=FIRST_S / LATE)))
            results |= {number: result for number, result in answers.items() if result is not None}
            if not (lost := self._handles.keys() - results.keys()):
                self._longest = [max([*self._longest, time.monotonic() - started])]
                return [result for _, result in sorted(results.items())]
            going = set(self.env_runner_group.healthy_worker_ids())  # without those that Ray has found ended
            for number in sorted(lost):
                self._restart(number, late=number in going - answers.keys())
        raise NodeDiedError(f"runners {sorted(lost)} don't answer")

    def _answers(self, call: Any, numbers: list[int] | None, seconds: float) -> dict[int, Any]:
        """Call the given runners (None: all), and return what those that answer in time return, as (number, result).

        Raises:
            Exception: the error of a runner that returns one.
        """
        answers = dict(
            self.env_runner_group.foreach_env_runner(
                call, remote_worker_ids=numbers, healthy_only=False, mark_healthy=True, timeout_seconds=seconds
            )
        )
        for result in answers.values():
            if isinstance(result, Exception):
                raise result
        return answers

    def _restart(self, number: int, late: bool) -> None:
        """Start a runner again, and let it repeat what it has done since the last saved state."""
        first = (number - 1) * self.share
        copies = f"copies {first} to {first + self.share - 1}" if self.share > 1 else f"copy {first}"
        self.on_loss(f"the runner of {copies} was lost, and repeats its decisions")
        if late:  # Ray has started one that failed, or does it now
            ray.kill(self._handles[number], no_restart=False)
        state, deadline = self.recall(), time.monotonic() + RESTART_S
        if (0 if state is None else state["counters"]["updates"]) != self._saved:
            raise NodeDiedError("the last state is older than the decisions that are known")
        while not self._resume(number, state):  # if it is lost later, it does not know the update when it is asked
            if time.monotonic() > deadline:
                raise NodeDiedError(f"runner {number} was not started again")
            time.sleep(1)

    def _resume(self, number: int, state: Mapping[str, Any] | None) -> dict[int, Any]:
        """Let a runner load its copies from a state, from their beginning without one, and repeat what came later."""
        own = slice(max(0, number - 1) * self.share, max(1, number) * self.share)
        wanted = {
            "copies": None if state is None else state["copies"][own],
            "taken": self._taken[own],
            "updates": self.counters["updates"],
        }
        call = partial(LockstepRunner.answer, update=None, method="set_state", state=wanted)
        return self._answers(call, [number], FIRST_S)

    def get_state(self, *unused: Any, **options: Any) -> dict[str, Any]:
        """Return everything that learning resumes from: nested numbers, strings, lists and arrays.

        A restored Algorithm with any number of runners continues as if it had never stopped.
        """
        copies = [copy for share in self._ask("get_state") for copy in share["copies"]]
        learner = self.learner_group.get_state()[COMPONENT_LEARNER]
        self._since(self.counters["updates"])
        learned = {part: learner[part] for part in (COMPONENT_RL_MODULE, COMPONENT_OPTIMIZER)}
        return {COMPONENT_LEARNER: learned, "copies": copies, "counters": dict(self.counters)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a state of `get_state`.

        Raises:
            BadInput: if it has another number of copies or another network.
        """
        if len(state["copies"]) != len(self._taken):
            what = f"was learnt with {len(state['copies'])} copies, not {len(self._taken)}"
            raise BadInput(what, "checkpoint", "give the same copies")
        refuse(
            _form(state[COMPONENT_LEARNER]) != _form(self.learner_group.get_state()[COMPONENT_LEARNER]),
            "holds another agent",
            "checkpoint",
            "give the same agent and options",
        )
        self.learner_group.set_state({COMPONENT_LEARNER: state[COMPONENT_LEARNER]})
        self.ended, self.counters = [], dict.fromkeys(self.counters, 0)
        self._count(state["counters"])
        self._since(self.counters["updates"])
        for number in self._handles:
            self._resume(number, state)

    def begin_with(self, weights: Mapping[str, Tensor]) -> None:
        """Set the actor's weights before the first update, for example from imitation."""
        state = self.learner_group.get_weights()
        state[DEFAULT_MODULE_ID] |= {f"actor.{name}": tensor.numpy() for name, tensor in weights.items()}
        self.learner_group.set_weights(state)  # runners receive them with the first request to sample

    @property
    def network(self) -> dict[str, Any]:
        """The description of the actor's network, for `pyrite.rl.networks.described`."""
        return self.config.env_config["network"]

    def _weights(self) -> dict[str, Any]:
        state = self.learner_group.get_state(components=WEIGHTS, inference_only=True)
        return state[COMPONENT_LEARNER][COMPONENT_RL_MODULE][DEFAULT_MODULE_ID]

    def policy_weights(self) -> dict[str, Tensor]:
        """Return a copy of the actor's current weights by name, on the CPU."""
        return {name.removeprefix("actor."): torch.tensor(value) for name, value in self._weights().items()}

    def cleanup(self) -> None:
        # RLlib waits for runners to stop without a limit, and these have nothing to close.
        for handle in filter(None, self._handles.values()):
            ray.kill(handle)
        super().cleanup()


def _form(state: Any) -> Any:
    """Return what two learners of one agent share: the names of their optimizers, and the shapes of their weights."""
    shapes = {name: tuple(value.shape) for name, value in state[COMPONENT_RL_MODULE][DEFAULT_MODULE_ID].items()}
    return sorted(state[COMPONENT_OPTIMIZER]), shapes
