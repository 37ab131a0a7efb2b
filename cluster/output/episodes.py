"""Builds the table of the episodes of a learning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import polars as pl
import scipy  # loads `stats` on first use, which saves workers a third of a second

SCHEMA: dict[str, Any] = {
    "agent": pl.String, "copy": pl.Int64, "episode": pl.Int64, "return": pl.Float64, "decisions": pl.Int64,
    "validation": pl.Float64, "last_validation": pl.Float64, "validation_sample": pl.Float64, "epochs": pl.Int64,
    "steps": pl.Int64, "diverged": pl.Boolean, "actions": pl.List(pl.Int64),
}  # fmt: skip
"""Columns of episodes.parquet, followed by one `share:FUNCTION` per function; rows are in the order of the ends."""

SHOWN = ("return", "validation", "epochs")
"""Numbers of an episode that are shown as it ends, beside the shares."""
LEARNED, RANDOM = "learned", "random"


def row(agent: str, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return one row of episodes.parquet, from the summary of an episode (`pyrite.rl.environment`)."""
    known = {"agent": agent, **summary}
    kept = {name: known[name] for name in [*SCHEMA, *_shares(known)] if name in known}
    if any(isinstance(action, list) for action in kept["actions"]):
        kept["actions"] = []  # documents: a decision has hundreds, of which only the shares are kept
    return kept


def table(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return the table of episodes.parquet."""
    shares = dict.fromkeys(chain.from_iterable(map(_shares, rows)), pl.Float64)
    return pl.DataFrame(list(rows), schema={**SCHEMA, **shares}, strict=False)


def _shares(summary: Iterable[str]) -> list[str]:
    """Return the keys of the shares of each action."""
    return [key for key in summary if key.startswith("share:")]


def recent(episodes: pl.DataFrame, agent: str, last: int = 32) -> dict[str, float]:
    """Return means over the last episodes of an agent; empty if it has none."""
    part = episodes.filter(agent=agent).tail(last)
    if part.is_empty():
        return {}
    return part.select(pl.exclude("agent", "actions").cast(pl.Float64).mean()).row(0, named=True)


def numbers(episode: Mapping[str, Any]) -> dict[str, float]:
    """Return an episode's numbers for progress output: return, validation and the share of each action."""
    shown = [*SHOWN, *_shares(episode)]
    return {key.replace(":", "/"): float(episode[key]) for key in episode if key in shown}


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
