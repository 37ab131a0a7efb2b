"""Describes a collection for a study, a mining or a training, and counts what is in it.

>>> from pyrite import Collection
>>> Collection.from_beir("data/scifact").overrides()
['collection=beir', 'collection.path=data/scifact']
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyrite.cluster.config.aliases import is_override
from pyrite.parts import Part, path_text, written
from pyrite.ranking.errors import BadInput


class Collection(Part):
    """Documents, queries and judgements, read when they are needed.

    >>> Collection.from_pairs("pairs.csv", query="question").overrides()
    ['collection=pairs', 'collection.path=pairs.csv', 'collection.query=question']

    Use one of the constructors `from_path`, which recognises the format, `from_pairs`, `from_beir`, `from_trec`,
    `from_msmarco`, `from_ir_datasets`, `from_hf` and `pydocs`. Their options are those of the reader
    (`pyrite options collection=NAME`). Verbs also take the path itself, or a `Reader` of your own.
    """

    group = "collection"

    def __init__(self, *arguments: Any, **options: Any) -> None:
        if not self.name:
            raise BadInput("a collection needs its format", remedy="write Collection.from_path(PATH) or the like")
        if "strict" in options:
            remedy = 'give options={"strict": False} to the verb, or strict=False to describe and counts'
            raise BadInput("strict is no option of a collection, but of what reads it", remedy=remedy)
        super().__init__(*arguments, **options)

    @classmethod
    def from_path(cls, path: str | os.PathLike[str], **options: Any) -> Collection:
        """Return the collection in a folder or file, in the format that its files show.

        Args:
            path: a folder of BEIR, MS MARCO or TREC, or a file or folder of pairs.
            options: options of that format's reader.

        Raises:
            BadInput: if there is nothing at the path, or its format is not recognised.
        """
        from pyrite.ranking.collections.format_of import format_of

        name = format_of(_path(path))
        return next(kind for kind in Collection.__subclasses__() if kind.name == name)(path=_path(path), **options)

    @classmethod
    def from_pairs(cls, path: object, **options: Any) -> Collection:
        """Return pairs, triplets or tuples of a query, its positive and its negatives (CSV, JSON lines, Parquet).

        Args:
            path: a file or a folder; or a table: a data frame of pandas or polars, a table of Arrow, a dataset of
                `datasets`, a list or generator of mappings with the same keys, or a mapping of columns. The named index
                of a pandas frame is a column of it. A table is saved in the cache folder under the digest of its
                content, so that `--resume` finds it. On a cluster, all machines must see that folder.
            options: options of the reader, as `query="question"`.

        Raises:
            BadInput: if it is neither a path nor a table.
        """
        return Pairs(path=os.fspath(path) if isinstance(path, str | os.PathLike) else _kept(path), **options)

    @classmethod
    def from_beir(cls, path: str | os.PathLike[str], **options: Any) -> Collection:
        """Return a folder in BEIR's format."""
        return Beir(path=_path(path), **options)

    @classmethod
    def from_trec(cls, path: str | os.PathLike[str], **options: Any) -> Collection:
        """Return TREC documents, topics and qrels."""
        return Trec(path=_path(path), **options)

    @classmethod
    def from_msmarco(cls, path: str | os.PathLike[str], **options: Any) -> Collection:
        """Return MS MARCO's files."""
        return MsMarco(path=_path(path), **options)

    @classmethod
    def from_ir_datasets(cls, ids: str | Mapping[str, str], **options: Any) -> Collection:
        """Return a dataset of ir_datasets.

        Args:
            ids: its id, or one id per split.
            options: options of the reader.
        """
        if not isinstance(ids, str | Mapping):
            remedy = 'give an id, or one id per split as {"train": ID, "test": ID}'
            raise BadInput(f"is a {type(ids).__name__}", "ids", remedy)
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

    def describe(self, strict: bool = True) -> str:
        """Read the collection and return what was read, as a command prints it.

        The first line has counts, splits and columns. The others count what was left out or interpreted.

        Args:
            strict: whether broken input is refused. False skips and counts it.

        Raises:
            BadInput: if it can't be read.
        """
        from pyrite.cluster.runs.what_was_read import notes, sentence

        collection, config = self._read(strict)
        return "\n".join([sentence(collection, config), *notes(collection, self.name)])

    def counts(self, strict: bool = True) -> dict[str, int]:
        """Read the collection and return its numbers of documents, queries, judgements, and queries per split.

        Args:
            strict: see `describe`.

        Raises:
            BadInput: if it can't be read.
        """
        collection, _ = self._read(strict)
        splits = collection.queries["split"].drop_nulls().value_counts(sort=True).rows()
        numbers = {"documents": len(collection.documents), "queries": len(collection.queries)}
        return numbers | {"judgements": len(collection.judgements)} | {str(split): count for split, count in splits}

    def _read(self, strict: bool) -> tuple[Any, dict[str, Any]]:
        from pyrite.cluster.config.compose import compose
        from pyrite.cluster.runs.artifacts import Artifacts

        config = compose([*self.overrides(), f"strict={written(strict)}"])
        with about_tables():
            return Artifacts().collection(config), config


