"""Describes a collection for a study, a mining or a training, and counts what is in it.

>>> from pyrite import Collection
>>> Collection.from_beir("data/scifact").overrides()
['collection=beir', 'collection.path=data/scifact']
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from pyrite.cluster.config.aliases import is_override
from pyrite.cluster.config.build import locate
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.config.parts import PARTS
from pyrite.cluster.config.relocated import new_path
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.what_was_read import notes, sentence
from pyrite.parts import chosen, class_of, part_of, path_text, written
from pyrite.public import Public
from pyrite.ranking.collections.cache import cache_folder
from pyrite.ranking.collections.format_of import format_of
from pyrite.ranking.collections.reader import Reader
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.hub import HUB, URI
from pyrite.ranking.part import described
from pyrite.ranking.similar import similar_path
from pyrite.ranking.whole_file import as_parquet, replace_file
from pyrite.remedies import in_python


class Collection(Public):
    """Documents, queries and judgements, read when they are needed.

    >>> Collection.from_pairs("pairs.csv", query="question").overrides()
    ['collection=pairs', 'collection.path=pairs.csv', 'collection.query=question']

    Use one of the constructors `from_path`, which recognises the format, `from_pairs`, `from_beir`, `from_trec`,
    `from_msmarco`, `from_ir_datasets`, `from_hf`, `from_mix` and `pydocs`. Their options are those of the reader,
    `pyrite.Pairs` and others. Verbs also take the path itself, or a `Reader` of your own.

    Args:
        reader: what reads it: `pyrite.Pairs(PATH)`, or an object of a class of your own.
    """

    def __init__(self, reader: Reader | type[Reader]) -> None:
        self.reader: Reader = part_of("collection", reader)

    def overrides(self) -> list[str]:
        """Return the overrides that choose the collection."""
        return chosen("collection", self.reader)

    def __repr__(self) -> str:
        return f"Collection({described(self.reader)})"

    @classmethod
    def from_path(cls, path: str | os.PathLike[str], **options: Any) -> Collection:
        """Return the collection in a folder or file, in the format that its files show.

        Args:
            path: a folder of BEIR, MS MARCO or TREC, or a file or folder of pairs.
            options: options of that format's reader.

        Raises:
            BadInput: if there is nothing at the path, or its format is not recognised.
        """
        text = _path(path)
        if not (URI.fullmatch(text) or text.startswith(HUB) or os.path.exists(os.path.expanduser(new_path(text)))):
            raise BadInput("no such file or folder", text, similar_path(text))
        return _read_by(format_of(text), path=text, **options)

    @classmethod
    def from_pairs(cls, path: object, **options: Any) -> Collection:
        """Return pairs, triplets or tuples of a query, its positive and its negatives (CSV, JSON lines, Parquet).

        Args:
            path: a file, a folder or a URI; or a table: a data frame of pandas or polars, a table of Arrow, a dataset
                of `datasets`, a list or generator of mappings with the same keys, or a mapping of columns; or a mapping
                of tables by split, as `load_dataset` returns it. The named index of a pandas frame is a column of it. A
                table is saved in the cache folder under the digest of its content, so that `--resume` finds it. On a
                cluster, all machines must see that folder.
            options: options of the reader, as `query="question"`.

        Raises:
            BadInput: if it is neither a path nor a table.
        """
        return _read_by("pairs", path=_place_of(path), **options)

    @classmethod
    def from_beir(cls, path: str | os.PathLike[str], **options: Any) -> Collection:
        """Return a folder in BEIR's format."""
        return _read_by("beir", path=_path(path), **options)

    @classmethod
    def from_trec(cls, path: str | os.PathLike[str], **options: Any) -> Collection:
        """Return TREC documents, topics and qrels."""
        return _read_by("trec", path=_path(path), **options)

    @classmethod
    def from_msmarco(cls, path: str | os.PathLike[str], **options: Any) -> Collection:
        """Return MS MARCO's files."""
        return _read_by("msmarco", path=_path(path), **options)

    @classmethod
    def from_ir_datasets(cls, ids: str | Mapping[str, str], **options: Any) -> Collection:
        """Return a dataset of ir_datasets.

        Args:
            ids: its id, or one id per split.
            options: options of the reader.
        """
        remedy = 'give an id, or one id per split as {"train": ID, "test": ID}'
        refuse(not isinstance(ids, str | Mapping), f"is a {type(ids).__name__}", "ids", remedy)
        return _read_by("ir_datasets", ids=ids if isinstance(ids, str) else dict(ids), **options)

    @classmethod
    def from_hf(cls, name: str, **options: Any) -> Collection:
        """Return a dataset of pairs or triplets at the Hugging Face hub.

        Args:
            name: its name, as `sentence-transformers/natural-questions`.
            options: options of `from_pairs`.
        """
        return _read_by("pairs", path=f"hf:{name}", **options)

    @classmethod
    def from_mix(cls, mix: Iterable[object], **options: Any) -> Collection:
        """Return several collections in one training, drawn in proportion to their shares (`pyrite.Mix`).

        Args:
            mix: the collections: paths or tables, or entries with a share, a prompt or a name, as
                `{"path": "nq", "share": 2, "prompt": "query: "}`. A `path` may be a table too.
            options: options of the reader, as `seed=1`.
        """
        return _read_by("mix", mix=[_entry(each) for each in mix], **options)

    @classmethod
    def pydocs(cls, **options: Any) -> Collection:
        """Return the documentation of Python's standard library and of a list of packages."""
        return _read_by("pydocs", **options)

    def describe(self, strict: bool = True) -> str:
        """Read the collection and return what was read, as a command prints it.

        The first line has counts, splits and columns. The others count what was left out or interpreted.

        Args:
            strict: whether broken input is refused. False skips and counts it.

        Raises:
            BadInput: if it can't be read.
        """
        collection, config = self._read(strict)
        read = {key: value for key, value in config.items() if key != "origin"}  # what a run ranks is not of its data
        return "\n".join([sentence(collection, read), *notes(collection, config[CHOICES]["collection"])])

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

        config = compose([*self.overrides(), f"strict={written(strict)}"])
        with about_tables("collection"):
            return Artifacts().collection(config), config


