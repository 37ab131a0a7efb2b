"""Builds the versions of a negative index with a model of the user's, as files that loader workers map."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.checkpoint import from_bytes
from pyrite.ranking.embedding import BLOCK, block_starts, embed, embed_sparse
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.index import IndexOptions
from pyrite.ranking.index_versions import (
    DOCUMENTS,
    QUERIES,
    IndexVersion,
    finish_version,
    open_version,
    start_version,
    write_block,
)
from pyrite.ranking.query_lists import Listed, QueryLists
from pyrite.ranking.ranges import Found, merge
from pyrite.ranking.sparse_products import SparseIndex
from pyrite.ranking.texts import Texts
from pyrite.ranking.whole_file import replace_file
from pyrite.torch.text_encoder import TextEncoder, as_strings, max_sim, reading

NEWEST, FAILED, AHEAD, PAUSE_S = "newest.json", "failed.json", "ahead.json", 0.02
JUDGED = "judged_scores.npy"
TOKEN_BLOCK = 256
"""Documents whose token vectors are held at once."""


@dataclass(frozen=True)
class IndexedTexts:
    """The input of each version of an index.

    Args:
        documents, queries: texts as `pyrite.torch.text_encoder.as_bytes`.
        listed: the queries whose lists are made, and their length.
        judged: int32 [queries listed, m], their relevant documents, −1 for none.
        options: how vectors are stored and searched.
    """

    documents: Texts
    queries: Texts
    listed: Listed
    judged: NDArray[np.int32]
    options: IndexOptions


@dataclass(frozen=True)
class ListedVersion:
    """A version of which only lists are kept: scores are known of a query's list and of its relevant documents."""

    step: int
    lists: QueryLists
    judged: NDArray[np.int32]
    judged_scores: NDArray[np.float32]

    def search(
        self, queries: NDArray[np.integer], depth: int, vectors: object = None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the first documents of each query's list; see `pyrite.ranking.index_versions.IndexVersion.search`."""
        listed = self.lists.of(queries, min(depth, self.lists.documents.shape[1]))
        if listed is None:
            raise BadInput("a query has no list, since it is no training query", "negatives", "leave it out")
        return listed

    def scores(
        self, queries: NDArray[np.integer], documents: NDArray[np.integer], vectors: object = None
    ) -> NDArray[np.float32]:
        """Return scores [q, m]; −inf if the document is −1, nan if it is in no list."""
        places = np.searchsorted(self.lists.queries, queries)
        known = np.concatenate([self.judged[places], np.asarray(self.lists.documents[places])], axis=1)
        values = np.concatenate([self.judged_scores[places], np.asarray(self.lists.scores[places])], axis=1)
        same = (known[:, None, :] == np.asarray(documents)[:, :, None]) & (known[:, None, :] >= 0)
        scores = np.take_along_axis(values, same.argmax(2).reshape(len(values), -1), 1).astype(np.float32)
        scores = np.where(same.any(2), scores, np.nan)
        return np.where(np.asarray(documents) < 0, -np.inf, scores).astype(np.float32)


Version = IndexVersion | ListedVersion


class VersionFolder:
    """The folder of the versions of a training, which all of its processes see: each is complete or absent.

    Args:
        newest_only: weights are left out if newer ones have been sent before their version is begun.
    """

    def __init__(self, path: Path, newest_only: bool = False) -> None:
        self.path, self.newest_only = path, newest_only
        self._opened: dict[int, Version] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": {}}

    def version_path(self, step: int) -> Path:
        """Return the folder of a version."""
        return self.path / f"{step:09d}"

    def weights_path(self, step: int) -> Path:
        """Return the file of the weights that a version is built from."""
        return self.path / "weights" / f"{step:09d}.safetensors"

    def weights(self, step: int) -> dict[str, Any] | None:
        """Return the weights that a version is built from; None, and they are deleted, if they are left out."""
        path = self.weights_path(step)
        if self.newest_only and any(newer.name > path.name for newer in path.parent.glob("*.safetensors")):
            path.unlink(missing_ok=True)
            return None
        weights: dict[str, Any] = from_bytes(path.read_bytes(), str(path))
        return weights

    def build(self, encoder: TextEncoder, texts: IndexedTexts, step: int) -> None:
        """Build a version in this process, and announce it."""
        building = self.path / f"{step:09d}.part"
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir(parents=True)
        with reading(encoder):
            finished = (_build_lists if encoder.lists_only else _build_vectors)(encoder, texts, building, step)
        self.announce(finished, step)
        shutil.rmtree(building, ignore_errors=True)

    def announce(self, finished: Path, step: int) -> None:
        """Give a finished version its name, and record it as the newest."""
        shutil.rmtree(self.version_path(step), ignore_errors=True)
        finished.rename(self.version_path(step))
        self.write(NEWEST, {"step": step})

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a small file whole."""
        with replace_file(self.path / name) as temporary:
            temporary.write_text(json.dumps(content))

    def wait(self, step: int | None) -> tuple[int, float]:
        """Wait until a version exists; None for any. Return its step, and how many seconds that took.

        Raises:
            RuntimeError: if its build failed; of the newest version, if any build failed.
        """
        started = time.monotonic()
        while True:
            if step is None:
                self._check_built()  # the newest version would stay so for the rest of the training
            newest = step if step is not None else self.newest()
            if newest is not None and self.version_path(newest).exists():
                return newest, time.monotonic() - started
            self._check_built()
            time.sleep(PAUSE_S)

    @property
    def failed(self) -> bool:
        """Whether a build has failed."""
        return (self.path / FAILED).exists()

    def _check_built(self) -> None:
        if self.failed:
            error = json.loads((self.path / FAILED).read_text())["error"]
            raise RuntimeError(f"the negative index could not be built: {error}")

    def open(self, step: int) -> Version:
        """Return a version, mapped; the one before stays open, since batches of both may be asked for."""
        if step not in self._opened:
            version = _open(self.version_path(step), step)
            self._opened = dict([*self._opened.items()][-1:]) | {step: version}
        return self._opened[step]

    def drop_before(self, step: int) -> None:
        """Delete the versions and weights that precede one. A process that has one open keeps it."""
        for path in [*self.path.glob("0*"), *self.path.glob("weights/*")]:
            if path.name[:9].isdigit() and int(path.name[:9]) < step:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

    def save(self, to: Path, oldest: int, ahead: Mapping[str, int]) -> None:
        """Keep what a resumed training needs in its checkpoint: versions from `oldest` on, or their weights.

        Args:
            ahead: the versions of batches that are fetched again, by rank and number.
        """
        VersionFolder(to).write(AHEAD, ahead)
        weights = {int(path.name[:9]): path for path in self.path.glob("weights/*.safetensors")}
        for step, path in (weights | self._versions()).items():
            if step >= oldest:
                _link(path, to / path.relative_to(self.path))

    def restore(self, saved: Path) -> list[int]:
        """Bring the versions of a checkpoint back. Return the steps of those that are built again, by their weights."""
        versions = sorted(path for path in saved.glob("0*") if path.name.isdigit())
        weights = sorted(saved.glob("weights/*.safetensors"))
        refuse(
            not versions and not weights,
            "holds no versions of the negative index",
            saved,
            "resume from a checkpoint that was saved with the negatives attached",
        )
        for path in [*versions, *weights]:
            _link(path, self.path / path.relative_to(saved))
        if versions:
            self.write(NEWEST, {"step": int(versions[-1].name)})
        if (saved / AHEAD).is_file():
            _link(saved / AHEAD, self.path / AHEAD)
        return [int(path.name[:9]) for path in weights]

    def delete(self) -> None:
        """Delete all versions and weights."""
        self._opened.clear()
        shutil.rmtree(self.path, ignore_errors=True)

    def newest(self) -> int | None:
        """Return the step of the newest version; None if there is none."""
        return self._read(NEWEST).get("step")

    def before_newest(self) -> int:
        """Return the step of the version before the newest; of the newest if it is the only one, 0 if there is none."""
        newest = self.newest() or 0
        return max((step for step in self._versions() if step < newest), default=newest)

    def fetched(self, rank: str, batch: int) -> int | None:
        """Return the version of a batch that had been fetched before the training was resumed; None of another one."""
        return self._read(AHEAD).get(f"{rank}-{batch}")

    def _versions(self) -> dict[int, Path]:
        return {int(path.name): path for path in self.path.glob("0*") if path.name.isdigit()}

    def _read(self, name: str) -> dict[str, int]:
        path = self.path / name
        return json.loads(path.read_text()) if path.exists() else {}


def _link(path: Path, to: Path) -> None:
    """Link a file or a folder's files, which never change; copy them to another disk."""

    def link(source: str, target: str) -> str:
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)
        return target

    to.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.rmtree(to, ignore_errors=True)  # of a training that reached this step before
        shutil.copytree(path, to, copy_function=link)
    else:
        to.unlink(missing_ok=True)
        link(str(path), str(to))


