"""Finds the documents nearest to a query by the vectors of the ranker that is being trained."""

from __future__ import annotations

import copy
import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray

from pyrite.ranking.bounds import NonNegative, Positive, checked
from pyrite.ranking.embedding import embed
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.index import IndexOptions
from pyrite.ranking.part import Divided
from pyrite.ranking.query_lists import Listed
from pyrite.ranking.ranked_lists import RankedLists, rectangle
from pyrite.ranking.rankers.dense import DenseRanker
from pyrite.ranking.rankers.pretrained import read_in, transformers_of
from pyrite.ranking.vector_memory import FixedVectors
from pyrite.sampling.guard import Guard
from pyrite.sampling.guarded_documents import GuardedDocuments
from pyrite.sampling.relevant_pairs import RelevantPairs
from pyrite.sampling.retrieval.live_index import LocalIndex, NegativeIndex
from pyrite.sampling.retrieval.ranked import FromLists, ListRows
from pyrite.sampling.suppliers import Picker

if TYPE_CHECKING:
    from pyrite.ranking.training import RankerTraining

SPAN = re.compile(r"(\d+)-(\d*):([1-9]\d*)")
"""A span of a schedule of refreshes."""
WIDEST = 8
"""Largest multiple of the first search's depth that is searched if most documents are guarded, or copies of others."""


@checked
@dataclass(frozen=True)
class Refresh:
    """When an index is rebuilt, and from which step on a new version is served.

    Args:
        mode: `never` keeps the weights of the start. `sync`: the trainer waits for each build. `async`: a version is
            served as soon as it is built, which depends on timing, so no two runs are equal. `lagged`: built next to
            the training too, but the version published at step s is served exactly from step s + lag on, and the
            trainer waits if it is not ready: the same negatives in every run.
        every: steps between two publications; or a schedule of them, as `0-100:10,100-:500`: every 10 steps up to step
            100, then every 500.
        lag: with `lagged`, the steps between publication and service; None takes `every`, of a schedule the smallest.
        max_staleness: with `async`, the largest age of a version in steps, beyond which the trainer waits; None for
            any.
        on_lost_shard: `wait` until a shard that died is back, or `skip` its documents until then, which makes a run
            unrepeatable.

    Raises:
        BadInput: if a value is out of its range, or belongs to another mode.
    """

    mode: Literal["never", "sync", "async", "lagged"] = "lagged"
    every: Annotated[int, Positive] | str = 200
    lag: Annotated[int, NonNegative] | None = None
    max_staleness: int | None = None
    on_lost_shard: Literal["wait", "skip"] = "wait"

    def __post_init__(self) -> None:
        gap = self.gap  # raises if the schedule is no schedule
        if self.lag is not None and self.mode != "lagged":
            raise BadInput(f"mode {self.mode} has no lag", "refresh.lag", "leave it null, or choose mode=lagged")
        if self.max_staleness is not None and self.mode != "async":
            raise BadInput(
                f"mode {self.mode} has no max_staleness", "refresh.max_staleness", "leave it null, or choose mode=async"
            )
        if self.max_staleness is not None and self.max_staleness < gap:
            raise BadInput(
                f"max_staleness is {self.max_staleness}, and weights are published every {gap} steps",
                "refresh.max_staleness",
                "let it be at least refresh.every",
            )
        refuse(
            self.on_lost_shard == "skip" and self.mode != "async",
            f"mode {self.mode} returns the same negatives in every run, which skipping would break",
            "refresh.on_lost_shard",
            "choose wait, or mode=async",
        )

    @property
    def delay(self) -> int:
        """Steps from publication to service if fixed; 0 if a version is served once it is built."""
        if self.mode != "lagged":
            return 0
        return self.gap if self.lag is None else self.lag

    @property
    def gap(self) -> int:
        """The smallest number of steps between two publications."""
        return min(every for _, _, every in _spans(self.every))

    def due(self, step: int) -> bool:
        """Return whether the weights are published after this step."""
        if self.mode == "never":
            return False
        return any(first < step <= last and step % every == 0 for first, last, every in _spans(self.every))

    def newest(self, step: int) -> int:
        """Return the last step up to this one after which weights are published; 0 for those of the start."""
        return next((earlier for earlier in range(step, 0, -1) if self.due(earlier)), 0)