SAVED = re.compile(r".*[/\\]tables[/\\][0-9a-f]{16}[/\\]table([/\\][^/\\]+)?\.parquet(?::(?P<row>\d+))?")
"""The place of an error in a table that `_kept` saved, and its row."""


@contextmanager
def about_tables(form: str | None = None) -> Iterator[None]:
    """Let errors in a table of the caller's name its row and arguments, not the saved file and options of a command.

    Args:
        form: the form of remedies in other errors (`pyrite.remedies.rendered`). None leaves them as they are.
    """
    try:
        yield
    except BadInput as error:
        saved = SAVED.fullmatch(str(error.where))
        if saved is None:
            raise in_python(error, form) if form else error from None
        where = f"row {saved['row']} of the table" if saved["row"] else "the table"
        remedy = re.sub(r"collection\.(\w+)=(\w+)", r'\1="\2"', error.remedy or "")
        if remedy != error.remedy:
            remedy += " of from_pairs"
        strict = 'give strict=False (a verb takes options={"strict": False})'
        raise BadInput(error.what, where, remedy.replace("set strict=false", strict)) from None


def as_collection(data: object) -> Any:
    """Return a collection for a path, a table or a `Reader` of the user's own, and anything else as it is."""
    if isinstance(data, os.PathLike) or (isinstance(data, str) and not is_override(data)):
        return Collection.from_path(data)
    kind = class_of(data)
    if issubclass(kind, Reader):
        return Collection(data)  # type: ignore[arg-type]
    of_rows = isinstance(data, list | tuple) and isinstance(next(iter(data), None), Mapping)
    is_table = of_rows or isinstance(data, Mapping) or not {"columns", "column_names"}.isdisjoint(dir(kind))
    return Collection.from_pairs(data) if is_table else data


def _read_by(name: str, **options: Any) -> Collection:
    """Return a collection of one of Pyrite's readers."""
    remedy = 'give options={"strict": False} to the verb, or strict=False to describe and counts'
    refuse("strict" in options, "strict is no option of a collection, but of what reads it", remedy=remedy)
    kind: Any = locate(PARTS["collection"][name])
    return Collection(kind(**options))


def _path(path: str | os.PathLike[str]) -> str:
    return path_text(path, None, "give a path; a table of pairs is read by from_pairs(TABLE)")