def _build_vectors(encoder: TextEncoder, texts: IndexedTexts, building: Path, step: int) -> Path:
    documents, queries, listed = texts.documents, texts.queries, texts.listed.queries
    part = start_version(building / "version", len(documents), len(queries), encoder.dimension, texts.options)
    for start in block_starts(len(documents)):
        rows = np.arange(start, min(start + BLOCK, len(documents)))
        write_block(part / DOCUMENTS, start, embed(encoder, documents, rows))
    vectors = np.zeros((len(queries), encoder.dimension), np.float32)
    vectors[listed] = embed(encoder, queries, listed, queries=True)
    write_block(part / QUERIES, 0, vectors)
    finished = building / "version"
    finish_version(part, finished, step, step, "", texts.options)
    opened = open_version(finished)
    assert opened is not None  # it has just been finished
    QueryLists.search(opened.index, opened.queries, texts.listed).save(finished)
    return finished


def _build_lists(encoder: TextEncoder, texts: IndexedTexts, building: Path, step: int) -> Path:
    lists, judged = (_sparse_lists if encoder.sparse else _token_lists)(encoder, texts)
    save_lists(building, lists, judged)
    return building


def save_lists(building: Path, lists: QueryLists, judged: NDArray[np.float32]) -> None:
    """Write a version that is a `ListedVersion`, without its relevant documents."""
    lists.save(building)
    np.save(building / JUDGED, judged, allow_pickle=False)


