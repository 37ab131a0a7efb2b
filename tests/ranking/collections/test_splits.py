"""Every collection ends with three splits or with none."""

import polars as pl
import pytest

from ranking.collections.splits import folds, usable
from ranking.errors import BadInput


def queries(**counts: int) -> pl.DataFrame:
    rows = [(f"{split}{i}", None if split == "none" else split) for split, n in counts.items() for i in range(n)]
    return pl.DataFrame(rows, {"id": pl.String, "split": pl.String}, orient="row")


def counts(frame: pl.DataFrame) -> dict[str | None, int]:
    return dict(frame["split"].value_counts().iter_rows())


def test_three_splits_stay():
    frame = queries(train=8, dev=1, test=1)
    assert usable(frame).equals(frame)


@pytest.mark.parametrize(("trains", "tests"), [("train", "test"), ("train", "dev"), ("dev", "test")])
def test_dev_is_cut_off_what_trains(trains, tests):
    """Dev is the test if there is no other, and trains if nothing else does."""
    cut = usable(queries(**{trains: 100, tests: 7}))
    assert counts(cut) == {"train": 90, "dev": 10, "test": 7}
    assert set(cut.filter(pl.col("id").str.starts_with(tests))["split"]) == {"test"}
    assert counts(usable(queries(**{trains: 3, tests: 1}))) == {"train": 2, "dev": 1, "test": 1}


@pytest.mark.parametrize(
    "given_counts",
    [{"test": 9}, {"train": 9}, {"none": 5}, {"none": 1, "train": 4, "test": 4}, {"train": 1, "test": 3}],
)
def test_no_split_otherwise(given_counts):
    assert counts(usable(queries(**given_counts))) == {None: sum(given_counts.values())}


def test_the_cut_goes_by_the_id_and_not_by_the_order():
    frame = queries(train=50, test=5)
    assert usable(frame).sort("id").equals(usable(frame.reverse()).sort("id"))


def test_too_few_queries_are_told_what_would_help():
    with pytest.raises(BadInput, match="5 folds; take fewer folds"):
        folds(queries(none=4), 5)
    with pytest.raises(BadInput, match="2 queries cannot be cut into 3 folds; 3 is the fewest folds"):
        folds(queries(none=2), 3)


def test_folds_repeat_and_depend_on_nothing_but_ids():
    frame = queries(none=20)
    first = folds(frame, 4)
    assert all(a.equals(b) for a, b in zip(first, folds(frame, 4), strict=True))
    backwards = folds(frame.reverse(), 4)
    assert all(a.sort("id").equals(b.sort("id")) for a, b in zip(first, backwards, strict=True))


def test_too_few_folds():
    with pytest.raises(BadInput, match="no queries to train on"):
        folds(queries(none=9), 2)
