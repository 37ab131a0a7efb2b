"""Writes the data set's card and tables from mined shards."""

from __future__ import annotations

import io
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from shlex import quote
from typing import Any

import numpy as np
import polars as pl
import yaml

from pyrite.cluster.mining.miner import Shard
from pyrite.cluster.mining.writing import ENDINGS
from pyrite.cluster.output.result_store import ResultStore
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.tables import read_table, write_table
from pyrite.cluster.output.terminal import applying, counted
from pyrite.ranking.collections.pair_dialects import COMPARABLE, POSITIVE_SCORES
from pyrite.ranking.errors import refuse
from pyrite.ranking.trec_files import write_qrels
from pyrite.sampling.guard import Guard
from pyrite.sampling.guarded_documents import REASONS

SUMS = (
    "negatives", "missing", "fallback", "guarded", "repeats", "unlimited", "scores", "scored", "positives' scores",
    "positives scored",
)  # fmt: skip
"""Sums per function in the counts of a shard (`pyrite.cluster.mining.writing.counts_of`)."""
COUNTS = ("examples", "lists", "rows", "left out", "without scores", "above", "above negatives", "promoted")
PROMOTED = "promoted.qrels"
"""The file of the documents that became positives."""
DROPPED_BY_MARGIN = "guard.relative=0.05 drops such negatives"
"""What a user can do about negatives above their positive, without a guard."""
LONGER = "a weaker guard or a longer list (function.NAME.depth=) finds more"
"""What a user can do about pairs without a negative."""
DEEP = 100
"""The rank from which negatives are called deep."""


def summary_of(
    store: ResultStore, shards: Sequence[Shard], names: Sequence[str]
) -> tuple[dict[str, int], pl.DataFrame]:
    """Return `COUNTS` of all shards together, and a table with one row per function.

    A row has the function's counts, the median of its ranks and the rank that nine in ten do not exceed, and the means
    of its scores and of its scores of the positives (with `scores=ranker` the ranker's).
    """
    results = [store.read(shard.name) or {} for shard in shards]
    totals = _sums(results, COUNTS)
    rows = []
    for name in names:
        supplied = [counts["functions"][name] for counts in results]
        sums, ranks = _sums(supplied, SUMS), sum((Counter(counts["ranks"]) for counts in supplied), Counter[str]())
        rows.append({
            "function": name, "negatives": sums["negatives"], "missing": sums["missing"],
            "fallback": sums["fallback"], "guarded": sums["guarded"], "same text": sums["repeats"],
            "without a limit": sums["unlimited"],
            "median rank": _rank_of(ranks, 0.5), "rank of 90%": _rank_of(ranks, 0.9),
            "score of positives": _mean(sums["positives' scores"], sums["positives scored"]),
            "of negatives": _mean(sums["scores"], sums["scored"]),
        })  # fmt: skip
    kinds = dict.fromkeys(("median rank", "rank of 90%", "score of positives", "of negatives"), pl.Float64)
    return totals, pl.DataFrame(rows, schema_overrides=kinds)


