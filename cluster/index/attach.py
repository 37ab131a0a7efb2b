"""Attaches index actors to the retrieval functions of a run, and reserves their resources."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyrite.cluster.config.trainer_option import trains_elsewhere
from pyrite.cluster.output.cache import cache_of
from pyrite.cluster.runs.part_options import bm25_in_shards
from pyrite.ranking.errors import BadInput
from pyrite.ranking.lazy import psutil

if TYPE_CHECKING:
    from pyrite.cluster.index.bm25 import ServedBm25
    from pyrite.cluster.index.client import RemoteIndex
    from pyrite.ranking.training import RankerTraining
    from pyrite.sampling.retrieval.dense import Dense
    from pyrite.sampling.retrieval.function import RetrievalFunction

LIVE_MODES = ("async", "lagged")
"""Modes of `pyrite.sampling.retrieval.dense.Refresh` whose index is built while the ranker trains."""


def live_functions(config: Mapping[str, Any]) -> list[str]:
    """Return the names of a configuration's functions whose index is on Ray actors."""
    if trains_elsewhere(config):  # a training of the user builds its index in a process next to it
        return []
    functions = config["function"].items()
    return [name for name, node in functions if (node.get("refresh") or {}).get("mode") in LIVE_MODES]


def served_functions(config: Mapping[str, Any]) -> list[str]:
    """Return the names of all functions that actors serve: `live_functions`, and BM25 in shards."""
    return live_functions(config) + bm25_in_shards(config)


def demand(config: Mapping[str, Any]) -> dict[str, float]:
    """Return the CPUs and GPUs of all encoders of a run."""
    options, indexes = config["index"], len(live_functions(config))
    per_encoder = {"CPU": float(options["cpu"]), "GPU": float(options["gpu"])}
    return {name: share * options["encoders"] * indexes for name, share in per_encoder.items()}


def reserved(config: Mapping[str, Any]) -> list[dict[str, float]]:
    """Return the resource bundles that a trial reserves for its encoders, one per encoder.

    Serving actors reserve no core, since they work while the trainer waits for them. The encoders of a run with several
    workers, which reserve their resources separately, use what is free.
    """
    return [] if config["resources"]["workers"] > 1 else encoder_bundles(config)


def encoder_bundles(config: Mapping[str, Any]) -> list[dict[str, float]]:
    """Return the resource bundle of each encoder of a run."""
    options = config["index"]
    bundle = {"CPU": float(options["cpu"])} | ({"GPU": float(options["gpu"])} if options["gpu"] else {})
    return [dict(bundle) for _ in range(options["encoders"] * len(live_functions(config)))]


def check_room(config: Mapping[str, Any], available: Mapping[str, float]) -> None:
    """Raise if a local Ray, which never grows, has too few resources for a run and its encoders together."""
    for name, for_encoders in demand(config).items():
        resources = config["resources"]
        wanted, has = resources[name.lower()] * resources["workers"] + for_encoders, available.get(name, 0)
        if for_encoders and wanted > has:
            raise BadInput(
                f"a run and the encoders of its index ask for {wanted:g} {name}s and this machine has {has:g}",
                f"index.{name.lower()}",
                "choose less of it, fewer index.encoders, or refresh.mode=sync",
            )


@contextmanager
def attach_indexes(
    functions: Mapping[str, RetrievalFunction],
    training: RankerTraining,
    config: dict[str, Any],
    name: str,
    log: Callable[[str], None] = lambda line: None,
) -> Iterator[dict[str, RemoteIndex | ServedBm25]]:
    """Attach an index on actors to each function that needs one: dense with a live index, or BM25 in shards.

    A dense index starts when the first weights are published, at the start of training. At the end actors stop and
    their files are deleted.

    Args:
        name: name of the run; actors are called `negative-index:NAME:FUNCTION#TOKEN`.
        log: called with one line about an index's size, and when an index is lost or back.

    Yields:
        The indexes by the name of their function.

    Raises:
        BadInput: if the ranker has no vectors, a value is out of range, or memory or disk are too small.
    """
    indexes: dict[str, RemoteIndex | ServedBm25] = {}
    try:
        for function in bm25_in_shards(config):
            indexes[function] = _attach_bm25(functions[function], config, log)
        for function in live_functions(config):
            indexes[function] = _attach_dense(function, functions[function], training, config, name, log)
        yield indexes
    finally:
        for index in indexes.values():
            index.close()