def _sparse_lists(encoder: TextEncoder, texts: IndexedTexts) -> tuple[QueryLists, NDArray[np.float32]]:
    index = SparseIndex(embed_sparse(encoder, texts.documents, np.arange(len(texts.documents))))
    queries = embed_sparse(encoder, texts.queries, texts.listed.queries, queries=True)
    return QueryLists(texts.listed.queries, *index.search(queries, texts.listed.depth)), index.scores(
        queries, texts.judged
    )


def _token_lists(encoder: TextEncoder, texts: IndexedTexts) -> tuple[QueryLists, NDArray[np.float32]]:
    listed, depth = texts.listed.queries, texts.listed.depth
    queries = encoder.encode(as_strings(texts.queries.take(listed)), "query")
    judged = np.full(texts.judged.shape, -np.inf, np.float32)
    found: list[Found] = []
    ranges: list[range] = []
    for rows in _blocks(len(texts.documents)):
        scores = max_sim(queries, encoder.encode(as_strings(texts.documents.take(np.asarray(rows))), "document"))
        inside = (texts.judged >= rows.start) & (texts.judged < rows.stop)
        of_judged = np.take_along_axis(scores, np.where(inside, texts.judged - rows.start, 0), 1)
        judged = np.where(inside, of_judged, judged)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :depth].astype(np.int32)
        found.append((order, np.take_along_axis(scores, order, 1).astype(np.float64)))
        ranges.append(rows)
        if len(found) > 8:  # bounds what is held
            best = merge(found, ranges, depth)
            found, ranges = [best], [range(len(texts.documents))]
    documents, products = merge(found, ranges, depth)
    return QueryLists(listed, documents, products.astype(np.float32)), judged


def _blocks(rows: int) -> Iterator[range]:
    yield from (range(start, min(start + TOKEN_BLOCK, rows)) for start in range(0, rows, TOKEN_BLOCK))


def _open(path: Path, step: int) -> Version:
    if (path / JUDGED).exists():
        lists = QueryLists.opened(path)
        assert lists is not None  # the folder is complete or absent
        judged = np.load(path.parent / "judged.npy", mmap_mode="r", allow_pickle=False)
        return ListedVersion(step, lists, judged, np.load(path / JUDGED, allow_pickle=False))
    version = open_version(path)
    if version is None:
        raise RuntimeError(f"{path} can't be opened")
    return version


def mapped(options: IndexOptions) -> IndexOptions:
    """Return the options of an index whose vectors stay on disk, so that several processes share them."""
    return replace(options, memory="mapped")
