"""Mixes several collections into one, from which a ranker learns in proportion to their shares."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl
from pydantic import TypeAdapter, ValidationError

from pyrite.ranking.bounds import annotations_of
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.format_of import reader_of
from pyrite.ranking.collections.names import repeated
from pyrite.ranking.collections.reader import DOCUMENTS, GIVEN, JUDGEMENTS, PROMPTS, QUERIES, Reader, counted, together
from pyrite.ranking.collections.splits import DEV, NO_TEST, NO_TRAINING, TEST, TRAIN, usable, with_test
from pyrite.ranking.errors import BadInput, refuse

WHERE = "collection.mix"
ENTRY = ("path", "share", "prompt", "name")
EXAMPLE = "name them, as [A,B] or [{path:A,share:2},{path:B}]"
TESTED = 0.1
"""The share of the queries that becomes the test of a collection without splits, as of pairs."""
OF_DEV = {frozenset({TRAIN, DEV}): {DEV: TEST}, frozenset({DEV, TEST}): {DEV: TRAIN}}
"""What queries of dev become if another split is lacking, as in `pyrite.ranking.collections.splits.usable`."""


@contextmanager
def _of_entries() -> Iterator[None]:
    """Let remedies that name an option of a collection name the key of its entry."""
    try:
        yield
    except BadInput as error:
        joined = re.sub(r"(\bcollection\.\w+=\S+) (?=collection\.)", r"\1,", error.remedy or "")
        remedy = re.sub(r"\bcollection\.(?!mix)(\w+)=", r"\1:", joined)
        changed = remedy != (error.remedy or "")
        raise BadInput(error.what, error.where, remedy + " in its entry of collection.mix" * changed) from None


@dataclass(frozen=True)
class Member:
    """A collection of a mixture.

    Args:
        name: its name, with which its ids begin.
        reader: its reader.
        share: its share of the training queries, relative to the others'; None takes all of its queries.
        prompt: the text before its queries. None takes that of its files or of the ranker.
    """

    name: str
    reader: Reader
    share: float | None
    prompt: str | None = None

    def prompts(self, faults: Faults) -> pl.DataFrame:
        """Return the prompts of its queries: the mixture's for all, or those of its files."""
        if self.prompt is None:
            return self.named(self.reader.read_prompts(faults), "query")
        rows = self.reader.read_queries(faults).select(query="id", prompt=pl.lit(self.prompt))
        return self.named(rows, "query")

    def named(self, rows: pl.DataFrame, *columns: str) -> pl.DataFrame:
        """Return rows whose ids begin with the collection's name."""
        return rows.with_columns((pl.lit(f"{self.name}/") + pl.col(column)).alias(column) for column in columns)


@dataclass(frozen=True)
class Drawn:
    """The training queries that were drawn.

    Args:
        judgements: those of the drawn queries, and of all queries that do not train.
        left_out: the queries (query) that were not drawn.
        facts: how many of each collection's were drawn, and which were those of another split.
    """

    judgements: pl.DataFrame
    left_out: pl.DataFrame
    facts: dict[str, str]


