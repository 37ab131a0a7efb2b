"""Prints tables of pooling studies from their archives.

In a page, between a marker and `<!-- end -->`:

- `<!-- pools NAME NAME -->`: a paper's table, and ours by its text and by the draws of its program;
- `<!-- found NAME: a, b, (c), a − b -->`: what methods found, the most in bold, apart from those in brackets, and
  planned contrasts;
- `<!-- estimates NAME: a, b -->`: how good the estimates of sampling orders are;
- `<!-- ranking NAME 50 100: a, b -->`: how well judgements rank the runs at some budgets;
- `<!-- reuse NAME NAME: a, b -->`: how far runs fall that took no part.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from benchmarks import archives
from benchmarks.archives import commands, interval, number, signed, table, write
from pyrite.analysis.statistics.pool_summary import estimate_errors, over_seeds, pool_contrasts, summarise_pools
from pyrite.cluster.pools.trial import WHOLE

SEEDS_KEPT = 20
"""Studies with more seeds keep no row per seed and topic."""
CONTRAST = " − "
COVERED = ("covered", "topics_covered", "map_covered", "p10_covered")


@dataclass(frozen=True)
class PoolArchive:
    """A pooling study, as far as its tables need it."""

    name: str

    @cached_property
    def about(self) -> dict[str, Any]:
        """The command, the processor, the seconds of all methods, and the number of seeds."""
        content: dict[str, Any] = json.loads((archives.DATA / self.name / "about.json").read_text("utf-8"))
        return content

    def table(self, kind: str) -> pl.DataFrame:
        """One of `budgets`, `estimates`, `ranking_quality` and `reuse`."""
        return pl.read_parquet(archives.DATA / self.name / f"{kind}.parquet")

    @cached_property
    def summary(self) -> pl.DataFrame:
        budgets = self.table("budgets")
        return summarise_pools(budgets, budgets["method"].unique().sort().to_list(), None)

    def rows(self, method: str) -> list[dict[str, Any]]:
        """The rows of a method, one per budget."""
        return self.summary.filter(method=method).to_dicts()

    def found(self, method: str, budget: int) -> float:
        """The relevant documents found per topic, the mean over topics and seeds."""
        return float(self.summary.filter(method=method, budget=budget)["found_mean"][0])


def archive_pools(name: str, out: Path, about: Mapping[str, Any]) -> None:
    """Copy what the tables need of the folder of `pyrite pool`."""
    folder = archives.DATA / name
    folder.mkdir(parents=True, exist_ok=True)
    budgets, trials = (pl.read_parquet(out / f"{kind}.parquet") for kind in ("budgets", "trials"))
    seeds = budgets["seed"].n_unique()
    kept = {"budgets": budgets.sort(pl.all())} if seeds <= SEEDS_KEPT else {}
    for kind, reduce in (("estimates", estimate_errors), ("ranking_quality", _by_budget), ("reuse", pl.DataFrame)):
        if (out / f"{kind}.parquet").exists():
            kept[kind] = reduce(pl.read_parquet(out / f"{kind}.parquet"))
    for kind, frame in kept.items():
        frame.write_parquet(folder / f"{kind}.parquet", compression="zstd", compression_level=19)
    described = {**about, "processor": about.get("processor") or archives.processor(), **archives.built_by(out)}
    described |= {"seconds": round(trials["seconds"].sum()), "seeds": seeds}
    write(folder / "about.json", json.dumps(described, indent=1) + "\n")


def _by_budget(quality: pl.DataFrame) -> pl.DataFrame:
    return over_seeds(quality, "budget").select("method", "budget", "tau", "inf_tau", "drop", "lowest_recall")


def printed(kind: str, described: str) -> str:
    """The table of a marker."""
    words, _, listed = described.partition(": ")
    name, *more = words.split()
    methods = listed.split(", ")
    if kind == "pools":
        return comparison(name, *more)
    if kind == "reuse":
        return reuse([PoolArchive(each) for each in (name, *more)], methods)
    archive = PoolArchive(name)
    if kind == "found":
        text = found(archive, methods)
    elif kind == "estimates":
        text = estimates(archive, methods)
    else:
        text = ranking(archive, list(map(int, more)), methods)
    return f"\n{text}\n{commands(archive)}"


def comparison(literal: str, as_published: str) -> str:
    """A paper's pooling table next to archives of the text taken literally, and as the paper's program draws."""
    ours, drawn = PoolArchive(literal), PoolArchive(as_published)
    paper = yaml.safe_load((archives.DATA / "papers.yaml").read_text("utf-8"))["pools"]
    head = ["method", *(row["judgements"] for row in ours.rows(next(iter(paper))))]
    rows = []
    for method, figures in paper.items():
        here = ours.rows(method)
        rows.append([f"{method}, paper", *map(str, figures)])
        rows.append(["ours", *(f"{row['found_mean']:.2f}" for row in here)])
        rows.append(["", *(f"{row['low']:.1f}–{row['high']:.1f}" for row in here)])
        if as_drawn := drawn.rows(method):
            rows.append(["as R draws", *(f"{row['found_mean']:.2f}" for row in as_drawn)])
    return f"\n{table(head, rows)}\n{commands(ours, drawn)}"


def found(archive: PoolArchive, wanted: Sequence[str]) -> str:
    """Relevant documents per topic by method and budget, and contrasts with their p (t-test over topics)."""
    budgets = archive.table("budgets").filter(pl.col("budget") != WHOLE)
    spent = budgets["budget"].unique().sort().to_list()
    methods = [name for name in wanted if CONTRAST not in name]
    means = {name: [archive.found(name.strip("()"), budget) for budget in spent] for name in methods}
    most = [max(values[at] for name, values in means.items() if "(" not in name) for at in range(len(spent))]
    rows = []
    for name, values in means.items():
        best = ["**" * ("(" not in name and f"{value:.2f}" == f"{most[at]:.2f}") for at, value in enumerate(values)]
        rows.append([name.strip("()"), *(f"{sign}{value:.2f}{sign}" for sign, value in zip(best, values, strict=True))])
    for name in wanted:
        if CONTRAST in name:
            tests = pool_contrasts(budgets, [name.split(CONTRAST)]).sort("judgements").to_dicts()
            rows.append([name, *(f"{signed(test['difference'], 2)}" for test in tests)])
            rows.append(["95%", *(interval(test["low"], test["high"], 2) for test in tests)])
            rows.append(["p", *(_p(test["p"]) for test in tests)])
    return table(["method", *map(str, spent)], rows)


def estimates(archive: PoolArchive, methods: Sequence[str]) -> str:
    """Bias and error of estimates, and how often their 95% intervals hold the truth."""
    rows = []
    for method in methods:
        name = method
        for row in archive.table("estimates").filter(method=method).sort("budget").iter_rows(named=True):
            count, single, of_map, precision = (f"{row[key]:.0%}" for key in COVERED)
            bias, error, tau = signed(row["map_bias"], 3), number(row["map_rmse"], 3), number(row["tau"], 3)
            counted = [f"{row['relevant']:.2f}", f"{row['rmse']:.2f}", count, single]
            rows.append([name, str(row["budget"]), *counted, bias, error, of_map, tau, precision])
            name = ""
    (true,) = archive.table("estimates")["relevant_true"].round(2).unique()
    head = [
        "method", "judged", f"relevant, of {true:.2f}", "RMSE", "interval holds", "of single topics", "MAP: bias",
        "RMSE", "interval holds", "τ", "P@10: interval holds",
    ]  # fmt: skip
    return table(head, rows)


def ranking(archive: PoolArchive, budgets: Sequence[int], methods: Sequence[str]) -> str:
    """How similarly few judgements and all rank the runs: τ, and the largest drop of a run."""
    quality = archive.table("ranking_quality")
    rows = []
    for method in methods:
        cells = [quality.row(by_predicate=(pl.col("method") == method) & (pl.col("budget") == budget), named=True)
                 for budget in budgets]  # fmt: skip
        rows.append([method, *(f"{number(cell['tau'], 3)} ({cell['drop']:.0f})" for cell in cells)])
    return table(["τ (largest drop) at", *map(str, budgets)], rows)


def reuse(studies: Sequence[PoolArchive], methods: Sequence[str]) -> str:
    """Ranks that a run loses on average (at most) when the pool is judged without its team's runs."""
    head, columns = ["judged"], []
    for archive in studies:
        frame = archive.table("reuse")
        for budget in frame["budget"].unique().sort():
            head.append(f"{frame['pool'][0]}: {budget}")
            columns.append(frame.filter(budget=budget))
    rows = []
    for method in methods:
        fallen = [column.filter(method=method)["fallen"].to_numpy() for column in columns]
        rows.append([method, *(f"{number(float(lost.mean()), 2)} ({lost.max():.0f})" for lost in fallen)])
    return f"\n{table(head, rows)}\n{commands(*studies)}"


def _p(value: float | None) -> str:
    if value is None:
        return ""
    return "<.0001" if value < 0.0001 else number(value, 4 if value < 0.01 else 3)
