"""Assigns the runs of a study to methods, and lists all results as one long table.

A method is a ranker, a policy, a function, a selector, and the factors of the study: other options that were swept
over names (such as an objective) or over a few numbers. Rankers from several checkpoints are several rankers. Numbers
that were drawn from an interval or have many values are pooled instead: a robustness study asks how much a method's
results vary over seeds and hyperparameters (Cohen et al. 2019, section 6).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain, takewhile
from pathlib import PurePath

import polars as pl
import yaml

from pyrite.ranking.errors import refuse

METHOD = ("ranker", "policy", "function", "selector")
METHOD_KEYS = ["collection", "ranker", "method"]
"""Columns that tell methods apart, by their short names."""
TRAINER = r"\btrainer(\.run)?="
"""Pattern of the overrides of a run that the user's function or command trains."""
CHECKPOINT = "ranker.checkpoint"
ALONE = "{} alone"
"""The method of the ranking in which the candidates came."""
UNTRAINED = "before training"
"""The method of a ranker as its checkpoint has it. It has no run."""
BESIDE = (":bm25", ":untrained", ":interpolated")
"""The ends of the columns next to that of a measure."""
EVALUATION = re.compile(r"(?P<origin>.*):(?!(bm25|untrained|interpolated)$)(?P<measure>[^:]*)")
"""The column of a measure over an origin of candidates."""
RUN_FILE = "run_file"
"""Origin of candidates from a run file; with several run files, the start of its name."""
EMBEDDINGS = "embeddings"
"""Value of the candidates column for figures of the embeddings."""
AGENTS = ("policy.agent", "selector.agent")
"""Keys whose values are the seeds with which agents were learned."""
LEARN = ("policy.learn", "selector.learn")
"""Keys whose values are the options of learning, of which a method's name has those that differ."""
LABEL = "label"
"""The swept key of methods that the user labels; the label is then the method's name."""
MEAN = "mean"
"""Name of the row with the means over the collections of `evaluate`."""
MOST_VALUES = 8
"""A number that was swept over more values is no factor, unless the user names it."""
FIRST_SEEDS = 3
"""Seeds of every method of `stop=decided` before anything is decided."""
SWEPT = pl.List(pl.Struct({"key": pl.String, "value": pl.String}))
"""The type of the column of swept options."""
ORDER = "which runs are stopped depends on the order in which results arrive"
"""A remark on studies with early stopping."""
LIST, OPTION = re.compile(r"\["), re.compile("=")
"""What a swept list begins with, and what an option in it has."""
RESERVED = {
    *("collection", "method", "measure", "candidates", "runs", "failed", "mean", "std", "min", "max"),
    *("ci_low", "ci_high", "against", "difference", "effect", "marks", "baseline", "run", "seed", "status"),
    *("value", "bm25", "agent", "settings", "diverged", "pairs", "interpolated"),
}


def evaluations(trials: pl.DataFrame) -> list[tuple[str, str]]:
    """Return pairs (candidate origin, measure) in the order of the columns; a report shows the first one first."""
    found = filter(None, map(EVALUATION.fullmatch, trials.columns))
    return [(match["origin"], match["measure"]) for match in found]


def leading_evaluations(trials: pl.DataFrame) -> list[tuple[str, str]]:
    """Return those of `evaluations` that have the first one's measure."""
    return [pair for pair in evaluations(trials) if pair[1] == evaluations(trials)[0][1]]


def evaluations_by_origin(trials: pl.DataFrame) -> list[tuple[str, str]]:
    """Return `evaluations` with those of one origin after each other, as summaries list them."""
    pairs = evaluations(trials)
    origins = [origin for origin, _ in pairs]
    return sorted(pairs, key=lambda pair: origins.index(pair[0]))


def swept(trials: pl.DataFrame) -> pl.DataFrame:
    """Return what was swept, one row per run and key: run, key, value, and number, null unless all the key's values are
    numbers.
    """
    pairs = trials.select("run", pl.col("swept").cast(SWEPT)).explode("swept")  # a study without a sweep has another
    pairs = pairs.drop_nulls("swept").unnest("swept")
    number = pl.col("value").cast(pl.Float64, strict=False)
    return pairs.with_columns(pl.when(number.is_not_null().all().over("key")).then(number).alias("number"))


