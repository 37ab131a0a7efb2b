from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.ranking.embedding import embed
from pyrite.ranking.errors import BadInput
from pyrite.ranking.index import IndexOptions
from pyrite.ranking.texts import Texts
from pyrite.ranking.training import RankerTraining
from pyrite.sampling.guard import Guard
from pyrite.sampling.guarded_documents import GuardedDocuments
from pyrite.sampling.policies.fixed import Fixed
from pyrite.sampling.policies.mixture import Mixture
from pyrite.sampling.retrieval.dense import Dense, Refresh
from pyrite.sampling.retrieval.live_index import Answer, LocalIndex
from pyrite.sampling.retrieval.random import Random
from pyrite.sampling.sampler import Sampler
from pyrite.sampling.selection.top import Top
from pyrite.sampling.selection.uniform import Uniform
from tests.ranking.trained import Bag, in_small_batches
from tests.sampling.batches import batch_of, prepared, steps


@pytest.fixture
def bag_training(tiny_sources) -> Callable[..., RankerTraining]:
    """Makes the training of a `Bag` on `tiny`, as if no two texts were alike: three batches an epoch."""
    encoded = replace(tiny_sources.encoded, content=None)
    return lambda ranker=None: in_small_batches(
        ranker or Bag(len(encoded.idf)), tiny_sources, lr=0.1, seed=2, encoded=encoded
    )


def started(training: RankerTraining, guard: Guard | None = None, **options: Any) -> Dense:
    function = prepared(Dense(**options), training.encoded)
    if guard:
        function.guard = guard
    function.start_run(training)
    return function


def sampler(function: Dense, training: RankerTraining) -> Sampler:
    function.prepare(training.encoded, None)
    return Sampler(Fixed(), {"dense": function}, Uniform(), 2, np.random.default_rng(0))


def local_of(training: RankerTraining, lag: int = 0, **options: Any) -> LocalIndex:
    return LocalIndex(Bag(len(training.encoded.idf)), training.encoded, IndexOptions(**options), lag)


def products(training: RankerTraining, queries: np.ndarray) -> np.ndarray:
    ranker, encoded = training.ranker, training.encoded
    documents = embed(ranker, encoded.documents, np.arange(len(encoded.documents)))
    return embed(ranker, encoded.queries, queries, queries=True).astype(np.float64) @ documents.T.astype(np.float64)


def relevant_to(training: RankerTraining, query: int) -> set[int]:
    return set(training.encoded.judgements.relevant().of(query)[0].tolist())


def test_top_is_the_order_of_the_products_without_the_relevant(bag_training):
    training = bag_training()
    function = started(training, depth=6)
    queries = np.array([2, 0, 2])
    candidates = function.top(batch_of(queries), 4, np.random.default_rng(0))
    of_queries = products(training, queries)
    for row, query in enumerate(queries):
        order = sorted(range(12), key=lambda d: (-of_queries[row, d], d))
        expected = [d for d in order if d not in relevant_to(training, query)][:4]
        assert candidates.documents[row].tolist() == expected
        assert candidates.scores[row] == pytest.approx(of_queries[row, expected], rel=1e-5)
    assert candidates.documents.dtype == np.int32
    assert (function.version, function.age) == (0, 0)


def test_samples_are_of_the_first_depth_and_distinct(bag_training):
    training = bag_training()
    function = started(training, depth=3)
    rng = np.random.default_rng(0)
    head = function.top(batch_of(1), 9, rng).documents[0]
    assert head[3:].tolist() == [-1] * 6
    seen = [tuple(sorted(function.sample(batch_of(1), 2, rng).documents[0].tolist())) for _ in range(60)]
    assert set(seen) == {tuple(sorted(pair)) for pair in ((head[0], head[1]), (head[0], head[2]), (head[1], head[2]))}
    everything = started(training, depth=50).sample(batch_of(np.arange(8)), 12, rng).documents
    for query in range(8):
        rest = set(range(12)) - relevant_to(training, query)
        assert sorted(everything[query][everything[query] >= 0]) == sorted(rest)


