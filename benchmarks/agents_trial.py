"""Runs the trial of the paper's agent: room, a positive control, rates, and the test.

    python -m benchmarks.agents_trial STEP OUT [--collection FOLDER] [--hours H] [--cores N] [--seeds N] [--agents N]
        [--episodes N] [--sizes TOPICS EPOCHS]

The protocol is docs/experiments/agents_trial.md. STEP is `room`, `control`, `credit` (whom one-step credit rewards in
the control), `rates` or `test`; `report` prints what OUT holds, and `archive` writes OUT/STEP.jsonl, which `report`
and all steps read too. A step is a list of units; each leaves one file in OUT/STEP, and what has a file is not run
again. Units start until the hours are over; one that learns keeps its state every `KEEP` episodes and continues from
it.
"""

from __future__ import annotations

from pyrite import cluster  # noqa: F401  # isort: skip  # before ray

import argparse
import re
import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import torch

import pyrite
from benchmarks.agents_control import controls
from benchmarks.agents_credit import credits
from benchmarks.agents_report import LAST, REPORTS
from benchmarks.unit_files import Result, Unit, archive, conduct, results_of
from pyrite.cluster.executors.session import session

SMALLEST = [
    "control {out} --sizes 8 3 --episodes 6 --agents 1 --only 'start-([^-]+$|printed)'",
    "credit {out} --sizes 8 3 --episodes 4",
    "report {out}",
]
BASE = ["ranker=feed_forward", "scale=small", "selector=uniform", "origin=bm25"]
"""Every run on a real collection: f_FF; early stopping ends it, and no cap of epochs acts."""
UNCAPPED = ["training.max_epochs=100"]
FORTH, BACK = "function=[random,bm25]", "function=[bm25,random]"
COIN = ["policy=random", FORTH]
RULES = {
    "coin": COIN,
    **{
        f"{share}% BM25": ["policy=mixture", FORTH, f"policy.weights=[{100 - share},{share}]"]
        for share in range(10, 100, 20)
    },
    **{
        f"BM25 after {n} epochs": ["policy=schedule", FORTH, "policy.shape=switch", f"policy.epochs={n}"]
        for n in (1, 2, 4)
    },
    "random after 2 epochs": ["policy=schedule", BACK, "policy.shape=switch", "policy.epochs=2"],
}
"""Step 0: constant shares of BM25 and switching schedules, against the coin."""
RATES = {
    "printed": ["agent=as_printed", "copies=1"],
    "default": ["agent=actor_critic"],
    "reinforce": ["agent=reinforce"],
    "epochwise": ["agent=reinforce", "decision_every=epoch"],
}
CHOSEN = {"printed": 0.001, "default": 0.001, "reinforce": 0.01, "epochwise": 0.01}
"""The rates without results of step 2: the agents' own, and that of the control."""
DECISIONS = 8
"""The first decisions of an episode whose shares are kept: a training has 8 epochs at the median."""
DECADES = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0)


def trained(overrides: Sequence[str], seed: int, facts: Result, out: Path) -> Result:
    """Train a ranker; return AP@100 over BM25's candidates, of each test query too, and what ended the training."""
    run = pyrite.train([*overrides, f"seed={seed}", f"out={out}"])
    row, values = run.frame("trials").row(0, named=True), run.queries.filter(origin="bm25").sort("query")
    by_query = [round(value, 6) for value in values["AP@100"]]
    return {"value": float(np.mean(by_query)), "queries": by_query, "epochs": row["epochs"], "seed": seed, **facts}


def learned(overrides: Sequence[str], facts: Result, out: Path) -> Result:
    """Let an agent learn, or continue; return its validations by episode."""
    folder = out.with_name(f"{out.name}-agent")
    done = (folder / "config.yaml").exists()
    # Stepped in one process, which costs half of the core-hours of two workers and learns the same.
    learning = pyrite.learn(resume=folder) if done else pyrite.learn([*overrides, "workers=0", f"out={folder}"])
    episodes = learning.episodes
    return {
        "validations": episodes["validation"].to_list(),
        "bm25": second_by_decision(episodes["actions"].to_list()),
        "agent": learning.agent,
        **facts,
    }


def rated(overrides: Sequence[str], facts: Result, out: Path) -> Result:
    """Let an agent learn; return what it learned, without the folder of this machine that it is in."""
    return {name: value for name, value in learned(overrides, facts, out).items() if name != "agent"}


def second_by_decision(actions: Sequence[Sequence[int]]) -> list[float]:
    """Return the share of the second function in each of the first decisions of the last episodes."""
    last = actions[-LAST:]
    most = min(DECISIONS, max(map(len, last)))
    return [float(np.mean([each[number] for each in last if len(each) > number])) for number in range(most)]


