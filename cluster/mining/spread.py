"""Mines shards in actors of a Ray cluster, each of which opens the collection by itself."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import ray

from cluster.executors.lost_process import MAX_FAILURES_WITHOUT_PROGRESS, cause_of, is_loss, killed_for_memory
from cluster.executors.resources import bundle, check_bundle, process_options
from cluster.mining.miner import Miner
from cluster.mining.shards import Shard
from cluster.mining.writing import mine_shard
from cluster.output.result_store import ResultStore
from ranking.errors import BadInput


class ShardMiner:
    """The actor that mines one shard after another. A shard that is lost with an actor is mined again, with equal rows.

    Args:
        config: conf/mine.yaml, composed.
        store: where shards are written.
    """

    def __init__(self, config: dict[str, Any], store: ResultStore) -> None:
        import torch

        torch.set_num_threads(max(1, int(config["cpu"])))
        self.config, self.store = config, store
        self._miner: Miner | None = None

    def mine(self, shard: Shard) -> dict[str, Any]:
        """Mine a shard and write it."""
        # Not in the constructor: Ray would report bad input there as a lost actor.
        self._miner = self._miner or Miner(self.config)
        return mine_shard(self._miner, shard, self.store)


def mine_on_ray(
    shards: Sequence[Shard],
    config: dict[str, Any],
    store: ResultStore,
    on_shard: Callable[[dict[str, Any]], None],
    on_loss: Callable[[str], None],
) -> None:
    """Mine shards in `workers` actors; each takes the next shard when it has finished one.

    Args:
        shards: the shards to mine.
        config: conf/mine.yaml, composed.
        store: where they are written: a URI, or a folder that every node sees.
        on_shard: called with the counts of each finished shard.
        on_loss: called with a line about each lost actor.

    Raises:
        BadInput: if the cluster has no room for one actor, or a shard's actor was lost five times.
    """
    check_bundle(bundle(config), ray.cluster_resources(), "a miner")
    actor = ray.remote(ShardMiner).options(**process_options(config), max_restarts=0, max_task_retries=0)
    idle: list[Any] = [actor.remote(config, store) for _ in range(min(config["workers"], len(shards)))]
    waiting, running = list(reversed(shards)), dict[ray.ObjectRef, tuple[Any, Shard]]()
    losses = Counter[str]()
    try:
        while waiting or running:
            while waiting and idle:
                miner, shard = idle.pop(), waiting.pop()
                running[miner.mine.remote(shard)] = miner, shard
            (done, *_), _ = ray.wait(list(running))
            miner, shard = running.pop(done)
            try:
                on_shard(ray.get(done))
                idle.append(miner)
            except ray.exceptions.RayError as error:
                if not is_loss(error):
                    raise cause_of(error) from None
                losses[shard.name] += 1
                _refuse_lost(shard, losses[shard.name], error, config, store)
                on_loss(f"the process that mined shard {shard.name} was lost; the shard is mined again")
                waiting.append(shard)
                idle.append(actor.remote(config, store))
    finally:
        for miner in [*idle, *(miner for miner, _ in running.values())]:
            ray.kill(miner)


def _refuse_lost(shard: Shard, losses: int, error: BaseException, config: dict[str, Any], store: ResultStore) -> None:
    """Raise if a shard has lost its process too often."""
    if losses < MAX_FAILURES_WITHOUT_PROGRESS:
        return
    why = ", the last time because its node was out of memory" if killed_for_memory(error) else ""
    command = shlex.join(["pyrite", "mine", "--resume", store.storage.place])
    remedy = f"remove the cause (a smaller shard= in a new mining needs less memory), then continue: {command}"
    raise BadInput(f"the process that mined shard {shard.name} was lost {losses} times{why}", remedy=remedy)