@dataclass
class Mix(Reader):
    """Several collections in one training: their documents, queries and judgements together.

    Ids begin with the name of their collection. Each collection keeps its test queries and is measured on them; of a
    collection without splits a tenth of the queries is the test. Training queries are drawn in proportion to the
    shares: as many as the collection with the fewest for its share allows. A collection may have a separate prompt.
    One that lacks a split gets it as if it were read alone (`pyrite.ranking.collections.splits.usable`); a dev split
    is a share of the training queries that were drawn.

    Args:
        mix: the collections: paths, or entries of path, share, prompt and name, as
            `[{path:nq,share:2,prompt:"query: "},{path:quora}]`. Without any share, all training queries are taken; an
            entry without one among others has share 1. Further keys of an entry are options of its format, as
            `{path:ratings.csv,label:stars,relevant_from:4}`. Options of all formats are those of the mixture.
        seed: draws the training queries.
    """

    mix: Sequence[Any] | None = None
    seed: int = 0
    version: ClassVar[int] = 3

    @property
    def name(self) -> str:
        return "+".join(part.name for part in self._parts)

    @_of_entries()
    def sources(self) -> dict[str, str]:
        # The state has the version of the reader, too: another one reads the same file differently.
        return {
            f"{part.name} {file}": f"{type(part.reader).__name__} {part.reader.version} {state}"
            for part in self._parts
            for file, state in part.reader.sources().items()
        }

    def read_documents(self, faults: Faults) -> Iterator[pl.DataFrame]:
        with _of_entries():
            for part in self._parts:
                for frame in part.reader.read_documents(faults):
                    yield part.named(frame.select(list(DOCUMENTS)), "id")

    def read_queries(self, faults: Faults) -> pl.DataFrame:
        queries = self._together(lambda part: part.named(part.reader.read_queries(faults), "id"), QUERIES)
        return queries.join(
            self._draw(faults).left_out, left_on="id", right_on="query", how="anti", maintain_order="left"
        )

    def read_judgements(self, faults: Faults) -> pl.DataFrame:
        return self._draw(faults).judgements

    def read_given(self, faults: Faults) -> pl.DataFrame:
        given = self._together(lambda part: part.named(part.reader.read_given(faults), "query", "document"), GIVEN)
        return given.join(self._draw(faults).left_out, on="query", how="anti", maintain_order="left")

    def read_prompts(self, faults: Faults) -> pl.DataFrame:
        return self._together(lambda part: part.prompts(faults), PROMPTS)

    @_of_entries()
    def _together(self, read: Callable[[Member], pl.DataFrame], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
        return together(map(read, self._parts), schema)

    def facts(self) -> dict[str, str]:
        drawn: Drawn | None = vars(self).get("_drawn")
        of_all = {} if drawn is None else drawn.facts
        found = {f"{what} ({part.name})": fact for part in self._parts for what, fact in part.reader.facts().items()}
        return of_all | found

    def source(self) -> dict[str, Any]:
        return {"mixed": [part.name for part in self._parts]}

    def _draw(self, faults: Faults) -> Drawn:
        """Draw the training queries, once."""
        drawn: Drawn | None = vars(self).get("_drawn")
        if drawn is None:
            drawn = vars(self)["_drawn"] = self._drawn_from(faults)
        return drawn

    @_of_entries()
    def _drawn_from(self, faults: Faults) -> Drawn:
        parts = self._parts
        given = [part.reader.read_judgements(faults) for part in parts]
        judged = list(map(_split, given))
        trained = [_trained(rows) for rows in judged]
        counts = self._counts([len(names) for names in trained])
        kept: list[pl.DataFrame] = []
        left_out: list[pl.DataFrame] = []
        for part, rows, names, count in zip(parts, judged, trained, counts, strict=True):
            rng = np.random.default_rng([self.seed, len(kept)])
            chosen = pl.Series(sorted(rng.permutation(np.array(names, dtype=object))[:count].tolist()), dtype=pl.String)
            undrawn = (pl.col("split") == TRAIN) & ~pl.col("query").is_in(chosen.implode())
            kept.append(part.named(_with_dev(rows.filter(~undrawn)), "query", "document"))
            left_out.append(part.named(rows.filter(undrawn).select("query").unique(), "query"))
        of_each = zip(parts, counts, trained, strict=True)
        said = "; ".join(f"{part.name} {count:,} of {len(names):,}" for part, count, names in of_each)
        moved = {
            f"{what} ({part.name})": fact
            for part, before, after in zip(parts, given, judged, strict=True)
            for what, fact in _of_dev(before, after).items()
        }
        facts = {"queries of each collection that train": said} | moved
        return Drawn(together(kept, JUDGEMENTS), pl.concat(left_out), facts)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    @cached_property
    def _parts(self) -> list[Member]:
        """The collections; each is read once."""
        given = self.mix or ()
        refuse(isinstance(given, str), f"is {given!r}, and no list", WHERE, EXAMPLE)
        refuse(len(given) < 2, "mixes fewer than two collections", WHERE, EXAMPLE)
        entries = [{"path": entry} if isinstance(entry, str) else entry for entry in given]
        for entry in entries:
            refuse(not isinstance(entry, Mapping), f"{entry} is no entry", WHERE, EXAMPLE)
            refuse(not entry.get("path"), "an entry has no path", WHERE, EXAMPLE)
            what = f"the share of {entry['path']} is {entry.get('share')!r}"
            refuse(not _is_share(entry.get("share")), what, WHERE, "give a number above 0")
            what = f"the prompt of {entry['path']} is {entry.get('prompt')!r}, and no text"
            refuse(not isinstance(entry.get("prompt", ""), str | None), what, WHERE, "put it in quotes")
        weighed = any(entry.get("share") for entry in entries)
        return self._members(entries, 1.0 if weighed else None)

    def _members(self, entries: Sequence[Mapping[str, Any]], usual: float | None) -> list[Member]:
        """Return the collections of entries; `usual` is the share of one that has none."""
        parts = []
        for entry in entries:
            reader = _reader(entry)
            name = str(entry.get("name") or reader.name)
            parts.append(Member(name, reader, entry.get("share") or usual, entry.get("prompt")))
        names = [part.name for part in parts]
        slashed = [name for name in names if "/" in name]  # which ends the name in an id
        refuse(
            slashed, "a collection is called {}, with a slash", WHERE, "give it another name: {path:FOLDER,name:OTHER}"
        )
        refuse(
            repeated(names), "two collections are called {}", WHERE, "give one another name: {path:FOLDER,name:OTHER}"
        )
        return parts

    def _counts(self, trained: Sequence[int]) -> list[int]:
        """Return the number of training queries to draw of each collection.

        Raises:
            BadInput: if one has none.
        """
        untrained = [part.name for part, count in zip(self._parts, trained, strict=True) if not count]
        remedy = "give it to evaluate= instead, which measures without training"
        refuse(untrained, "{} has no training queries", WHERE, remedy)
        shares = [part.share for part in self._parts if part.share is not None]
        if not shares:
            return list(trained)
        unit = min(count / share for count, share in zip(trained, shares, strict=True))
        return [max(1, round(unit * share)) for share in shares]


def _reader(entry: Mapping[str, Any]) -> Reader:
    """Return the reader of an entry, with the options that are not the mixture's."""
    options = {str(key): value for key, value in entry.items() if key not in ENTRY}
    reader = reader_of(str(entry["path"]))
    of_all = {field.name for field in fields(Reader)}  # of which only those of the mixture are read
    refuse(sorted(options.keys() & of_all), "an entry has no {}", WHERE, "set it on the mixture, for all collections")
    known = [field.name for field in fields(reader) if field.name not in of_all]
    remedy = f"choose of {', '.join(ENTRY)}, or of the options of this collection: {', '.join(known)}"
    refuse(sorted(options.keys() - known), "an entry has no {}", WHERE, remedy)
    hints = annotations_of(type(reader).__init__)
    try:
        read = {name: TypeAdapter(hints[name]).validate_python(value) for name, value in options.items()}
    except ValidationError as error:
        wrong = error.errors()[0]
        what = f"an option of {entry['path']} is {wrong['input']!r}; {wrong['msg'][:1].lower()}{wrong['msg'][1:]}"
        raise BadInput(what, WHERE) from None
    return reader_of(str(entry["path"]), **read)


def _is_share(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and type(value) is not bool and 0 < value < math.inf)


def _trained(rows: pl.DataFrame) -> list[str]:
    """Return the queries that train, in order of their ids."""
    return rows.filter(pl.col("split") == TRAIN)["query"].unique().sort().to_list()


def _split(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the judgements of a collection with queries that train and test, as if it were read alone.

    Without a split, or with train only, a tenth of its queries is the test. dev replaces the one of both that lacks.
    """
    if rows["split"].null_count() < len(rows):
        rows = rows.with_columns(pl.col("split").fill_null(TRAIN))
        present = set(rows["split"].unique())
        if present != {TRAIN}:
            return rows.with_columns(pl.col("split").replace(OF_DEV.get(frozenset(present), {})))
    return with_test(rows, max(1, round(TESTED * rows["query"].n_unique())))


def _with_dev(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the judgements that were drawn of a collection, a share of its training queries as dev if it has none."""
    given = rows.select("query", "split").unique(maintain_order=True)
    final = given.with_columns(usable=usable(given.select("split", id="query"))["split"])
    if final["usable"].null_count():  # one query trains
        return rows
    joined = rows.join(final, on=["query", "split"], how="left", maintain_order="left")
    return joined.with_columns(split="usable").select(rows.columns)


def _of_dev(given: pl.DataFrame, final: pl.DataFrame) -> dict[str, str]:
    """Return the facts that queries of dev are the test of a collection, or train, for lack of others."""
    queries = final.filter((given["split"] == DEV).fill_null(False)).unique("query")["split"]
    counts = {NO_TEST: int((queries == TEST).sum()), NO_TRAINING: int((queries == TRAIN).sum())}
    return counted({what: (count, "") for what, count in counts.items()})
