"""Writes tables of negatives: documents that guards dropped, negatives that were shown, and scores by step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.tables import write_table
from pyrite.cluster.plan.sweep import Planned
from pyrite.cluster.runs.outcome import Outcome, read_outcome
from pyrite.ranking.collections.collection import Collection
from pyrite.sampling.guarded_documents import REASONS, GuardedDocuments
from pyrite.sampling.shown import ShownNegatives

if TYPE_CHECKING:
    from pyrite.cluster.runs.artifacts import Artifacts

SHOWN = "shown"
"""Name of the table that `pyrite audit` reads."""
EXAMPLES = pl.Schema({
    "run": pl.String(), "collection": pl.String(), "query": pl.String(), "question": pl.String(),
    "relevant": pl.String(), "function": pl.String(), "document": pl.String(), "text": pl.String(),
    "times": pl.Int64(), "margin": pl.Float64(),
})  # fmt: skip
"""Columns of examples.parquet."""
EXAMPLES_OF_A_FUNCTION = 3
ROWS = 500
"""Maximum number of rows in the trace of a run."""
SCHEMA = pl.Schema({
    "run": pl.String(), "fold": pl.Int64(), "step": pl.Int64(), "steps": pl.Int64(),
    "positive": pl.Float64(), "negative": pl.Float64(), "misranked": pl.Float64(),
    "function": pl.String(), "version": pl.Int64(), "age": pl.Float64(),
})  # fmt: skip
"""Columns of steps.parquet."""


def write_guarded(storage: Storage, runs: Iterable[Planned], artifacts: Artifacts) -> None:
    """Write guarded.parquet if a run has a guard: one row per query and dropped document.

    Lists that several runs share are written once, with the name of the first run. For a function that ranks while
    rankers train (`dense`), the table has the documents that were dropped when each query was last searched, for each
    run and fold. Runs without a result are left out.
    """
    written, tables = set[str](), []
    for planned in filter(_has_guard, runs):
        outcome, collection = read_outcome(storage, planned.name), artifacts.collection(planned.config)
        if outcome is None:
            continue
        for function, documents in _dropped(planned, outcome, artifacts, written):
            margins = _margins(planned.config, function)
            limits = [pl.lit(value, pl.Float64).alias(name) for name, value in margins.items()]
            first = pl.lit(planned.name).alias("run"), pl.lit(function).alias("function"), *limits
            tables.append(guarded_rows(documents, collection).select(*first, pl.all()))
    if tables:
        write_table(storage, "guarded", pl.concat(tables))


def _has_guard(planned: Planned) -> bool:
    functions = planned.config["function"]
    return any({None} != set(_margins(planned.config, name).values()) for name in functions)


def _dropped(
    planned: Planned, outcome: Outcome, artifacts: Artifacts, written: set[str]
) -> Iterator[tuple[str, GuardedDocuments]]:
    """Yield what the guard dropped, by function: of lists, unless another run with the same has `written` them."""
    keys = artifacts.keys(planned.config)
    for function in planned.config["function"]:
        if (key := keys[f"function:{function}"]) not in written:
            written.add(key)
            yield function, artifacts.part(planned.config, f"function:{function}").guarded
    for row in outcome.guarded:
        yield row["function"], GuardedDocuments(**{key: row[key] for key in row if key not in ("fold", "function")})


def _margins(config: dict[str, Any], function: str) -> dict[str, float | None]:
    """Return the margins of the guard of a function, or of the run's guard if the function has none."""
    guard = config["function"].get(function, {}).get("guard") or config["guard"]
    return {name: guard.get(name) for name in ("absolute", "relative", "ceiling")}


def guarded_rows(record: GuardedDocuments, collection: Collection) -> pl.DataFrame:
    """Return the documents that a guard dropped: query, document, reason, score, and score of the positive."""
    return pl.DataFrame({
        "query": collection.queries["id"].gather(record.queries.astype(np.uint32)),
        "document": collection.gather("id", record.documents),
        "reason": pl.Series(list(REASONS), dtype=pl.String).gather(record.reasons.astype(np.uint32)),
        "score": record.scores,
        "positive": record.positives,
    })  # fmt: skip


