"""Reads collections by their id in the catalogue of ir_datasets, which downloads them or knows their local files.

MacAvaney et al. 2021, *Simplified Data Wrangling with ir_datasets*.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import polars as pl

from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.reader import DOCUMENTS, JUDGEMENTS, QUERIES, Reader, frames, together
from pyrite.ranking.collections.splits import DEV, TEST, TRAIN
from pyrite.ranking.errors import BadInput, refuse

PICKLES = (
    "ir_datasets.indices.lz4_pickle", "ir_datasets.indices.zpickle_docstore",
    "ir_datasets.indices.indexed_tsv_docstore", "ir_datasets.datasets.aol_ia", "ir_datasets.datasets.c4",
)  # fmt: skip
"""Modules of ir_datasets that read pickles."""


@dataclass
class IrDatasets(Reader):
    """Collections of ir_datasets (needs the extra `hub`).

    Without a network, only files that were downloaded before or were put by hand into ir_datasets' folder
    (`$IR_DATASETS_HOME`, by default `~/.ir_datasets`) can be read. The cache identifies a collection by its ids: if
    local files behind an id change, remove its folder from the cache.

    Args:
        ids: an id such as `beir/nfcorpus/test`, whose queries are cross-validated; or an id for each split, as
            {train: beir/nfcorpus/train, dev: beir/nfcorpus/dev, test: beir/nfcorpus/test}. All must have the same
            documents.
    """

    ids: str | Mapping[str, str]

    def __post_init__(self) -> None:
        unknown = [] if isinstance(self.ids, str) else sorted(set(self.ids) - {TRAIN, DEV, TEST})
        if unknown or not self.ids:
            what = f"no split is called {unknown[0]!r}" if unknown else "no id is given"
            raise BadInput(what, "ids", "give one id, or ids for train, dev and test")

    @property
    def name(self) -> str:
        return next(iter(self._splits().values())).replace("/", "-")

    def sources(self) -> dict[str, str]:
        return {"ir_datasets": str(_package().__version__), **{str(split): id for split, id in self._splits().items()}}

    def read_documents(self, faults: Faults) -> Iterator[pl.DataFrame]:
        first, *others = self._splits().values()
        documents = _dataset(first, "docs").docs_handler()
        for other in others:
            refuse(
                _dataset(other, "docs").docs_handler() != documents,
                "its documents are not those of " + first,
                other,
                "take splits of one collection",
            )
        rows = (
            (document.doc_id, document.default_text(), None, None, f"{first} documents", number)
            for number, document in _all(_documents(documents), first)
        )
        return frames(rows, DOCUMENTS)

    def read_queries(self, faults: Faults) -> pl.DataFrame:
        rows = (
            (query.query_id, query.default_text(), None, None, f"{id} queries", number)
            for id in self._splits().values()
            for number, query in _all(_dataset(id, "queries").queries_iter, id)
        )
        return together(frames(rows, QUERIES), QUERIES)

    def read_judgements(self, faults: Faults) -> pl.DataFrame:
        rows = (
            (qrel.query_id, qrel.doc_id, qrel.relevance, split, f"{id} qrels", number)
            for split, id in self._splits().items()
            for number, qrel in _all(_dataset(id, "qrels").qrels_iter, id)
        )
        return together(frames(rows, JUDGEMENTS), JUDGEMENTS)

    def _splits(self) -> dict[str | None, str]:
        return {None: self.ids} if isinstance(self.ids, str) else dict(self.ids.items())


def _documents(documents: Any) -> Callable[[], Iterable[Any]]:
    """Return what iterates over documents, from their files: stores that ir_datasets builds of them are pickles."""
    try:
        source = getattr(documents.docs_store(), "init_iter_fn", documents.docs_iter)
    except (NotImplementedError, AttributeError):
        return cast("Callable[[], Iterable[Any]]", documents.docs_iter)
    plain = inspect.unwrap(getattr(source, "__func__", source))  # a decorator takes a store that was built
    return functools.partial(plain, source.__self__) if inspect.ismethod(source) else plain


class _Unread:
    """Stands for the module `pickle` in modules of ir_datasets while they read."""

    def load(self, *_: Any, **__: Any) -> NoReturn:
        raise OSError("it would read pickles, which could run any code")

    loads = load


@contextmanager
def _no_pickles() -> Iterator[None]:
    modules = [sys.modules[name] for name in PICKLES if name in sys.modules]
    before = [module.pickle for module in modules]
    try:
        for module in modules:
            module.pickle = _Unread()  # type: ignore[attr-defined]
        yield
    finally:
        for module, kept in zip(modules, before, strict=True):
            module.pickle = kept  # type: ignore[attr-defined]


def _package() -> Any:
    try:
        package = importlib.import_module("ir_datasets")
    except ImportError:
        remedy = "install the extra: pip install 'pyrite-ir[hub]'"
        raise BadInput("the package ir_datasets is not installed", remedy=remedy) from None
    package.log.easy().logger().setLevel(logging.ERROR)  # errors are reported once, by us
    return package


def _dataset(id: str, needed: str) -> Any:
    try:
        dataset = _package().load(id)
    except KeyError:
        raise BadInput("ir_datasets knows no such id", id, "see https://ir-datasets.com for all") from None
    refuse(not dataset.has(needed), f"it has no {needed}", id, "take one of its parts, such as …/train or …/test")
    return dataset


def _all(iterate: Any, id: str) -> Iterator[tuple[int, Any]]:
    """Yield numbered entries; an error of ir_datasets becomes one line."""
    try:
        with _no_pickles():
            entries: Iterable[Any] = iterate()
            yield from enumerate(entries, 1)
    except (OSError, EOFError, RuntimeError, ValueError, zlib.error) as error:
        remedy = "connect to the network once, or put its files where ir_datasets looks for them"
        what = f"ir_datasets cannot read or download it ({type(error).__name__}: {str(error)[:200]})"
        raise BadInput(what, id, remedy) from error
