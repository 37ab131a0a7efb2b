"""Prints tables whose intervals are over seeds alone: embeddings, dev losses, partial judgements.

In a page, between a marker and `<!-- end -->`:

- `<!-- figures NAME: a, b -->`: columns of the trials by method, and their differences from the baseline's;
- `<!-- partial NAME NAME -->`: the policies by partial judgements and by all;
- `<!-- profits NAME NAME -->`: the gain of a policy whose rankers were pooled.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.archives import Archive, commands, interval, number, signed, table
from benchmarks.few_judgements import few_judgements, profits


def figures(archive: Archive, columns: Sequence[str]) -> str:
    """Each method's mean of some figures, and its difference from the baseline's of the same factors.

    Args:
        archive: a study.
        columns: columns of its trials, or `dev loss`, the variance of its changes from epoch to epoch.
    """
    rows = []
    for method in archive.methods(archive.origins[0]):
        against = archive.baseline(method)
        row = [f"**{method}**" if method == against else method]
        for column in columns:
            values = archive.figure(method, column)
            row.append(f"{number(float(np.mean(values)))} ± {number(float(np.std(values, ddof=1)))}")
            if method == against:
                row.append("")
                continue
            difference = archive.by_seed(method, against, column)
            row.append(f"{signed(difference.mean)} ({interval(difference.low, difference.high)})")
        rows.append(row)
    head = ["method"] + [text for column in columns for text in (column, "difference (95%, over seeds)")]
    return "\n" + table(head, rows) + "\n"


def partial(archives: Sequence[Archive]) -> str:
    """The rankings of policies by few judgements, and by all."""
    rows = []
    for archive in archives:
        for row in few_judgements(archive.trials).filter(feeders="[]").iter_rows(named=True):
            alike = f"{row['same'] * row['pairs']:.0f} of {row['pairs']}"
            opposite = f"{row['opposite'] * row['pairs']:.0f}"
            tau = signed(row["tau"], 2) if row["tau"] < 0 else number(row["tau"], 2)
            place = [row["collection"], row["order"], str(row["budget"])]
            rows.append([*place, tau, row["winner"], row["by_all"], alike, opposite])
    head = ["collection", "order", "judged", "τ", "winner", "by all", "decided alike", "opposite"]
    return "\n" + table(head, rows) + "\n" + commands(*archives)


def fed(archives: Sequence[Archive]) -> str:
    """The measure of policies with and without rankers of one kind of negatives among the systems pooled."""
    rows = [
        [
            row["collection"], row["policy"], row["feeders"].strip("[]"), number(row["value"]), number(row["unfed"]),
            signed(row["gain"]), interval(row["low"], row["high"]),
        ]
        for archive in archives for row in profits(archive.trials).iter_rows(named=True)
    ]  # fmt: skip
    head = ["collection", "policy", "fed by", "with", "without", "gain", "95%, over seeds"]
    return "\n" + table(head, rows) + "\n"


def printed(kind: str, described: str) -> str:
    """The table of a marker in a page."""
    if kind == "figures":
        name, _, columns = described.partition(": ")
        return figures(Archive(name), columns.split(", "))
    archives = [Archive(name) for name in described.split()]
    return partial(archives) if kind == "partial" else fed(archives)
