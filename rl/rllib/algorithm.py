"""Trains an agent by RLlib's Algorithm, with all shares of an update or none."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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

from ranking.errors import BadInput
from rl.rllib.module import PolicyModule
from rl.rllib.runner import Sample, Summary

REPORT_S = 5.0
"""Seconds of updates between two reports if no episode ends."""
LEAST_S, FIRST_S, LATE = 60.0, 3600.0, 10.0
"""A runner is late after `LATE` times the longest answer so far, and `LEAST_S` at least; after `FIRST_S` at first."""
RESTART_S = 300.0
"""Seconds that a runner that was started again may take to answer: a lost node is replaced within minutes."""
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
    """RLlib's Algorithm over `rl.rllib.runner.LockstepRunner`.

    RLlib goes on without the share of a runner that fails. Here a runner that fails or is late is started again, loads
    the last saved state of its copies and repeats its decisions since, while the others wait. So an update has the
    shares of all copies, in their order, and what is learned depends neither on the number of runners nor on losses.

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
        self.agent = config.env_config["agent"]
        self.ended: list[Summary] = []
        self.counters = {"updates": 0, "decisions": 0, "episodes": 0}
        self.recall: Callable[[], Mapping[str, Any] | None] = lambda: None
        self.on_loss: Callable[[str], None] = _log.warning
        copies = config.num_envs_per_env_runner * max(1, config.num_env_runners)
        self._taken: list[list[Any]] = [[] for _ in range(copies)]  # actions since `_saved`
        self._saved = self._before = [0] * copies  # decisions of each copy at the last save, and at the one before
        self._longest = FIRST_S / LATE
        self._runners = self._answers(lambda runner: (runner.worker_index, ray.get_runtime_context().current_actor))

    def training_step(self) -> None:
        """Make updates until an episode ends or a report is due."""
        until = time.monotonic() + REPORT_S
        self._update()
        while not self.ended and time.monotonic() < until:
            self._update()

    def _update(self) -> None:
        with self.metrics.log_time((TIMERS, ENV_RUNNER_SAMPLING_TIMER)):
            samples: list[Sample] = self._ask("sample", weights=self._weights())
        episodes = [episode for sample in samples for episode in sample.episodes]
        with self.metrics.log_time((TIMERS, LEARNER_UPDATE_TIMER)):
            self._learn(self.agent.update_arguments(episodes, self.counters["updates"], self.config))
        self._count(samples)

    def _learn(self, arguments: Mapping[str, Any]) -> None:
        """Update the learners; an agent that gives no arguments doesn't learn."""
        if not arguments:
            return
        if self.learner_group.is_local:
            results = self.learner_group.update(**arguments)
        else:  # RLlib waits for learners without a limit
            thread = ThreadPoolExecutor(1)
            results = thread.submit(self.learner_group.update, **arguments).result(FIRST_S)
            thread.shutdown()
        self.metrics.aggregate(results, key=LEARNER_RESULTS)

    def _count(self, samples: Sequence[Sample]) -> None:
        """Count a finished update, and keep its actions."""
        self.ended = [summary for sample in samples for summary in sample.ended]
        taken = [copy for sample in samples for copy in sample.taken]
        for before, actions in zip(self._taken, taken, strict=True):
            before.extend(actions)
        self._add({"updates": 1, "decisions": sum(map(len, taken)), "episodes": len(self.ended)})
        for summary in self.ended:
            for name, key in ((EPISODE_RETURN_MEAN, "return"), (EPISODE_LEN_MEAN, "length")):
                self.metrics.log_value((ENV_RUNNER_RESULTS, name), summary[key], window=32)

    def _add(self, counts: Mapping[str, int]) -> None:
        self.counters = {name: self.counters[name] + count for name, count in counts.items()}
        for name, key in ((NUM_ENV_STEPS_SAMPLED_LIFETIME, "decisions"), (NUM_EPISODES_LIFETIME, "episodes")):
            self.metrics.log_value((ENV_RUNNER_RESULTS, name), counts[key], reduce="lifetime_sum")

    def _ask(self, method: str, **arguments: Any) -> list[Any]:
        """Call a method of all runners for the coming update, and return the results in the order of their copies."""
        call = {"update": self.counters["updates"], "method": method}
        if self.env_runner is not None:
            results = {0: self.env_runner.answer(**call, **arguments)[1]}
        else:
            results = self._answered(call | {name: ray.put(value) for name, value in arguments.items()})
        if error := next((result for result in results.values() if isinstance(result, Exception)), None):
            raise error
        return [result for _, result in sorted(results.items())]

    def _answered(self, call: Mapping[str, Any]) -> dict[int, Any]:
        results: dict[int, Any] = {}
        for _ in range(ATTEMPTS):
            wanted = [number for number in self._runners if number not in results]
            started = time.monotonic()
            answers = self._answers("answer", wanted, max(LEAST_S, LATE * self._longest), kwargs=call)
            results |= {number: result for number, result in answers.items() if result is not None}
            if len(results) == len(self._runners):
                took = time.monotonic() - started
                self._longest = took if self._longest == FIRST_S / LATE else max(self._longest, took)
                return results
            lost = [number for number in wanted if number not in results]
            self._restart(lost, late=[number for number in lost if number not in answers])
        raise RunnersLost(f"runners {lost} don't answer")

    def _answers(
        self, call: Any, runners: Sequence[int] = (), seconds: float = RESTART_S, **options: Any
    ) -> dict[int, Any]:
        """Call the given runners, and return what those that answer in time return as (number, result)."""
        group = self.env_runner_group
        if not group.num_remote_env_runners():
            return {}
        return dict(
            group.foreach_env_runner(
                call,
                remote_worker_ids=list(runners) or None,
                local_env_runner=False,
                healthy_only=False,
                mark_healthy=True,
                timeout_seconds=seconds,
                **options,
            )
        )

    def _restart(self, lost: Sequence[int], late: Sequence[int]) -> None:
        """Start runners again, and let them repeat what they have done since the last saved state."""
        share = self.config.num_envs_per_env_runner
        for number in late:  # Ray has started those that failed, or does it now
            ray.kill(self._runners[number], no_restart=False)
        for number in lost:
            first = (number - 1) * share
            self.on_loss(f"the runner of copies {first} to {first + share - 1} was lost, and repeats its decisions")
        deadline, back = time.monotonic() + RESTART_S, dict[int, Any]()
        while len(back) < len(lost):
            if time.monotonic() > deadline:
                raise RunnersLost(f"runners {[number for number in lost if number not in back]} were not started again")
            wanted = [number for number in lost if number not in back]
            back |= self._answers(lambda runner: (runner.worker_index, True), wanted, seconds=5.0)
        state = self.recall()
        calls = [self._resumption(state, (number - 1) * share, share) for number in lost]
        for error in filter(None, self._answers("answer", lost, FIRST_S, kwargs=calls).values()):
            raise error  # a runner that is lost meanwhile is asked, does not know the update, and is started again

    def _resumption(self, state: Mapping[str, Any] | None, first: int, count: int) -> dict[str, Any]:
        """Return the call by which a runner resumes copies `first` to `first + count − 1`."""
        copies = None if state is None else state["copies"][first : first + count]
        decisions = [0] * count if copies is None else [copy["tally"]["decisions"] for copy in copies]
        skipped = [done - before for done, before in zip(decisions, self._before[first : first + count], strict=True)]
        if min(skipped) < 0:
            raise RunnersLost("the last state is older than the decisions that are known")
        taken = [actions[past:] for actions, past in zip(self._taken[first : first + count], skipped, strict=True)]
        call = {"update": None, "method": "resume"}
        return call | {"copies": copies, "taken": taken, "updates": self.counters["updates"]}

    def get_state(self, *unused: Any, **options: Any) -> dict[str, Any]:
        """Return everything that learning resumes from: nested numbers, strings, lists and arrays.

        A restored Algorithm with any number of runners continues as if it had never stopped.
        """
        copies = [copy for share in self._ask("get_state") for copy in share["copies"]]
        learner = self.learner_group.get_state()[COMPONENT_LEARNER]
        decisions = [copy["tally"]["decisions"] for copy in copies]
        # A file may turn out to be damaged: what the state before the last one needs is kept too.
        for actions, kept, before in zip(self._taken, self._saved, self._before, strict=True):
            del actions[: kept - before]
        self._before, self._saved = self._saved, decisions
        return {
            COMPONENT_LEARNER: {part: learner[part] for part in (COMPONENT_RL_MODULE, COMPONENT_OPTIMIZER)},
            "copies": copies,
            "counters": dict(self.counters),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a state of `get_state`.

        Raises:
            BadInput: if it has another number of copies or another network.
        """
        if len(state["copies"]) != len(self._taken):
            what = f"was learnt with {len(state['copies'])} copies, not {len(self._taken)}"
            raise BadInput(what, "checkpoint", "give the same copies")
        own = self.learner_group.get_state()[COMPONENT_LEARNER]
        if _form(state[COMPONENT_LEARNER]) != _form(own):
            raise BadInput("holds another agent", "checkpoint", "give the same agent and options")
        self.learner_group.set_state({COMPONENT_LEARNER: state[COMPONENT_LEARNER]})
        self.counters = dict.fromkeys(self.counters, 0)
        self._add(state["counters"])
        self._taken = [[] for _ in self._taken]
        self._saved = self._before = [copy["tally"]["decisions"] for copy in state["copies"]]
        share = self.config.num_envs_per_env_runner
        calls = [self._resumption(state, first, share) for first in range(0, len(self._taken), share)]
        if self.env_runner is not None:
            self.env_runner.answer(**calls[0])
        else:
            self._answers("answer", list(self._runners), FIRST_S, kwargs=calls)

    def begin_with(self, weights: Mapping[str, Tensor]) -> None:
        """Set the actor's weights before the first update, for example from imitation."""
        state = self.learner_group.get_weights()
        state[DEFAULT_MODULE_ID] |= {f"actor.{name}": tensor.numpy() for name, tensor in weights.items()}
        self.learner_group.set_weights(state)  # runners receive them with the first request to sample

    @property
    def network(self) -> dict[str, Any]:
        """The description of the actor's network, for `rl.networks.described`."""
        return self.config.env_config["network"]

    def _weights(self) -> dict[str, Any]:
        state = self.learner_group.get_state(components=WEIGHTS, inference_only=True)
        return state[COMPONENT_LEARNER][COMPONENT_RL_MODULE][DEFAULT_MODULE_ID]

    def policy_weights(self) -> dict[str, Tensor]:
        """Return a copy of the actor's current weights by name, on the CPU."""
        return {name.removeprefix("actor."): torch.tensor(value) for name, value in self._weights().items()}


def _form(state: Any) -> Any:
    """Return what two learners of one agent share: the names of their optimizers, and the shapes of their weights."""
    modules = state[COMPONENT_RL_MODULE]
    shapes = {name: tuple(value.shape) for name, value in modules[DEFAULT_MODULE_ID].items()}
    return sorted(state[COMPONENT_OPTIMIZER]), shapes
