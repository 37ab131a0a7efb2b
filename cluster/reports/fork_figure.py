"""Draws the value of actions by the batch at which a training was forked."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.colors import TwoSlopeNorm

from cluster.reports.canvas import grid, name_axes, png


def fork_map(table: pl.DataFrame, measure: str) -> bytes:
    """Draw one cell per action and batch: its final value ± half its 95% interval, as PNG."""
    times, actions = sorted(set(table["at"])), list(dict.fromkeys(table.sort("action")["action"]))
    cells = np.full((len(actions), len(times)), np.nan)
    figure, axes = grid([""], [""], max(1.2 + 0.45 * len(actions), 2.2))
    ax = axes[0]
    most = max(float(table["final"].abs().max() or 0), 1e-9)  # type: ignore[arg-type]
    for row in table.iter_rows(named=True):
        y, x = actions.index(row["action"]), times.index(row["at"])
        cells[y, x] = row["final"]
        half = (row["high"] - row["low"]) / 2
        shown = f"{row['final']:+.4f}" + (f"\n± {half:.4f}" if half == half else "")
        legible = "white" if abs(row["final"]) > 0.7 * most else "black"
        ax.text(x, y, shown, ha="center", va="center", fontsize=8, color=legible)
    drawn = ax.imshow(cells, cmap="RdBu", norm=TwoSlopeNorm(0, -most, most), aspect="auto", alpha=0.75)
    ax.set_xticks(range(len(times)), [str(at) for at in times])
    ax.set_yticks(range(len(actions)), actions)
    ax.grid(False)
    name_axes(ax, "batches before the fork", "")
    figure.colorbar(drawn, ax=ax, label=f"{measure} gained", fraction=0.05)
    return png(figure)