def factors(trials: pl.DataFrame) -> list[str]:
    """Return the swept keys that are part of a method, sorted: those that the user named (`with_factors`), or else all
    that were swept over names, and numbers of at most `MOST_VALUES` values that were not drawn from an interval.

    The objective is a factor if a ranker has several, swept or not. Keys of the collection and the checkpoint are none,
    since results on different collections or of different rankers are compared separately, and neither are seeds of
    agents, since an agent is a repetition of its method.
    """
    pairs = swept(trials)
    if "factors" in trials.columns and trials["factors"].null_count() < len(trials):
        requested = set(trials["factors"].explode().drop_nulls())
        return sorted(requested & (set(pairs["key"]) | {"objective"}) - {CHECKPOINT})
    levels = pairs.group_by("key").agg(pl.col("value").n_unique(), pl.col("number").null_count().alias("named"))
    others = ["objective", *AGENTS, CHECKPOINT, *trials["drawn"].explode().drop_nulls()]
    key = pl.col("key")
    able = levels.filter((pl.col("named") > 0) | (pl.col("value") <= MOST_VALUES), ~key.is_in(others))
    names = set(able.filter(~key.str.contains(r"^collection(\.|$)"))["key"])
    objectives = trials.group_by("ranker").agg(pl.col("objective").drop_nulls().n_unique())["objective"]
    if (objectives > 1).any():
        names.add("objective")
    if LABEL in names:
        without = set(pairs.join(_labels_of(pairs), on="run", how="anti")["key"])
        return [LABEL, *sorted((names & (_within_labels(pairs) | without)) - {LABEL})]
    return sorted(names)


def _labels_of(pairs: pl.DataFrame) -> pl.DataFrame:
    return pairs.filter(key=LABEL).select("run", label="value")


def _within_labels(pairs: pl.DataFrame) -> set[str]:
    """Return the swept keys that have several values in the runs of one label."""
    values = pairs.join(_labels_of(pairs), on="run").group_by("key", "label").agg(pl.col("value").n_unique())
    return set(values.filter(pl.col("value") > 1)["key"])


def with_factors(trials: pl.DataFrame, requested: Sequence[str] | None) -> pl.DataFrame:
    """Return the trials with a column of the requested keys, by which methods differ: runs that differ in other swept
    keys are pooled. None leaves the choice to `factors`.
    """
    if requested is None:
        return trials.drop("factors", strict=False)
    known = {*swept(trials)["key"], *(["objective"] if trials["objective"].n_unique() > 1 else [])}
    for key in requested:
        remedy = f"choose from {', '.join(sorted(known))}" if known else "this study sweeps methods and seeds alone"
        refuse(key not in known, f"{key!r} is not swept", "factors", remedy)
    column = pl.Series("factors", [list(requested)] * len(trials), dtype=pl.List(pl.String))
    return trials.drop("factors", strict=False).with_columns(column)


def untrained_of(run: str) -> str:
    """Return the name under which the values of a run's ranker before its training are found."""
    return f"{run}:untrained"


def first_stage_of(candidates: str) -> str:
    """Return what ranked an origin's candidates before the ranker: BM25, or the run of a run file."""
    return "the run" if candidates.startswith(RUN_FILE) else "BM25"


def is_learned(method: Mapping[str, str]) -> bool:
    """Return whether an agent chooses a method's functions or documents."""
    return "learned" in (method.get("policy"), method.get("selector"))


def column_of(key: str) -> str:
    """Return the name of a swept key's column: the key, unless another column has that name."""
    return f"swept.{key}" if key in RESERVED or key in METHOD else key


def method_columns(trials: pl.DataFrame) -> list[str]:
    """Return the columns that identify a method: METHOD, one per factor, and method, the short name of all that."""
    return [*METHOD, *map(column_of, factors(trials)), "method"]


