"""Keeps what a learning leaves behind, an episode at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import scipy  # whose `stats` comes when it is first asked for: a third of a second that no worker of Ray needs

SCHEMA: dict[str, Any] = {
    "agent": pl.String, "copy": pl.Int64, "episode": pl.Int64, "return": pl.Float64, "decisions": pl.Int64,
    "validation": pl.Float64, "last_validation": pl.Float64, "validation_sample": pl.Float64, "epochs": pl.Int64,
    "steps": pl.Int64, "diverged": pl.Boolean, "actions": pl.List(pl.Int64),
}  # fmt: skip
"""Columns of episodes.parquet, in the order in which episodes ended; behind them `share:FUNCTION` for each."""

LEARNED, RANDOM = "learned", "random"


def row(agent: str, summary: Mapping[str, Any]) -> dict[str, Any]:
    """One row of episodes.parquet.

    Args:
        agent: `learned`, or `random` for the random agent.
        summary: of the finished episode (`rl.rllib.runner`).
    """
    known = {"agent": agent, "decisions": summary["length"], **summary, **summary["summary"]}
    columns = [*SCHEMA, *(key for key in known if key.startswith("share:"))]
    kept = {name: known[name] for name in columns if name in known}
    if any(isinstance(action, list) for action in kept["actions"]):
        kept["actions"] = []  # documents: of hundreds of picks a decision only the shares are kept
    return kept


def table(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """episodes.parquet."""
    shares = dict.fromkeys(key for each in rows for key in each if key.startswith("share:"))
    whole = {name: kind for name, kind in SCHEMA.items() if kind == pl.Int64}
    cast = [{key: int(value) if key in whole else value for key, value in each.items()} for each in rows]
    for each in cast:
        each["diverged"] = bool(each["diverged"])
    return pl.DataFrame(cast, schema={**SCHEMA, **dict.fromkeys(shares, pl.Float64)})


def recent(episodes: pl.DataFrame, agent: str, last: int = 32) -> dict[str, float]:
    """Means over the last episodes of an agent; nothing where there are none."""
    part = episodes.filter(pl.col("agent") == agent).tail(last)
    if part.is_empty():
        return {}
    numbers = [name for name in part.columns if name not in ("agent", "actions")]
    means = part.select(pl.col(numbers).cast(pl.Float64).mean()).row(0, named=True)
    return {name: float(value) for name, value in means.items()}


def numbers(episode: Mapping[str, Any]) -> dict[str, float]:
    """What an episode came to, for people who follow a learning: return, validation and how often each action was
    chosen."""
    return {
        key.replace(":", "/"): float(value)
        for key, value in episode.items()
        if key in ("return", "validation", "epochs") or key.startswith("share:")
    }


def against_random(episodes: pl.DataFrame, last: int = 32) -> dict[str, float]:
    """The last episodes' validation against the random agent's: means, Student's t and Kolmogorov-Smirnov tests.

    The agent still explored in these episodes, and the validation queries are those that it was rewarded for
    (some of them): `pyrite study policy=learned,random` says what it is worth.
    """
    own = episodes.filter(pl.col("agent") == LEARNED).tail(last)["validation"].to_numpy()
    other = episodes.filter(pl.col("agent") == RANDOM)["validation"].to_numpy()
    if min(len(own), len(other)) < 2:
        return {}
    return {
        "learned": float(own.mean()),
        "random": float(other.mean()),
        "t_p": float(scipy.stats.ttest_ind(own, other).pvalue),
        "ks_p": float(scipy.stats.ks_2samp(own, other).pvalue),
    }
