"""Measures how often a comparison of one seed, as papers print them, has the wrong sign or is far too large.

    python -m benchmarks.one_seed [--draws N] [--least N] [--measure NAME]

Takes the archived studies of many seeds in docs/experiments/data. For each pair of their methods it draws one run of
each side and some of the test queries, as a paper has them, and holds the difference against the truth: the difference
of the means over all other seeds and all queries. It prints the share of wrong signs, and that of gains of more than
twice the truth, by the size of the printed gain, the number of queries and the collection; and for each number of
queries the gain up to which one sign in ten is wrong.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.archives import DATA, Archive, number, table

SMALLEST = ["--draws 4"]
QUERIES = (50, 100, 200, 400)
MARGINS = (0.0, 0.005, 0.01, 0.02, 0.04, 1.0)
WRONG = 0.1
"""The share of wrong signs up to which a gain is called uncertain."""
WINDOWS = 20
NO_AGENT = "-"
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Study:
    """The values of a study: of each method, float64 [seeds, queries]."""

    name: str
    place: str
    values: dict[str, Floats]

    @property
    def seeds(self) -> int:
        return min(len(runs) for runs in self.values.values())


def studies(measure: str, least: int) -> Iterator[Study]:
    """Yield the archived studies over BM25's candidates with at least `least` seeds of each method."""
    for folder in sorted(DATA.iterdir()):
        if not (folder / "trials.parquet").exists() or not (folder / "queries.parquet").exists():
            continue
        archive = Archive(folder.name)
        if measure not in archive.queries.columns or "bm25" not in archive.origins or "agent" in folder.name:
            continue
        rows = archive.queries.filter(origin="bm25")
        wide = rows.pivot("query", index="run", values=measure).sort("run")
        runs = {name: position for position, name in enumerate(wide["run"])}
        matrix = wide.drop("run").to_numpy().astype(np.float64)
        matrix = matrix[:, ~np.isnan(matrix).any(0)]
        methods = archive.methods("bm25", measure)
        values = {
            name: matrix[[runs[run.name] for run in method.runs]]
            for name, method in methods.items()
            if len(method.runs) >= least and {run.agent for run in method.runs} == {NO_AGENT}
        }
        if len(values) > 1:
            yield Study(folder.name, archive.place, values)


def drawn(first: Floats, second: Floats, queries: int, draws: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return printed differences of one seed per side over some queries, and the truths by all other seeds.

    The larger side of a print is the one that a paper proposes, so that the printed difference is a gain.
    """
    shown, true = np.empty((2, draws))
    totals = [side.mean(1) for side in (first, second)]
    for draw in range(draws):
        rows = [int(rng.integers(len(side))) for side in (first, second)]
        columns = rng.choice(first.shape[1], min(queries, first.shape[1]), replace=False)
        shown[draw] = first[rows[0], columns].mean() - second[rows[1], columns].mean()
        rest = [np.delete(total, row).mean() for total, row in zip(totals, rows, strict=True)]
        true[draw] = rest[0] - rest[1]
    sign = np.where(shown < 0, -1.0, 1.0)
    return shown * sign, true * sign


def comparisons(study: Study, draws: int, rng: np.random.Generator) -> pl.DataFrame:
    """Return one row per printed comparison of a study."""
    tables = []
    size = next(iter(study.values.values())).shape[1]
    for queries in [count for count in QUERIES if count <= size] or [size]:
        for first, second in itertools.combinations(study.values.values(), 2):
            shown, true = drawn(first, second, queries, draws, rng)
            tables.append(pl.DataFrame({"shown": shown, "true": true}).with_columns(queries=queries))
    named = {"study": study.name, "place": study.place, "seeds": study.seeds}
    return pl.concat(tables).with_columns(**{key: pl.lit(value) for key, value in named.items()})


def shares(rows: pl.DataFrame) -> tuple[str, str]:
    """Return the share of wrong signs, and that of gains of the right sign that are more than twice the truth."""
    wrong = rows["true"] <= 0
    twice = ~wrong & (rows["shown"] > 2 * rows["true"])
    return f"{wrong.mean():.0%}", f"{twice.mean():.0%}"


def uncertain(rows: pl.DataFrame) -> float:
    """Return the printed gain up to which `WRONG` of the signs are wrong, by windows of comparisons of like gains."""
    ordered = rows.sort("shown")
    wrong, size = ordered["true"].to_numpy() <= 0, max(len(rows) // WINDOWS, 1)
    ends = np.arange(size, len(rows) + 1, size)
    uncertain_at = [end for end in ends if wrong[end - size : end].mean() >= WRONG]
    return float(ordered["shown"][int(uncertain_at[-1]) - 1]) if uncertain_at else 0.0


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=100, help="comparisons of each pair of methods")
    parser.add_argument("--least", type=int, default=20, help="seeds of each method of a study")
    parser.add_argument("--measure", default="AP@100")
    chosen = parser.parse_args(arguments)
    rng = np.random.default_rng(0)
    rows = pl.concat([comparisons(study, chosen.draws, rng) for study in studies(chosen.measure, chosen.least)])
    print(f"{len(rows):,} comparisons of one seed; {chosen.measure} over BM25's candidates\n")
    head = ["printed gain", *(f"{count} queries: wrong sign, over twice the truth" for count in QUERIES)]
    body = []
    for low, high in itertools.pairwise(MARGINS):
        name = f"{number(low, 3)} to {number(high, 3)}" if high < 1 else f"from {number(low, 3)}"
        cells = []
        for count in QUERIES:
            part = rows.filter(pl.col("queries") == count, pl.col("shown") >= low, pl.col("shown") < high)
            cells.append(", ".join(shares(part)) if len(part) else "")
        body.append([name, *cells])
    print(table(head, body))
    head = ["study", "place", "seeds", "queries", "wrong sign", "over twice the truth", "one in ten is wrong up to"]
    body = []
    for (study, place, seeds, count), part in rows.group_by("study", "place", "seeds", "queries", maintain_order=True):
        body.append([str(study), str(place), str(seeds), str(count), *shares(part), number(uncertain(part), 3)])
    print(table(head, body))
    print(table(["queries", "one in ten is wrong up to"], [
        [str(count), number(uncertain(part), 3)] for (count,), part in rows.group_by("queries", maintain_order=True)
    ]))  # fmt: skip


if __name__ == "__main__":
    main()
