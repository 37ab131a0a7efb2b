"""Attaches index actors to the retrieval functions of a run that ask for one, and reserves their resources."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from cluster.index.encoder_options import EncoderOptions
from cluster.output.cache import machine_folder
from cluster.runs.bm25_shards import bm25_in_shards
from ranking.errors import BadInput

if TYPE_CHECKING:
    from cluster.index.bm25 import ServedBm25
    from cluster.index.client import RemoteIndex
    from ranking.training import RankerTraining
    from sampling.retrieval.dense import Dense
    from sampling.retrieval.function import RetrievalFunction

LIVE = ("async", "lagged")
"""Modes of `sampling.retrieval.dense.Refresh` whose index is built beside the training."""


def live_functions(config: Mapping[str, Any]) -> list[str]:
    """Names of the functions of a configuration whose index lives on Ray actors."""
    functions = config["function"].items()
    return [name for name, node in functions if (node.get("refresh") or {}).get("mode") in LIVE]


def served_functions(config: Mapping[str, Any]) -> list[str]:
    """Names of all functions that actors serve: those of `live_functions`, and BM25 in shards."""
    return live_functions(config) + bm25_in_shards(config)


def encoder_options(config: Mapping[str, Any]) -> EncoderOptions:
    """How many encoders each index of a run has, and what they take.

    Raises:
        BadInput: where that makes no sense.
    """
    return EncoderOptions(**config["index"], spread=config["resources"]["placement"] == "spread")


def demand(config: Mapping[str, Any]) -> dict[str, float]:
    """CPUs and GPUs of all encoders of a run."""
    options, indexes = encoder_options(config), len(live_functions(config))
    each = {"CPU": float(options.cpu), "GPU": float(options.gpu)}
    return {name: share * options.encoders * indexes for name, share in each.items()}


def reserved(config: Mapping[str, Any]) -> list[dict[str, float]]:
    """What a trial sets aside for its encoders, a bundle each.

    The actors that serve take no core of their own: they work while the trainer waits for them. Where a run has
    several workers, who are reserved for by themselves, its encoders take what is free.
    """
    options = encoder_options(config)
    if config["resources"]["workers"] > 1:
        return []
    each = {"CPU": float(options.cpu)} | ({"GPU": float(options.gpu)} if options.gpu else {})
    return [dict(each) for _ in range(options.encoders * len(live_functions(config)))]


def check_room(config: Mapping[str, Any], there: Mapping[str, float]) -> None:
    """A local Ray never grows: encoders that it has no room for would never come.

    Args:
        config: of a run.
        there: CPUs and GPUs of the cluster.

    Raises:
        BadInput: where there are too few for the run and its encoders at once.
    """
    for name, of_encoders in demand(config).items():
        asked = config["resources"]
        wanted, has = asked[name.lower()] * asked["workers"] + of_encoders, there.get(name, 0)
        if of_encoders and wanted > has:
            raise BadInput(
                f"a run and the encoders of its index ask for {wanted:g} {name}s and this machine has {has:g}",
                f"index.{name.lower()}",
                "choose less of it, fewer index.encoders, or refresh.mode=sync",
            )


class LiveIndexes:
    """The indexes of one run, to be closed when it ends.

    Args:
        indexes: by the function's name.
    """

    def __init__(self, indexes: Mapping[str, RemoteIndex | ServedBm25]) -> None:
        self.indexes = indexes

    def close(self) -> None:
        """End their actors and delete their files."""
        for index in self.indexes.values():
            index.close()

    def __enter__(self) -> LiveIndexes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def attach_indexes(
    functions: Mapping[str, RetrievalFunction],
    training: RankerTraining,
    config: dict[str, Any],
    name: str,
    note: Callable[[str], None] = lambda line: None,
) -> LiveIndexes:
    """Give each function that asks for one the index that follows the ranker, or that serves BM25 in shards.

    Of the former nothing is started before the first weights are published, when the training begins.

    Args:
        functions: of the run, by name, made from `config`.
        training: of the run's ranker.
        config: of the run, with parts that are in the cache.
        name: of the run: actors are called `negative-index:NAME:FUNCTION#TOKEN`.
        note: told what an index takes, and when one is lost and back.

    Returns:
        What is to be closed at the end of the run, whatever the end.

    Raises:
        BadInput: where the ranker has no vectors, an option makes no sense, or memory or disk are too small.
    """
    found: dict[str, RemoteIndex | ServedBm25] = {}
    for each in bm25_in_shards(config):
        found[each] = _attach_bm25(functions[each], config, _folder(config, name, each), note)
    live = live_functions(config)
    if not live:
        return LiveIndexes(found)
    from cluster.index.client import RemoteIndex
    from cluster.index.corpus import PreparedCorpus
    from cluster.index.service import Service
    from cluster.index.shards import Sharding
    from ranking.embedding import BLOCK
    from ranking.ranges import shard_ranges
    from ranking.rankers.dense import DenseRanker

    if not isinstance(training.ranker, DenseRanker):
        raise BadInput(
            f"{type(training.ranker).__name__} has no vectors that an index could search",
            f"function={live[0]}",
            "choose ranker=bi_encoder",
        )
    for each in live:
        function: Any = functions[each]
        folder = _folder(config, name, each)
        _check_size(training, training.ranker.dimension, function, len(live), folder, note)
        shards = len(shard_ranges(len(training.encoded.documents), function.shards, BLOCK))
        if shards < function.shards:
            note(
                f"{each}: {shards} of {function.shards} shards: the collection is no more blocks of {BLOCK:,} documents"
            )
        service = Service(
            f"negative-index:{name}:{each}", PreparedCorpus(config), folder, function.index,
            replace(encoder_options(config), precision=function.precision), {"run": name, "function": each},
            apart=config["resources"]["workers"] > 1,
            sharding=Sharding(shards, function.refresh.on_lost_shard, function.replicas),
            listed=function.listed(training),
        )  # fmt: skip
        index = RemoteIndex(service, function.refresh, note, partial(getattr, function, "guarded"))
        function.attach_index(index)
        found[each] = index
    return LiveIndexes(found)


def _folder(config: Mapping[str, Any], name: str, function: str) -> Path:
    """Of what a run's index keeps."""
    return machine_folder(config) / "indexes" / re.sub(r"[^\w+.-]", "_", f"{name}-{function}")


