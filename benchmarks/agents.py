"""Measures what agents learn if the best policy is known, and how many updates per second they make.

    python -m benchmarks.agents [--seeds N] [--agent NAME] [--decisions N] [--speed]

One toy has a function that is better early and another that is better late; in the other toy the choice has no effect.
Prints, for each agent and seed, the number of decisions until the policy first had 95% of the best return, its final
return, and the share of function 0 in the second toy.
"""

from __future__ import annotations

from pyrite import cluster  # noqa: F401  # isort: skip  # says how to authenticate, which Ray reads when it is imported

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.toys import EarlyLate, maker, policy_value, shares_of_first
from pyrite.cluster.executors.session import session
from pyrite.rl.agents.actor_critic import ActorCritic
from pyrite.rl.agents.agent import Agent
from pyrite.rl.agents.ppo import PPO
from pyrite.rl.agents.reinforce import Reinforce
from pyrite.rl.networks import PolicyNetwork, described
from pyrite.rl.rllib.algorithm import Lockstep

SMALLEST = ["--agent actor_critic --seeds 1 --decisions 160"]
COPIES = 8
LOOKS = 20
"""How often a policy is looked at."""


@dataclass(frozen=True)
class Budget:
    """An agent as it is by default, and the decisions of all copies that it is given."""

    agent: type[Agent]
    decisions: int


BUDGETS = {
    "actor_critic": Budget(ActorCritic, 20_000),
    "ppo": Budget(PPO, 60_000),
    "reinforce": Budget(Reinforce, 120_000),
}
"""REINFORCE needs most: the return of a decision holds the noise of all rewards after it."""


def start(agent: type[Agent], seed: int, matter: bool = True, workers: int = 0) -> Lockstep:
    """A learning of 8 copies of a toy."""
    toy = EarlyLate()
    make = maker(seed, matter)
    return agent().build(make, toy.observation_space, toy.action_space, seed=seed, workers=workers, copies=COPIES)


def policy_of(trainer: Lockstep) -> PolicyNetwork:
    """Return the learned policy's return so far."""
    return described(trainer.network, trainer.policy_weights())


def curve(budget: Budget, seed: int) -> list[tuple[int, float]]:
    """Decisions and value of the policy at each look."""
    trainer, found = start(budget.agent, seed), []
    for look in range(1, LOOKS + 1):
        while trainer.counters["decisions"] < budget.decisions * look // LOOKS:
            trainer.train()
        found.append((trainer.counters["decisions"], policy_value(policy_of(trainer))))
    trainer.stop()
    return found


def claimed(budget: Budget, seed: int) -> float:
    """Return the share of function 0 in the toy without any effect."""
    trainer = start(budget.agent, seed, matter=False)
    while trainer.counters["decisions"] < budget.decisions:
        trainer.train()
    share = float(shares_of_first(policy_of(trainer)).mean())
    trainer.stop()
    return share


def study(name: str, seeds: int, decisions: int | None) -> None:
    """Print an agent's table."""
    budget, reached, shares = BUDGETS[name], 0, []
    budget = replace(budget, decisions=decisions or budget.decisions)
    print(f"{name}: {budget.decisions:,} decisions of {COPIES} copies", flush=True)
    print("seed   95% after   best   in the end   share of function 0 where nothing matters", flush=True)
    for seed in range(seeds):
        found = curve(budget, seed)
        after = next((decisions for decisions, value in found if value >= 0.95), None)
        reached += after is not None
        shares.append(claimed(budget, seed))
        best = max(value for _, value in found)
        print(f"{seed:4d}   {after or '-':>9}   {best:.3f}   {found[-1][1]:10.3f}   {shares[-1]:.3f}", flush=True)
    print(f"reached by {reached} of {seeds}; shares from {min(shares):.3f} to {max(shares):.3f}\n", flush=True)


def speed() -> None:
    """Print updates a second of the actor-critic, one for each step of all copies."""
    for workers in (0, 1, 2):
        trainer = start(ActorCritic, 0, workers=workers)
        trainer.train()
        before, started = trainer.counters["updates"], time.perf_counter()
        for _ in range(10):
            trainer.train()
        updates = trainer.counters["updates"] - before
        print(
            f"{workers} runners: {updates / (time.perf_counter() - started):6.1f} updates a second of {COPIES} copies"
        )
        trainer.stop()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--agent", choices=BUDGETS, action="append")
    parser.add_argument("--decisions", type=int, help="of each agent, instead of what it is given by default")
    parser.add_argument("--speed", action="store_true", help="measure updates a second instead")
    chosen = parser.parse_args(arguments)
    with session(dashboard=False):
        if chosen.speed:
            speed()
        else:
            for name in chosen.agent or BUDGETS:
                study(name, chosen.seeds, chosen.decisions)


if __name__ == "__main__":
    main()
