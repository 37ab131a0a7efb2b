"""Connects a trainer to a negative index on Ray actors."""

from __future__ import annotations

import contextlib
import shutil
import time
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

from cluster.index.actor import NegativeIndexActor, Reply
from cluster.index.errors import unwrapped
from cluster.index.owner import claim, remove_orphans
from cluster.index.service import Published, Service
from ranking.checkpoint import to_bytes
from sampling.retrieval.dense import Refresh
from sampling.retrieval.live_index import Answer

READERS = 16
"""Readers that an index serves at once; others wait their turn."""
PATIENCE = 2.0
"""Seconds between two looks whether the index has heard of everything that was published."""
PAUSES = (0.1, 2.0)
"""Seconds between two calls to an index that is lost: at first, and at most."""
LAST_WORDS = 50
"""Tenths of a second in which encoders hear that their index has ended."""


class RemoteIndex:
    """A `sampling.retrieval.live_index.NegativeIndex` that is built and served by other processes.

    Where versions are lagged, this end knows which of them a step is to be answered from, and waits for exactly that
    one; else whatever is newest answers, or at least a version young enough. It keeps the weights of each version that
    may still be read, so that an index that was lost, folder and all, can be built again.

    Args:
        service: what there is to reach.
        refresh: when a version is served.
        note: told, once each time, that the index is lost, and that it is back.
        guarded: documents that the reader's guard has dropped so far, for the metrics.
        token: tells this index from others of the same name; drawn when None. Workers that train one ranker together
            share one.
    """

    def __init__(
        self,
        service: Service,
        refresh: Refresh,
        note: Callable[[str], None] = lambda line: None,
        guarded: Callable[[], int] = lambda: 0,
        token: str | None = None,
    ) -> None:
        self.guarded, self._told = guarded, 0
        self.service, self.refresh, self.note = service, refresh, note
        self.token = token or uuid.uuid4().hex[:8]
        self.lagged = refresh.mode == "lagged"
        self.reader = uuid.uuid4().hex
        self._published: list[Published] = []
        self._count = 0  # publications so far
        self._answered: Answer | None = None
        self._actor: Any = None
        self._sent: list[ray.ObjectRef] = []
        self._lost = False
        self._lost_shards: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        """Of the actor."""
        return f"{self.service.name}#{self.token}"

    @property
    def folder(self) -> Path:
        """Where the actor keeps its versions."""
        return self.service.folder / self.token

    def publish(self, weights: Mapping[str, Tensor], step: int) -> None:
        """Hand over the weights of now; the index is built behind the trainer's back."""
        content = ray.put(np.frombuffer(to_bytes(dict(weights)), np.uint8))
        version = self._count if self.lagged else None
        published = Published(step, version, content)
        self._count += 1
        self._published = [*self._published, published] if self.lagged else [published]
        self._hear()
        self._send(published)

    def search(
        self,
        queries: NDArray[np.int64],
        depth: int,
        step: int,
        vectors: NDArray[np.float32] | None = None,
        source: str = "dense",
    ) -> Answer:
        """The best `depth` documents of each query, from the version that `step` is to be served.

        Args:
            queries: ids [q].
            depth: documents a query.
            step: the trainer's now.
            vectors: of the queries [q, d]; None: those of the version.
            source: `dense`, or `bm25` for BM25's lists of the same documents.
        """
        self._drop_read(step)
        exactly, least = self._wanted(step)
        while True:
            guarded, self._told = max(0, self.guarded() - self._told), self.guarded()
            asked = (self.reader, queries, depth, step, exactly, least, vectors, source, guarded, PATIENCE)
            reply: Reply = self._ask("search", *asked)
            if reply.answer is not None:
                break
            self._catch_up(reply.known)
        self._tell_lost(reply.lost)
        self._answered = reply.answer
        return reply.answer

    def scores(
        self, queries: NDArray[np.int64], documents: NDArray[np.integer], vectors: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Inner products [q, m] in the version that answered last."""
        if self._answered is None:
            raise RuntimeError("no version has answered yet")
        while True:
            scores = self._ask("scores", self.reader, queries, documents, self._answered.step, vectors, PATIENCE)
            if scores is not None:
                break
            self._catch_up(frozenset())
        return np.asarray(scores)

    def state_dict(self) -> dict[str, Any]:
        """What has been published and may still be read, weights included, and where the versions lie."""
        return {
            "token": self.token,
            "count": self._count,
            "version": -1 if self._answered is None else self._answered.version,
            "published": [
                {"step": each.step, "version": each.version, "weights": np.asarray(ray.get(each.weights))}
                for each in self._published
            ],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`: versions that are still on disk are taken up, others built again."""
        if self._actor is not None and state["token"] != self.token:
            self.close()
        self.token, self._count, self._answered = state["token"], state["count"], None
        self._published = [
            Published(
                each["step"],
                each["version"] if self.lagged else state["version"] + 1,
                ray.put(np.asarray(each["weights"])),
            )
            for each in state["published"]
        ]
        known = [(each.step, each.version, each.weights) for each in self._published]
        self._ask("restore", known)

    def status(self) -> dict[str, Any]:
        """Steps of the versions that are there, of what is being built, and of what waits."""
        status: dict[str, Any] = self._ask("status")
        return status

    def close(self) -> None:
        """End the actors and remove what they kept, and what is left of those of killed processes."""
        if self._actor is not None:
            with contextlib.suppress(ray.exceptions.RayError):
                if not self.service.sharding.alone:
                    ray.wait([self._actor.clear.remote()], timeout=LAST_WORDS / 10)
                ray.kill(self._actor)
            self._actor = None
        for _ in range(LAST_WORDS):  # an encoder may just be putting a version there
            shutil.rmtree(self.folder, ignore_errors=True)
            if not self.folder.exists():
                break
            time.sleep(0.1)
        remove_orphans(self.service.folder)  # of this run, as it was before it was killed and gone on with
        with contextlib.suppress(OSError):  # the last one of this name leaves nothing
            self.service.folder.rmdir()

    def _wanted(self, step: int) -> tuple[int | None, int | None]:
        """The step of the one version that must answer, and the lowest step that may."""
        if self.lagged:
            if not self._published:
                raise RuntimeError("nothing has been published to search in")
            return self._published[0].step, None
        # A reader that does not publish itself takes what others have published.
        newest = self._published[-1].step if self._published else step
        staleness = self.refresh.max_staleness
        return None, None if staleness is None else min(step - staleness, newest)

    def _tell_lost(self, lost: frozenset[int]) -> None:
        """Say which shards are lost and which are back."""
        for shard in sorted(lost ^ self._lost_shards):
            said = "is lost; going on without its documents" if shard in lost else "is back"
            self.note(f"{self.name}: shard {shard} {said}")
        self._lost_shards = lost

    def _drop_read(self, step: int) -> None:
        """Of lagged publications, forget those that a later one has taken the place of."""
        if self.lagged:
            due = [place for place, each in enumerate(self._published) if each.step + self.refresh.delay <= step]
            self._published = self._published[due[-1] if due else 0 :]

    def _send(self, published: Published) -> None:
        """Tell the actor, and do not wait until it has heard."""
        self._reach()
        with contextlib.suppress(ray.exceptions.RayActorError):  # it is sent again when a reader misses it
            self._sent.append(self._actor.publish.remote(published.step, published.version, [published.weights]))

    def _hear(self) -> None:
        """Hear what became of what was sent.

        Raises:
            BadInput: where it was refused.
        """
        if self._sent:
            heard, self._sent = ray.wait(self._sent, num_returns=len(self._sent), timeout=0)
            for sent in heard:
                with unwrapped(), contextlib.suppress(ray.exceptions.RayActorError):
                    ray.get(sent)

    def _catch_up(self, known: frozenset[int]) -> None:
        """Send again what the actor lost on the way down, where nothing is on its way to it."""
        self._hear()
        newest = max(known, default=-1)
        for published in self._published if not self._sent else []:
            if published.step > newest or (self.lagged and published.step not in known):
                self._send(published)

    def _reach(self) -> None:
        """Have an actor: the one of this name, or a new one."""
        if self._actor is None:
            service = self.service
            options: dict[str, Any] = {
                "num_cpus": 0,  # it works while the trainer waits for it
                "max_restarts": -1,
                "max_task_retries": 0,
                "concurrency_groups": {"reading": READERS, "publishing": 1},
            }
            claim(self.folder)
            actor = ray.remote(**options)(NegativeIndexActor)
            group = get_current_placement_group()
            placed: Any = "DEFAULT"
            if group is not None and not service.apart:
                # Beside the trial, which tidies up after it; its encoders go where the group has their room.
                placed = PlacementGroupSchedulingStrategy(group, 0, placement_group_capture_child_tasks=True)
            self._actor = actor.options(name=self.name, get_if_exists=True, scheduling_strategy=placed).remote(
                service.corpus,
                str(self.folder),
                service.options,
                service.encoders,
                self.lagged,
                dict(service.tags),
                service.block,
                service.sharding,
                service.listed,
            )

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of the actor, and wait through losses and restarts."""
        pause, limit = PAUSES
        died = False
        while True:
            self._reach()
            try:
                with unwrapped():
                    reply = ray.get(getattr(self._actor, method).remote(*arguments))
            except ray.exceptions.RayActorError as error:
                if error.actor_init_failed:
                    raise
                if isinstance(error, ray.exceptions.ActorDiedError):
                    if died:  # for good, not to be restarted: a new one takes its place and its folder
                        self._actor = None
                    died = True
                if not self._lost:
                    self._lost = True
                    self.note(f"{self.name} is lost; waiting")
                time.sleep(pause)
                pause = min(2 * pause, limit)
                continue
            if self._lost:
                self._lost = False
                self.note(f"{self.name} is back")
            return reply