def _attach_bm25(
    function: RetrievalFunction, config: dict[str, Any], folder: Path, note: Callable[[str], None]
) -> ServedBm25:
    """Have shard actors serve BM25's lists."""
    from cluster.index.bm25 import ServedBm25
    from cluster.runs.artifacts import Artifacts
    from cluster.runs.parts import Base
    from ranking.bm25_pieces import PiecedBm25
    from sampling.retrieval.bm25 import Bm25Function

    assert isinstance(function, Bm25Function)
    artifacts = Artifacts()
    base = artifacts.part(config, "base")
    assert isinstance(base, Base)
    index = artifacts.sources(config, base).bm25(function.options, function.shards)
    assert isinstance(index, PiecedBm25)
    served = ServedBm25(index, function.shards, folder, note, function.on_lost_shard, function.replicas)
    function.attach_index(served)
    return served


def _check_size(
    training: RankerTraining, dimension: int, function: Dense, indexes: int, folder: Path, note: Callable[[str], None]
) -> None:
    """State what an index will take, and refuse what does not fit."""
    import psutil  # Ray brings it

    from ranking.index import describe_footprint, footprint

    options, refresh = function.index, function.refresh
    options.check(dimension)
    sizes = footprint(len(training.encoded.documents), dimension, options, len(training.encoded.queries))
    note(f"the negative index takes {describe_footprint(sizes)}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"the cache can't be written ({error.strerror})", folder, "choose another with cache=") from None
    # The version that is read, the one before, and those that are built and not yet due; replicas as if all were here.
    held = 2 + max(1, math.ceil(refresh.delay / refresh.every))
    room = {
        "memory": (
            function.replicas * ((held - 1) * sizes["serving"] + sizes["building"]),
            psutil.virtual_memory().available,
        ),
        "disk": (held * sizes["disk"], shutil.disk_usage(folder).free),
    }
    for kind, (wanted, free) in room.items():
        if indexes * wanted > free:
            raise BadInput(
                f"the negative index takes {indexes * wanted / 1e9:.1f} GB of {kind} and {free / 1e9:.1f} GB are free",
                "function",
                "choose index.precision=float16, index.memory=mapped, a factory with PQ, or another cache=",
            )
