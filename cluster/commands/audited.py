"""Reads the negatives that an audit draws from: those that studies showed or that were mined, of one collection."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path

import polars as pl

from pyrite.analysis.methods import told_apart, with_methods
from pyrite.analysis.statistics.audit_rates import PAIR
from pyrite.cluster.commands.first_folder import absolute, recorded_folder
from pyrite.cluster.config.compose import compose, compose_recorded, recorded_or_none
from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.config.override import of_keys, root_of, without
from pyrite.cluster.config.quoting import override_of
from pyrite.cluster.output.manifest import (
    CONFIG,
    read_config,
    refuse_repeated,
    resume_command,
    verb_of,
)
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.tables import read_table, required_table, required_trials
from pyrite.cluster.runs.negative_tables import SHOWN
from pyrite.ranking.collections.pair_dialects import COMPARABLE, POSITIVE_SCORES, of_one_scorer
from pyrite.ranking.collections.reader import Reader
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.trec_files import check_ids

ORIGIN = ["collection", "fingerprint", "options"]
"""Columns of a negative that say of which collection it is."""
READING = {"strict", *(f"collection.{option.name}" for option in fields(Reader))}
"""Options that leave the ids of a collection as they are."""


def shown_by(studies: Sequence[str]) -> pl.DataFrame:
    """Return the negatives that the studies showed; refuse none, and ids that a run can't hold."""
    refuse(not studies, "names no study", "studies", "give one folder or more")
    refuse_repeated(list(map(Storage, studies)))
    names = told_apart(studies) if len(studies) > 1 else {}
    shown = pl.concat([read_shown(place, names.get(place)) for place in studies])
    refuse(shown.is_empty(), "holds no negative", ", ".join(studies), "there is nothing to judge")
    for column in PAIR:
        check_ids(shown[column].unique(maintain_order=True), column, ", ".join(studies))
    return shown


def of_collection(shown: pl.DataFrame, chosen: Sequence[str], studies: Sequence[str]) -> pl.DataFrame:
    """Return the negatives of the chosen collection, or of the only one; refuse a name that no collection has.

    Several are refused: their ids may be equal, and a judgement of a pair of one would count for the other's.
    """
    origins = shown.select(ORIGIN).unique(maintain_order=True)
    names = _names_of(origins)
    known = sorted(set(names))
    missing = [name for name in chosen if name not in known]
    what = f"no negative is of {', '.join(missing)}"
    refuse(missing, what, "collections", f"choose among {', '.join(known)}")
    several = sorted(set(chosen or known))
    what = f"shows negatives of {len(several)} collections ({', '.join(several)}), which may have equal ids"
    remedy = f"audit each alone, with {shlex.quote(override_of('collections', several[0]))} and its own out="
    refuse(len(several) > 1, what, ", ".join(studies), remedy)
    kept = origins.filter(pl.Series([name == several[0] for name in names]))
    return shown.join(kept, on=ORIGIN, how="semi", maintain_order="left")


def _names_of(origins: pl.DataFrame) -> list[str]:
    """Return the name of each origin's collection, with the fingerprint after it if different ones have one name.

    Two origins are of one collection if they have equal content, or if they were read from the same place, with other
    judgements (`relabel`) or other options of reading, which leave the ids as they are.
    """
    sources, first = dict[str, str](), dict[str, tuple[str, str]]()
    for name, fingerprint, options in origins.rows():
        source = sources.setdefault(fingerprint, shlex.join(without(shlex.split(options), READING)))
        first.setdefault(source, (name, fingerprint))
    names = Counter(name for name, _ in first.values())
    labels = {source: name if names[name] == 1 else f"{name}-{of[:8]}" for source, (name, of) in first.items()}
    return [labels[sources[fingerprint]] for fingerprint in origins["fingerprint"]]


def of_functions(shown: pl.DataFrame, functions: Sequence[str]) -> pl.DataFrame:
    """Return the negatives of some functions, or of all if none is named; refuse a function that showed none."""
    known = sorted(shown["function"].unique())
    missing = [name for name in functions if name not in known]
    what = f"no negative is of {', '.join(missing)}"
    refuse(missing, what, "functions", f"choose among {', '.join(known)}")
    return shown.filter(pl.col("function").is_in(functions or known))


def relevant_from(studies: Sequence[str]) -> int:
    """Return the lowest grade that is relevant in studies and minings; refuse several."""
    lines = [line for place in studies for line in _overrides_of(Storage(place))]
    encodings = {shlex.join(of_keys(line, {"encoding"}, root_of)) for line in lines}
    grades = {compose_recorded(shlex.split(line))["encoding"]["relevant_from"] for line in encodings}
    named = " and ".join(map(str, sorted(grades)))
    what = f"documents are relevant from the grades {named} on, by run"
    refuse(len(grades) > 1, what, ", ".join(studies), f"choose one for the audit: relevant_from={min(grades)}")
    return int(min(grades))


def _overrides_of(storage: Storage) -> list[list[str]]:
    """Return the overrides of each run of a study, or of a mining."""
    if not storage.names("ids"):
        return list(map(shlex.split, required_trials(storage)["overrides"].unique()))
    config = read_config(storage) if storage.read(CONFIG) is not None else {}
    return [list(map(str, config.get("overrides", [])))]


