"""Builds versions of a negative index in the training's process, in a process next to it, or on Ray's actors."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import ray
import torch
from ray import cloudpickle

from pyrite.cluster.index.client import RemoteIndex
from pyrite.cluster.index.encoder import PreparedCorpus
from pyrite.cluster.index.encoder_pool import EncoderOptions
from pyrite.cluster.index.version_build import IndexSpec
from pyrite.cluster.output.cache import cache_of
from pyrite.ranking.checkpoint import to_bytes
from pyrite.ranking.embedding import BLOCK
from pyrite.ranking.query_lists import QueryLists
from pyrite.ranking.ranges import shard_ranges
from pyrite.ranking.whole_file import replace_file
from pyrite.sampling.retrieval.dense import Refresh
from pyrite.torch.text_encoder import FunctionEncoder, TextEncoder
from pyrite.torch.version_files import FAILED, IndexedTexts, VersionFolder, save_lists


class Builder(Protocol):
    """Builds versions of an index into a folder."""

    def publish(self, step: int) -> None:
        """Have a version built from the model's current weights."""

    def publish_saved(self, step: int) -> None:
        """Have a version built from the weights that a checkpoint holds."""

    def close(self) -> None:
        """Stop what builds."""


@dataclass
class BuildHere(Builder):
    """Builds while the trainer waits."""

    encoder: TextEncoder
    texts: IndexedTexts
    folder: VersionFolder

    def publish(self, step: int) -> None:
        self.folder.build(self.encoder, self.texts, step)

    def publish_saved(self, step: int) -> None:
        raise RuntimeError("a version that is built in the trainer's process is never waited for")

    def close(self) -> None:
        pass


class _FromWeights(Builder):
    """Base of builders elsewhere: weights reach them as files of the index's folder."""

    def __init__(self, encoder: TextEncoder, folder: VersionFolder) -> None:
        self.encoder, self.folder = encoder, folder

    def publish(self, step: int) -> None:
        with replace_file(self.folder.weights_path(step)) as temporary:
            temporary.write_bytes(to_bytes(self.encoder.trained_weights()))
        self.publish_saved(step)


class BuildBeside(_FromWeights):
    """Builds in a process next to the trainer, which ends when the trainer does, however that ends.

    Args:
        device: the device on which the process reads texts.
    """

    def __init__(self, encoder: TextEncoder, texts: IndexedTexts, folder: VersionFolder, device: str) -> None:
        super().__init__(encoder, folder)
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-m", "pyrite.torch.beside"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
        self._closed = False
        self.watch = threading.Thread(target=self._watch, daemon=True)
        self.watch.start()
        start = (encoder, texts, folder, device, torch.get_num_threads(), os.getpid())
        self._send(cloudpickle.dumps(start))

    def publish_saved(self, step: int) -> None:
        self._send(str(step).encode())

    def close(self) -> None:
        assert self.process.stdin is not None
        self._closed = True
        with suppress(OSError):  # it has ended before, and bytes that it did not read are left
            self.process.stdin.close()
        self.process.terminate()
        self.process.wait()

    def _send(self, content: bytes) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(len(content).to_bytes(8, "big") + content)
            self.process.stdin.flush()
        except BrokenPipeError:  # it has ended, which readers of the folder learn
            pass

    def _watch(self) -> None:
        status, path = self.process.wait(), self.folder.path
        if status != 0 and not self._closed and path.exists() and not self.folder.failed:
            self.folder.write(FAILED, {"error": f"its process ended with status {status}"})


@dataclass(frozen=True)
class SentCorpus(PreparedCorpus):
    """Texts and model of the user's, as Ray's object store holds them for the actors of an index."""

    content: Any = None

    def texts(self) -> Any:
        _, texts = ray.get(self.content)
        return texts.documents, texts.queries

    def ranker(self) -> Any:
        return ray.get(self.content)[0]


class BuildOnRay(_FromWeights):
    """Builds and searches on the actors of `pyrite.cluster.index`, from which lists come back.

    Args:
        shards: ranges of documents, each on a separate actor.
        encoders: number, cores and GPUs of the actors that read texts, as the options `index.…` of a run.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        texts: IndexedTexts,
        folder: VersionFolder,
        shards: int,
        encoders: Mapping[str, Any],
    ) -> None:
        super().__init__(encoder, folder)
        self.texts, self._thread = texts, ThreadPoolExecutor(1, "negative-index")
        spec = IndexSpec(
            "negative-index:trainer",
            SentCorpus({}, ray.put((encoder, texts))),
            cache_of({"cache": None}).absolute() / "indexes" / "trainer",
            texts.options,
            EncoderOptions(**encoders),
            {"run": "trainer", "function": "dense"},
            apart=True,
            ranges=shard_ranges(len(texts.documents), shards, BLOCK),
            listed=texts.listed,
        )
        self.index = RemoteIndex(spec, Refresh("lagged", every=1, lag=0))

    def publish_saved(self, step: int) -> None:
        self._thread.submit(self._build, step)

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)
        if ray.is_initialized():  # else its actors have ended
            self.index.close()

    def _build(self, step: int) -> None:
        try:
            weights = self.folder.weights(step)
            if weights is None:
                return
            self.index.publish(weights, step)
            queries = self.texts.listed.queries
            answer = self.index.search(queries, self.texts.listed.depth, step)
            lists = QueryLists(queries, answer.documents, answer.scores)
            building = self.folder.path / f"{step:09d}.part"
            building.mkdir(parents=True, exist_ok=True)
            save_lists(building, lists, self.index.scores(queries, self.texts.judged))
            self.folder.announce(building, step)
        except Exception as error:  # raised when a batch waits for the version
            self.folder.write(FAILED, {"error": str(error) or type(error).__name__})


def builder_of(
    encoder: TextEncoder,
    texts: IndexedTexts,
    folder: VersionFolder,
    mode: str,
    shards: int,
    encoders: Mapping[str, Any],
) -> Builder:
    """Return what builds versions: here for `sync` and a function of the user's, else in another process or on Ray."""
    if mode in ("sync", "never") or isinstance(encoder, FunctionEncoder):
        return BuildHere(encoder, texts, folder)
    if ray.is_initialized() and not encoder.lists_only:
        return BuildOnRay(encoder, texts, folder, shards, encoders)
    gpus = torch.cuda.device_count()
    return BuildBeside(encoder, texts, folder, f"cuda:{gpus - 1}" if gpus else "cpu")