def first_runs(trials: pl.DataFrame, among: Sequence[str]) -> pl.DataFrame:
    """Return the run of each method with the lowest seed: the columns of `with_methods`, and seed."""
    runs = with_methods(trials).join(trials.select("run", "seed"), on="run").filter(pl.col("run").is_in(list(among)))
    return runs.sort("seed", "run").unique(METHOD_KEYS, keep="first", maintain_order=True)


def with_methods(trials: pl.DataFrame) -> pl.DataFrame:
    """Return the method of each run.

    The columns are run, collection, ranker (with the checkpoint's name if there are several: "cross_encoder
    (electra)"), policy, function, selector, one per factor ("-" in a run without it), and method, the short name in
    tables and figures: the run's label, or "bm25 · uniform" (policy fixed), "random(random+bm25) · uniform" or
    "bm25 · uniform · objective=sir_v4 pick=top". For swept lists of options (policy.learn) it shows those that differ.
    """
    keys = factors(trials)
    frame = trials.select("run", _collection(), pl.col(METHOD).fill_null("-"))
    pairs = swept(trials)
    checkpoints = pairs.filter(key=CHECKPOINT)
    if checkpoints["value"].n_unique() > 1:
        names = told_apart(checkpoints["value"].unique().sort().to_list())
        of = checkpoints.select("run", _checkpoint=pl.col("value").replace_strict(names, return_dtype=pl.String))
        label = pl.coalesce(pl.format("{} ({})", "ranker", "_checkpoint"), "ranker").alias("ranker")
        frame = frame.join(of, on="run", how="left", maintain_order="left").with_columns(label).drop("_checkpoint")
    for key in keys:
        values = pairs.filter(key=key).select("run", pl.col("value").alias(column_of(key)))
        if key == "objective":  # swept or not, each run records it
            values = trials.select("run", "objective")
        frame = frame.join(values, on="run", how="left", maintain_order="left")
    policy, function = pl.col("policy"), pl.col("function")
    source = pl.when(policy == "fixed").then(function).otherwise(pl.format("{}({})", policy, function))
    parts = [source, pl.col("selector")]
    within = set(keys)
    if LABEL in keys:  # of runs without one, from another study, the name is that of their parts
        parts, within = [pl.coalesce(LABEL, pl.concat_str(parts, separator=" · "))], _within_labels(pairs)
    last = ""
    for key in keys:
        if key == LABEL:
            continue
        value = pl.col(column_of(key))  # null if the run has no such key
        labels = _labels(key, frame[column_of(key)].drop_nulls().unique().sort().to_list())
        label = value.replace_strict(labels, return_dtype=pl.String)
        if key not in within:
            label = pl.when(pl.col(LABEL).is_null()).then(label)
        if last and key.startswith(f"{last}."):  # an option of the previous part
            option = label.str.strip_prefix(f"{last}.")  # null, as the part itself, in a run without it
            parts[-1] = pl.coalesce(pl.concat_str(parts[-1], option, separator=" "), parts[-1], option)
            continue
        parts.append(label)
        last = key
    name = pl.concat_str(parts, separator=" · ", ignore_nulls=True)
    return frame.with_columns(name.alias("method")).with_columns(pl.col(map(column_of, keys)).fill_null("-"))


def _labels(key: str, values: Sequence[str]) -> dict[str, str]:
    """Return the label of each value of a swept key in a method's name."""
    whole = {value: f"{key}={value}" for value in values}
    items = {value: items_of(value) for value in values}
    if not all(map(LIST.match, values)) or not all(map(OPTION.search, chain(*items.values()))):
        return whole
    shared = set.intersection(*map(set, items.values()))
    brief = {
        value: " ".join([item for item in own if item not in shared] or own[:1]) or whole[value]
        for value, own in items.items()
    }
    return brief if len(set(brief.values())) == len(values) else whole


def told_apart(paths: Sequence[str]) -> dict[str, str]:
    """Return a short name per path, by the folders in which they differ: `bert` and `electra` for `a/bert/model` and
    `a/electra/model`."""
    parts = [PurePath(path).parts for path in paths]
    before = _alike(parts)
    after = _alike([own[before:][::-1] for own in parts])
    short = ["/".join(own[before : len(own) - after]) for own in parts]
    named = all(short) and len(set(short)) == len(short)
    return dict(zip(paths, short if named else paths, strict=True))


