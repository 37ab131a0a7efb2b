"""Prints tables over several places, a place being a collection and a ranker, from archived runs."""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import polars as pl

from benchmarks.archives import Archive, interval, number, signed, table
from pyrite.analysis.statistics.crossed import CrossedDifference, crossed_difference
from pyrite.analysis.statistics.pooled_effects import PooledEffect, pool_effects

WIDTH = 120
MARGIN = 0.005
"""A difference that makes none in practice, as the protocol of docs/experiments/policies.md sets it."""


def over_places(archives: Sequence[Archive]) -> str:
    """Each method less the baseline of its place: the mean over all collections, and the next one.

    The rankers of a collection share its test queries, so their differences are averaged first, and their errors too:
    no mean of theirs is less certain.
    """
    largest = sorted(archives, key=lambda archive: (archive.place, len(archive.methods(archive.origins[0]))))
    archives = list({archive.place: archive for archive in largest}.values())
    text = "\n### Over all collections\n\n"
    for origin in ("bm25", "random"):
        rows = []
        for method in {name: None for archive in archives for name in archive.methods(origin)}:
            tests = defaultdict[str, list[CrossedDifference]](list)
            for archive in archives:
                found = archive.tests().get((method, origin, archive.measure))
                if found is not None:
                    tests[archive.trials["collection"][0]].append(found[0])
            if len(tests) < 2:
                continue
            means = [float(np.mean([test.mean for test in of])) for of in tests.values()]
            errors = [float(np.mean([test.error for test in of])) for of in tests.values()]
            pooled = pool_effects(np.array(means), np.array(errors) ** 2)
            ahead = "ahead" if pooled.mean > 0 else "behind"
            further = f"next collection between {signed(pooled.next_low)} and {signed(pooled.next_high)}"
            sentence = f"{ahead} by {number(abs(pooled.mean))}, {further}"
            row = [method, str(len(tests)), interval(pooled.low, pooled.high), number(pooled.between), sentence]
            rows.append((-pooled.mean, row))
        if not rows:
            continue
        rows.sort()
        head = ["method", "collections", "95% of the mean", "between collections", "in words"]
        text += f"{archives[0].measure} over {origin} candidates\n\n" + table(head, [row for _, row in rows]) + "\n"
    model = (
        "A random-effects model over collections (DerSimonian and Laird 1986, Hartung and Knapp 2001), of which each "
        "has the mean over its rankers: “between collections” is the deviation of the true differences, and “next "
        "collection” the 95% interval of the difference on one that was not seen. With few it is wide, and advice "
        "whose interval contains 0 is advice for the places below."
    )
    return text + textwrap.fill(model, WIDTH) + "\n"


def places(first: str, archives: Sequence[Archive]) -> str:
    """Compare one method with all others at several places: means, rates and differences.

    Args:
        first: the method.
        archives: one per place. Methods that one of them lacks are left out.
    """
    origin, measure = archives[0].origins[0], archives[0].measure
    common = set.intersection(*({*archive.methods(origin)} for archive in archives))
    means = {method: [archive.methods(origin)[method].mean for archive in archives] for method in common}
    order = sorted(common, key=lambda method: (-float(np.mean(means[method])), method))
    names = [archive.trials["collection"][0] for archive in archives]
    rivals = [method for method in order if method != first]
    about = (
        f"{measure} over {origin} candidates; the means over the places, also over other candidates and, less the mean "
        "of all methods, of dev queries; and the learning rates by place, if they were swept"
    )
    return (
        f"\n{textwrap.fill(about, WIDTH)}\n\n"
        + _means(archives, order, means, names, first)
        + f"\n{first} less\n\n"
        + _against_best(first, archives, rivals, means, names)
        + "\n"
        + _against_each(first, archives, rivals, names)
        + "\n"
    )


def _means(
    archives: Sequence[Archive], order: Sequence[str], means: dict[str, list[float]], names: Sequence[str], first: str
) -> str:
    dev = np.array([[_dev(archive, method) for archive in archives] for method in order])
    leads = (dev - dev.mean(0)).mean(1)
    others = archives[0].origins[1:]
    rows = []
    for method, lead in zip(order, leads, strict=True):
        best = [value == max(of[place] for of in means.values()) for place, value in enumerate(means[method])]
        values = [
            f"**{number(value)}**" if top else number(value) for value, top in zip(means[method], best, strict=True)
        ]
        elsewhere = [np.mean([archive.methods(origin)[method].mean for archive in archives]) for origin in others]
        name = f"**{method}**" if method == first else method
        over = [number(float(mean)) for mean in (np.mean(means[method]), *elsewhere)]
        rows.append([name, *values, *over, signed(float(lead))])
    head = ["", *names, "mean", *others, "dev"]
    if all(rate(archive, first) for archive in archives):
        head.append("rates")
        for row, method in zip(rows, order, strict=True):
            row.append(" ".join(number(rate(archive, method) or 0.0, 3) for archive in archives))
    return table(head, rows)


def _against_best(
    first: str, archives: Sequence[Archive], rivals: Sequence[str], means: dict[str, list[float]], names: Sequence[str]
) -> str:
    """Per place, the method less the best of the others, chosen in hindsight and by dev queries."""
    rows = []
    for place, archive in enumerate(archives):
        row = [names[place]]
        of_test = {method: means[method][place] for method in rivals}
        of_dev = {method: _dev(archive, method) for method in rivals}
        for values in (of_test, of_dev):
            best = max(values, key=values.__getitem__)
            test = _test(archive, first, best)
            row += [
                best,
                f"{signed(test.mean)} ({interval(test.low, test.high)})",
                number(test.p_equal(MARGIN), 2),
            ]
        rows.append(row)
    columns = ["difference (95%)", f"p, equal within {number(MARGIN, 3)}"]
    return table(["", "the best in hindsight", *columns, "the best on dev queries", *columns], rows)


def _against_each(first: str, archives: Sequence[Archive], rivals: Sequence[str], names: Sequence[str]) -> str:
    """The method less each other one, per place and over all."""
    rows = []
    for method in rivals:
        tests = [_test(archive, first, method) for archive in archives]
        pooled = _pooled(tests)
        rows.append(
            [method]
            + [f"{signed(test.mean)} ({interval(test.low, test.high)})" for test in tests]
            + [signed(pooled.mean), interval(pooled.low, pooled.high), interval(pooled.next_low, pooled.next_high)]
        )
    return table(["", *names, "mean", "95%", "next place"], rows)


def _test(archive: Archive, first: str, second: str) -> CrossedDifference:
    test = crossed_difference(archive.cells(first, second, archive.origins[0]))
    if not test.is_known:
        raise ValueError(f"{archive.name}: {first} and {second} can't be compared")
    return test


def _pooled(tests: Sequence[CrossedDifference]) -> PooledEffect:
    return pool_effects(np.array([test.mean for test in tests]), np.array([test.error**2 for test in tests]))


def _trials(archive: Archive, method: str) -> pl.DataFrame:
    runs = [run.name for run in archive.methods(archive.origins[0])[method].runs]
    return archive.trials.filter(pl.col("run").is_in(runs))


def _dev(archive: Archive, method: str) -> float:
    """The mean over runs of the best validation."""
    return float(np.mean([max(curve) for curve in _trials(archive, method)["curve_validation"]]))


def rate(archive: Archive, method: str) -> float | None:
    """The learning rate of a method's runs, None if it is the ranker's default."""
    found = {re.search(r"optimizer\.lr=([\d.e-]+)", text) for text in _trials(archive, method)["overrides"]}
    (value,) = {float(named[1]) if named else None for named in found}
    return value
