"""Measures whom one-step credit rewards in the positive control of benchmarks/agents_trial.py, without an agent.

A coin decides. For each decision: what it does to the next state and the next reward, and the advantage that a critic
gives it, r + v(s') - v(s). The critics are 0 (the beginning of a learning) and linear ones at TD(0)'s fixed point
(Bradtke and Barto 1996), of all features and of those that an action does not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.agents_control import CLOCK, Control
from benchmarks.unit_files import Result, Unit
from pyrite.rl.state import FEATURES

Floats = NDArray[np.float64]
RIDGE = 1e-6


def coin_episodes(control: Control, episodes: int, facts: Result, out: Path) -> Result:
    """Return the actions, the rewards and the features of each decision of a coin, by episode."""
    (environment,), rng = control.environments(7, [0]), np.random.default_rng(3)
    columns: dict[str, list[list[Any]]] = {"actions": [], "rewards": [], "features": []}
    for _ in range(episodes):
        observation, _ = environment.reset()
        for column in columns.values():
            column.append([])
        over = False
        while not over:
            action, features = int(rng.integers(2)), observation["model"].tolist()
            observation, reward, over, *_ = environment.step(action)
            for name, value in (("actions", action), ("rewards", reward), ("features", features)):
                columns[name][-1].append(value)
    return {**columns, **facts}


def credits(topics: int, epochs: int, episodes: int) -> list[Unit]:
    """The coin's episodes, with hidden positives from the start."""
    run = Control(topics, epochs, late=False)
    return [Unit("start-coin", lambda out: coin_episodes(run, episodes, {"setting": "start"}, out))]


def critic(features: Floats, rewards: Floats) -> Floats:
    """Return v(s') - v(s) [episodes, decisions] of a linear critic at the fixed point of TD(0), γ = 1."""
    seen = np.concatenate([np.ones((*rewards.shape, 1)), features], -1)
    change = np.concatenate([seen[:, 1:], np.zeros_like(seen[:, :1])], 1) - seen
    flat, moved = seen.reshape(-1, seen.shape[-1]), change.reshape(-1, seen.shape[-1])
    weights = np.linalg.solve(RIDGE * np.eye(flat.shape[1]) - flat.T @ moved, flat.T @ rewards.ravel())
    return np.asarray(change @ weights, np.float64)


def effect(actions: Floats, values: Floats) -> tuple[float, float]:
    """Return how much higher values [episodes, decisions] are after action 1, within a decision's number, and ± 1.96
    standard errors, with the episode as unit.
    """
    centred, rest = actions - actions.mean(0), values - values.mean(0)
    mean = float((centred * rest).sum() / (centred**2).sum())
    by_episode = (centred * (rest - mean * centred)).sum(1)
    return mean, float(1.96 * np.sqrt((by_episode**2).sum()) / (centred**2).sum())


def report_credit(results: Sequence[Result]) -> None:
    """Print a table of the effects of one decision for BM25."""
    for result in results:
        actions, rewards, features = (np.array(result[name], float) for name in ("actions", "rewards", "features"))
        clock = features[..., [FEATURES.index(name) for name in CLOCK]]
        following = np.concatenate([features[:, 1:], features[:, -1:]], 1)
        rows = {
            "the next loss": following[..., FEATURES.index("loss")],
            "the next gradient norm": following[..., FEATURES.index("gradient")],
            "the next reward": rewards,
            "advantage, a critic of 0": rewards,
            "advantage, a critic of loss, gradient, step and epoch": rewards + critic(features, rewards),
            "advantage, a critic of step and epoch": rewards + critic(clock, rewards),
        }
        print(f"\nCredit, hidden positives from the start; {len(actions)} episodes of {actions.shape[1]} decisions\n")
        print("| one decision for BM25 changes | by (95%) |\n|---|---|")
        for name, values in rows.items():
            mean, reach = effect(actions, values)
            print(f"| {name} | {mean:+.5f} ({mean - reach:+.5f} to {mean + reach:+.5f}) |")