def test_a_text_is_served_once_and_the_guard_compares_with_the_lowest(bag_training, tiny_sources):
    training = bag_training()
    training.encoded = tiny_sources.encoded  # its last two texts are alike
    served = started(training, depth=12).top(batch_of(np.arange(8)), 12, np.random.default_rng(0)).documents
    for query, row in enumerate(served.tolist()):
        assert len({10, 11} & {*row}) == len({10, 11} - relevant_to(training, query)) // 2
    queries = np.arange(8)
    of_queries = products(training, queries)
    guarded = started(training, Guard(absolute=0.5), depth=12)
    kept = guarded.top(batch_of(queries), 12, np.random.default_rng(0)).documents
    for query, row in enumerate(kept.tolist()):
        lowest = min(of_queries[query, list(relevant_to(training, query))])
        assert all(of_queries[query, document] <= lowest - 0.5 for document in row if document >= 0)
    with pytest.raises(BadInput, match="choose lowest or best"):
        started(training, Guard(absolute=0.5, positive="own"))


@pytest.mark.parametrize("margins", [{"absolute": 0.5}, {"relative": 0.2}, {"absolute": 0.1, "relative": 0.05}])
def test_neither_relevant_nor_guarded_documents_are_served(bag_training, margins):
    training = bag_training()
    guard = Guard(positive="best", **margins)
    function = started(training, guard, depth=12)
    queries = np.arange(8)
    of_queries = products(training, queries)
    candidates, dropped = function.top(batch_of(queries), 12, np.random.default_rng(0)), 0
    for query in queries:
        relevant = relevant_to(training, query)
        best = max(of_queries[query, list(relevant)])
        limit = min(best - margins.get("absolute", 0), best - margins.get("relative", 0) * abs(best))
        rest = [d for d in range(12) if d not in relevant]
        allowed = {d for d in rest if of_queries[query, d] <= limit}
        dropped += len(rest) - len(allowed)
        assert set(candidates.documents[query][candidates.documents[query] >= 0].tolist()) == allowed
    assert 0 < dropped < 8 * 12
    assert function.guarded == dropped
    record = function.guarded_documents()
    assert record.total == len(record.documents) == dropped
    assert not {*zip(record.queries.tolist(), record.documents.tolist(), strict=True)} & {
        (query, document) for query in queries.tolist() for document in candidates.documents[query].tolist()
    }
    assert record.scores == pytest.approx(of_queries[record.queries, record.documents], rel=1e-5)
    function.top(batch_of(queries), 12, np.random.default_rng(0))
    assert len(function.guarded_documents().documents) == dropped  # each query's last answer


class Spread(Bag):
    """Document d scores −d for every query: the order is the collection's."""

    def represent_queries(self, queries: Texts) -> Tensor:
        return torch.tensor([[1.0]]).expand(len(queries), 1) * self.table[:1, :1] ** 0

    def represent_documents(self, documents: Texts) -> Tensor:
        return -torch.from_numpy(documents.tokens[documents.offsets[:-1]].astype(np.float32))[:, None]

    @property
    def dimension(self) -> int:
        return 1


@pytest.mark.parametrize("margins", [{"absolute": 0.05}, {"ceiling": 0.4}, {"relative": 0.1}])
def test_a_guard_compares_on_the_scale_of_the_rankers_scores(bag_training, margins):
    """As `pyrite mine` does: 20 times the cosine, for a ranker that compares by cosines."""
    lists = {}
    for scale in (1.0, 20.0):
        training = bag_training()
        training.ranker.scale = scale
        unit = 1.0 if "relative" in margins else scale
        guard = Guard(**{name: unit * margin for name, margin in margins.items()})
        guarded, free = (started(training, each, depth=12).lists_of(np.arange(8)) for each in (guard, None))
        assert 0 < guarded.counts.sum() < free.counts.sum()
        lists[scale] = guarded.lists
    assert (lists[1.0].documents == lists[20.0].documents).all()
    np.testing.assert_allclose(lists[20.0].scores, 20 * lists[1.0].scores, rtol=1e-5)


