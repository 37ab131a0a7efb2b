"""Lists which settings changed in mid-run: after how many epochs, to what, and whose state a run went on from."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from cluster.config.changes import AFTER
from cluster.output.methods import with_methods
from cluster.plan.sweep import override_value
from cluster.reports.page import Markup, fold, rendered, table

CHANGES = "changes"
SCHEMA: dict[str, Any] = {
    "run": pl.String,
    "status": pl.String,
    "best": pl.Float64,
    "after": pl.Int64,
    "setting": pl.String,
    "value": pl.Float64,
    "went_on_from": pl.String,
}


def settings(trials: pl.DataFrame) -> pl.DataFrame:
    """A row a run, time and setting, where settings change in mid-run; other runs have what they began with.

    Args:
        trials: the frame of `trials.parquet`.

    Returns:
        run, status, best (the highest validation), after (epochs; 0 at the beginning), setting, value and went_on_from:
        the run whose state it was; null at the beginning of a run that went on from none.
    """
    own = {row["run"]: _changes(row["overrides"]) for row in trials.iter_rows(named=True)}
    if "drawn" not in trials.columns or not any(changes for _, changes in own.values()):
        return pl.DataFrame(schema=SCHEMA)
    runs = {_key(begun, changes): name for name, (begun, changes) in own.items()}
    rows = []
    for row in trials.iter_rows(named=True):
        begun, changes = own[row["run"]]
        drawn = {
            text.split("=", 1)[0]: text.split("=", 1)[1] for text in begun if text.split("=", 1)[0] in row["drawn"]
        }
        best = max(row["curve_validation"] or [], default=None)
        told = {"run": row["run"], "status": row["status"], "best": best}
        lines: list[dict[str, Any]] = [{AFTER: 0, **drawn}, *changes]
        for place, change in enumerate(lines):
            before = runs.get(_key(begun, changes[: place - 1])) if place and drawn else None
            for key, value in change.items():
                if key != AFTER:
                    facts = {"after": change[AFTER], "setting": key, "value": float(value), "went_on_from": before}
                    rows.append(told | facts)
    return pl.DataFrame(rows, schema=SCHEMA)


def _changes(overrides: str) -> tuple[tuple[str, ...], list[dict[str, float]]]:
    """The overrides of a run without its changes, and those."""
    texts = shlex.split(overrides)
    rest = tuple(text for text in texts if not text.startswith(f"{CHANGES}="))
    changes = [text for text in texts if text.startswith(f"{CHANGES}=")]
    return rest, override_value(changes[-1]) if changes else []


def _key(begun: Sequence[str], changes: Sequence[Mapping[str, float]]) -> str:
    return json.dumps([list(begun), list(changes)])


def section(trials: pl.DataFrame, found: pl.DataFrame) -> list[Markup]:
    """The part of a report: the line of the best run of each method, and all behind a fold; nothing without changes.

    Args:
        trials: the frame of `trials.parquet`.
        found: of `settings`.
    """
    if found.is_empty():
        return []
    methods = with_methods(trials).select("run", "ranker", "method", "collection")
    done = found.filter(status="done").join(methods, on="run", how="left", maintain_order="left")
    place = ["collection", "ranker", "method"]
    best = done.filter(pl.col("best") == pl.col("best").max().over(place))
    best = best.filter(pl.col("run") == pl.col("run").first().over(place))
    names = found["setting"].unique(maintain_order=True).to_list()
    head = ["run", "after", *names, "went on from"]
    return [rendered("settings.html", best=table(head, _rows(best, names), left=1), all=fold(
        f"all {found['run'].n_unique()} runs", table(head, _rows(found, names), left=1)
    ))]  # fmt: skip


def _rows(found: pl.DataFrame, names: Sequence[str]) -> list[list[object]]:
    rows: list[list[object]] = []
    for (run, after), part in found.group_by("run", "after", maintain_order=True):
        values = dict(part.select("setting", "value").iter_rows())
        shown = [None if name not in values else f"{values[name]:.6g}" for name in names]
        rows.append([run, f"{after} epochs", *shown, part[0, "went_on_from"] or ""])
    return rows