def room(collection: list[str], seeds: int) -> list[Unit]:
    """Step 0: every rule with every seed, a seed at a time."""
    return [
        Unit(
            f"{name.replace(' ', '-')}-{seed:02}",
            partial(trained, [*collection, *UNCAPPED, *rule], seed, {"rule": name}),
        )
        for seed in range(seeds)
        for name, rule in RULES.items()
    ]


def rates(collection: list[str], episodes: int) -> list[Unit]:
    """Step 2: all agents with each rate."""
    learning = [*collection, *UNCAPPED, FORTH, f"episodes={episodes}", "random_baseline=0"]
    return [
        Unit(
            f"{name}-{rate:g}",
            partial(
                rated,
                [*learning, *agent, f"agent.actor_lr={rate}", f"agent.critic_lr={rate}"],
                {"arm": name, "rate": rate},
            ),
        )
        for rate in DECADES
        for name, agent in RATES.items()
    ]


def test(collection: list[str], agents: int, episodes: int, chosen: dict[str, float]) -> list[Unit]:
    """Step 3: the coin's 60 seeds; then each agent, and ten runs with seeds of its own."""
    units = [
        Unit(f"coin-{seed:02}", partial(trained, [*collection, *UNCAPPED, *COIN], seed, {"arm": "coin"}))
        for seed in range(60)
    ]
    learning = [*collection, *UNCAPPED, FORTH, f"episodes={episodes}", "random_baseline=0"]
    for number in range(agents):
        for name, rate in chosen.items():
            options = [*RATES[name], f"agent.actor_lr={rate}", f"agent.critic_lr={rate}", f"seed={number}"]
            units.append(
                Unit(f"{name}-{number:02}", partial(agent_runs, collection, [*learning, *options], name, number))
            )
    return units


def agent_runs(collection: list[str], learning: list[str], name: str, number: int, out: Path) -> Result:
    """Let an agent learn, and train ten rankers with it."""
    agent = learned(learning, {}, out)
    policy = ["policy=learned", FORTH, f"policy.checkpoint={agent['agent']}"]
    runs = [
        trained([*collection, *UNCAPPED, *policy], 1000 + 10 * number + seed, {}, out.with_name(f"{out.name}-{seed}"))
        for seed in range(10)
    ]
    return {"arm": name, "runs": runs, "validations": agent["validations"], "bm25": agent["bm25"]}


def best_rates(results: list[Result]) -> dict[str, float]:
    """Return the rate of each agent with the highest validation; that of `CHOSEN` without results."""
    chosen = dict(CHOSEN)
    for each in sorted(results, key=lambda each: float(np.mean(each["validations"][-LAST:]))):
        chosen[each["arm"]] = each["rate"]
    return chosen


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=[*REPORTS, "report", "archive"])
    parser.add_argument("out", type=Path, help="the folder of all steps")
    parser.add_argument("--collection", help="a BEIR folder, e.g. MedQuAD's, or overrides that name another collection")
    parser.add_argument("--hours", type=float, default=14.0)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=20, help="of each rule (room)")
    parser.add_argument("--agents", type=int, help="by default 10 in the control, 16 in the test")
    parser.add_argument("--episodes", type=int, help="by default 300; 100 for rates and credit")
    parser.add_argument("--sizes", type=int, nargs=2, default=[40, 10], help="topics and epochs of the control")
    parser.add_argument("--only", default="", help="run the units whose names match this pattern")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if chosen.step in ("report", "archive"):
        for step, report in REPORTS.items():
            if results := results_of(chosen.out / step):
                if chosen.step == "report":
                    report(results)
                else:
                    archive(chosen.out / step)
        return
    if chosen.step not in ("control", "credit") and not chosen.collection:
        parser.error(f"{chosen.step} needs --collection")
    topics, epochs = chosen.sizes
    named = chosen.collection or ""
    own = shlex.split(named) if "=" in named else ["collection=beir", f"collection.path={named}"]
    collection = [*own, *BASE]
    units = {
        "room": lambda: room(collection, chosen.seeds),
        "control": lambda: controls(topics, epochs, chosen.agents or 10, chosen.episodes or 300),
        "credit": lambda: credits(topics, epochs, chosen.episodes or 100),
        "rates": lambda: rates(collection, chosen.episodes or 100),
        "test": lambda: test(
            collection, chosen.agents or 16, chosen.episodes or 300, best_rates(results_of(chosen.out / "rates"))
        ),
    }[chosen.step]()
    named = [unit for unit in units if re.search(chosen.only, unit.name)]
    with session(dashboard=False) if chosen.step == "control" else nullcontext():  # RLlib's learners ask for one
        conduct(chosen.out / chosen.step, named, chosen.hours, chosen.cores)


if __name__ == "__main__":
    main()