def _sums(counts: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> dict[str, Any]:
    """Return the sum of each of some counts."""
    return {key: sum(each[key] for each in counts) for key in keys}


def _rank_of(ranks: Mapping[str, int], share: float) -> float | None:
    """Return the rank that this share of the negatives does not exceed; None without ranks."""
    if not ranks:
        return None
    known, counts = np.array(sorted((int(rank), count) for rank, count in ranks.items())).T
    return float(known[np.searchsorted(counts.cumsum(), share * counts.sum())])


def _mean(total: float, count: float) -> float | None:
    return total / count if count else None


def remarks(
    totals: dict[str, int],
    functions: pl.DataFrame,
    guarded: str = "",
    place: str = "OUT",
    count: int = 1,
    rows: str = "tuples",
    above: str | None = DROPPED_BY_MARGIN,
) -> list[str]:
    """Return lines with advice about what was dropped and what may be relevant, from the results of `summary_of`.

    Args:
        guarded: what a guard narrows a list for, `pair` or `query`; empty without a guard.
        place: the folder of the set.
        count: the negatives that each pair should have.
        rows: the form of the rows (`pyrite.cluster.mining.trainer_rows`); others than tuples need one negative.
        above: what to do about negatives that score above their positive (`above_advice`); None omits them.
    """
    negatives, examples = int(functions["negatives"].sum()), counted(totals["examples"], "pair")
    verb = "scores above its" if totals["above negatives"] == 1 else "score above their"
    seen = "a guard sees scores alone, and what it keeps may be relevant too" if guarded else "no guard was used"
    unscored = totals["without scores"]
    whole = rows == "tuples"
    lacks = f"fewer than {counted(count, 'negative')}" if whole else "no negative"
    found_less = "too few documents were found, or stayed" if whole else "no document was found, or stayed"
    more = "rows=triplets keeps the negatives that there are, count= asks for fewer" if whole else LONGER
    few = {
        f"{totals['left out']:,} of {examples} have {lacks} and are left out: for them {found_less} after the guard; "
        f"{more}": totals["left out"],
    }
    found = {
        f"promoted: {totals['promoted']:,} of {examples} are documents that guard.ranker scores above the positive; "
        f"relabel={quote(f'{place}/{PROMOTED}')} adds them to a study's judgements": totals["promoted"],
        f"warning: {unscored:,} of {counted(totals['rows'], 'row')} lack a score, and losses that learn from scores "
        "can't read them; scores=ranker (with checkpoint=) gives each document one": unscored,
        f"warning: {totals['above negatives']:,} of {counted(negatives, 'negative')} {verb} positive (in "
        f"{totals['above']:,} of {examples}) and may be relevant{f'; {above}' if above else ''}": (
            totals["above"] and above is not None
        ),
        f"how many of the negatives are relevant? {seen}; a sample tells: pyrite audit {quote(place)}": True,
    }
    of_functions = [_remarks_of(row, totals["lists"], guarded) for row in functions.iter_rows(named=True)]
    every: list[Mapping[str, int]] = [few, *of_functions, found]
    return [line for said in every for line in applying(said)]


def above_advice(guard: Guard, scores: str, checkpoint: str | None) -> str | None:
    """Return what drops negatives that score above their positive; None if the guard compares by other scores.

    Args:
        scores: whose scores are written, the function's or the ranker's.
        checkpoint: the ranker's.
    """
    by_ranker, ranker = scores == "ranker", f"guard.ranker={quote(checkpoint or '')}"
    cases: Sequence[tuple[bool, str | None]] = (
        (by_ranker and guard.ranker is None and guard.has_margin, f"{ranker} compares by these scores"),
        (by_ranker and guard.ranker is None, f"{ranker} guard.relative=0.05 drops such negatives"),
        (guard.ranker is not None and not by_ranker, None),
        (guard.has_margin and guard.positive == "best", "guard.positive=own compares with it"),
        (guard.has_margin, ""),
    )
    return next((advice for holds, advice in cases if holds), DROPPED_BY_MARGIN)


def _remarks_of(row: Mapping[str, Any], lists: int, guarded: str) -> dict[str, bool]:
    """Return the lines about a function, and whether each holds. See `remarks`.

    Args:
        lists: the number of its lists.
    """
    dropped, rank, deepest = row["guarded"] / max(lists, 1), row["median rank"] or 0, row["rank of 90%"] or 0
    cut = f"; guard.deepest={DEEP} takes none below that rank, and leaves out pairs that fall short"
    lines = {
        f"left out {counted(row['same text'], 'document')} with the text of a relevant document or of another "
        "negative, or the query itself": row["same text"] > 0,
        f"{row['fallback']:,} of {counted(row['negatives'], 'negative')} are from elsewhere, because the query has no "
        "category, or one with too few documents": row["fallback"] > 0,
        f"for {counted(row['without a limit'], guarded)} the guard dropped nothing by its margins: {row['function']} "
        "gives the positive no score; guard.ranker=FOLDER scores every pair": row["without a limit"] > 0,
        f"the guard dropped {dropped:,.0f} documents per {guarded}; the negatives that are left have rank {rank:,.0f} "
        f"(median), one in ten {deepest:,.0f} or more{cut * (deepest > DEEP)}": dropped >= 1 and rank > 0,
    }
    return {f"{row['function']}: {line}": holds for line, holds in lines.items()}


def finish(
    store: ResultStore,
    shards: Sequence[Shard],
    config: dict[str, Any],
    command: str,
    about: dict[str, str],
    judgements: pl.DataFrame,
) -> tuple[dict[str, int], pl.DataFrame]:
    """Write the table of guarded documents, the summary, the card and, with `format=dataset`, the data set on disk.

    Args:
        judgements: the collection's judgements, which `promote` leaves as they are.
    """
    storage = store.storage
    totals, functions = summary_of(store, shards, list(config["function"]))
    storage.write("summary.csv", functions.write_csv().encode())
    dropped = [table for shard in shards if (table := read_table(storage, f"guarded/{shard.name}")) is not None]
    if dropped:
        guarded = pl.concat(dropped)
        write_table(storage, "guarded", guarded)
        if config["promote"]:
            write_qrels(content := io.BytesIO(), _promoted(guarded, config, judgements), storage.place)
            storage.write(PROMOTED, content.getvalue())
    filled = [shard for shard in shards if (store.read(shard.name) or {})["rows"]]  # no loader reads an empty split
    card = _card(filled or shards, config, command, about, totals, functions, bool(dropped))
    storage.write("README.md", card.encode())
    if config["format"] == "dataset" and filled:
        _save_dataset(storage, filled)
    return totals, functions


def _promoted(guarded: pl.DataFrame, config: dict[str, Any], judgements: pl.DataFrame) -> pl.DataFrame:
    """Return the documents that became positives, as judgements (see `pyrite.cluster.mining.miner.promoted`)."""
    masking = [name for name, node in config["function"].items() if "guard" in node]
    above = (pl.col("reason") == REASONS[0]) & ~pl.col("function").is_in(masking)
    pairs = guarded.filter(above).select(query="query_id", document="document_id").unique()
    judged = judgements.filter(pl.col("grade") != -1)  # which is pooled, and not judged
    unjudged = pairs.join(judged, on=["query", "document"], how="anti").sort("query", "document")
    return unjudged.with_columns(grade=config["encoding"]["relevant_from"])


def _card(
    shards: Sequence[Shard],
    config: dict[str, Any],
    command: str,
    about: dict[str, str],
    totals: dict[str, int],
    functions: pl.DataFrame,
    guarded: bool,
) -> str:
    """Return the data set's card. Its head lists the files for `load_dataset`."""
    ending = ENDINGS[config["format"]]
    splits = {shard.split: "validation" if shard.split == "dev" else shard.split for shard in shards}

    def files(folder: str, ends: str) -> list[dict[str, str]]:
        return [{"split": name, "path": f"{folder}/{split}-*{ends}"} for split, name in splits.items()]

    configs: list[dict[str, Any]] = [{"config_name": "default", "default": True, "data_files": files("data", ending)}]
    named = ending == ".parquet"
    if named:  # `load_dataset` reads all of a folder's files in one format
        configs.append({"config_name": "ids", "data_files": files("ids", ".parquet")})
        if guarded:
            configs.append({"config_name": "guarded", "data_files": "guarded.parquet"})
    head = yaml.safe_dump({"configs": configs, "tags": ["sentence-transformers", "hard-negatives"]}, sort_keys=False)
    facts = "\n".join(f"- {key}: {value}" for key, value in about.items())
    return (
        f"---\n{head}---\n\n# Mined negatives\n\nMined by Pyrite:\n\n```\n{command}\n"
        f"```\n\n{facts}\n- {counted(totals['rows'], 'row')} of {counted(totals['examples'], 'pair')}; "
        f"{counted(totals['left out'], 'pair')} had too few negatives for one\n\n" + _markdown(functions) + "\n\n"
        f"`default` has the texts. `ids` {'' if named else '(Parquet, in the folder of that name) '}has one row for "
        "each of them: ids, ranks in the function's list, scores and functions, the positive first; "
        f"`{POSITIVE_SCORES}`, the positive's score by the same function; and `{COMPARABLE}`, whether a score is on "
        "the scale of the positive's in `scores`.\n"
    )


def _markdown(table: pl.DataFrame) -> str:
    """Return a table in Markdown."""
    shown = [[_cell(value) for value in row] for row in table.iter_rows()]
    lines = [f"| {' | '.join(cells)} |" for cells in [table.columns, *shown]]
    return "\n".join([lines[0], f"|{'---|' * table.width}", *lines[1:]])


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def check_dataset(storage: Storage) -> None:
    """Refuse `format=dataset` if it can't be written, before anything is mined: it can't change afterwards."""
    remedy = "pip install datasets, or choose format=parquet"
    refuse(find_spec("datasets") is None, "the library datasets is not installed", "format=dataset", remedy)
    refuse(not storage.local, "a data set can only be saved on a local disk", storage.place, "choose format=parquet")


def _save_dataset(storage: Storage, shards: Sequence[Shard]) -> None:
    """Write the data set that `datasets.load_from_disk` loads, next to the parquet files."""
    import datasets

    files: dict[str, list[str]] = {}
    for shard in shards:
        files.setdefault(shard.split, []).append(storage.path(f"data/{shard.name}.parquet"))
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory(dir=storage.path("")) as folder:
        loaded = datasets.load_dataset("parquet", data_files=files, cache_dir=folder)
        whole = loaded if len(files) > 1 else next(iter(loaded.values()))
        whole.save_to_disk(storage.path("dataset"))
