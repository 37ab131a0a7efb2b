"""Measures how often a sequential comparison errs when it is checked after every seed, what it detects and saves.

    python -m benchmarks.sequential [--studies N] [--real FOLDER]

Simulates studies of four methods with up to 40 seeds, as in `pyrite study stop=decided` (`equal_within=.01`), and
checks after each seed; the first three set the bound of a seed's difference. Prints, for several distributions of
runs: how often any pair is called different when all means are equal, compared with the paired t-test (Holm) checked
as often; how often methods .01 apart are called equal; and, if one method is ahead, how often that is detected, after
how many seeds, and with how many a t-test with a fixed number detects it as often. With --real it replays a real
study of many seeds: which verdicts come when, and whether all its seeds agree.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from pyrite.analysis.methods import evaluations, is_learned, measurements
from pyrite.analysis.statistics.paired import values_by_seed
from pyrite.analysis.statistics.sequential import ALPHA, CLIPS, SequentialRule, best_baseline, compare_all, contenders
from pyrite.ranking.evaluation.anytime import p_values
from pyrite.ranking.evaluation.significance import holm

SMALLEST = ["--studies 3"]
Floats = NDArray[np.float64]
Shape = Callable[[np.random.Generator, int], Floats]
RULE = SequentialRule()
METHODS = 4
MEANS = np.array([0.3, 0.3, 0.298, 0.286])
"""Of the shapes below."""
CHUNK = 500
PAIRS = list(itertools.combinations(range(METHODS), 2))


def normal(rng: np.random.Generator, count: int) -> Floats:
    return rng.normal(0.3, 0.01, count)


def skewed(rng: np.random.Generator, count: int) -> Floats:
    return 0.3 - 0.01 * (rng.lognormal(0, 1, count) - np.exp(0.5))


def two_humps(rng: np.random.Generator, count: int) -> Floats:
    return np.where(rng.random(count) < 0.3, 0.27, 0.31) + rng.normal(0, 0.003, count)


def diverged(rng: np.random.Generator, count: int) -> Floats:
    return np.where(rng.random(count) < 0.05, 0.02, rng.normal(0.3, 0.005, count))


SHAPES: dict[str, Shape] = {"normal": normal, "skewed": skewed, "two humps": two_humps, "5% diverged": diverged}


def alike(shape: Shape, rng: np.random.Generator, studies: int) -> Floats:
    """Four methods of one shape: [studies, methods, seeds]."""
    return shape(rng, studies * METHODS * RULE.most).reshape(studies, METHODS, RULE.most)


def unequal(rng: np.random.Generator, studies: int) -> Floats:
    """Four methods, one of each shape."""
    runs = [shape(rng, studies * RULE.most).reshape(studies, 1, -1) for shape in SHAPES.values()]
    return np.concatenate(runs, 1)


BOUNDS = np.linspace(CLIPS[0] * RULE.equal_within, CLIPS[1] * RULE.equal_within, 7)
"""Bounds of a seed's difference for which moves are computed."""


@cache
def moves(a: Shape, b: Shape, mean: float) -> Floats:
    """How far to move differences of two shapes so that their mean is this one, cut off at each of BOUNDS."""
    rng = np.random.default_rng(12345)
    d, found = a(rng, 200_000) - b(rng, 200_000), []
    for bound in BOUNDS:
        low, high = -0.1, 0.1
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if np.clip(d + middle, -bound, bound).mean() < mean else (low, middle)
        found.append((low + high) / 2)
    return np.array(found)