def _attach_dense(
    name: str,
    function: Any,
    training: RankerTraining,
    config: dict[str, Any],
    run: str,
    log: Callable[[str], None],
) -> RemoteIndex:
    from pyrite.cluster.index.client import RemoteIndex
    from pyrite.cluster.index.encoder import PreparedCorpus
    from pyrite.cluster.index.encoder_pool import EncoderOptions
    from pyrite.cluster.index.version_build import IndexSpec
    from pyrite.ranking.embedding import BLOCK
    from pyrite.ranking.ranges import shard_ranges
    from pyrite.ranking.rankers.dense import DenseRanker

    if not isinstance(training.ranker, DenseRanker):
        raise BadInput(
            f"{type(training.ranker).__name__} has no vectors that an index could search",
            f"function={name}",
            "choose ranker=bi_encoder",
        )
    folder = cache_of(config).absolute() / "indexes" / re.sub(r"[^\w+.-]", "_", f"{run}-{name}")
    _check_size(training, training.ranker.dimension, function, len(live_functions(config)), folder, log)
    ranges = shard_ranges(len(training.encoded.documents), function.shards, BLOCK)
    if len(ranges) < function.shards:
        held = f"{len(ranges)} of {function.shards} shards"
        log(f"{name}: {held}: the collection has no more blocks of {BLOCK:,} documents")
    spec = IndexSpec(
        f"negative-index:{run}:{name}",
        PreparedCorpus(config),
        folder,
        function.index,
        EncoderOptions.of(config, function.precision),
        {"run": run, "function": name},
        apart=config["resources"]["workers"] > 1,
        ranges=ranges,
        on_lost=function.refresh.on_lost_shard,
        listed=function.listed(training),
    )
    index = RemoteIndex(spec, function.refresh, log, partial(getattr, function, "guarded"))
    function.attach_index(index)
    return index


def _attach_bm25(function: RetrievalFunction, config: dict[str, Any], log: Callable[[str], None]) -> ServedBm25:
    from pyrite.cluster.index.bm25 import ServedBm25
    from pyrite.cluster.runs.artifacts import Artifacts
    from pyrite.ranking.bm25_pieces import PiecedBm25
    from pyrite.sampling.retrieval.bm25 import BM25

    assert isinstance(function, BM25)
    artifacts = Artifacts()
    index = artifacts.sources(config, artifacts.part(config, "base")).bm25(function.options, function.shards)
    assert isinstance(index, PiecedBm25)
    served = ServedBm25(index, function.shards, log, function.on_lost_shard)
    function.attach_index(served)
    return served


def _check_size(
    training: RankerTraining, dimension: int, function: Dense, indexes: int, folder: Path, log: Callable[[str], None]
) -> None:
    """Log the memory and disk that an index needs, and raise if they are not free."""

    from pyrite.ranking.index import describe_footprint, footprint

    options, refresh = function.index, function.refresh
    options.check(dimension)
    sizes = footprint(len(training.encoded.documents), dimension, options, len(training.encoded.queries))
    log(f"the negative index takes {describe_footprint(sizes)}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"the cache can't be written ({error.strerror})", folder, "choose another with cache=") from None
    # The version that is read, the one before, and those that are built and not due yet.
    versions = 2 + max(1, math.ceil(refresh.delay / refresh.gap))
    room = {
        "memory": ((versions - 1) * sizes["serving"] + sizes["building"], psutil.virtual_memory().available),
        "disk": (versions * sizes["disk"], shutil.disk_usage(folder).free),
    }
    for kind, (wanted, free) in room.items():
        if indexes * wanted > free:
            raise BadInput(
                f"the negative index takes {indexes * wanted / 1e9:.1f} GB of {kind} and {free / 1e9:.1f} GB are free",
                "function",
                "choose index.precision=float16, index.memory=mapped, a factory with PQ, or another cache=",
            )
