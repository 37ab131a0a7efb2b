"""Declares what a negative index is made of, and the weights that it is built from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import ray

from cluster.index.corpus import Corpus
from cluster.index.encoder_options import EncoderOptions
from cluster.index.shards import WHOLE, Sharding
from ranking.embedding import BLOCK
from ranking.index import IndexOptions
from ranking.query_lists import Listed


@dataclass(frozen=True)
class Published:
    """Weights that an index was, or is to be, built from.

    Args:
        step: of the trainer.
        version: number of the build; None where the actor counts.
        weights: a safetensors file as uint8, in Ray's object store.
    """

    step: int
    version: int | None
    weights: ray.ObjectRef


@dataclass(frozen=True)
class Service:
    """What a negative index is made of, wherever its actors run.

    Args:
        name: of the actor, as the dashboard shows it; unique on the cluster.
        corpus: what is indexed.
        folder: of all that it keeps; a folder of its own is made there.
        options: of the FAISS index.
        encoders: how many actors encode, and with what.
        tags: of the metrics, `run` and `function`.
        block: texts that an encoder takes at once.
        apart: the actors take what is free on the cluster; else their share of the placement group that whoever
            makes them runs in, if there is one.
        sharding: actors that the documents are shared out to.
        listed: queries that are searched when a version is built.
    """

    name: str
    corpus: Corpus
    folder: Path
    options: IndexOptions
    encoders: EncoderOptions
    tags: Mapping[str, str]
    block: int = BLOCK
    apart: bool = False
    sharding: Sharding = WHOLE
    listed: Listed | None = None