def read_shown(place: str, name: str | None = None) -> pl.DataFrame:
    """Return the negatives that a study showed, or that were mined; refuse a folder that recorded none.

    Returns:
        method (in front of it the name of the study, if it has one among several), query, document, function,
        collection, fingerprint, options (those of the collection, as one line), times, margin, score, scale (the
        function whose scores the margins are; "all" if all are on one scale), recorded (the share of the training
        queries whose negatives these are; null if it is not known).
    """
    what = "is no folder" if Path(place).exists() else "no such folder"
    refuse(
        "://" not in place and not Path(place).is_dir(),
        what,
        place,
        "name the out= of a `pyrite study` or a `pyrite mine`",
    )
    storage = Storage(place)
    if storage.names("ids"):
        return _read_mined(storage, name or storage.name)
    table = read_table(storage, SHOWN)
    if table is None or not len(table):
        raise _no_record(storage)
    trials = required_trials(storage)
    origins = trials.select(
        "run", "collection", "fingerprint",
        options=pl.Series(reading_of(storage, trials["overrides"]), dtype=pl.String),
        recorded=pl.Series(map(_recorded, trials["overrides"]), dtype=pl.Float64),
    )  # fmt: skip
    methods = with_methods(trials).select("run", "method").join(origins, on="run")
    table = table.join(methods, on="run", how="left")
    if name is not None:
        table = table.with_columns(method=pl.lit(f"{name}: ") + pl.col("method"))
    totals = pl.col("times").sum()
    return table.group_by("method", *PAIR, "function", *ORIGIN, maintain_order=True).agg(
        totals, margin=(pl.col("margin") * pl.col("times")).sum() / totals, score=pl.col("score").mean(),
        scale=pl.lit("all"), recorded=pl.col("recorded").min(),
    )  # fmt: skip


def _recorded(overrides: str) -> float | None:
    """Return the share of the training queries whose negatives a run recorded; None if that is not known."""
    config = recorded_or_none(shlex.join(of_keys(shlex.split(overrides), {"sampling"}, root_of)))
    return None if config is None else float(config["sampling"]["recorded"]) or None  # what recorded 0 has no rows


def _no_record(storage: Storage) -> BadInput:
    """Return why a folder has no record of negatives: it is no study's, or not finished, or did not record them."""
    if storage.read(CONFIG) is None:
        return BadInput("holds no study", storage.place, "name the out= of a `pyrite study` or a `pyrite mine`")
    config = read_config(storage)
    verb = verb_of(config)
    if verb not in ("study", "mine"):
        return BadInput(f"holds results of `pyrite {verb}`", storage.place, "audit takes those of a study or a mining")
    if verb == "mine" or _recorded(shlex.join(config.get("overrides", []))):
        return BadInput("is not finished", storage.place, f"finish it with `{resume_command(verb, storage.place)}`")
    what = "has no record of the negatives that its runs showed"
    return BadInput(what, storage.place, "run it with sampling.recorded=1")


def _read_mined(storage: Storage, name: str) -> pl.DataFrame:
    """Return the negatives of `pyrite mine`; one that several pairs of a query have counts for each of them."""
    config, card = read_config(storage), storage.read("README.md")
    if verb_of(config) == "mine" and card is None:  # it is written last: shards may be missing
        raise _no_record(storage)
    [(fingerprint, collection), *_] = (config.get("collections") or {storage.place: name}).items()
    [options] = reading_of(storage, [shlex.join(config.get("overrides", []))])
    files = [name.removesuffix(".parquet") for name in storage.names("ids")]
    ids = pl.concat([required_table(storage, f"ids/{name}") for name in sorted(files)])
    rows = ids.explode([name for name, kind in ids.schema.items() if kind == pl.List])
    # Negatives come after their positive, which no function has supplied, in one row or in several.
    rows = rows.with_columns(pair=pl.col("functions").is_null().cum_sum())
    score, margin = pl.col("scores"), pl.col("margin")
    known = rows.filter(pl.col("functions").is_not_null() & score.is_not_nan())
    if POSITIVE_SCORES in rows.columns:
        positive, of_one = pl.col(POSITIVE_SCORES), bool(known[COMPARABLE].all())
    else:  # of an earlier version, which kept one score of a positive: that of the first function that scores positives
        of_one = of_one_scorer(known["functions"], (card or b"").decode("utf-8", "replace"))
        positive = score.first().over("pair") if of_one else pl.lit(None, pl.Float32)
    rows = rows.with_columns(margin=score - positive)
    scale = pl.lit("all") if of_one else pl.col("function")
    return (
        rows.filter(pl.col("functions").is_not_null())
        .group_by(pl.lit(name).alias("method"), query="query_id", document="document_ids",
                  function="functions", collection=pl.lit(collection), fingerprint=pl.lit(fingerprint),
                  options=pl.lit(options), maintain_order=True)
        .agg(pl.len().cast(pl.Int64).alias("times"), margin=margin.mean().cast(pl.Float64), score=score.mean())
        .with_columns(scale=scale, recorded=pl.lit(1.0))
    )  # fmt: skip


def reading_of(storage: Storage, overrides: Iterable[str | None]) -> list[str]:
    """Return, for each line of overrides, those that read the collection: its options, and whether faults are skipped.

    Paths that exist, as seen from the folder in which the study was started, are absolute.
    """
    folder = recorded_folder(read_config(storage))
    lines = [shlex.join(of_keys(shlex.split(line or ""), {"collection", "strict"}, root_of)) for line in overrides]
    known = {line: shlex.join(_named(absolute(shlex.split(line), folder))) for line in set(lines)}
    return [known[line] for line in lines]


def _named(options: Sequence[str]) -> list[str]:
    """Return options of a collection with its name, which is the default of a run if they have none."""
    named = of_keys(options, {"collection"}, root_of)
    return [*options] if named else [f"collection={compose([])[CHOICES]['collection']}", *options]