def looks(runs: Floats, moved: Callable[[int, Floats], Floats | float] = lambda pair, bound: 0.0) -> list[Floats]:
    """p of each pair after each seed: that it does not differ, by the paired t-test the same, and that it is not equal.

    All are adjusted by Holm's method. The first seeds set the bound, and are no evidence but for the t-test.

    Args:
        runs: [studies, methods, seeds].
        moved: by how much the differences of a pair are moved, by the study's bound [studies].

    Returns:
        float64 [studies, pairs, seeds] each.
    """
    d = np.stack([runs[:, a] - runs[:, b] for a, b in PAIRS], 1)
    spread = np.median(d[..., : RULE.first].std(-1, ddof=1), axis=1)
    bound = np.array([RULE.of_spread(float(each)) for each in spread])
    later = (
        d[..., RULE.first :]
        + np.stack([moved(pair, bound) + np.zeros(len(d)) for pair in range(len(PAIRS))], 1)[..., None]
    )
    by_seed = (later / bound[:, None, None]).reshape(-1, later.shape[-1]).T  # [seeds, studies × pairs]

    def p(mean: float) -> tuple[Floats, Floats]:
        """Of claims that the mean, in bounds, is at most, and at least, this."""
        claims = np.repeat(mean / bound, len(PAIRS))
        above, below = (each.T.reshape(later.shape) for each in p_values(by_seed, claims, -1.0, 1.0))
        return above, below

    none = np.ones((*d.shape[:2], RULE.first))
    differ = np.concatenate([none, np.minimum(2 * np.minimum(*p(0.0)), 1)], -1)
    equal = np.concatenate([none, np.maximum(p(RULE.equal_within)[1], p(-RULE.equal_within)[0])], -1)
    n = np.arange(1, d.shape[-1] + 1)
    mean = np.cumsum(d, -1) / n
    variance = np.maximum(np.cumsum(d**2, -1) / n - mean**2, 1e-18) * n / np.maximum(n - 1, 1)
    student = 2 * stats.t.sf(np.abs(mean) / np.sqrt(variance / n), np.maximum(n - 1, 1))
    return [adjusted(differ), adjusted(student), adjusted(equal)]


def adjusted(p: Floats) -> Floats:
    """Holm's adjustment over the pairs, as `pyrite.ranking.evaluation.significance.holm` makes it, of all studies at
    once.
    """
    order = p.argsort(1)
    ranked = np.take_along_axis(p, order, 1) * np.arange(p.shape[1], 0, -1)[:, None]
    ranked = np.minimum(np.maximum.accumulate(ranked, 1), 1)
    found = np.empty_like(p)
    np.put_along_axis(found, order, ranked, 1)
    assert np.allclose(found[0, :, -1], holm(p[0, :, -1]))
    return found


def chunks(studies: int) -> list[int]:
    """Studies that are drawn at once."""
    return [min(CHUNK, studies - start) for start in range(0, studies, CHUNK)]


def errors(studies: int) -> None:
    """Return how often a wrong verdict is given."""
    print(f"{studies:,} studies of {METHODS} methods with equal means, looked at after each seed up to {RULE.most}:")
    shapes = list(SHAPES.values())

    def to_nothing(pair: int, bound: Floats) -> Floats:
        return np.interp(bound, BOUNDS, moves(*(shapes[method] for method in PAIRS[pair]), 0.0))

    for name in [*SHAPES, "one of each shape"]:
        rng, wrong, student, last = np.random.default_rng(1), 0, 0, 0
        for count in chunks(studies):
            if name in SHAPES:
                differ, t, _ = looks(alike(SHAPES[name], rng, count))
            else:
                runs = unequal(rng, count)
                differ, t = looks(runs, to_nothing)[0], looks(runs - MEANS[:, None])[1]
            wrong += int(np.any(differ <= ALPHA, axis=(1, 2)).sum())
            student += int(np.any(t[..., 2:] <= ALPHA, axis=(1, 2)).sum())
            last += int((t[..., -1] <= ALPHA).any(1).sum())
        print(
            f"  {name:18s} said to differ {wrong / studies:7.2%}   t-test looked at as often {student / studies:7.2%}"
            f"   t-test once, after {RULE.most} {last / studies:7.2%}", flush=True,
        )  # fmt: skip
    print("the same, one method .01 behind by the cut-off mean: called equal within .01")
    touched = [pair for pair, of in enumerate(PAIRS) if 0 in of]
    for name, shape in SHAPES.items():
        rng, wrong = np.random.default_rng(2), 0
        behind = moves(shape, shape, -RULE.equal_within)

        def moved(pair: int, bound: Floats, behind: Floats = behind) -> Floats | float:
            return np.interp(bound, BOUNDS, behind) if pair in touched else 0.0

        for count in chunks(studies):
            equal = looks(alike(shape, rng, count), moved)[2]
            wrong += int(np.any(equal[:, touched] <= ALPHA, axis=(1, 2)).sum())
        print(f"  {name:18s} {wrong / studies:7.2%}", flush=True)


