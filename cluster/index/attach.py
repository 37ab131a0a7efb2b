"""Attaches index actors to the retrieval functions of a run."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyrite.cluster.index.bm25 import ServedBm25
from pyrite.cluster.index.client import RemoteIndex
from pyrite.cluster.index.demand import live_functions
from pyrite.cluster.index.encoder import PreparedCorpus
from pyrite.cluster.index.encoder_pool import EncoderOptions
from pyrite.cluster.index.version_build import IndexSpec
from pyrite.cluster.output.cache import cache_of
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.part_options import bm25_in_shards
from pyrite.ranking.bm25_pieces import PiecedBm25
from pyrite.ranking.embedding import BLOCK
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.index import describe_footprint, footprint
from pyrite.ranking.lazy import psutil
from pyrite.ranking.ranges import shard_ranges
from pyrite.ranking.rankers.dense import DenseRanker
from pyrite.sampling.retrieval.bm25 import BM25

if TYPE_CHECKING:
    from pyrite.ranking.training import RankerTraining
    from pyrite.sampling.retrieval.dense import Dense
    from pyrite.sampling.retrieval.function import RetrievalFunction


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
        refuse(
            indexes * wanted > free,
            f"the negative index takes {indexes * wanted / 1e9:.1f} GB of {kind} and {free / 1e9:.1f} GB are free",
            "function",
            "choose index.precision=float16, index.memory=mapped, a factory with PQ, or another cache=",
        )
