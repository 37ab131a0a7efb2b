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
from pyrite.ranking.collections.mixed_splits import (
    as_read_alone,
    became_dev,
    facts_of_dev,
    fewer,
    queries_of,
    texts_of,
    trained_of,
    with_dev,
    without_leaks,
)
from pyrite.ranking.collections.names import repeated
from pyrite.ranking.collections.reader import DOCUMENTS, GIVEN, JUDGEMENTS, PROMPTS, QUERIES, Reader, counted, together
from pyrite.ranking.collections.splits import DEV, TRAIN
from pyrite.ranking.errors import BadInput, refuse

WHERE = "collection.mix"
ENTRY = ("path", "share", "prompt", "name")
EXAMPLE = "name them, as [A,B] or [{path:A,share:2},{path:B}]"
OWNER = pl.col("id").str.split("/").list.first()
"""The name of the collection that a query or document is of."""
LEAKS = "queries that another collection tests or validates"
"""A fact of a collection of a mixture: queries that would train have the text of one that is tested or validated."""
DEV_LEAKS = "queries that another collection tests"
ALL_LEAK = "{} has no training queries that no other collection tests or validates"


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

    def prompts(self, faults: Faults, queries: pl.DataFrame) -> pl.DataFrame:
        """Return the prompts of its queries: the mixture's for all, or those of its files."""
        if self.prompt is None:
            return self.named(self.reader.read_prompts(faults), "query")
        own = queries.filter(OWNER.eq(self.name))
        return own.select(query="id", prompt=pl.lit(self.prompt))

    def named(self, rows: pl.DataFrame, *columns: str) -> pl.DataFrame:
        """Return rows whose ids begin with the collection's name."""
        return rows.with_columns((pl.lit(f"{self.name}/") + pl.col(column)).alias(column) for column in columns)


@dataclass(frozen=True)
class Drawn:
    """The training queries that were drawn.

    Args:
        queries: the drawn queries, and all queries that do not train.
        judgements: those of these queries.
        left_out: the queries (query) that were not drawn, or that another collection tests or validates.
        facts: how many of each collection's were drawn, and how many were those of another split or left out.
    """

    queries: pl.DataFrame
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

    Queries with the same text are one query within a collection, and several if they are of several collections: each
    has its prompt, judgements and split. A training query whose text another collection tests or validates is left
    out. Documents that are relevant for a text in one collection are no negatives for it in another
    (`pyrite.sampling.relevant_pairs`).

    Args:
        mix: the collections: paths, or entries of path, share, prompt and name, as
            `[{path:nq,share:2,prompt:"query: "},{path:quora}]`. Without any share, all training queries are taken; an
            entry without one among others has share 1. Further keys of an entry are options of its format, as
            `{path:ratings.csv,label:stars,relevant_from:4}`. Options of all formats are those of the mixture.
        seed: draws the training queries.
    """

    mix: Sequence[Any] | None = None
    seed: int = 0
    within: ClassVar[pl.Expr] = OWNER
    version: ClassVar[int] = 5

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
        return self._draw(faults).queries

    def read_judgements(self, faults: Faults) -> pl.DataFrame:
        return self._draw(faults).judgements

    def read_given(self, faults: Faults) -> pl.DataFrame:
        given = self._together(lambda part: part.named(part.reader.read_given(faults), "query", "document"), GIVEN)
        return given.join(self._draw(faults).left_out, on="query", how="anti", maintain_order="left")

    def read_prompts(self, faults: Faults) -> pl.DataFrame:
        return self._together(lambda part: part.prompts(faults, self._draw(faults).queries), PROMPTS)

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
        """Read the queries and judgements and draw those that train, once."""
        drawn: Drawn | None = vars(self).get("_drawn")
        if drawn is None:
            drawn = vars(self)["_drawn"] = self._drawn_from(faults)
        return drawn

    @_of_entries()
    def _drawn_from(self, faults: Faults) -> Drawn:
        parts = self._parts
        queries = [part.reader.read_queries(faults) for part in parts]
        given = [part.reader.read_judgements(faults) for part in parts]
        judged = list(map(as_read_alone, given))
        texts = list(map(texts_of, queries, judged))
        self._refuse_untrained(texts, "{} has no training queries")
        apart = without_leaks(texts)
        self._refuse_untrained(apart, ALL_LEAK)
        trained = [trained_of(rows) for rows in apart]
        counts = self._counts([len(names) for names in trained])
        drawn: list[pl.DataFrame] = []
        for rows, names, count in zip(apart, trained, counts, strict=True):
            rng = np.random.default_rng([self.seed, len(drawn)])
            chosen = pl.Series(sorted(rng.permutation(np.array(names, dtype=object))[:count].tolist()), dtype=pl.String)
            drawn.append(with_dev(rows.filter((pl.col("split") != TRAIN) | pl.col("query").is_in(chosen.implode()))))
        final = without_leaks(drawn)  # the queries that became dev are validated, too
        self._refuse_untrained(final, ALL_LEAK)
        kept: list[pl.DataFrame] = []
        left_out: list[pl.DataFrame] = []
        facts: dict[str, str] = {}
        said: list[str] = []
        for number, part in enumerate(parts):
            out = queries_of(queries[number], texts[number].join(final[number], on="query", how="anti"))
            dev = queries_of(queries[number], became_dev(texts[number], final[number]))
            rows = judged[number].join(out, on="query", how="anti", maintain_order="left")
            validates = (pl.col("split") == TRAIN) & pl.col("query").is_in(dev["query"].implode())
            split = pl.when(validates).then(pl.lit(DEV)).otherwise("split")
            kept.append(part.named(rows.with_columns(split=split), "query", "document"))
            left_out.append(part.named(out, "query"))
            lost = len(drawn[number]) - len(final[number])
            said.append(f"{part.name} {counts[number] - lost:,} of {len(trained_of(texts[number])):,}")
            trains, validated = (fewer(texts[number], apart[number], split) for split in (TRAIN, DEV))
            facts |= facts_of_dev(part.name, given[number], judged[number])
            facts |= counted({
                f"{LEAKS} ({part.name})": (trains + lost, " left out of training"),
                f"{DEV_LEAKS} ({part.name})": (validated, " left out of dev"),
            })  # fmt: skip
        facts = {"queries of each collection that train": "; ".join(said)} | facts
        out = pl.concat(left_out)
        named = together((part.named(rows, "id") for part, rows in zip(parts, queries, strict=True)), QUERIES)
        taken = named.join(out, left_on="id", right_on="query", how="anti", maintain_order="left")
        return Drawn(taken, together(kept, JUDGEMENTS), out, facts)

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
        """Return the number of training queries to draw of each collection."""
        shares = [part.share for part in self._parts if part.share is not None]
        if not shares:
            return list(trained)
        unit = min(count / share for count, share in zip(trained, shares, strict=True))
        return [max(1, round(unit * share)) for share in shares]

    def _refuse_untrained(self, texts: Sequence[pl.DataFrame], what: str) -> None:
        """Refuse collections none of whose queries trains."""
        untrained = [part.name for part, rows in zip(self._parts, texts, strict=True) if not trained_of(rows)]
        refuse(untrained, what, WHERE, "give it to evaluate= instead, which measures without training")


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
