"""Measures how often verdicts are wrong, over made-up studies whose truth is known.

    python -m benchmarks.verdict [--studies N] [--cell WORD …] [--out FILE]

Each cell is a kind of study: methods, seeds, queries, and how values vary. Its studies are drawn one by one from their
number, and what they conclude is appended to FILE (JSON lines), so that a later command with more studies adds to it;
with --studies 0 it prints what FILE has.
The sentence "better" is false if the other method is no worse, "equal" if the two differ by the margin or more, and a
printed lead is wrong if its interval misses the truth. Power is the share of the worse methods that are left out of
those that may be the best; "as worse" is the share that the recommended one is reported to be better than, and "before"
that of the rule of version 0.2, which tested the highest mean against all others (Holm over m - 1).
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from benchmarks.archives import table
from pyrite.analysis.statistics.comparison import LEVEL, MethodRuns
from pyrite.analysis.statistics.method_comparison import MethodComparison
from pyrite.analysis.statistics.paired import MeasuredRun
from pyrite.analysis.statistics.verdict import Verdict, verdict_of
from pyrite.ranking.evaluation.significance import holm

SMALLEST = ["--studies 2 --cell 2-methods"]
OF_SEED, OF_QUERY, OF_CELL = 0.006, 0.05, 0.2
"""Standard deviations of the difference of two methods: of a seed, a query and a single value (those of MedQuAD)."""
MARGIN = 0.01
KINDS = ("normal", "unequal", "heavy")
SIZES = ((3, 100), (5, 200), (20, 1000))
PLACE = {"collection": "made up", "ranker": "made up", "candidates": "bm25", "measure": "AP@100"}


class Cell(NamedTuple):
    """A kind of study.

    Args:
        leads: the true means of the methods.
        kind: normal; unequal (methods spread by a half to twice as much); heavy (Student's t with 3 degrees of
            freedom).
        baseline: whether the first method is the baseline.
        scale: the factor of all standard deviations.
    """

    name: str
    leads: tuple[float, ...]
    seeds: int
    queries: int
    kind: str = "normal"
    baseline: bool = False
    scale: float = 1.0


def cells() -> Iterator[Cell]:
    """Yield all cells."""
    for seeds, queries in SIZES:
        size = f"{seeds} seeds, {queries} queries"
        for kind in KINDS:
            for methods in (2, 3, 5, 10, 20):
                name = f"equal, {methods}-methods, {size}, {kind}"
                yield Cell(name, (0.0,) * methods, seeds, queries, kind)
            yield Cell(f"equal, baseline, 10-methods, {size}, {kind}", (0.0,) * 10, seeds, queries, kind, True)
        for lead in (0.01, 0.02, 0.03):
            leads = (0.0, *(lead,) * 9)
            yield Cell(f"ahead by {lead}, baseline, 10-methods, {size}", leads, seeds, queries, "normal", True)
        for methods in (2, 10):
            leads = (0.0, *(-MARGIN,) * (methods - 1))
            yield Cell(f"margin, {methods}-methods, {size}", leads, seeds, queries, "normal", True, 0.4)
        for methods in (2, 3, 5, 10, 20):
            ahead = 3.0 * np.sqrt(OF_SEED**2 / seeds + OF_QUERY**2 / queries + OF_CELL**2 / (seeds * queries))
            leads = (float(f"{ahead:.3g}"), *(0.0,) * (methods - 1))
            yield Cell(f"power, {methods}-methods, {size}", leads, seeds, queries)


def study(cell: Cell, number: int) -> tuple[dict[str, MethodRuns], dict[str, NDArray[np.float64]]]:
    """Draw the runs of one study and their values per query, the highest mean first."""
    rng = np.random.default_rng([17, number, cell.seeds, cell.queries, len(cell.leads), KINDS.index(cell.kind)])
    spreads = np.geomspace(0.5, 2.0, len(cell.leads)) if cell.kind == "unequal" else np.ones(len(cell.leads))

    def noise(size: tuple[int, ...]) -> NDArray[np.float64]:
        if cell.kind != "heavy":
            return rng.normal(size=size)
        return np.asarray(stats.t.rvs(3, size=size, random_state=rng) / np.sqrt(3.0), np.float64)

    common = rng.beta(1.2, 1.2, cell.queries)
    methods, values = {}, {}
    for index, (lead, spread) in enumerate(zip(cell.leads, spreads * cell.scale / np.sqrt(2), strict=True)):
        by_query, runs = OF_QUERY * noise((cell.queries,)), list[MeasuredRun]()
        for seed in range(cell.seeds):
            rest = OF_CELL * noise((cell.queries,)) + OF_SEED * noise((1,))
            name = f"{index} {seed}"
            values[name] = common + lead + spread * (by_query + rest)
            runs.append(MeasuredRun(float(values[name].mean()), seed, name=name))
        methods[str(index)] = MethodRuns({"method": str(index)}, runs)
    return dict(sorted(methods.items(), key=lambda item: -item[1].mean)), values


def concluded(cell: Cell, number: int) -> dict[str, float]:
    """Return what one study concludes: counts of wrong and right sentences."""
    comparison = MethodComparison(*study(cell, number))
    baseline = "0" if cell.baseline else None
    rows = [{"method": name, "mean": runs.mean, "seconds": 1.0} for name, runs in comparison.methods.items()]
    part = pl.DataFrame(rows).with_columns(baseline=pl.lit(baseline, pl.String))
    verdict = verdict_of(comparison, PLACE, part, MARGIN)
    truth = dict(zip(map(str, range(len(cell.leads))), cell.leads, strict=True))
    return {"studies": 1.0, **_wrong(verdict, truth), **_found(comparison, verdict, truth)}


def _wrong(verdict: Verdict, truth: dict[str, float]) -> dict[str, float]:
    take = truth[verdict.take or verdict.reference]
    better = any(take <= truth[method] for method in verdict.better_than)
    equal = any(abs(take - truth[method]) >= MARGIN for method in verdict.equal)
    missed = max(truth.values()) - take > verdict.ahead + 1e-12
    counts = {"false better": better, "false equal": equal, "missed ahead": missed}
    if verdict.lead is not None:
        lead = verdict.lead
        others = [truth[lead.against]] if verdict.baseline else [truth[m] for m in truth if m != verdict.take]
        counts |= {"leads": True, "missed lead": not lead.low - 1e-12 <= take - max(others) <= lead.high + 1e-12}
    return {name: float(count) for name, count in counts.items()}


def _found(comparison: MethodComparison, verdict: Verdict, truth: dict[str, float]) -> dict[str, float]:
    """Return how many of the worse methods are found to be so, by the verdict and by the rule before."""
    best, *others = comparison.methods
    p = holm([comparison.pair(best, other).p for other in others])
    before = {other for other, adjusted in zip(others, p, strict=True) if adjusted < LEVEL}
    worse = {method for method, mean in truth.items() if mean < max(truth.values())}
    if not worse or verdict.baseline:
        return {"false better before": float(any(truth[best] <= truth[other] for other in before))}
    possible = {*comparison.best.possible, *([] if verdict.take is None else [verdict.take])}
    right = any(truth[method] == max(truth.values()) for method in possible)
    beaten = set(verdict.better_than) & worse if truth[verdict.take or best] == max(truth.values()) else set()
    found = beaten | (worse - possible if right else set())
    found_before = before & worse if truth[best] == max(truth.values()) else ()
    counts = {"worse": worse, "found": found, "as worse": beaten, "found before": found_before}
    return {name: float(len(methods)) for name, methods in counts.items()}


@dataclass
class Counts:
    """The counts of the studies so far, in a file of JSON lines."""

    path: Path | None

    def read(self) -> dict[str, Counter[str]]:
        """Return the counts by cell."""
        counts: dict[str, Counter[str]] = {}
        lines = self.path.read_text("utf-8").splitlines() if self.path and self.path.exists() else []
        for line in lines:
            row: dict[str, Any] = json.loads(line)
            counts.setdefault(row.pop("cell"), Counter()).update(row)
        return counts

    def append(self, cell: Cell, counts: Counter[str]) -> None:
        """Add the counts of further studies."""
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({"cell": cell.name, **counts}) + "\n")


OF_ALL = re.compile(r", \d+ seeds, .*")
WRONG = ("false better", "false equal", "missed ahead", "missed lead", "false better before")
HEAD = ("cell", "studies", *WRONG, "leads right", "power", "as worse", "before")


def row(name: str, counts: Counter[str]) -> list[str]:
    """Return a cell's row: shares of studies, for wrong sentences with the upper limit of their 95% interval."""
    studies, shown = counts["studies"], [name, f"{counts['studies']:.0f}"]
    for what in WRONG:
        high = stats.binomtest(int(counts[what]), int(studies)).proportion_ci(0.95, method="wilson").high
        shown.append(f"{counts[what] / studies:.3f} (≤ {high:.3f})" if what in counts else "")
    right = 1 - counts["missed lead"] / max(counts["leads"], 1)
    shown.append(f"{right:.3f} of {counts['leads']:.0f}" if counts["leads"] else "")
    powers = [counts[what] / max(counts["worse"], 1) for what in ("found", "as worse", "found before")]
    return shown + [f"{power:.3f}" if counts["worse"] else "" for power in powers]


BLOCK = 50
"""Studies after which counts are written."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=50, help="studies per cell, those in FILE included")
    parser.add_argument("--cell", nargs="*", default=[], help="words that a cell's name has; all cells by default")
    parser.add_argument("--out", type=Path, help="a file that keeps the counts")
    chosen = parser.parse_args(arguments)
    kept = Counts(chosen.out)
    before = kept.read()
    print(table(HEAD, []), end="")
    pooled: dict[str, Counter[str]] = {}
    for cell in cells():
        if not all(word in cell.name for word in chosen.cell):
            continue
        counts = before.get(cell.name, Counter())
        while (begin := int(counts["studies"])) < chosen.studies:
            block: Counter[str] = Counter()
            for number in range(begin, min(begin + BLOCK, chosen.studies)):
                block.update(concluded(cell, number))  # type: ignore[arg-type]
            kept.append(cell, block)
            counts.update(block)
        if counts:
            pooled.setdefault(OF_ALL.sub("", cell.name), Counter()).update(counts)
            print(f"| {' | '.join(row(cell.name, counts))} |", flush=True)
    print("\nall seeds, queries and kinds\n\n" + table(HEAD, [row(*each) for each in pooled.items()]))


if __name__ == "__main__":
    main()