def _alike(parts: Sequence[Sequence[str]]) -> int:
    """Return how many leading parts are equal in all."""
    return sum(1 for _ in takewhile(lambda level: len(set(level)) == 1, zip(*parts, strict=False)))


def items_of(value: str) -> list[str]:
    """Return the items of a list as Hydra prints it, ['agent=ppo','reward=raw']; any other value is one item."""
    try:
        items = yaml.safe_load(value)
    except yaml.YAMLError:
        return [value]
    return list(map(str, items)) if isinstance(items, list) else [value]


def measurements(trials: pl.DataFrame) -> pl.DataFrame:
    """Return all results of a study, one row per run, candidate origin and measure.

    The columns are those of `with_methods`, agent (the seed of its learning, "-" without one), settings (a list of
    {key, value}: swept options that are no factors), seed, status, diverged, candidates, measure, value (null for a
    failed run), bm25, the value of BM25's order of the same candidates, untrained, that of the ranker before its
    training (null if it starts from nothing), and interpolated, that of the ranker's scores interpolated with BM25's
    (null without them).
    """
    text, number = pl.String(), pl.Float64()
    parts = [pl.DataFrame(schema={"run": text, "seed": pl.Int64(), "status": text, "diverged": pl.Boolean(),
                                  "candidates": text, "measure": text, "value": number, "bm25": number,
                                  "untrained": number, "interpolated": number})]  # fmt: skip
    done = pl.col("status") == "done"
    for candidates, measure in evaluations(trials):
        name = f"{candidates}:{measure}"
        parts.append(
            trials.select(
                *("run", "seed", "status"),
                pl.col("diverged").fill_null(False),
                candidates=pl.lit(candidates),
                measure=pl.lit(measure),
                **{
                    as_: pl.when(done).then(_number(trials, name + kind)).fill_nan(None)
                    for kind, as_ in (("", "value"), *((kind, kind[1:]) for kind in BESIDE))
                },
            )
        )
    methods = with_methods(trials).join(_repetitions(trials), on="run", how="left", maintain_order="left")
    methods = methods.with_columns(pl.col("agent").fill_null("-"), pl.col("settings").fill_null([]))
    return methods.join(pl.concat(parts), on="run", how="inner", maintain_order="right")


def _number(trials: pl.DataFrame, name: str) -> pl.Expr:
    """Return a column of numbers, null if no column has that name."""
    return (pl.col(name) if name in trials.columns else pl.lit(None)).cast(pl.Float64)


def _repetitions(trials: pl.DataFrame) -> pl.DataFrame:
    """Return each run's agent, by the seed of its learning, and its swept settings that are no factors."""
    every = swept(trials)
    pairs = every.filter(~pl.col("key").is_in([*factors(trials), CHECKPOINT]))
    pairs = pairs.filter(~pl.col("key").str.starts_with("collection")).sort("run", "key")
    # Of a method with a label, what all of its runs share is the method's and does not pair it with others.
    pairs = pairs.join(_labels_of(every), on="run", how="left", maintain_order="left").filter(
        pl.col("label").is_null() | (pl.col("value").n_unique().over("label", "key") > 1)
    )
    by_agent = pl.col("key").is_in(AGENTS)
    agent = pl.col("value").filter(by_agent).str.join("+")
    return pairs.group_by("run").agg(
        pl.when(by_agent.any()).then(agent).alias("agent"),
        pl.struct("key", "value").filter(~by_agent).alias("settings"),
    )


def _collection() -> pl.Expr:
    # The content identifies a collection; its name is enough while it is unambiguous.
    name, fingerprint = pl.col("collection"), pl.col("fingerprint")
    ambiguous = fingerprint.drop_nulls().n_unique().over("collection") > 1
    long = pl.format("{} ({})", name, fingerprint.str.slice(0, 8))
    label = pl.when(ambiguous).then(long).otherwise(name)
    # A run that failed before it read the collection belongs to the first one.
    return label.fill_null(label.drop_nulls().first()).fill_null("-").alias("collection")
