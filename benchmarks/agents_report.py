"""Prints what the steps of benchmarks/agents_trial.py have found so far, each with an interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.agents_control import AGENTS, FIXED
from benchmarks.agents_credit import report_credit
from benchmarks.unit_files import Result

LAST = 50
"""The episodes at the end of a learning that its return is measured on."""
Floats = NDArray[np.float64]


def welch(
    first: Sequence[float], second: Sequence[float], of_queries: float = 0.0
) -> tuple[float, float, float, float]:
    """Return the difference of two means, its 95% interval and p; both sides are samples, of agents and of seeds.

    Args:
        of_queries: the variance of the difference over other test queries.
    """
    mean = float(np.mean(first) - np.mean(second))
    parts = [float(np.var(side, ddof=1)) / len(side) for side in (first, second)]
    error = float(np.sqrt(sum(parts) + of_queries))
    if error == 0:
        return mean, mean, mean, float(mean == 0)
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(side) - 1) for part, side in zip(parts, (first, second), strict=True)
    )
    reach = float(stats.t.ppf(0.975, max(freedom, 1.0))) * error
    return mean, mean - reach, mean + reach, float(2 * stats.t.sf(abs(mean) / error, max(freedom, 1.0)))


def of_queries(first: Floats, second: Floats) -> float:
    """Return the variance over queries of the difference of two arms, from values [runs, queries]."""
    differences = first.mean(0) - second.mean(0)
    return float(differences.var(ddof=1)) / len(differences)


def row(name: str, first: Sequence[float], second: Sequence[float], variance: float = 0.0) -> str:
    mean, low, high, p = welch(first, second, variance)
    return f"| {name} | {len(first)} | {np.mean(first):.4f} | {mean:+.4f} ({low:+.4f} to {high:+.4f}) | {p:.3f} |"


HEAD = "| arm | runs | AP | less the coin (95%) | p |\n|---|---|---|---|---|"


def report_room(results: list[Result]) -> None:
    rules = dict.fromkeys(each["rule"] for each in results)
    values = {name: [each for each in results if each["rule"] == name] for name in rules}
    coin = values.get("coin", [])
    if len(coin) < 3:
        return
    print(f"\nRoom\n\n{HEAD}")
    for name, runs in values.items():
        if len(runs) > 2:
            tables = [np.array([run["queries"] for run in side]) for side in (runs, coin)]
            each = [run["value"] for run in runs]
            print(row(name, each, [run["value"] for run in coin], of_queries(*tables) if name != "coin" else 0.0))
    halves = [
        {name: [run["value"] for run in runs if run["seed"] % 2 == part] for name, runs in values.items()}
        for part in (0, 1)
    ]
    whole = [name for name in values if min(len(half[name]) for half in halves) > 1]
    best = max(whole, key=lambda name: float(np.mean(halves[0][name])), default="coin")
    if best != "coin":
        mean, low, high, _ = welch(halves[1][best], halves[1]["coin"])
        print(f"\nbest on even seeds: {best}; on odd seeds {mean:+.4f} ({low:+.4f} to {high:+.4f}) from the coin")
    epochs = [each["epochs"] for each in results]
    print(f"epochs: median {np.median(epochs):g}, most {max(epochs):g}")


def report_control(results: list[Result]) -> None:
    for setting in ("start", "late"):
        of_setting = [each for each in results if each["setting"] == setting]
        fixed_ends = {each["arm"]: each["ends"] for each in of_setting if each["arm"] in FIXED}
        if set(fixed_ends) != set(FIXED):
            continue
        coin, oracle = (float(np.mean(fixed_ends[name])) for name in ("coin", "oracle"))
        since = "from a random batch on" if setting == "late" else "from the start"
        print(f"\nControl, hidden positives {since}\n\n{HEAD}")
        for name, ends in fixed_ends.items():
            print(row(name, ends, fixed_ends["coin"]))
        learners = [each for each in of_setting if each["arm"] in AGENTS]
        columns = ["agent", "rate", "agents", "episodes", "share of the oracle's gain, by agent", "80%", "BM25"]
        print(f"\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
        for arm, rate in dict.fromkeys((each["arm"], each["rate"]) for each in learners):
            part = [each for each in learners if (each["arm"], each["rate"]) == (arm, rate)]
            shares = [(float(np.mean(each["ends"][-LAST:])) - coin) / (oracle - coin) for each in part]
            bm25, episodes = np.mean([each["bm25"][-LAST:] for each in part]), min(len(each["ends"]) for each in part)
            by_agent = ", ".join(f"{share:+.2f}" for share in shares)
            reached = f"{sum(share >= 0.8 for share in shares)} of {len(shares)}"
            print(f"| {arm} | {rate:g} | {len(part)} | {episodes} | {by_agent} | {reached} | {bm25:.0%} |")


def report_rates(results: list[Result]) -> None:
    print("\nRates\n\n| agent | rate | episodes | mean validation of the last 50 |\n|---|---|---|---|")
    for each in results:
        last = np.mean(each["validations"][-LAST:])
        print(f"| {each['arm']} | {each['rate']:g} | {len(each['validations'])} | {last:.4f} |")


def report_test(results: list[Result]) -> None:
    coin = [each for each in results if each["arm"] == "coin"]
    if len(coin) < 3:
        return
    print(f"\nTest\n\n{HEAD}")
    for arm in dict.fromkeys(each["arm"] for each in results if each["arm"] != "coin"):
        agents = [each for each in results if each["arm"] == arm]
        if len(agents) > 2:
            means = [float(np.mean([run["value"] for run in each["runs"]])) for each in agents]
            table = np.array([np.mean([run["queries"] for run in each["runs"]], axis=0) for each in agents])
            variance = of_queries(table, np.array([each["queries"] for each in coin]))
            print(row(f"{arm}, {len(agents)} agents", means, [each["value"] for each in coin], variance))
            continue
        for number, agent in enumerate(agents):  # intervals for other runs of this agent, not for other agents
            values, tables = zip(*((run["value"], run["queries"]) for run in agent["runs"]), strict=True)
            variance = of_queries(np.array(tables), np.array([each["queries"] for each in coin]))
            print(row(f"{arm}, runs of agent {number}", values, [each["value"] for each in coin], variance))
    report_learning([each for each in results if "bm25" in each])


def report_learning(agents: list[Result]) -> None:
    """Print what each agent's episodes had on dev queries at first and at last, and what it chooses by decision."""
    if len(agents) < 2:
        return
    print("\nLearning\n\n| agent | dev AP, first 50 | last 50 | test AP | BM25 by decision |\n|---|---|---|---|---|")
    for each in agents:
        test = np.mean([run["value"] for run in each["runs"]])
        by_decision = ", ".join(f"{share:.0%}" for share in each["bm25"])
        first, last = (np.mean(part) for part in (each["validations"][:LAST], each["validations"][-LAST:]))
        print(f"| {each['unit']} | {first:.4f} | {last:.4f} | {test:.4f} | {by_decision} |")
    gains = [np.mean(each["validations"][-LAST:]) - np.mean(each["validations"][:LAST]) for each in agents]
    low, high = stats.t.interval(0.95, len(gains) - 1, np.mean(gains), stats.sem(gains))
    print(f"\nlast less first: {np.mean(gains):+.4f} ({low:+.4f} to {high:+.4f}), over agents")


REPORTS = {
    "room": report_room,
    "control": report_control,
    "credit": report_credit,
    "rates": report_rates,
    "test": report_test,
}
"""By step."""