SAVED = re.compile(r".*[/\\]tables[/\\][0-9a-f]{16}[/\\]table\.parquet(?::(\d+))?")
"""The place of an error in a table that `_kept` saved, and its row."""


@contextmanager
def about_tables() -> Iterator[None]:
    """Let errors in a table of the caller's name its row and arguments, not the saved file and options of a command."""
    try:
        yield
    except BadInput as error:
        saved = SAVED.fullmatch(str(error.where))
        if saved is None:
            raise
        where = f"row {saved[1]} of the table" if saved[1] else "the table"
        remedy = re.sub(r"collection\.(\w+)=(\w+)", r'\1="\2"', error.remedy or "")
        if remedy != error.remedy:
            remedy += " of from_pairs"
        strict = 'give strict=False (a verb takes options={"strict": False})'
        raise BadInput(error.what, where, remedy.replace("set strict=false", strict)) from None


def as_collection(data: object) -> Any:
    """Return a collection for a path, a table or a `Reader` of the user's own, and anything else as it is."""
    from pyrite.ranking.collections.reader import Reader

    if isinstance(data, os.PathLike) or (isinstance(data, str) and not is_override(data)):
        return Collection.from_path(data)
    kind = data if isinstance(data, type) else type(data)
    if issubclass(kind, Reader):
        return Collection.of("collection", data)
    of_rows = isinstance(data, list | tuple) and bool(data) and all(isinstance(row, Mapping) for row in data)
    of_columns = isinstance(data, Mapping) or hasattr(kind, "columns") or hasattr(kind, "column_names")
    return Collection.from_pairs(data) if of_rows or of_columns else data


def _path(path: str | os.PathLike[str]) -> str:
    return path_text(path, None, "give a path; a table of pairs is read by from_pairs(TABLE)")


def _kept(table: object) -> str:
    """Return the path of a Parquet file in the cache folder that holds a table.

    Its name is what commands and reports call the collection, so the digest is that of its folder.
    """
    import polars as pl

    from pyrite.ranking.collections.cache import default_cache
    from pyrite.ranking.whole_file import replace_file

    remedy = "give a path, a data frame, or a list of mappings, as [{'query': …, 'positive': …}]"
    frame: Any = list(table) if isinstance(table, Iterator) else table
    rows = frame if isinstance(frame, list | tuple) else []
    if table is None or isinstance(table, str | bytes) or not all(isinstance(row, Mapping) for row in rows):
        raise BadInput(f"a {type(table).__name__} is no table of pairs", "from_pairs", remedy)
    for convert in ("collect", "to_polars"):  # a lazy frame; a dataset
        frame = getattr(frame, convert)() if hasattr(frame, convert) else frame
    if hasattr(frame, "reset_index") and hasattr(frame, "columns"):  # the index of a pandas frame
        named = [name for name in frame.index.names if name is not None and name not in frame.columns]
        frame = frame.reset_index(level=named) if named else frame
    try:
        frame = pl.DataFrame(frame, infer_schema_length=None)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        what = f"a {type(table).__name__} is no table of pairs ({str(error).splitlines()[0]})"
        raise BadInput(what, "from_pairs", remedy) from None
    content = io.BytesIO()
    frame.write_parquet(content)
    cache = os.environ.get("PYRITE_CACHE") or ""
    folder = default_cache() if not cache or "://" in cache else Path(cache).expanduser().absolute()
    path = folder / "tables" / hashlib.sha256(content.getvalue()).hexdigest()[:16] / "table.parquet"
    if not path.exists():
        with replace_file(path) as temporary:
            temporary.write_bytes(content.getvalue())
    return str(path)


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
