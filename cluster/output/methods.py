"""Says which method each run of a study is one of, and lists all results as one long table.

A method is a ranker, a policy, a function and a selector, and whatever else was swept over names (an
objective, say). Rankers from several checkpoints are several rankers. Swept numbers (learning rates, widths) are
pooled instead: how far a method's results spread over seeds and hyperparameters is what a robustness study asks
(Cohen et al. 2019, section 6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import PurePath

import polars as pl
import yaml

METHOD = ("ranker", "policy", "function", "selector")
CHECKPOINT = "ranker.checkpoint"
BM25 = "BM25's own order"  # the method column of the ranking that the candidates came in
EMBEDDINGS = "embeddings"
"""Where other figures have the origin of their candidates, those of the embeddings have this."""
RESERVED = {
    *("collection", "method", "measure", "candidates", "runs", "failed", "mean", "std", "min", "max"),
    *("ci_low", "ci_high", "against", "difference", "effect", "marks", "baseline", "run", "seed", "status"),
    *("value", "bm25"),
}


def evaluations(trials: pl.DataFrame) -> list[tuple[str, str]]:
    """Pairs (candidate origin, measure) in the order of the columns: the first one leads a report."""
    names = (name for name in trials.columns if ":" in name and not name.endswith(":bm25"))
    return [(origin, measure) for origin, _, measure in (name.rpartition(":") for name in names)]


def swept(trials: pl.DataFrame) -> pl.DataFrame:
    """What was swept, one row a run and key.

    Returns:
        run, key, value (Strings), number (Float64, null unless all the key's values are numbers).
    """
    as_pairs = pl.List(pl.Struct({"key": pl.String, "value": pl.String}))  # a study without any may say less
    pairs = trials.select("run", pl.col("swept").cast(as_pairs)).explode("swept")
    pairs = pairs.drop_nulls("swept").unnest("swept")
    number = pl.col("value").cast(pl.Float64, strict=False)
    return pairs.with_columns(pl.when(number.is_not_null().all().over("key")).then(number).alias("number"))


def categorical(trials: pl.DataFrame) -> list[str]:
    """Swept keys that are part of a method: those whose values are not all numbers, sorted.

    The objective is one wherever a ranker has several, swept or not (each ranker may have its own). Keys of the
    collection are left out, and the checkpoint: results on different collections are different families, and so are
    those of different rankers.
    """
    names = set(swept(trials).filter(pl.col("number").is_null())["key"]) - {"objective"}
    objectives = trials.group_by("ranker").agg(pl.col("objective").drop_nulls().n_unique())["objective"]
    if (objectives > 1).any():
        names.add("objective")
    return sorted(key for key in names if key.split(".")[0] != "collection" and key != CHECKPOINT)


def is_learned(method: Mapping[str, str]) -> bool:
    """Whether an agent chooses the functions of a method, or its documents."""
    return "learned" in (method.get("policy"), method.get("selector"))


def column_of(key: str) -> str:
    """The name of a swept key's column: the key, unless a column of that name says something else."""
    return f"swept.{key}" if key in RESERVED or key in METHOD else key


def with_methods(trials: pl.DataFrame) -> pl.DataFrame:
    """Say for each run which method it is one of.

    Returns:
        run, collection, ranker (of several checkpoints with its name: "cross_encoder (electra)"), policy, function,
        selector, then a column for each categorical swept key ("-" in a run without it), and method, the short name
        in tables and figures: "bm25 · uniform" (policy fixed), "random(random+bm25) · uniform" or "bm25 · uniform ·
        objective=sir_v4 pick=top". Of swept lists of options (policy.learn) it shows what differs among them.
    """
    keys = categorical(trials)
    frame = trials.select("run", _collection(), pl.col(METHOD).fill_null("-"))
    pairs = swept(trials)
    checkpoints = pairs.filter(key=CHECKPOINT)
    if checkpoints["value"].n_unique() > 1:
        names = told_apart(checkpoints["value"].unique().sort().to_list())
        of = checkpoints.select("run", _checkpoint=pl.col("value").replace_strict(names, return_dtype=pl.String))
        told = (
            pl.when(pl.col("_checkpoint").is_null())
            .then("ranker")
            .otherwise(pl.format("{} ({})", "ranker", "_checkpoint"))
        )
        frame = frame.join(of, on="run", how="left", maintain_order="left").with_columns(told.alias("ranker"))
        frame = frame.drop("_checkpoint")
    for key in keys:
        values = pairs.filter(pl.col("key") == key).select("run", pl.col("value").alias(column_of(key)))
        if key == "objective":  # swept or not, runs say it
            values = trials.select("run", "objective")
        frame = frame.join(values, on="run", how="left", maintain_order="left")
    policy, function = pl.col("policy"), pl.col("function")
    source = pl.when(policy == "fixed").then(function).otherwise(pl.format("{}({})", policy, function))
    parts = [source, pl.col("selector")]
    last = ""
    for key in keys:
        value = pl.col(column_of(key))  # null where the run has no such key
        labels = _labels(key, frame[column_of(key)].drop_nulls().unique().sort().to_list())
        label = value.replace_strict(labels, return_dtype=pl.String)
        if last and key.startswith(f"{last}."):  # an option of what has just been named
            parts[-1] = pl.concat_str(parts[-1], label.str.strip_prefix(f"{last}."), separator=" ", ignore_nulls=True)
            continue
        parts.append(label)
        last = key
    name = pl.concat_str(parts, separator=" · ", ignore_nulls=True)
    return frame.with_columns(name.alias("method")).with_columns(pl.col(map(column_of, keys)).fill_null("-"))


def _labels(key: str, values: Sequence[str]) -> dict[str, str]:
    """What a method's name says of each value of a swept key."""
    whole = {value: f"{key}={value}" for value in values}
    items = {value: items_of(value) for value in values}
    options = [item for own in items.values() for item in own]
    if not values or not all(value.startswith("[") for value in values) or not all("=" in item for item in options):
        return whole
    shared = set.intersection(*map(set, items.values()))
    brief = {
        value: " ".join([item for item in own if item not in shared] or own) or whole[value]
        for value, own in items.items()
    }
    return brief if len(set(brief.values())) == len(values) else whole


def told_apart(paths: Sequence[str]) -> dict[str, str]:
    """A short name for each path, by the folders in which they differ: `a/bert/model` and `a/electra/model` by two."""
    parts = [PurePath(path).parts for path in paths]
    before = _alike(parts)
    after = _alike([own[before:][::-1] for own in parts])
    short = ["/".join(own[before : len(own) - after]) for own in parts]
    named = all(short) and len(set(short)) == len(short)
    return dict(zip(paths, short if named else paths, strict=True))


def _alike(parts: Sequence[Sequence[str]]) -> int:
    """How many parts all begin with."""
    return sum(1 for _ in takewhile(lambda level: len(set(level)) == 1, zip(*parts, strict=False)))


def items_of(value: str) -> list[str]:
    """The items of a list as Hydra prints it, ['agent=ppo','reward=raw']; a value that is no list is one item."""
    try:
        items = yaml.safe_load(value)
    except yaml.YAMLError:
        return [value]
    return list(map(str, items)) if isinstance(items, list) else [value]


def measurements(trials: pl.DataFrame) -> pl.DataFrame:
    """All results of a study, one row a run, candidate origin and measure.

    Returns:
        The columns of `with_methods`, then seed, status, candidates, measure, value (null in a failed run)
        and bm25, the figure of BM25's own order of the same candidates (null where there is none).
    """
    text, number = pl.String(), pl.Float64()
    parts = [pl.DataFrame(schema={"run": text, "seed": pl.Int64(), "status": text, "candidates": text,
                                  "measure": text, "value": number, "bm25": number})]  # fmt: skip
    done = pl.col("status") == "done"
    for candidates, measure in evaluations(trials):
        name = f"{candidates}:{measure}"
        bm25 = pl.col(f"{name}:bm25") if f"{name}:bm25" in trials.columns else pl.lit(None)
        parts.append(
            trials.select(
                *("run", "seed", "status"),
                pl.lit(candidates).alias("candidates"),
                pl.lit(measure).alias("measure"),
                pl.when(done).then(pl.col(name).cast(pl.Float64)).fill_nan(None).alias("value"),
                pl.when(done).then(bm25.cast(pl.Float64)).fill_nan(None).alias("bm25"),
            )
        )
    return with_methods(trials).join(pl.concat(parts), on="run", how="inner", maintain_order="right")


def _collection() -> pl.Expr:
    # A collection is told apart by its content; its name alone serves while it is unambiguous.
    name, fingerprint = pl.col("collection"), pl.col("fingerprint")
    ambiguous = fingerprint.drop_nulls().n_unique().over("collection") > 1
    long = pl.format("{} ({})", name, fingerprint.str.slice(0, 8))
    told = pl.when(ambiguous).then(long).otherwise(name)
    # A run that failed before it read the collection belongs to the first one.
    return told.fill_null(told.drop_nulls().first()).fill_null("-").alias("collection")
