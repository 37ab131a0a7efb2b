"""Declares the inputs of a negative index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cluster.index.corpus import Corpus
from cluster.index.encoder_options import EncoderOptions
from ranking.embedding import BLOCK
from ranking.index import IndexOptions
from ranking.query_lists import Listed


@dataclass(frozen=True)
class IndexSpec:
    """The inputs of a negative index. It holds names and options only, so it can be sent to any process.

    Args:
        name: name of the serving actor, as Ray's dashboard shows it; unique on the cluster.
        corpus: texts to index, and the ranker that encodes them.
        folder: folder of the index; each index makes a subfolder there.
        options: options of the FAISS index.
        encoders: number and resources of the encoder actors.
        tags: metric tags, `run` and `function`.
        block: texts per call to an encoder.
        apart: take free resources of the cluster, instead of a share of the caller's placement group.
        shards: actors that share the documents; with 1, the serving actor holds all of them.
        on_lost: wait for a shard that died, or answer without its documents.
        listed: queries that are searched once per version; None searches queries as they come.
    """

    name: str
    corpus: Corpus
    folder: Path
    options: IndexOptions
    encoders: EncoderOptions
    tags: Mapping[str, str]
    block: int = BLOCK
    apart: bool = False
    shards: int = 1
    on_lost: Literal["wait", "skip"] = "wait"
    listed: Listed | None = None
