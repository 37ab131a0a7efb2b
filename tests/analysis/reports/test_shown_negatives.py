"""The sentence on negatives that may be relevant."""

import polars as pl
import pytest

from pyrite.analysis.reports.shown_negatives import empty_places_section, suspects_section
from tests.cluster.trial_rows import trials_of


def trials(*functions: str, more: str = "") -> pl.DataFrame:
    return trials_of(
        {"run": name, "function": name, "seed": 0, "ranker": "static",
         "overrides": f"policy=fixed function={name} selector=uniform{more}"}
        for name in functions
    )  # fmt: skip


def samplers(**rows: tuple[int, int]) -> pl.DataFrame:
    columns = {"run": [*rows], "function": [*rows]}
    return pl.DataFrame(
        columns | {"misranked": [row[0] for row in rows.values()], "negatives": [row[1] for row in rows.values()]}
    )


def test_the_shares_by_hand():
    frame = samplers(bm25=(3, 40), random=(1, 2), dense=(1, 8), tfidf=(0, 0))
    (section,) = suspects_section(trials("bm25", "random", "dense", "tfidf"), frame)
    assert section.last
    (line, _) = section.terminal
    assert "when shown: 12.5% of dense's with dense, 7.5% of bm25's with bm25. A sample tells" in line
    assert line.endswith("sampling.recorded=1 in the study, and then pyrite audit OUT.")
    assert section.parts == [line]


def test_a_study_that_recorded_its_negatives_names_the_audit_alone():
    recorded = trials("bm25", more=" sampling.recorded=0.5")
    (section,) = suspects_section(recorded, samplers(bm25=(1, 4)), "outputs/mine")
    assert "how many are: pyrite audit outputs/mine." in section.terminal[0]


def test_of_many_methods_the_highest_are_named():
    names = [f"f{number}" for number in range(5)]
    (section,) = suspects_section(trials(*names), samplers(**{name: (at, 10) for at, name in enumerate(names)}))
    assert (
        "40.0% of f4's with f4, 30.0% of f3's with f3, 20.0% of f2's with f2, less with 2 others."
        in section.terminal[0]
    )


@pytest.mark.parametrize(
    "frame", [None, samplers(random=(1, 2)), samplers(bm25=(0, 0)), samplers(bm25=(1, 2)).drop("misranked")]
)
def test_nothing_is_said_without_hard_negatives(frame):
    assert suspects_section(trials("bm25", "random"), frame) == []


def test_places_that_stayed_empty_are_counted():
    frame = samplers(bm25=(0, 30), random=(0, 5), in_batch=(0, 10)).with_columns(missing=pl.Series([10, 0, 5]))
    (section,) = empty_places_section(trials("bm25", "random", "in_batch"), frame)
    line = "Places for negatives that stayed empty, since too few candidates were left: 25.0% of bm25's with bm25."
    assert (section.parts, section.terminal, section.last) == ([line], [line, ""], True)
    assert empty_places_section(trials("random"), frame.filter(function="random")) == []
    (few,) = empty_places_section(trials("bm25"), frame.with_columns(missing=pl.lit(1))[:1])
    assert "were left: 3.2% of bm25's with " in few.parts[0]
    assert few.terminal == []