def write_shown(storage: Storage, runs: Iterable[Planned], artifacts: Artifacts) -> None:
    """Write shown.parquet if runs have recorded their negatives (`sampling.recorded`).

    It has one row per run, fold, query, document and function: times; margin, the mean of the ranker's score minus the
    positive's; and score, the function's, or null. Runs without a result are left out.
    """
    tables = []
    for planned in runs:
        outcome = read_outcome(storage, planned.name) if planned.config["sampling"]["recorded"] else None
        if outcome is None:
            continue
        collection, functions = artifacts.collection(planned.config), list(planned.config["function"])
        share = ShownNegatives(planned.config["sampling"]["recorded"])
        for fold, everything in enumerate(outcome.shown):
            recorded = share.counts(everything["query"])  # without the examples
            shown = {name: column[recorded] for name, column in everything.items()}
            tables.append(
                pl.DataFrame({
                    "run": [planned.name] * len(shown["query"]),
                    "fold": np.full(len(shown["query"]), fold, np.int32),
                    "query": collection.queries["id"].gather(shown["query"].astype(np.uint32)),
                    "document": collection.gather("id", shown["document"]),
                    "function": pl.Series(functions, dtype=pl.String).gather(shown["function"].astype(np.uint32)),
                    "times": shown["times"],
                    "margin": shown["margin"] / np.maximum(shown["times"], 1),
                    "score": pl.Series(shown["score"], dtype=pl.Float32).fill_nan(None),
                }, schema_overrides={"run": pl.String})
            )  # fmt: skip
    if tables:
        write_table(storage, SHOWN, pl.concat(tables))


def example_rows(planned: Planned, collection: Collection, outcome: Outcome) -> pl.DataFrame:
    """Return the rows of examples.parquet of one run: negatives that it was shown for some training queries, as texts.

    Of each query and function these are the three that were shown most often and, of equals, score highest.
    """
    if not outcome.shown:
        return pl.DataFrame(schema=EXAMPLES)
    shown, names = outcome.shown[-1], pl.Series(list(planned.config["function"]), dtype=pl.String)
    table = pl.DataFrame({name: shown[name] for name in ("query", "document", "function", "times", "margin")})
    several = ShownNegatives()
    several.add_examples(shown["query"])
    table = (
        table.filter(pl.col("query").is_in(several.examples.tolist()))
        .with_columns(margin=pl.col("margin") / pl.col("times"))
        .sort("query", "function", "times", "margin", "document", descending=[False, False, True, True, False])
        .group_by("query", "function", maintain_order=True)
        .head(EXAMPLES_OF_A_FUNCTION)
    )
    queries, documents = collection.queries[table["query"].cast(pl.UInt32)], table["document"].to_numpy()
    relevant = collection.judgements.filter(
        pl.col("grade") >= planned.config["encoding"]["relevant_from"],
        pl.col("query").is_in(queries["id"].unique().to_list()),
    )
    first = relevant.group_by("query", maintain_order=True).first()
    texts = collection.gather("text", collection.document_rows(first["document"]).to_numpy())
    rows = table.select(
        "times", "margin", run=pl.lit(planned.name), collection=pl.lit(collection.name),
        query=queries["id"], question=queries["text"], function=names.gather(table["function"].cast(pl.UInt32)),
        document=collection.gather("id", documents), text=collection.gather("text", documents),
    ).join(first.select("query", relevant=texts), on="query", how="left", maintain_order="left")  # fmt: skip
    return rows.select(pl.col(name).cast(kind) for name, kind in EXAMPLES.items())


def trace_table(run: str, functions: Sequence[str], traces: Sequence[Mapping[str, NDArray[Any]]]) -> pl.DataFrame:
    """Return the rows of steps.parquet of one run: one per step, or per window of steps if there are more than ROWS.

    A window has its first step (from 0), its number of `steps`, the means of its figures, the function if all steps
    chose the same one, and the last version. Missing values are null.

    Args:
        traces: `pyrite.sampling.shown.Trace.arrays` of each fold.
    """
    frames, names = [pl.DataFrame(schema=SCHEMA)], dict(enumerate(functions))
    for fold, trace in enumerate(traces):
        width = max(1, -(-len(trace["positive"]) // (ROWS // len(traces))))
        steps = pl.DataFrame({name: np.asarray(values) for name, values in trace.items()}).with_row_index("step")
        steps = steps.with_columns(
            pl.col("step").cast(pl.Int64),
            pl.col("positive", "negative", "misranked").cast(pl.Float64).fill_nan(None),
            pl.col("function").replace_strict(names, default=None, return_dtype=pl.String),
            *(pl.when(pl.col(name) >= 0).then(pl.col(name)).alias(name) for name in ("version", "age")),
        )
        one_function = pl.col("function").null_count().eq(0) & pl.col("function").n_unique().eq(1)
        windows = steps.group_by(pl.col("step") // width * width, maintain_order=True).agg(
            pl.len().alias("steps"),
            pl.col("positive", "negative", "misranked", "age").mean(),
            pl.when(one_function).then(pl.col("function").first()).alias("function"),
            pl.col("version").drop_nulls().last(),
            run=pl.lit(run),
            fold=pl.lit(fold),
        )
        frames.append(windows.select(pl.col(name).cast(kind) for name, kind in SCHEMA.items()))
    return pl.concat(frames)
