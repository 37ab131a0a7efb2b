"""Decides which queries train a ranker, which stop it early, and which test it.

Everything here depends only on a hash of the query's id: no random numbers, the same on every machine.
"""

from __future__ import annotations

import re
from hashlib import blake2b

import numpy as np
import polars as pl

from pyrite.ranking.errors import refuse

TRAIN, DEV, TEST = "train", "dev", "test"
SPLIT_FILES = {
    TRAIN: ("train", "training"),
    DEV: ("dev", "validation", "valid", "val", "development"),
    TEST: ("test", "testing", "eval", "evaluation", "holdout", "heldout"),
}
"""The names of splits, the first one being ours."""
SPLIT_OF = {name: split for split, names in SPLIT_FILES.items() for name in names}
"""The split of each of these names."""
DEV_SHARE = 0.1
"""The share of the training queries that becomes dev if there is none, at least one of them."""
NO_TRAINING = "queries of dev that train for lack of others"
"""A fact of a collection with dev and test queries only: those of dev train."""
NO_TEST = "queries of dev that are the test for lack of others"
"""A fact of a collection with train and dev queries only: those of dev are the test, and a share of train is dev."""
TEST_ONLY = "judgements of the test split only"
"""A fact of a collection that has no others: its queries are cross-validated."""


def split_named(name: str) -> str | None:
    """Return the split that a word in a file's or folder's name shows, None if there is none.

    `nq-train.json`, `test-00000-of-00001.parquet` and `validation` show one, `training_manual.csv` is a train file too.
    """
    plain = re.sub(r"h[eo]ld[^a-z]+out", "holdout", name.lower().split(".")[0])
    words = (re.sub(r"(?<=.)(set|data|split|s)$", "", word) for word in re.split(r"[^a-z]+", plain))
    return next(filter(None, map(SPLIT_OF.get, words)), None)


def usable(queries: pl.DataFrame) -> pl.DataFrame:
    """Make all three splits from those that a collection has, so that everything downstream finds all or none.

    | the collection has | it gets |
    |---|---|
    | train, dev, test | as it is |
    | train, test | a share of train becomes dev |
    | train, dev | dev becomes test (MS MARCO hides its test judgements), a share of train becomes dev |
    | dev, test | dev becomes train, and a share of it dev |
    | anything else | no split at all: its queries are cross-validated, see `folds` |

    Args:
        queries: columns id and split.

    Returns:
        The same queries in the same order, with another split.
    """
    present = set(queries["split"].drop_nulls().unique())
    split = pl.col("split")
    if queries["split"].null_count() == 0 and present == {TRAIN, DEV, TEST}:
        return queries
    if present == {DEV, TEST}:
        queries, present = queries.with_columns(split.replace(DEV, TRAIN)), {TRAIN, TEST}
    train = shuffled(queries.filter(split == TRAIN)["id"])
    if queries["split"].null_count() or present not in ({TRAIN, TEST}, {TRAIN, DEV}) or len(train) < 2:
        return queries.with_columns(split=pl.lit(None, pl.String))
    dev = train[: max(1, round(DEV_SHARE * len(train)))]
    return queries.with_columns(
        pl.when(split != TRAIN)
        .then(pl.lit(TEST))
        .when(pl.col("id").is_in(dev.implode()))
        .then(pl.lit(DEV))
        .otherwise(pl.lit(TRAIN))
        .alias("split")
    )


def folds(queries: pl.DataFrame, k: int = 5) -> list[pl.DataFrame]:
    """Return the same queries with a split per fold: every query is tested once, by a ranker that never saw it.

    The queries are divided into k parts, equal to within one query. In fold i, part i is the test, part i+1 (after the
    last comes the first) is dev, and the others train.

    Args:
        queries: a frame with column id; an existing split is ignored.
        k: the number of folds, at least 3.

    Raises:
        BadInput: if there are fewer than 3 folds, or fewer queries than folds.
    """
    refuse(k < 3, f"{k} folds leave no queries to train on", "folds", "take 3 or more")
    fewer = "take fewer folds" if len(queries) >= 3 else "3 is the fewest folds: bring more queries, or a split"
    queries_read = "1 query" if len(queries) == 1 else f"{len(queries)} queries"
    refuse(len(queries) < k, f"{queries_read} cannot be cut into {k} folds", "folds", fewer)
    part = {query: position % k for position, query in enumerate(shuffled(queries["id"]))}
    parts = pl.Series([part[query] for query in queries["id"]])
    return [
        queries.with_columns(
            pl.when(parts == i)
            .then(pl.lit(TEST))
            .when(parts == (i + 1) % k)
            .then(pl.lit(DEV))
            .otherwise(pl.lit(TRAIN))
            .alias("split")
        )
        for i in range(k)
    ]


def with_test(judgements: pl.DataFrame, count: int) -> pl.DataFrame:
    """Return judgements of which `count` queries are the test and the others train; without a split if it is 0."""
    tested = shuffled(judgements["query"].unique())[:count]
    split = pl.when(pl.col("query").is_in(tested.implode())).then(pl.lit(TEST)).otherwise(pl.lit(TRAIN))
    return judgements.with_columns(split=pl.when(count > 0).then(split))


def shuffled(ids: pl.Series) -> pl.Series:
    """Return the ids in the order of their hashes."""
    digests = b"".join(blake2b(query.encode(), digest_size=16).digest() for query in ids)
    high, low = np.frombuffer(digests, ">u8").reshape(-1, 2).T
    return ids.gather(np.lexsort((low, high)).astype(np.uint32))
