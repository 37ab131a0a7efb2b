"""Trains an agent by RLlib's Algorithm, with all shares of an update or none."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import ray
import torch
from ray.exceptions import RayActorError
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

from pyrite.ranking.errors import BadInput
from pyrite.rl.rllib.module import PolicyModule
from pyrite.rl.rllib.runner import LockstepRunner, RunnerSample, Summary

REPORT_S = 5.0
"""Seconds of updates between two reports if no episode ends."""
LEAST_S, FIRST_S, LATE = 60.0, 3600.0, 10.0
"""A runner is late after `LATE` times the longest answer so far, and `LEAST_S` at least; after `FIRST_S` at first."""
RESTART_S = 300.0
"""Seconds that a runner that was started again may take to answer: a lost node is replaced within minutes."""
CLOSE_S = 5.0
"""Seconds to wait for runners to close their copies."""
ATTEMPTS = 3
"""How often a runner is asked for one answer."""
WEIGHTS = f"{COMPONENT_LEARNER}/{COMPONENT_RL_MODULE}"
_log = logging.getLogger(__name__)


class RunnersLost(RayActorError):
    """The end of an attempt at learning whose runners could not be started again."""

    def __init__(self, error_msg: str) -> None:
        super().__init__(error_msg=error_msg)
        self.args = (error_msg,)  # it is pickled by them


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
        ended: the records of the episodes that ended in the last call of `train`, by copy and episode.
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
        super().setup(config)
        self.share = config.num_envs_per_env_runner
        self.ended: list[Summary] = []
        self.counters = {"updates": 0, "decisions": 0, "episodes": 0}
        self.recall: Callable[[], Mapping[str, Any] | None] = lambda: None
        self.on_loss: Callable[[str], None] = _log.warning
        # The actions of each copy since the state before the last, the decisions of each copy then and at the last.
        self._taken: list[list[Any]] = [[] for _ in range(self.share * max(1, config.num_env_runners))]
        self._before = self._saved = [0] * len(self._taken)
        self._longest = FIRST_S / LATE
        self._waiting = ThreadPoolExecutor(1, "learners")
        self._handles = self._answers(lambda runner: (runner.worker_index, runner.handle()))

    def training_step(self) -> None:
        """Make updates until an episode ends or a report is due."""
        until = time.monotonic() + REPORT_S
        self._update()
        while not self.ended and time.monotonic() < until:
            self._update()

    def _update(self) -> None:
        with self.metrics.log_time((TIMERS, ENV_RUNNER_SAMPLING_TIMER)):
            samples: list[RunnerSample] = self._ask("sample", weights=self._weights())
        episodes = [episode for sample in samples for episode in sample.episodes]
        with self.metrics.log_time((TIMERS, LEARNER_UPDATE_TIMER)):
            agent: Any = self.config.env_config["agent"]
            if arguments := agent.update_arguments(episodes, self.counters["updates"], self.config):
                self.metrics.aggregate(self._learn(**arguments), key=LEARNER_RESULTS)
        self.ended = [summary for sample in samples for summary in sample.ended]
        taken = [actions for sample in samples for actions in sample.taken]
        for before, actions in zip(self._taken, taken, strict=True):
            before.extend(actions)
        self._count({"updates": 1, "decisions": sum(map(len, taken)), "episodes": len(self.ended)})

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
            self.metrics.log_value((ENV_RUNNER_RESULTS, EPISODE_LEN_MEAN), summary["length"], window=32)

    def _ask(self, method: str, **arguments: Any) -> list[Any]:
        """Call a method of all runners for the coming update, and return the results in the order of their copies."""
        call = partial(LockstepRunner.answer, update=self.counters["updates"], method=method, **arguments)
        results: dict[int, Any] = {}
        for _ in range(ATTEMPTS):
            started, wanted = time.monotonic(), [number for number in self._handles if number not in results]
            answers = self._answers(call, wanted, max(LEAST_S, LATE * self._longest))
            results |= {number: result for number, result in answers.items() if result is not None}
            lost = [number for number in wanted if number not in results]
            if not lost:
                took = time.monotonic() - started
                self._longest = took if self._longest == FIRST_S / LATE else max(self._longest, took)
                return [result for _, result in sorted(results.items())]
            for number in lost:
                self._restart(number, late=number not in answers)
        raise RunnersLost(f"runners {lost} don't answer")

    def _answers(self, call: Any, numbers: Sequence[int] = (), seconds: float = RESTART_S) -> dict[int, Any]:
        """Call the given runners, and return what those that answer in time return, as (number, result).

        Raises:
            Exception: the error of a runner that returns one.
        """
        answers = dict(
            self.env_runner_group.foreach_env_runner(
                call,
                remote_worker_ids=list(numbers) or None,
                healthy_only=False,
                mark_healthy=True,
                timeout_seconds=seconds,
            )
        )
        if error := next((result for result in answers.values() if isinstance(result, Exception)), None):
            raise error
        return answers

    def _restart(self, number: int, late: bool) -> None:
        """Start a runner again, and let it repeat what it has done since the last saved state."""
        first = (number - 1) * self.share
        self.on_loss(f"the runner of copies {first} to {first + self.share - 1} was lost, and repeats its decisions")
        if late:  # Ray has started one that failed, or does it now
            ray.kill(self._handles[number], no_restart=False)
        deadline = time.monotonic() + RESTART_S
        while not self._answers(lambda runner: (runner.worker_index, None), [number], seconds=5.0):
            if time.monotonic() > deadline:
                raise RunnersLost(f"runner {number} was not started again")
        self._resume(number, self.recall())  # if it is lost meanwhile, it does not know the update when it is asked

    def _resume(self, number: int, state: Mapping[str, Any] | None) -> None:
        """Let a runner load its copies from a state, from their beginning without one, and repeat what came later."""
        own = slice(max(0, number - 1) * self.share, max(1, number) * self.share)
        copies = None if state is None else state["copies"][own]
        done = [0] * self.share if copies is None else [copy["tally"]["decisions"] for copy in copies]
        known = [kept - before for kept, before in zip(done, self._before[own], strict=True)]
        if min(known) < 0:
            raise RunnersLost("the last state is older than the decisions that are known")
        taken = [actions[start:] for actions, start in zip(self._taken[own], known, strict=True)]
        call = partial(LockstepRunner.answer, update=None, method="resume", copies=copies, taken=taken)
        self._answers(partial(call, updates=self.counters["updates"]), [number], FIRST_S)

    def get_state(self, *unused: Any, **options: Any) -> dict[str, Any]:
        """Return everything that learning resumes from: nested numbers, strings, lists and arrays.

        A restored Algorithm with any number of runners continues as if it had never stopped.
        """
        copies = [copy for share in self._ask("get_state") for copy in share["copies"]]
        learner = self.learner_group.get_state()[COMPONENT_LEARNER]
        # A file may turn out to be damaged: what the state before it needs is kept too.
        for actions, saved, before in zip(self._taken, self._saved, self._before, strict=True):
            del actions[: saved - before]
        self._before, self._saved = self._saved, [copy["tally"]["decisions"] for copy in copies]
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
        if _form(state[COMPONENT_LEARNER]) != _form(self.learner_group.get_state()[COMPONENT_LEARNER]):
            raise BadInput("holds another agent", "checkpoint", "give the same agent and options")
        self.learner_group.set_state({COMPONENT_LEARNER: state[COMPONENT_LEARNER]})
        self.ended, self.counters = [], dict.fromkeys(self.counters, 0)
        self._count(state["counters"])
        self._taken = [[] for _ in self._taken]
        self._before = self._saved = [copy["tally"]["decisions"] for copy in state["copies"]]
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
        # RLlib waits without a limit until the runners have closed their copies.
        self._answers(lambda runner: (runner.worker_index, runner.stop()), seconds=CLOSE_S)
        for handle in filter(None, self._handles.values()):
            ray.kill(handle)
        super().cleanup()


def _form(state: Any) -> Any:
    """Return what two learners of one agent share: the names of their optimizers, and the shapes of their weights."""
    shapes = {name: tuple(value.shape) for name, value in state[COMPONENT_RL_MODULE][DEFAULT_MODULE_ID].items()}
    return sorted(state[COMPONENT_OPTIMIZER]), shapes