@functools.cache
def _spans(every: int | str) -> list[tuple[int, float, int]]:
    """Return the spans of a schedule: the step that it follows, its last step, and the steps between publications."""
    if not isinstance(every, str):
        return [(0, math.inf, every)]
    spans = [SPAN.fullmatch(part.strip()) for part in every.split(",")]
    read = [(int(each[1]), int(each[2]) if each[2] else math.inf, int(each[3])) for each in spans if each]
    ends = [(0, 0.0, 1), *read]
    refuse(
        len(read) < len(spans) or any(first != last for (first, _, _), (_, last, _) in zip(read, ends, strict=False)),
        f"{every!r} is no schedule of refreshes",
        "refresh.every",
        "write spans of steps that follow each other, as 0-100:10,100-:500",
    )
    return read


if TYPE_CHECKING:
    RefreshOrEvery = Refresh | int | str
else:
    RefreshOrEvery = Refresh  # what `Dense` is made with: a number or a schedule is one by then


class Dense(FromLists):
    """The nearest documents by the ranker's vectors: hard for the ranker of this step, or of a few steps ago.

    With a refreshed index this is ANCE (Xiong et al. 2021). With an index that never changes, current query vectors and
    a frozen document tower it is the dynamic hard negatives of ADORE (Zhan et al. 2021). Needs a `DenseRanker`.

    Args:
        depth: length of a list, not counting relevant and guarded documents.
        queries: the query vectors of the search: `version`, those of the index's weights, or `now`, the ranker's.
        refresh: when the index follows the ranker; a number or a schedule is `Refresh(every=…)`.
        index: how vectors are stored and searched.
        shards: number of ranges of documents, each with an index (on Ray, on a separate actor). An exact index finds
            the same with any number; FAISS's approximate ones find more with more shards.
        searched: when queries are searched: at each `step` those of its batch, or all training queries once per
            `version`, in batches, so that a step reads lists.
        precision: precision in which the index reads texts: `float32`, `bfloat16` or `float16`; None takes the
            ranker's. The precision of the stored vectors is `index.precision`.
    """

    scale = 1.0
    """The factor of the ranker's scores; another trainer's vectors are compared as they are."""

    @checked
    def __init__(
        self,
        count: Annotated[int, NonNegative] | None = None,
        *,
        depth: Annotated[int, Positive] = 200,
        queries: Literal["version", "now"] = "version",
        refresh: RefreshOrEvery = Refresh(),
        index: IndexOptions = IndexOptions(),  # noqa: B008
        shards: Annotated[int, Positive] = 1,
        searched: Literal["step", "version"] = "step",
        precision: Literal["float32", "bfloat16", "float16"] | None = None,
        pick: Picker | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(count, pick=pick, name=name)
        refuse(
            searched == "version" and queries == "now",
            "searched=version makes lists with the version's query vectors, not those of queries=now",
            "function.dense.searched",
            "choose searched=step, or queries=version",
        )
        self.depth, self.queries, self.precision = depth, queries, precision
        self.refresh, self.index = cast(Refresh, refresh), index  # `_divide` has made it one
        self.shards, self.searched = shards, searched
        self.guard = Guard()
        self.guarded = 0
        self._dropped: dict[int, GuardedDocuments] = {}  # by query, at its last search
        self._served: NegativeIndex | None = None
        self._loaded: dict[str, Any] | None = None

    @classmethod
    def _divide(cls, args: tuple[Any, ...], options: dict[str, Any]) -> Divided:
        if not isinstance(options.get("refresh", Refresh()), Refresh):
            options = options | {"refresh": Refresh(every=options["refresh"])}
        return super()._divide(args, options)

    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        self.encoded, self.pairs = encoded, RelevantPairs(encoded)
        self.relevant = encoded.judgements.relevant()

    @property
    def in_full(self) -> bool:
        """Whether the index keeps vectors in memory exactly as the ranker returns them."""
        return self.index.in_full and self.precision is None

    def attach_index(self, index: NegativeIndex) -> None:
        """Use this index instead of one in this process."""
        self._served = index

    def start_run(self, training: RankerTraining) -> None:
        ranker = training.ranker
        if not isinstance(ranker, DenseRanker):
            raise BadInput(
                f"{type(ranker).__name__} has no text vectors that an index could search",
                "function=dense",
                "choose ranker=bi_encoder, or function=embedding with a fixed encoder",
            )
        self.index.check(ranker.dimension)
        if self.precision is not None:
            transformers_of(ranker)  # raises here rather than when an encoder starts
        self.guard.check_per_query()
        self.training, self.ranker, self.scale = training, ranker, ranker.scale
        self.version = self.age = -1
        self.guarded = 0
        self._dropped.clear()
        # Without an index service, the index is built while the trainer waits. With mode=lagged the negatives are the
        # same either way.
        self.service = self._served or LocalIndex(
            self._copy(ranker), training.encoded, self.index, self.refresh.delay,
            shards=self.shards, listed=self.listed(training),
        )  # fmt: skip
        if self._loaded is not None:
            self.guarded = self._loaded["guarded"]
            record = GuardedDocuments(**self._loaded["dropped"])
            self._dropped |= record.by_query(np.unique(record.queries))
            self.service.load_state_dict(self._loaded["index"])
            self._loaded = None
        else:
            self.service.publish(ranker.state_dict(), training.step)
        if ranker.fixed_documents and self.in_full and isinstance(self.service, LocalIndex):
            # Texts that the index has read are not read again in each step.
            vectors = torch.from_numpy(self.service.document_vectors(training.step))
            training.remember(FixedVectors(vectors.to(ranker.device)))

    def _copy(self, ranker: DenseRanker) -> DenseRanker:
        """Return a copy of the ranker in the precision of the index."""
        copied = copy.deepcopy(ranker)
        read_in(copied, self.precision)
        return copied

    def listed(self, training: RankerTraining) -> Listed | None:
        """Return the queries that are searched once per version; None if each step searches its batch."""
        if self.searched == "step":
            return None
        queries = np.unique(training.examples.queries).astype(np.int64)
        return Listed(queries, self.depth + int(self.pairs.counts[queries].max(initial=0)))

    def after_update(self, training: RankerTraining) -> None:
        if self.refresh.due(training.step) and not training.diverged:
            self.service.publish(self.ranker.state_dict(), training.step)

    def guarded_documents(self) -> GuardedDocuments:
        """Return the documents that the guard dropped when each query was last searched."""
        return GuardedDocuments.joined(list(self._dropped.values()))

    def state_dict(self) -> dict[str, Any]:
        return {"guarded": self.guarded, "dropped": vars(self.guarded_documents()), "index": self.service.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._loaded = dict(state)

    def lists_of(self, queries: NDArray[np.integer]) -> ListRows:
        """Return the first `depth` documents of each query that are neither relevant nor guarded, by one version.

        Scores are the ranker's: `scale` times the inner products that the index returns. Each text occurs once. A list
        does not depend on the other queries.
        """
        step, counts, scale = self.training.step, self.pairs.counts[queries], np.float32(self.scale)
        vectors = None
        if self.queries == "now":
            vectors = embed(self.ranker, self.encoded.queries, queries, queries=True)
        positives = rectangle(self.relevant.documents, self.relevant.offsets, queries, -1)
        width, deepest = self.depth + int(counts.max(initial=0)), WIDEST * (self.depth + counts)
        while True:
            answer = self.service.search(queries, width, step, vectors)
            lists = RankedLists(answer.documents, answer.scores * scale)
            within = np.arange(answer.documents.shape[1]) < deepest[:, None]
            unjudged = lists.keep(self.pairs.allowed(queries, answer.documents) & within)
            kept = unjudged
            if self.guard.active:
                of_positives = self.service.scores(queries, positives, vectors)
                best = self.guard.positive_of(of_positives * scale)
                allowed = unjudged.scores <= self.guard.below(best)[:, None]
                kept = unjudged.keep(allowed)
            if not ((kept.counts < self.depth) & (lists.counts >= width) & (width < deepest)).any():
                break
            width *= 2
        self.version, self.age = answer.version, step - answer.step
        if self.guard.active:
            dropped = (unjudged.documents >= 0) & ~allowed & (np.cumsum(allowed, axis=1) < self.depth)
            record = self.guard.record(queries, unjudged, dropped, best, self.depth)
            self.guarded += record.total
            self._dropped |= record.by_query(queries)
        return ListRows.of(kept.head(self.depth))
