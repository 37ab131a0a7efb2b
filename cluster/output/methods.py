"""Says which method each run of a study is one of, and lists all results as one long table.

A method is a ranker, a policy, a function and a selector, and the factors of the study: whatever else was swept over
names (an objective, say) or over a few numbers. Rankers from several checkpoints are several rankers. Numbers that were
drawn from an interval or have many values are pooled instead: how far a method's results spread over seeds and
hyperparameters is what a robustness study asks (Cohen et al. 2019, section 6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import PurePath

import polars as pl
import yaml

from ranking.errors import BadInput

METHOD = ("ranker", "policy", "function", "selector")
CHECKPOINT = "ranker.checkpoint"
BM25 = "BM25 alone"  # the method column of the ranking that the candidates came in
RUN = "the run alone"  # the same where they came in a run file
RUN_FILE = "run_file"
"""The origin whose candidates are those of a run file; names of several begin with it."""
EMBEDDINGS = "embeddings"
"""Where other figures have the origin of their candidates, those of the embeddings have this."""
AGENTS = ("policy.agent", "selector.agent")
"""Keys whose values are the seeds that agents were learned with."""
MOST_VALUES = 8
"""A number swept over more values than these is no factor unless the user names it."""
RESERVED = {
    *("collection", "method", "measure", "candidates", "runs", "failed", "mean", "std", "min", "max"),
    *("ci_low", "ci_high", "against", "difference", "effect", "marks", "baseline", "run", "seed", "status"),
    *("value", "bm25", "agent", "settings", "diverged", "pairs", "interpolated"),
}


def evaluations(trials: pl.DataFrame) -> list[tuple[str, str]]:
    """Pairs (candidate origin, measure) in the order of the columns: the first one leads a report."""
    names = (name for name in trials.columns if ":" in name and not name.endswith((":bm25", ":interpolated")))
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


def factors(trials: pl.DataFrame) -> list[str]:
    """Swept keys that are part of a method, sorted.

    Those that the user named (`with_factors`), or else all that were swept over names, and numbers of at most
    `MOST_VALUES` values that were not drawn from an interval. The objective is one wherever a ranker has several, swept
    or not (each ranker may have its own). Keys of the collection are left out, and the checkpoint: results on different
    collections are different families, and so are those of different rankers. The seeds of agents are left out, for an
    agent is a repetition of its method.
    """
    pairs = swept(trials)
    if "factors" in trials.columns and trials["factors"].null_count() < len(trials):
        asked = set(trials["factors"].explode().drop_nulls())
        return sorted(asked & (set(pairs["key"]) | {"objective"}) - {CHECKPOINT})
    named = set(pairs.filter(pl.col("number").is_null())["key"])
    levels = pairs.group_by("key").agg(pl.col("value").n_unique())
    few = set(levels.filter(pl.col("value") <= MOST_VALUES)["key"])
    drawn = set(trials["drawn"].explode().drop_nulls()) if "drawn" in trials.columns else set()
    names = (named | few) - drawn - {"objective", *AGENTS, CHECKPOINT}
    objectives = trials.group_by("ranker").agg(pl.col("objective").drop_nulls().n_unique())["objective"]
    if (objectives > 1).any():
        names.add("objective")
    return sorted(key for key in names if key.split(".")[0] != "collection")


def with_factors(trials: pl.DataFrame, asked: Sequence[str] | None) -> pl.DataFrame:
    """The trials, told by which keys their methods differ.

    Args:
        trials: the frame of `trials.parquet`.
        asked: swept keys; runs that differ by other swept keys are pooled. None: as `factors` chooses.

    Raises:
        BadInput: where one of them was not swept.
    """
    if asked is None:
        return trials.drop("factors", strict=False)
    known = {*swept(trials)["key"], *(["objective"] if trials["objective"].n_unique() > 1 else [])}
    for key in asked:
        if key not in known:
            remedy = f"choose from {', '.join(sorted(known))}" if known else "this study sweeps methods and seeds alone"
            raise BadInput(f"{key!r} is not swept", "factors", remedy)
    column = pl.Series("factors", [list(asked)] * len(trials), dtype=pl.List(pl.String))
    return trials.drop("factors", strict=False).with_columns(column)


def diverged(trials: pl.DataFrame) -> pl.DataFrame:
    """The runs that ended with a result, though their training diverged; an older study doesn't say."""
    return trials.filter("diverged", status="done") if "diverged" in trials.columns else trials.clear()


