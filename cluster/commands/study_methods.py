"""Looks at the runs of a study by method: what they need, and what of it is refused, whatever their seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyrite.cluster.config.agents import learner_of
from pyrite.cluster.config.override import key_of
from pyrite.cluster.index.demand import live_functions, served_functions
from pyrite.cluster.plan.methods import NAMED
from pyrite.cluster.plan.study import StudyPlan
from pyrite.cluster.plan.sweep import Planned, identity
from pyrite.cluster.rollouts.request import LearnRequest, with_agents
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.errors import BadInput, refuse


def seedless(run: Planned) -> str:
    """Return what identifies the method of a run: its configuration without the seed."""
    return identity(run.config | {"seed": 0})


def distinct(runs: Iterable[Planned]) -> list[Planned]:
    """Return one run of each method: all that checking needs to see."""
    return list({seedless(planned): planned for planned in runs}.values())


def configs_of(runs: Iterable[Planned]) -> list[dict[str, Any]]:
    """Return the configuration of one run of each method."""
    return [planned.config for planned in distinct(runs)]


def needs_of(config: Mapping[str, Any]) -> str | None:
    """Return a feature of a run that only Ray has."""
    asked = config["resources"]
    if asked["workers"] > 1:
        return f"resources.workers={asked['workers']}"
    if live := live_functions(config):
        return f"function.{live[0]}.refresh"
    if served := served_functions(config):
        return f"function.{served[0]}.shards"
    if asked["gpu"] or asked["memory"] or asked["custom"]:
        return "a run that reserves a GPU, memory or resources of its own"
    return None


def planned_with_agents(
    plan: StudyPlan, planned: Sequence[Planned], examples: Sequence[Planned]
) -> tuple[list[Planned], dict[str, LearnRequest]]:
    """Return the known runs, with the folders of agents that the study learns first, and the requests of these."""
    _look_for_data(plan.options.get("data"), [*planned, *examples])
    runs, agents = with_agents(planned, plan.storage, plan.scaled.get("learn", []))
    refuse(not runs and not examples, "nothing to run", remedy="see `pyrite study --help`")
    remedy = "learn one first, and give policy.checkpoint=FOLDER"
    refuse(
        any(learner_of(each.config) for each in [*runs, *examples]),
        "what is proposed while a study runs can't learn agents",
        "search",
        remedy,
    )
    return runs, agents


def check_comparison(
    plan: StudyPlan, known: Sequence[Planned], collections: dict[str, Collection], complete: bool
) -> None:
    """Refuse a baseline, factors and contrasts that the runs don't have: the user's, or those of the experiment where
    its methods are as they are in its file.

    Args:
        complete: whether all runs are known: a search may still find what is named.
    """
    of_design = plan.design if complete and _keeps_methods(plan) else {}
    keys = ("baseline", "factors", "contrasts")
    baseline, factors, contrasts = given = [plan.options.get(key) or of_design.get(key) for key in keys]
    if any(each is not None for each in given):
        from pyrite.cluster.reports import study_tables

        study_tables.check_comparison(baseline, factors, known, collections, contrasts, complete=complete)


def _keeps_methods(plan: StudyPlan) -> bool:
    """Whether a study has the methods of its experiment and no others, under their names."""
    others = plan.options.get("methods") or plan.scaled.get("methods") or plan.unlabelled or plan.swept
    return not others and set(map(key_of, plan.arguments)).isdisjoint(NAMED)


def _look_for_data(folder: str | None, runs: Iterable[Planned]) -> None:
    """See that the collections that an experiment takes from the folder `data` are there."""
    for path in dict.fromkeys(str(planned.config["collection"].get("path")) for planned in runs):
        place = Path(path)
        if folder is not None and place.is_relative_to(folder) and not place.exists():
            remedy = (
                f"put the collection {place.name} there, name the folder that holds it by data=FOLDER or PYRITE_DATA, "
                "or take another, as collection=pydocs (docs/guide/collections.md)"
            )
            raise BadInput("there is no such folder", path, remedy)
