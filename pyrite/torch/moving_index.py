"""Follows the user's model with a negative index: publishes weights, saves versions with checkpoints, resumes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.errors import refuse
from pyrite.ranking.query_lists import Listed
from pyrite.ranking.ranked_lists import rectangle
from pyrite.sampling.retrieval.dense import Dense, Refresh
from pyrite.sampling.sampler import Sampler
from pyrite.torch.batch_versions import BatchVersions, LoaderCounts
from pyrite.torch.builders import Builder, builder_of
from pyrite.torch.external_training import ExternalTraining
from pyrite.torch.served_dense import ServedVersion
from pyrite.torch.text_encoder import TextEncoder, as_bytes
from pyrite.torch.version_files import IndexedTexts, VersionFolder, mapped

SHORT = 100
"""Length of the lists if nothing but selectors reads the index."""
SPARE = 2
"""Factor by which lists are longer with a guard, which drops some of their documents."""


class MovingIndex:
    """The negative index of a training, in the process that sends the weights.

    Args:
        encoder: reads the texts.
        refresh: when the index follows the model.
        encoders: the options `index.…` of a run, for an index on Ray.
    """

    def __init__(self, encoder: TextEncoder, refresh: Refresh, encoders: Mapping[str, Any]) -> None:
        self.encoder, self.refresh, self.encoders = encoder, refresh, encoders
        self.builder: Builder | None = None

    def prepare(self, collection: Collection, training: ExternalTraining, sampler: Sampler) -> None:
        """Read the texts, and what is asked of the index by the functions of a sampler."""
        dense = [function for function in sampler.functions.values() if isinstance(function, Dense)]
        refuse(
            any((each.index, each.shards) != (dense[0].index, dense[0].shards) for each in dense),
            "two dense functions ask for different indexes",
            "function",
            "give both the same index=",
        )
        queries = np.unique(training.examples.queries).astype(np.int64)
        relevant = training.encoded.judgements.relevant()
        judged = rectangle(relevant.documents, relevant.offsets, queries, -1)
        depth = max((each.depth * (SPARE if each.guard.active else 1) for each in dense), default=SHORT)
        options = mapped(dense[0].index if dense else Dense().index)
        self.shards = dense[0].shards if dense else 1
        texts = [as_bytes(each["text"].to_list()) for each in (collection.documents, collection.queries)]
        longest = max([depth, *(each.listed(training).depth for each in dense if each.searched == "version")])  # type: ignore[arg-type, union-attr]
        self.texts = IndexedTexts(texts[0], texts[1], Listed(queries, longest + judged.shape[1]), judged, options)

    def service(self, path: Path, loader: LoaderCounts) -> ServedVersion:
        """Return what batches are served from, for all processes that see the folder."""
        versions = BatchVersions(self.refresh, loader)
        versions.check()
        return ServedVersion(VersionFolder(path, self.refresh.mode == "async"), versions)

    def start(self, service: ServedVersion, saved: Path | None = None, step: int = 0) -> None:
        """Publish the weights, or bring back what `save` has kept. A training before is forgotten.

        Args:
            step: the step whose weights the model has. The next batches are served nothing older.
        """
        self.close()
        self.served, folder = service, service.folder
        folder.delete()
        waiting = [] if saved is None else folder.restore(saved)
        folder.path.mkdir(parents=True, exist_ok=True)
        np.save(folder.path / "judged.npy", self.texts.judged, allow_pickle=False)
        self.builder = builder_of(
            self.encoder, self.texts, folder, self.refresh.mode, self.shards, self.encoders
        )  # fmt: skip
        if saved is None:
            for version in self._served_after(step):
                self.builder.publish(version)
        for step in waiting:
            self.builder.publish_saved(step)

    def after_step(self, step: int, ahead: Callable[[int], Mapping[str, int]]) -> None:
        """Publish the weights if that is due after an optimizer step, and delete versions that are no longer served.

        Args:
            ahead: returns the versions of the batches that were fetched before a step and are trained on after it, by
                rank and number. It is called if a publication is due.
        """
        assert self.builder is not None  # started before
        lost = self.refresh.mode == "async" and self.served.folder.failed  # the next batch raises, and none reads them
        if self.refresh.due(step) and not lost:
            self.builder.publish(step)
            self.served.folder.drop_before(self._oldest(step, ahead(step)))

    def save(self, to: Path, step: int, ahead: Mapping[str, int]) -> None:
        """Keep what a training needs that is resumed after an optimizer step, with the versions `ahead` of it."""
        self.served.folder.save(to, self._oldest(step, ahead), ahead)

    def close(self) -> None:
        """Stop what builds, and delete the versions."""
        if self.builder is not None:
            self.builder.close()
            self.served.folder.delete()
            self.builder = None

    def _served_after(self, step: int) -> list[int]:
        """Return the versions up to a step that batches after it are served."""
        versions, newest = self.served.versions, self.refresh.newest(step)
        wanted = versions.of(versions.loader.first_of(step))
        first = newest if wanted is None else wanted
        return [first, *(each for each in range(first + 1, newest + 1) if self.refresh.due(each))]

    def _oldest(self, step: int, ahead: Mapping[str, int]) -> int:
        """Return the oldest version that is still served after a step."""
        versions = self.served.versions
        wanted = versions.of(versions.loader.first_of(step))
        if wanted is None:  # async: a process may be about to open the one before the newest
            wanted = self.served.folder.before_newest()
        return min([wanted, *ahead.values()])


def refresh_of(sampler: Sampler, given: Refresh | int | str | None) -> Refresh:
    """Return when the index is refreshed: as the dense functions specify, or as given for selectors reading scores."""
    asked = {function.refresh for function in sampler.functions.values() if isinstance(function, Dense)}
    refuse(
        len(asked) > 1,
        "two dense functions are refreshed at different times",
        "function",
        "give both the same refresh=",
    )
    if asked:
        what = "the dense function has a refresh of its own"
        refuse(given is not None, what, "refresh", "leave it out, or give it to `Dense(…, refresh=…)`")
        return replace(asked.pop())
    return given if isinstance(given, Refresh) else Refresh() if given is None else Refresh(every=given)
