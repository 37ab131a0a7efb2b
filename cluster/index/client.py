"""Connects a trainer to a negative index on Ray actors."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray
from ray.util.placement_group import get_current_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from torch import Tensor

from pyrite.cluster.index.actor import IndexReply, NegativeIndexActor
from pyrite.cluster.index.calls import retries, unwrapped
from pyrite.cluster.index.index_folder import claim, release
from pyrite.cluster.index.version_build import IndexSpec
from pyrite.cluster.limits import INDEX_CLOSE_TIMEOUT_S, MAX_SEARCHES
from pyrite.ranking.checkpoint import to_bytes
from pyrite.sampling.retrieval.dense import Refresh
from pyrite.sampling.retrieval.live_index import Answer, PublishedWeights, served_from


class RemoteIndex:
    """A `pyrite.sampling.retrieval.live_index.NegativeIndex` that other processes build and serve.

    If versions are lagged, the client knows which version must answer each step, and waits for exactly that one.
    Otherwise the newest version answers, or at least one that is recent enough. The client keeps the weights of each
    version that may still be read, so an index that was lost together with its folder can be built again.

    Args:
        log: called with one line when the index or a shard is lost, and when it is back.
        guarded: returns how many documents the guard has dropped so far, for the metrics.
    """

    def __init__(
        self,
        spec: IndexSpec,
        refresh: Refresh,
        log: Callable[[str], None] = lambda line: None,
        guarded: Callable[[], int] = lambda: 0,
    ) -> None:
        self.guarded, self._reported_guarded = guarded, 0
        self.spec, self.refresh, self.log = spec, refresh, log
        self.token = uuid.uuid4().hex[:8]  # distinguishes this index from others of the same name
        self.lagged = refresh.mode == "lagged"
        self._published: list[PublishedWeights] = []  # weights are references to safetensors files as uint8
        self._count = 0  # publications so far
        self._answered: Answer | None = None
        self._actor: Any = None
        self._publishing: list[ray.ObjectRef] = []
        self._lost = False
        self._lost_shards: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        """Name of the actor."""
        return f"{self.spec.name}#{self.token}"

    @property
    def folder(self) -> Path:
        """Folder of the actor's versions."""
        return self.spec.folder / self.token

    def publish(self, weights: Mapping[str, Tensor], step: int) -> None:
        """Send the current weights; the index is built while the trainer continues."""
        content = ray.put(np.frombuffer(to_bytes(dict(weights)), np.uint8))
        published = PublishedWeights(self._count if self.lagged else None, step, content)
        self._count += 1
        self._published = [*self._published, published] if self.lagged else [published]
        self._check_publishing()
        self._send(published)

    def search(
        self, queries: NDArray[np.int64], depth: int, step: int, vectors: NDArray[np.float32] | None = None
    ) -> Answer:
        """Return the best documents of each query, from the version that `step` must be answered from."""
        if self.lagged:
            self._published = served_from(self._published, self.refresh.delay, step)
        exactly, least = self._wanted(step)
        while True:
            guarded = max(0, self.guarded() - self._reported_guarded)
            self._reported_guarded = self.guarded()
            arguments = (queries, depth, step, exactly, least, vectors, guarded)
            reply: IndexReply = self._call("search", *arguments)
            self._catch_up(reply.known)
            if reply.answer is not None:
                break
        self._log_lost_shards(reply.lost_shards)
        self._answered = reply.answer
        return reply.answer

    def scores(
        self, queries: NDArray[np.int64], documents: NDArray[np.integer], vectors: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Return inner products [q, m] in the version that answered the last search."""
        if self._answered is None:
            raise RuntimeError("no version has answered yet")
        while True:
            scores = self._call("scores", queries, documents, self._answered.step, vectors)
            if scores is not None:
                return np.asarray(scores)
            self._catch_up(frozenset())

    def state_dict(self) -> dict[str, Any]:
        """Return what was published and may still be read, with its weights, and the token of the folder."""
        return {
            "token": self.token,
            "count": self._count,
            "version": -1 if self._answered is None else self._answered.version,
            "published": [
                {"step": sent.step, "version": sent.version, "weights": np.asarray(ray.get(sent.weights))}
                for sent in self._published
            ],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`. Versions that are still on disk are opened, others are built again."""
        if self._actor is not None and state["token"] != self.token:
            self.close()
        self.token, self._count, self._answered = state["token"], state["count"], None
        self._published = [
            PublishedWeights(
                sent["version"] if self.lagged else state["version"] + 1,
                sent["step"],
                ray.put(np.asarray(sent["weights"])),
            )
            for sent in state["published"]
        ]
        self._call("restore", [(sent.step, sent.version, sent.weights) for sent in self._published])

    def status(self) -> dict[str, Any]:
        """Return the steps of the versions, of the one that is being built, and of those that wait."""
        return self._call("status")

    def close(self) -> None:
        """Stop the actors and delete their files, and those of processes that were killed."""
        if self._actor is not None:
            with contextlib.suppress(ray.exceptions.RayError):
                # It would still write what was sent.
                ray.wait([self._actor.close.remote()], timeout=INDEX_CLOSE_TIMEOUT_S)
                ray.kill(self._actor)
            self._actor = None
        release(self.folder)

    def _wanted(self, step: int) -> tuple[int | None, int | None]:
        """Return the step of the only version that may answer, and the lowest step that may."""
        if self.lagged:
            if not self._published:
                raise RuntimeError("nothing has been published to search in")
            return self._published[0].step, None
        staleness = self.refresh.max_staleness
        return None, None if staleness is None else min(step - staleness, self._published[-1].step)

    def _log_lost_shards(self, lost: frozenset[int]) -> None:
        for shard in sorted(lost ^ self._lost_shards):
            what = "is lost; continuing without its documents" if shard in lost else "is back"
            self.log(f"{self.name}: shard {shard} {what}")
        self._lost_shards = lost

    def _send(self, sent: PublishedWeights) -> None:
        self._connect()
        with contextlib.suppress(ray.exceptions.RayActorError):  # sent again when a search misses it
            self._publishing.append(self._actor.publish.remote(sent.step, sent.version, [sent.weights]))

    def _check_publishing(self) -> None:
        """Raise the error of a publication that the actor refused."""
        if self._publishing:
            done, self._publishing = ray.wait(self._publishing, num_returns=len(self._publishing), timeout=0)
            for call in done:
                with unwrapped(), contextlib.suppress(ray.exceptions.RayActorError):
                    ray.get(call)

    def _catch_up(self, known: frozenset[int]) -> None:
        """Send publications again that a restarted actor does not know, unless some are on their way."""
        self._check_publishing()
        newest = max(known, default=-1)
        for sent in self._published if not self._publishing else []:
            if sent.step > newest or (self.lagged and sent.step not in known):
                self._send(sent)

    def _connect(self) -> None:
        if self._actor is None:
            claim(self.folder)
            group = get_current_placement_group()
            strategy: Any = "DEFAULT"
            if group is not None and not self.spec.apart:
                # In the trial's first bundle, so that it ends with the trial; encoders use the group's other bundles.
                strategy = PlacementGroupSchedulingStrategy(group, 0, placement_group_capture_child_tasks=True)
            options: dict[str, Any] = {
                "num_cpus": 0,  # it works while the trainer waits for it
                "max_restarts": -1,
                "max_task_retries": 0,
                "concurrency_groups": {"reading": MAX_SEARCHES, "publishing": 1},
            }
            actor = ray.remote(**options)(NegativeIndexActor)
            actor = actor.options(name=self.name, get_if_exists=True, scheduling_strategy=strategy)
            self._actor = actor.remote(self.spec, str(self.folder), self.lagged)

    def _call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the actor, and call again while it is lost or restarts."""
        died = False
        for _ in retries():
            self._connect()
            try:
                with unwrapped():
                    reply = ray.get(getattr(self._actor, method).remote(*arguments))
                break
            except ray.exceptions.RayActorError as error:
                if error.actor_init_failed:
                    raise
                if isinstance(error, ray.exceptions.ActorDiedError):
                    if died:  # Ray will not restart it: start a new one on the same folder
                        self._actor = None
                    died = True
                if not self._lost:
                    self._lost = True
                    self.log(f"{self.name} is lost; waiting")
        if self._lost:
            self._lost = False
            self.log(f"{self.name} is back")
        return reply
