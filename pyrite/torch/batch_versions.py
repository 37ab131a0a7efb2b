"""Decides which version of an index a batch of another trainer is served from, by the number of the batch alone."""

from __future__ import annotations

from dataclasses import dataclass

from pyrite.ranking.errors import BadInput, refuse
from pyrite.sampling.retrieval.dense import Refresh


@dataclass(frozen=True)
class LoaderCounts:
    """How a trainer reads its batches: numbers of one process.

    Args:
        batches: batches per epoch.
        accumulation: batches per optimizer step; the last step of an epoch may have fewer.
        workers: processes that read ahead; 0 reads in the trainer's process.
        prefetch: batches that each worker reads ahead.
        ahead: batches that are fetched before they are needed if there is no worker.
    """

    batches: int
    accumulation: int = 1
    workers: int = 0
    prefetch: int = 2
    ahead: int = 1

    @property
    def steps(self) -> int:
        """Optimizer steps per epoch."""
        return -(-self.batches // self.accumulation)

    @property
    def lead(self) -> int:
        """The largest number of batches that are fetched before an update, and trained on after it."""
        return self.ahead + self.workers * self.prefetch

    def epoch_of(self, batch: int) -> int:
        """Return the epoch of a batch."""
        return batch // self.batches

    def step_of(self, batch: int) -> int:
        """Return the number of optimizer steps that precede the one that a batch belongs to."""
        epoch, place = divmod(batch, self.batches)
        return epoch * self.steps + place // self.accumulation

    def first_of(self, step: int) -> int:
        """Return the number of the first batch after an optimizer step."""
        epoch, place = divmod(step, self.steps)
        return epoch * self.batches + place * self.accumulation


@dataclass(frozen=True)
class BatchVersions:
    """The version of each batch: versions are named by the optimizer step after which their weights were sent.

    With `lagged`, weights of step s serve the batches of step s + lag on. With `sync`, they serve from the second batch
    after step s on, since the first one was fetched before that step; without a fetch ahead, from the first.
    """

    refresh: Refresh
    loader: LoaderCounts

    def check(self) -> None:
        """Raise `BadInput` if a batch would be fetched before its version can exist."""
        refresh, loader = self.refresh, self.loader
        limited = refresh.max_staleness is not None or refresh.on_lost_shard == "skip"
        what = "max_staleness and on_lost_shard=skip are for an index of Pyrite's rankers"
        refuse(limited, what, "refresh", "leave them out, or choose mode=lagged")
        refuse(
            refresh.mode == "sync" and loader.workers,
            f"{loader.workers} loader workers fetch batches ahead, and sync serves the weights of the last step",
            "refresh.mode=sync",
            "choose mode=lagged, or dataloader_num_workers=0",
        )
        if refresh.mode == "lagged" and refresh.delay * loader.accumulation < loader.lead:
            least = -(-loader.lead // loader.accumulation)
            what = f"lag is {refresh.delay}, and the loader fetches {loader.lead} batches ahead"
            raise BadInput(what, "refresh.lag", f"choose {least} or more, or fewer workers")

    def of(self, batch: int) -> int | None:
        """Return the version of a batch; None for the newest that exists (`async`)."""
        refresh, loader = self.refresh, self.loader
        if refresh.mode == "async":
            return None
        if refresh.mode == "sync":  # first_of(step) + ahead ≤ batch
            return refresh.newest(loader.step_of(max(0, batch - loader.ahead)) if batch >= loader.ahead else 0)
        return refresh.newest(max(0, loader.step_of(batch) - refresh.delay))
