"""Steps environments in an actor that holds their rankers, for runners in other processes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

import ray
from gymnasium import spaces
from numpy.typing import NDArray

from pyrite.cluster.output.throttle import Throttle
from pyrite.cluster.rollouts.environments import Environments
from pyrite.cluster.telemetry.metrics import EVERY, ThrottledCounter, own_name, record
from pyrite.rl.vector_environment import Infos, Observations, Transition, VectorEnvironment


class RankerHost:
    """An actor with environments on its cores or share of a GPU.

    It receives a configuration and no arrays: its parts come from the cache. Each runner steps a share of the
    environments, named by the number of its first environment.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self._environments = Environments(config)
        self._parts = self._environments.parts()
        self._shares: dict[int, VectorEnvironment] = {}
        self._metrics = HostMetrics(own_name("host"))

    def attach(self, first: int, count: int) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
        """Make environments `first` to `first + count − 1`; those of a runner that was lost are dropped."""
        self.detach(first)
        share = self._shares[first] = self._environments.make(self._parts, first, count)
        self._metrics.environments += count
        return share.single_observation_space, share.single_action_space

    def detach(self, first: int) -> None:
        """Drop a share."""
        share = self._shares.pop(first, None)
        self._metrics.environments -= share.num_envs if share is not None else 0

    def call(self, first: int, method: str, *arguments: Any) -> Any:
        """Call a method of the environments of a share."""
        with self._metrics.busy():
            return getattr(self._shares[first], method)(*arguments)


class RemoteVectorEnvironment:
    """The environments of a share on a `RankerHost`, with the same steps and results as in this process."""

    def __init__(self, host: str, first: int, count: int) -> None:
        self.host, self.first, self.num_envs = host, first, count
        self.actor: Any = ray.get_actor(host)
        observations_and_actions: Any = ray.get(self.actor.attach.remote(first, count))
        self.single_observation_space, self.single_action_space = observations_and_actions

    def reset(self) -> tuple[Observations, Infos]:
        return self._call("reset")

    def step(self, actions: NDArray[Any]) -> Transition:
        return self._call("step", actions)

    def state_dict(self) -> dict[str, Any]:
        return self._call("state_dict")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._call("load_state_dict", state)

    def close(self) -> None:
        """Drop the environments on the host, which ends with the learning."""
        with contextlib.suppress(ray.exceptions.RayError):
            ray.get(self.actor.detach.remote(self.first))

    def _call(self, method: str, *arguments: Any) -> Any:
        """Call a method of these environments on the host."""
        return ray.get(self.actor.call.remote(self.first, method, *arguments))


class HostMetrics:
    """Records how busy a host is."""

    def __init__(self, host: str, every: float = EVERY) -> None:
        self.tags = {"host": host}
        self.environments = 0
        self._throttle = Throttle(every)
        self._busy = ThrottledCounter("pyrite_host_busy_seconds_total", self.tags, every)

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """Count the time in this context as busy."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self._busy.add(time.perf_counter() - started)
            if self._throttle.due():
                record("pyrite_host_copies", self.environments, self.tags)
