"""BM25 in shards: scores and lists of one index of all documents, to the bit, also where a shard dies."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import ray

from pyrite.cluster.config.compose import compose
from pyrite.cluster.index.attach import attach_indexes
from pyrite.cluster.index.bm25 import Bm25Shard, ServedBm25
from pyrite.cluster.index.calls import ShardActors
from pyrite.cluster.index.demand import live_functions, served_functions
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.execute import run
from pyrite.ranking.bm25 import Bm25, Bm25Options
from pyrite.ranking.bm25_pieces import PiecedBm25
from pyrite.ranking.encoding import Encoder
from pyrite.ranking.errors import BadInput
from pyrite.ranking.sources import Sources
from pyrite.sampling.guard import Guard, negatives_lists
from pyrite.sampling.retrieval.bm25 import BM25
from tests.ranking.test_bm25 import by_chance, without_labels
from tests.ranking.trained import equal
from tests.sampling.batches import batch_of

EVERY = np.arange(30)
OPTIONS = Bm25Options()


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_a_collection_that_is_cut_is_searched_as_one_that_is_not(shards, tmp_path):
    pairs = np.random.default_rng(2).integers(-1, 200, (30, 50))
    collection = without_labels(by_chance())
    expected = Bm25(collection, OPTIONS).search(EVERY, 15, pairs)
    for _ in ("made", "found"):
        index = PiecedBm25(collection, OPTIONS, shards=shards, cut=tmp_path)
        assert equal(index.search(EVERY, 15, pairs), expected)
    assert len(index.ranges) == shards
    assert len(list(tmp_path.iterdir())) == 1


def test_shard_actors_find_the_same_and_after_a_loss(ray_session, base, own_cache, monkeypatch):
    monkeypatch.setattr(
        "pyrite.cluster.executors.pieces.connected", lambda: False
    )  # both pieces are made in this process
    config = compose([*base, "function=bm25", "function.bm25.shards=2"])
    assert served_functions(config) == ["bm25"]
    assert live_functions(config) == []
    function, said = BM25(shards=2), []
    sources = Artifacts().sources(config, Artifacts().part(config, "base"))
    queries, pairs = np.arange(len(sources.encoded.queries)), np.tile(np.arange(10), (len(sources.encoded.queries), 1))
    expected = sources.bm25(function.options).search(queries, 7, pairs)
    with attach_indexes({"bm25": function}, None, config, "a run", said.append) as attached:
        served = attached["bm25"]
        assert isinstance(served, ServedBm25)
        assert function._served is served
        for number in range(2):
            assert equal(served.search(queries, 7, pairs), expected)
            if number == 0:
                ray.kill(served.actors.actors[1], no_restart=False)
    assert not said or said == ["shard 1 of BM25 is lost; waiting", "shard 1 of BM25 is back"]


@pytest.mark.nightly
def test_readers_may_continue_without_a_shard(ray_session, tmp_path):
    index, lines = PiecedBm25(without_labels(by_chance()), OPTIONS, shards=2, cut=tmp_path / "cut"), list[str]()
    served = ServedBm25(index, 2, lines.append, "skip")
    every, first = index.search(EVERY, 200)[0], index.ranges[0].stop
    ray.kill(served.actors.actors[1])  # for good: Ray does not start it again
    less, of_pairs = served.search(EVERY, 200, np.tile(np.arange(200), (30, 1)))
    assert set(np.unique(less.documents)) <= {-1, *range(first)}
    for row, wanted in zip(less.documents, every.documents, strict=True):
        assert (row[row >= 0] == wanted[(wanted >= 0) & (wanted < first)]).all()
    assert (of_pairs[:, first:] == -np.inf).all()
    assert lines == ["shard 1 of BM25 is lost; continuing without its documents"]
    served.actors.actors[1] = ShardActors(Bm25Shard, [()], []).actors[0]
    back = served.search(EVERY, 200)[0]
    assert back.documents.tobytes() == every.documents.tobytes()
    assert lines[1:] == ["shard 1 of BM25 is back"]
    for actor in served.actors.actors:
        ray.kill(actor)
    nothing, of_pairs = served.search(EVERY, 3, np.zeros((30, 1), np.int32))
    assert (nothing.documents == -1).all()
    assert (of_pairs == -np.inf).all()
    served.close()


def test_lists_of_a_batch_have_each_text_once_and_are_filled(tiny_vectors, tmp_path):
    made = by_chance(40, 30)
    copies = pl.concat([made.documents.with_columns(pl.col("id") + f"-{copy}") for copy in range(4)])
    judged = made.queries.select(query="id", document=pl.lit(copies["id"][3]), grade=pl.lit(1, pl.Int32))
    collection = without_labels(replace(made, documents=copies, judgements=judged))
    encoded = Encoder(min_count=1).encode(collection)[0]
    ahead, asked = BM25(depth=12), BM25(depth=12, shards=2)
    ahead.prepare(encoded, negatives_lists(ahead, Sources(collection, encoded, tiny_vectors), Guard())[0])
    asked.prepare(encoded, None)
    asked.attach_index(PiecedBm25(collection, asked.options, shards=2, cut=tmp_path))
    batch = batch_of(*range(30))
    lists = [function.top(batch, 12, np.random.default_rng(0)).documents for function in (asked, ahead)]
    assert equal(*lists)
    assert (lists[0] >= 0).all(1).any()


@pytest.mark.parametrize("depth", [3, 50])
def test_lists_of_a_batch_are_those_that_are_made_before(depth, tiny, tiny_encoded, tiny_sources, tmp_path):
    ahead, asked = BM25(depth=depth), BM25(depth=depth, shards=3)
    ahead.prepare(tiny_encoded, negatives_lists(ahead, tiny_sources, Guard())[0])
    asked.prepare(tiny_encoded, None)
    with pytest.raises(BadInput, match=r"function.bm25.shards.*nothing serves them"):
        asked.start_run(None)
    asked.attach_index(PiecedBm25(tiny, asked.options, shards=3, cut=tmp_path))
    asked.start_run(None)
    batch = batch_of(0, 3, 1, 3)
    for method in ("sample", "top"):
        for count in (1, 2, 9):
            draws = [getattr(each, method)(batch, count, np.random.default_rng(count)) for each in (asked, ahead)]
            assert equal(*((drawn.documents, drawn.scores) for drawn in draws))


def test_a_run_is_the_same_whether_lists_are_made_before_or_asked_for(base):
    def outcome(shards: int) -> tuple[Any, Any]:
        given = ["function=[bm25,random]", "selector=uniform", "training.max_epochs=2"]
        config = compose([*base, *given, f"function.bm25.shards={shards}"])
        parts = Artifacts().parts(config)
        assert (parts["function:bm25"].lists is None) == (shards > 1)

        def attach(training: Any, sampler: Any) -> Any:
            function = sampler.functions["bm25"]
            if shards > 1:
                index = Artifacts().sources(config, Artifacts().part(config, "base")).bm25(function.options, shards)
                function.attach_index(index)
            return nullcontext()

        ended = run(config, parts, attach=attach)
        return ended.losses, ended.validations

    assert outcome(1) == outcome(2)


@pytest.mark.parametrize("wanted", ["guard.relative=0.9", "teacher=bm25", "policy=learned"])
def test_lists_that_are_wanted_before_the_training_are_made_from_the_shards(base, wanted):
    made, config = [], {}
    for shards in (1, 2):
        config = compose([*base, wanted, "function=bm25", f"function.bm25.shards={shards}"])
        assert served_functions(config) == []
        part = Artifacts()._make(config, "function:bm25")
        assert (part.guarded.total > 0) == (wanted == "guard.relative=0.9")
        made.append((part.lists.documents.tobytes(), part.lists.scores.tobytes(), part.guarded.total))
    assert made[0] == made[1]
    asked = compose([*base, "function=bm25", "function.bm25.shards=2"])
    assert Artifacts().part(asked, "function:bm25").lists is None
    assert list((Path(config["cache"]) / "bm25").iterdir())  # it was searched in shards
