"""Builds the table of the episodes of a learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import scipy  # loads `stats` on first use, which saves workers a third of a second

SCHEMA: dict[str, Any] = {
    "agent": pl.String, "copy": pl.Int64, "episode": pl.Int64, "return": pl.Float64, "decisions": pl.Int64,
    "validation": pl.Float64, "last_validation": pl.Float64, "validation_sample": pl.Float64, "epochs": pl.Int64,
    "steps": pl.Int64, "diverged": pl.Boolean, "actions": pl.List(pl.Int64),
}  # fmt: skip
"""Columns of episodes.parquet, followed by one `share:FUNCTION` per function; rows are in the order of the ends."""

LEARNED, RANDOM = "learned", "random"


def row(agent: str, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return one row of episodes.parquet, from the summary of an episode (`pyrite.rl.environment`)."""
    known = {"agent": agent, **summary}
    columns = [*SCHEMA, *(key for key in known if key.startswith("share:"))]
    kept = {name: known[name] for name in columns if name in known}
    if any(isinstance(action, list) for action in kept["actions"]):
        kept["actions"] = []  # documents: a decision has hundreds, of which only the shares are kept
    return kept


def table(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return the table of episodes.parquet."""
    shares = dict.fromkeys(key for each in rows for key in each if key.startswith("share:"))
    return pl.DataFrame(list(rows), schema={**SCHEMA, **dict.fromkeys(shares, pl.Float64)}, strict=False)


def recent(episodes: pl.DataFrame, agent: str, last: int = 32) -> dict[str, float]:
    """Return means over the last episodes of an agent; empty if it has none."""
    part = episodes.filter(agent=agent).tail(last)
    if part.is_empty():
        return {}
    return part.select(pl.exclude("agent", "actions").cast(pl.Float64).mean()).row(0, named=True)


def numbers(episode: Mapping[str, Any]) -> dict[str, float]:
    """Return an episode's numbers for progress output: return, validation and the share of each action."""
    return {
        key.replace(":", "/"): float(value)
        for key, value in episode.items()
        if key in ("return", "validation", "epochs") or key.startswith("share:")
    }


def against_random(episodes: pl.DataFrame) -> dict[str, float]:
    """Compare the validation of the last 32 episodes with the random agent's, by Student's t and Kolmogorov-Smirnov.

    The agent still explored in these episodes, and was rewarded for some of the same validation queries.
    `pyrite study policy=learned,random` measures its value.
    """
    own = episodes.filter(pl.col("agent") == LEARNED).tail(32)["validation"].to_numpy()
    other = episodes.filter(pl.col("agent") == RANDOM)["validation"].to_numpy()
    if min(len(own), len(other)) < 2:
        return {}
    return {
        "learned": float(own.mean()),
        "random": float(other.mean()),
        "t_p": float(scipy.stats.ttest_ind(own, other).pvalue),
        "ks_p": float(scipy.stats.ks_2samp(own, other).pvalue),
    }
