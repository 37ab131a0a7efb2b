"""Mines shards in actors of a Ray cluster, each of which opens the collection by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ray

from cluster.mining.miner import Miner
from cluster.mining.shards import Shard
from cluster.mining.writing import mine_shard
from cluster.output.storage import Storage
from cluster.plan.resources import bundle, check_bundle, process_options
from ranking.errors import BadInput


class ShardMiner:
    """The actor: mines whatever shard it is given. A shard that was lost with a process is mined again, alike.

    Args:
        config: conf/mine.yaml, composed.
        storage: where shards go.
    """

    def __init__(self, config: dict[str, Any], storage: Storage) -> None:
        import torch

        torch.set_num_threads(max(1, int(config["cpu"])))
        self.miner, self.storage = Miner(config), storage

    def mine(self, shard: Shard) -> dict[str, Any]:
        """Mine a shard and write it."""
        return mine_shard(self.miner, shard, self.storage)


def mine_on_ray(
    shards: Sequence[Shard], config: dict[str, Any], storage: Storage, tell: Callable[[dict[str, Any]], None]
) -> None:
    """Mine shards in as many actors as are asked for, each the next shard as soon as it is done with one.

    Args:
        shards: to mine.
        config: conf/mine.yaml, composed.
        storage: where they go: a URI, or a folder that every node sees.
        tell: told the counts of each shard that is done.

    Raises:
        BadInput: where the cluster has no room for one actor.
    """
    check_bundle(bundle(config), ray.cluster_resources(), "a miner")
    made = ray.remote(ShardMiner).options(**process_options(config), max_restarts=-1, max_task_retries=-1)
    miners: list[Any] = [made.remote(config, storage) for _ in range(min(config["workers"], len(shards)))]
    left, busy = list(reversed(shards)), {}
    try:
        for miner in miners:
            busy[miner.mine.remote(left.pop())] = miner
        while busy:
            (done, *_), _ = ray.wait(list(busy))
            miner = busy.pop(done)
            tell(_counts(done))
            if left:
                busy[miner.mine.remote(left.pop())] = miner
    finally:
        for miner in miners:
            ray.kill(miner)


def _counts(done: ray.ObjectRef) -> dict[str, Any]:
    try:
        found: dict[str, Any] = ray.get(done)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        if isinstance(cause, BadInput):
            raise cause from None
        raise
    return found