def _entry(entry: object) -> dict[str, Any]:
    """Return an entry of a mixture whose path is a text."""
    fields: dict[str, Any] = dict(entry) if isinstance(entry, Mapping) and "path" in entry else {"path": entry}
    return fields | {"path": _place_of(fields["path"])}


def _place_of(path: object) -> str:
    """Return a path as a text; of a table, that of the file or folder that holds it."""
    return os.fspath(path) if isinstance(path, str | os.PathLike) else str(_kept(path))


def _kept(table: object) -> Path:
    """Return a Parquet file in the cache folder that holds a table, or a folder with one per split.

    Its name is what commands and reports call the collection, so the digest is that of its folder.
    """
    if isinstance(table, Mapping) and table and all(map(_is_table, table.values())):
        splits = {f"{name}.parquet": _parquet(rows) for name, rows in table.items()}
        return _saved(splits, chain.from_iterable((name.encode(), rows) for name, rows in splits.items()), "table")
    content = _parquet(table)
    return _saved({"table.parquet": content}, [content]) / "table.parquet"


def _saved(contents: Mapping[str, bytes], digested: Iterable[bytes], inner: str = "") -> Path:
    """Write files into a folder that is called by a digest, or a folder in it, unless they are there."""
    state = hashlib.sha256()
    for part in digested:
        state.update(part)
    folder = cache_folder(os.environ.get("PYRITE_CACHE")).absolute() / "tables" / state.hexdigest()[:16] / inner
    for name, content in contents.items():
        if not (folder / name).exists():
            with replace_file(folder / name) as temporary:
                temporary.write_bytes(content)
    return folder


def _is_table(value: object) -> bool:
    """Return whether a value of a mapping is a table of a split, not a column."""
    rows = value if isinstance(value, list) else []
    of_rows = bool(rows) and all(isinstance(row, Mapping) and len(row) > 1 for row in rows)
    return of_rows or not {"columns", "column_names"}.isdisjoint(dir(type(value)))


TABLES = "give a path, a data frame, or a list of mappings, as [{'query': …, 'positive': …}]"
"""What is read as a table of pairs."""


def _parquet(table: object) -> bytes:
    """Return a table as Parquet."""
    rows = _rows_of(table)
    classes = _classes(rows)
    metadata = {"huggingface": json.dumps(classes)} if classes else None
    return as_parquet(_frame_of(rows, type(table).__name__), metadata=metadata)


def _rows_of(table: object) -> Any:
    """Return a frame, a data set or a list of rows; refuse a list of anything else."""
    frame: Any = list(table) if isinstance(table, Iterator) else table
    rows = frame if isinstance(frame, list | tuple) else []
    is_column = hasattr(table, "to_frame")  # of pandas or polars
    if is_column or isinstance(table, str | bytes | None) or not all(isinstance(row, Mapping) for row in rows):
        raise BadInput(f"a {type(table).__name__} is no table of pairs", "from_pairs", TABLES)
    if (getattr(frame, "format", None) or {}).get("type") == "custom":
        return [dict(row) for row in frame]  # a data set of `datasets` with a transform, which reading applies
    return frame


def _frame_of(rows: Any, kind: str) -> pl.DataFrame:
    """Return the rows of a table of this kind as a frame, with the named index of a pandas frame."""
    frame = rows
    for convert in ("collect", "to_polars"):  # a lazy frame; a data set
        frame = getattr(frame, convert)() if hasattr(frame, convert) else frame
    if hasattr(frame, "reset_index"):  # the named index of a pandas frame
        named = [name for name in frame.index.names if name not in (None, *frame.columns)]
        frame = frame.reset_index(level=named) if named else frame
    try:
        return pl.DataFrame(frame, infer_schema_length=None)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        what = f"a {kind} is no table of pairs ({str(error).splitlines()[0]})"
        raise BadInput(what, "from_pairs", TABLES) from None


def _classes(frame: Any) -> dict[str, Any]:
    """Return the names of the classes of a data set's columns, in the form in which `datasets` writes them."""
    features = getattr(frame, "features", None)
    found = features.items() if isinstance(features, Mapping) else ()
    named = {name: {"names": feature.names} for name, feature in found if hasattr(feature, "names")}
    return {"info": {"features": named}} if named else {}