def test_a_guard_that_takes_the_head_looks_further_down(encoded_of):
    encoded = encoded_of([[1 + d] for d in range(100)], [[1]], {0: {30: 1}})
    training: Any = SimpleNamespace(encoded=encoded, ranker=Spread(3), step=0, diverged=False)
    function = started(training, Guard(absolute=2), depth=6)
    candidates = function.top(batch_of(0), 6, np.random.default_rng(0))
    assert candidates.documents.tolist() == [[32, 33, 34, 35, 36, 37]]
    shallow = started(training, Guard(absolute=2), depth=3)  # 8 × 3 = 24 is as far as it looks
    assert shallow.top(batch_of(0), 2, np.random.default_rng(0)).documents.tolist() == [[-1, -1]]


def test_copies_of_a_text_shorten_no_list_and_other_queries_change_none(encoded_of):
    documents = [[1 + d // 4] for d in range(100)]  # each text four times
    relevant = {0: dict.fromkeys(range(8), 1), 1: {0: 1}, 2: dict.fromkeys(range(60), 1)}
    encoded = replace(encoded_of(documents, [[1]] * 3, relevant), content=np.arange(100, dtype=np.int32) // 4 * 4)
    training: Any = SimpleNamespace(encoded=encoded, ranker=Spread(3), step=0, diverged=False)
    together = started(training, depth=6).top(batch_of(0, 1, 2), 6, np.random.default_rng(0)).documents
    assert together.tolist() == [[*range(first, first + 24, 4)] for first in (8, 4, 60)]
    few = started(training, Guard(absolute=16), depth=3)  # of 8 × (3 + 4) documents of query 1, 5 texts may be shown
    for query in range(3):
        alone = few.top(batch_of(query), 6, np.random.default_rng(0)).documents
        assert alone[0].tolist() == few.top(batch_of(query, 2), 6, np.random.default_rng(0)).documents[0].tolist()


class ByHand:
    """A service that notes what it is asked, and answers by a fixed list."""

    def __init__(self) -> None:
        self.published: list[tuple[int, float]] = []
        self.asked: list[tuple[int, int, Any]] = []
        self.loaded: Any = None

    def publish(self, weights: Mapping[str, Tensor], step: int) -> None:
        self.published.append((step, float(weights["table"].sum())))

    def search(self, queries: np.ndarray, depth: int, step: int, vectors: Any = None) -> Answer:
        self.asked.append((step, depth, vectors))
        documents = np.broadcast_to(np.arange(depth, dtype=np.int32), (len(queries), depth))
        return Answer(np.where(documents < 12, documents, -1), -documents.astype(np.float32), 7, step - 3)

    def scores(self, queries: np.ndarray, documents: np.ndarray, vectors: Any = None) -> np.ndarray:
        return np.where(documents < 0, -np.inf, -documents.astype(np.float32))

    def state_dict(self) -> dict[str, Any]:
        return {"mine": 5}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.loaded = dict(state)


def test_weights_are_published_at_the_start_and_every_so_many_steps(bag_training):
    training, service = bag_training(), ByHand()
    function = Dense(depth=4, refresh=Refresh("async", every=2))
    function.attach_index(service)
    source = sampler(function, training)
    before = float(training.ranker.table.detach().sum())
    steps(source, training, 5)
    assert [step for step, _ in service.published] == [0, 2, 4]
    assert service.published[0][1] == before
    assert len({weights for _, weights in service.published}) == 3
    assert [step for step, _, _ in service.asked] == [0, 1, 2, 3, 4]
    assert all(vectors is None for _, _, vectors in service.asked)
    assert source.trace.arrays()["version"].tolist() == [7] * 5
    assert source.trace.arrays()["age"].tolist() == [3] * 5
    assert source.state_dict()["functions"]["dense"]["index"] == {"mine": 5}


def test_nothing_is_published_over_a_loaded_state_or_by_a_training_that_diverged(bag_training):
    training, service = bag_training(), ByHand()
    function = Dense(refresh=Refresh("async", every=1))
    function.attach_index(service)
    function.prepare(training.encoded, None)
    nothing = vars(GuardedDocuments.joined([]))
    function.load_state_dict({"guarded": 9, "dropped": nothing, "index": {"mine": 6}})
    function.start_run(training)
    assert (service.loaded, service.published, function.guarded) == ({"mine": 6}, [], 9)
    function.start_run(training)  # another training of the same function starts afresh
    assert (len(service.published), function.guarded) == (1, 0)
    training.diverged = True
    function.after_update(training)
    assert len(service.published) == 1


def versions(training: RankerTraining, count: int = 9, **refresh: Any) -> tuple[list[int], list[int]]:
    source = sampler(Dense(depth=5, refresh=Refresh(**refresh)), training)
    steps(source, training, count)
    return source.trace.arrays()["version"].tolist(), source.trace.arrays()["age"].tolist()


def test_when_each_mode_serves_what(bag_training):
    assert versions(bag_training(), mode="never", every=2) == ([0] * 9, list(range(9)))
    assert versions(bag_training(), mode="sync", every=3) == ([0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 1, 2] * 3)
    served = versions(bag_training(), mode="lagged", every=3, lag=1)
    assert served == ([0, 0, 0, 0, 1, 1, 1, 2, 2], [0, 1, 2, 3, 1, 2, 3, 1, 2])
    served = versions(bag_training(), mode="lagged", every=2)  # lag = every
    assert served == ([0, 0, 0, 0, 1, 1, 2, 2, 3], [0, 1, 2, 3, 2, 3, 2, 3, 2])
    served = versions(bag_training(), mode="lagged", every=1, lag=3)  # three wait at once
    assert served == ([0, 0, 0, 0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 3, 3, 3, 3, 3])


def test_a_refreshed_index_ranks_as_the_ranker_does_and_a_frozen_one_as_it_did(bag_training):
    training = bag_training()
    refreshed, frozen = (
        sampler(Dense(depth=12, refresh=Refresh(mode, every=1)), training).functions["dense"]
        for mode in ("sync", "never")
    )
    first = products(training, np.arange(8))
    for function in (refreshed, frozen):
        function.start_run(training)
    for _ in range(3):
        batch = training.next_batch()
        training.update(batch, np.full((len(batch), 1), 11, np.int32))
        refreshed.after_update(training)
        frozen.after_update(training)
    then = products(training, np.arange(8))
    rng = np.random.default_rng(0)
    tops = [function.top(batch_of(np.arange(8)), 12, rng).scores for function in (refreshed, frozen)]
    for scores, expected in zip(tops, (then, first), strict=True):
        for query in range(8):
            rest = sorted(set(range(12)) - relevant_to(training, query))
            assert scores[query][: len(rest)] == pytest.approx(sorted(expected[query, rest])[::-1], rel=1e-4, abs=1e-4)


def test_queries_of_now_search_an_old_index(bag_training):
    training = bag_training()
    function = started(training, depth=12, queries="now", refresh=Refresh("never"))
    old = embed(training.ranker, training.encoded.documents, np.arange(12))
    batch = training.next_batch()
    training.update(batch, np.full((len(batch), 1), 11, np.int32))
    new = embed(training.ranker, training.encoded.queries, np.array([3]), queries=True)
    candidates = function.top(batch_of(3), 1, np.random.default_rng(0))
    unjudged = [d for d in range(12) if d not in relevant_to(training, 3)]
    best = max(unjudged, key=lambda d: float(new[0] @ old[d]))
    assert candidates.documents[0, 0] == best
    assert candidates.scores[0, 0] == pytest.approx(float(new[0] @ old[best]), rel=1e-5)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("refresh", [
    Refresh("sync", every=2), Refresh("never"), Refresh("lagged", every=3, lag=2), Refresh("lagged", every=1, lag=3),
])  # fmt: skip
def test_an_interrupted_run_is_shown_the_same_negatives(bag_training, refresh):
    def make() -> tuple[Sampler, RankerTraining]:
        training = bag_training()
        function = Dense(depth=4, refresh=refresh)
        function.guard = Guard(absolute=0.0)
        return sampler(function, training), training

    source, training = make()
    whole = steps(source, training, 10)
    for interrupt in (4, 5, 7):
        first, of_first = make()
        begun = steps(first, of_first, interrupt)
        saved = from_bytes(to_bytes([of_first.state_dict(), first.state_dict()]))
        again, of_again = make()
        of_again.load_state_dict(saved[0])
        again.load_state_dict(saved[1])
        assert begun + steps(again, of_again, 10 - interrupt) == whole
        assert again.report() == source.report()
        np.testing.assert_equal(again.trace.arrays(), source.trace.arrays())


def test_a_mapped_index_leaves_no_version_behind(bag_training):
    training = bag_training()
    local = local_of(training, memory="mapped")
    local.publish(training.ranker.state_dict(), 0)
    first = local.search(np.arange(4), 3, 0)
    assert [path.name for path in Path(local._temporary.name).iterdir()] == ["version-0"]
    assert (local.scores(np.arange(4), first.documents) == first.scores).all()


@pytest.mark.by_day(1)
@pytest.mark.parametrize("searched", ["step", "version"])
def test_shards_lists_and_mapped_files_change_no_negative(bag_training, monkeypatch, searched):
    for module in ("pyrite.ranking.shards", "pyrite.ranking.embedding", "pyrite.sampling.retrieval.live_index"):
        monkeypatch.setattr(f"{module}.BLOCK", 3)
    shown = []
    for shards, memory in ((1, "ram"), (2, "ram"), (4, "ram"), (1, "mapped"), (4, "mapped")):
        training = bag_training()
        index = IndexOptions(memory=memory)
        function = Dense(depth=4, refresh=Refresh("sync", 2), index=index, shards=shards, searched=searched)
        shown.append(steps(sampler(function, training), training, 6))
        version = function.service._built
        assert (version.lists is None) == (searched == "step")
        assert len(version.index.shards) == shards
    assert all(negatives == shown[0] for negatives in shown)


def test_published_weights_are_copies(bag_training):
    training = bag_training()
    local = local_of(training)
    local.publish(training.ranker.state_dict(), 0)
    with torch.no_grad():
        expected = products(training, np.array([0])).max()
        for weights in training.ranker.parameters():
            weights.mul_(100)
    assert local.search(np.array([0]), 1, 0).scores[0, 0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("lag", "kept"), [(0, [20]), (3, [17, 18, 19, 20])])
def test_weights_that_nobody_will_read_are_forgotten(bag_training, lag, kept):
    training = bag_training()
    local = local_of(training, lag)
    for step in range(21):
        local.publish(training.ranker.state_dict(), step)
    assert [published["step"] for published in local.state_dict()["published"]] == kept
    answer = local.search(np.array([0]), 1, 20)
    assert (answer.version, answer.step) == (kept[0], kept[0])


def test_an_index_that_was_never_filled_says_so(bag_training):
    local = local_of(bag_training())
    with pytest.raises(RuntimeError, match="nothing has been published"):
        local.search(np.array([0]), 1, 0)
    with pytest.raises(RuntimeError, match="no version has answered"):
        local.scores(np.array([0]), np.array([[1]]))


def test_the_trace_has_versions_of_an_index_alone_and_the_report_what_it_guarded(bag_training):
    training = bag_training()
    function = prepared(Dense(depth=4, refresh=Refresh("sync", every=2)), training.encoded)
    function.guard = Guard(absolute=0.0)
    functions = {"random": prepared(Random(), training.encoded), "dense": function}
    source = Sampler(Mixture(per="batch"), functions, Top(), 2, np.random.default_rng(3))
    steps(source, training, 8)
    trace = source.trace.arrays()
    assert set(trace["function"]) == {0, 1}
    assert ((trace["version"] >= 0) == (trace["function"] == 1)).all()
    assert ((trace["age"] >= 0) == (trace["function"] == 1)).all()
    assert [row["guarded"] for row in source.report()] == [0, function.guarded]


def test_a_ranker_without_vectors_or_that_does_not_suit_the_index_is_refused(tiny_training, bag_training):
    training = tiny_training()
    with pytest.raises(BadInput, match=r"FeedForward has no text vectors .*choose ranker=bi_encoder"):
        started(training)
    with pytest.raises(BadInput, match="'PQ4' of 5 dimensions"):
        started(bag_training(), index=IndexOptions("PQ4"))


@pytest.mark.parametrize(("wrong", "said"), [
    ({"mode": "sync", "lag": 3}, "mode sync has no lag"),
    ({"max_staleness": 300}, "mode lagged has no max_staleness"),
    ({"mode": "async", "max_staleness": 199}, "let it be at least refresh.every"),
    ({"on_lost_shard": "skip"}, "mode lagged returns the same negatives in every run"),
])  # fmt: skip
def test_a_refresh_that_makes_no_sense_is_refused(wrong, said):
    with pytest.raises(BadInput, match=said):
        Refresh(**wrong)