def stopped_runs(trials: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The runs that did not begin before a study's time was over, and those that the scheduler of a search stopped."""
    stopped = trials.filter(status="stopped")
    return stopped.filter(pl.col("epochs") == 0), stopped.filter(pl.col("epochs") > 0)


def first_stage_of(candidates: str) -> str:
    """What an origin's candidates were ranked by before the ranker: BM25, or the run of a run file."""
    return "the run" if candidates.startswith(RUN_FILE) else "BM25"


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
        selector, then a column for each factor ("-" in a run without it), and method, the short name
        in tables and figures: "bm25 · uniform" (policy fixed), "random(random+bm25) · uniform" or "bm25 · uniform ·
        objective=sir_v4 pick=top". Of swept lists of options (policy.learn) it shows what differs among them.
    """
    keys = factors(trials)
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
        The columns of `with_methods`, then agent (the seed of its learning, "-" without one), settings (a list of
        {key, value}: what was swept and is no factor), seed, status, diverged, candidates, measure, value (null in a
        failed run) bm25, the figure of BM25's own order of the same candidates, and interpolated, that of the ranker's
        scores with BM25's (null where there is none).
    """
    text, number = pl.String(), pl.Float64()
    parts = [pl.DataFrame(schema={"run": text, "seed": pl.Int64(), "status": text, "diverged": pl.Boolean(),
                                  "candidates": text, "measure": text, "value": number, "bm25": number,
                                  "interpolated": number})]  # fmt: skip
    done = pl.col("status") == "done"
    diverged = pl.col("diverged").fill_null(False) if "diverged" in trials.columns else pl.lit(False)
    for candidates, measure in evaluations(trials):
        name = f"{candidates}:{measure}"
        parts.append(
            trials.select(
                *("run", "seed", "status"),
                diverged.alias("diverged"),
                pl.lit(candidates).alias("candidates"),
                pl.lit(measure).alias("measure"),
                *(
                    pl.when(done).then(_number(trials, name + kind)).fill_nan(None).alias(as_)
                    for kind, as_ in (("", "value"), (":bm25", "bm25"), (":interpolated", "interpolated"))
                ),
            )
        )
    methods = with_methods(trials).join(_repetitions(trials), on="run", how="left", maintain_order="left")
    methods = methods.with_columns(pl.col("agent").fill_null("-"), pl.col("settings").fill_null([]))
    return methods.join(pl.concat(parts), on="run", how="inner", maintain_order="right")


def _number(trials: pl.DataFrame, name: str) -> pl.Expr:
    """A column of numbers, null where there is none of that name."""
    return (pl.col(name) if name in trials.columns else pl.lit(None)).cast(pl.Float64)


def _repetitions(trials: pl.DataFrame) -> pl.DataFrame:
    """Of runs that have any: the agent, by the seed of its learning, and the swept settings that are no factors."""
    pairs = swept(trials).filter(~pl.col("key").is_in(factors(trials)), pl.col("key") != CHECKPOINT)
    pairs = pairs.filter(~pl.col("key").str.starts_with("collection")).sort("run", "key")
    by_agent = pl.col("key").is_in(AGENTS)
    agent = pl.col("value").filter(by_agent).str.join("+")
    return pairs.group_by("run").agg(
        pl.when(by_agent.any()).then(agent).alias("agent"),
        pl.struct("key", "value").filter(~by_agent).alias("settings"),
    )


def _collection() -> pl.Expr:
    # A collection is told apart by its content; its name alone serves while it is unambiguous.
    name, fingerprint = pl.col("collection"), pl.col("fingerprint")
    ambiguous = fingerprint.drop_nulls().n_unique().over("collection") > 1
    long = pl.format("{} ({})", name, fingerprint.str.slice(0, 8))
    told = pl.when(ambiguous).then(long).otherwise(name)
    # A run that failed before it read the collection belongs to the first one.
    return told.fill_null(told.drop_nulls().first()).fill_null("-").alias("collection")