def power(studies: int) -> None:
    """Return what is detected, after how many seeds, compared with a t-test with a fixed number of seeds."""
    print(f"{studies:,} studies in which one method is ahead of three equal ones, until it is better than all three:")
    own = [pair for pair, of in enumerate(PAIRS) if 0 in of]
    for name, shape in SHAPES.items():
        for ahead in (0.01, 0.02, 0.05):
            rng, found, fixed = np.random.default_rng(3), [], np.zeros(RULE.most)
            for count in chunks(studies):
                runs = alike(shape, rng, count)
                runs[:, 0] += ahead
                differ, t, _ = looks(runs)
                every = np.all(differ[:, own] <= ALPHA, axis=1)
                found.append(np.where(np.any(every, axis=1), every.argmax(1) + 1, 0))
                fixed += (t[:, own] <= ALPHA).all(1).sum(0)
            seeds, fixed = np.concatenate(found), fixed / studies
            share = (seeds > 0).mean()
            as_often = np.flatnonzero(fixed[2:] >= share)
            needs = f"{as_often[0] + 3}" if len(as_often) else f"more than {RULE.most}"
            mean = np.where(seeds > 0, seeds, RULE.most).mean()
            print(
                f"  {name:12s} ahead by {ahead:.2f}: found {share:6.1%} after {mean:4.1f} seeds on average; a t-test "
                f"once finds it as often with {needs} seeds, and {fixed[-1]:6.1%} with {RULE.most}", flush=True,
            )  # fmt: skip


def real(folder: Path, equal_within: float) -> None:
    """Replay a study of many seeds as if its comparison were sequential."""
    trials = pl.read_parquet(folder / "trials.parquet")
    candidates, measure = evaluations(trials)[0]
    every = measurements(trials).filter(candidates=candidates, measure=measure).drop_nulls("value")
    for (collection, ranker), family in every.partition_by("collection", "ranker", as_dict=True).items():
        whole = values_by_seed(family)
        able = {str(row["method"]) for row in family.iter_rows(named=True) if not is_learned(row)}
        most = min(map(len, whole.values()))
        rule = SequentialRule(equal_within, None, most)
        given = dict.fromkeys(whole, rule.first)
        rounds = 0
        while wanted := {m for m in contenders(_cut(whole, given), able, [], rule) if given[m] < most}:
            front = max(given[name] for name in wanted)
            for name in {m for m in wanted if given[m] < front} or wanted:
                given[name] += 1
            rounds += 1
        spent, all_ = sum(given.values()), most * len(whole)
        print(f"{ranker} on {collection}: {spent} of {all_} runs ({spent / all_:.0%}), {measure} over {candidates}")
        short, long = (compare_all(values, able, rule) for values in (_cut(whole, given), whole))
        same = 0
        for method in sorted(whole, key=lambda m: -np.mean(list(whole[m].values()))):
            other = best_baseline(_cut(whole, given), able, method)
            one, two = short[method, str(other)], long[method, str(other)]
            same += one.verdict == two.verdict
            d = np.array([whole[method][s] - whole[str(other)][s] for s in sorted(whole[method])])
            t = stats.ttest_1samp(d, 0).pvalue
            print(
                f"  {method:38s} beside {other}: {one.verdict} after {one.seeds} seeds ({one.difference:+.4f}); "
                f"with {most} {two.verdict} ({two.difference:+.4f}, deviation {d.std(ddof=1):.4f}, t-test p {t:.2g})"
            )
        print(f"  {same} of {len(whole)} decisions are those of {most} seeds; a seed counts {one.bound:.3g} at most")


def _cut(whole: Mapping[str, Mapping[int, float]], given: Mapping[str, int]) -> dict[str, dict[int, float]]:
    return {name: dict(sorted(of.items())[: given[name]]) for name, of in whole.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=10_000)
    parser.add_argument("--only", choices=("errors", "power"))
    parser.add_argument("--real", type=Path, metavar="FOLDER", help="of a study of many seeds, instead")
    parser.add_argument("--equal-within", type=float, default=RULE.equal_within)
    chosen = parser.parse_args(arguments)
    started = time.perf_counter()
    if chosen.real:
        real(chosen.real, chosen.equal_within)
        return
    if chosen.only != "power":
        errors(chosen.studies)
    if chosen.only != "errors":
        power(chosen.studies)
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
