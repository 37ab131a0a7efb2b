"""Describes a collection for a study, a mining or a training, and counts what is in it.

>>> from pyrite import Collection
>>> Collection.from_beir("data/scifact").overrides()
['collection=beir', 'collection.path=data/scifact']
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pyrite.parts import Part


class Collection(Part):
    """Documents, queries and judgements, read when they are needed.

    >>> Collection.from_pairs("pairs.csv", query="question").overrides()
    ['collection=pairs', 'collection.path=pairs.csv', 'collection.query=question']

    Use one of the constructors `from_pairs`, `from_beir`, `from_trec`, `from_msmarco`, `from_ir_datasets`, `from_hf`
    and `pydocs`. Their options are those of the reader (`pyrite options collection=NAME`).
    """

    group = "collection"

    @classmethod
    def from_pairs(cls, path: str | os.PathLike[str], **options: Any) -> Collection:
        """Return pairs, triplets or tuples of a query, its positive and its negatives (CSV, JSON lines, Parquet).

        Args:
            path: a file or a folder.
            options: options of the reader, as `query="question"`.
        """
        return Pairs(path=os.fspath(path), **options)

    @classmethod
    def from_beir(cls, path: str | os.PathLike[str], **options: Any) -> Collection:
        """Return a folder in BEIR's format."""
        return Beir(path=os.fspath(path), **options)

    @classmethod
    def from_trec(cls, path: str | os.PathLike[str], **options: Any) -> Collection:
        """Return TREC documents, topics and qrels."""
        return Trec(path=os.fspath(path), **options)

    @classmethod
    def from_msmarco(cls, path: str | os.PathLike[str], **options: Any) -> Collection:
        """Return MS MARCO's files."""
        return MsMarco(path=os.fspath(path), **options)

    @classmethod
    def from_ir_datasets(cls, ids: str | Mapping[str, str], **options: Any) -> Collection:
        """Return a dataset of ir_datasets.

        Args:
            ids: its id, or one id per split.
            options: options of the reader.
        """
        return IrDatasets(ids=ids if isinstance(ids, str) else dict(ids), **options)

    @classmethod
    def from_hf(cls, name: str, **options: Any) -> Collection:
        """Return a dataset of pairs or triplets at the Hugging Face hub.

        Args:
            name: its name, as `sentence-transformers/natural-questions`.
            options: options of `from_pairs`.
        """
        return Pairs(path=f"hf:{name}", **options)

    @classmethod
    def pydocs(cls, **options: Any) -> Collection:
        """Return the documentation of the installed packages."""
        return Pydocs(**options)

    def describe(self) -> str:
        """Read the collection and return what was read, as a command prints it: counts, splits and columns.

        Raises:
            BadInput: if it can't be read.
        """
        from cluster.runs.what_was_read import sentence

        return sentence(*self._read())

    def counts(self) -> dict[str, int]:
        """Read the collection and return its numbers of documents, queries, judgements, and queries per split.

        Raises:
            BadInput: if it can't be read.
        """
        collection, _ = self._read()
        splits = collection.queries["split"].drop_nulls().value_counts(sort=True).rows()
        numbers = {"documents": len(collection.documents), "queries": len(collection.queries)}
        return numbers | {"judgements": len(collection.judgements)} | {str(split): count for split, count in splits}

    def _read(self) -> tuple[Any, dict[str, Any]]:
        from cluster.config.compose import compose
        from cluster.runs.artifacts import Artifacts

        config = compose(self.overrides())
        return Artifacts().collection(config), config


class Pairs(Collection, name="pairs"):
    """See `Collection.from_pairs`."""


class Beir(Collection, name="beir"):
    """See `Collection.from_beir`."""


class Trec(Collection, name="trec"):
    """See `Collection.from_trec`."""


class MsMarco(Collection, name="msmarco"):
    """See `Collection.from_msmarco`."""


class IrDatasets(Collection, name="ir_datasets"):
    """See `Collection.from_ir_datasets`."""


class Pydocs(Collection, name="pydocs"):
    """See `Collection.pydocs`."""
