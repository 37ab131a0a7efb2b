"""Builds what proposes a study's runs and stops them early, and the user's callbacks of Ray Tune."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyrite.cluster.commands.experiment import Experiment
from pyrite.cluster.lazy import ray
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.provenance import content_digest
from pyrite.cluster.plan.study import StudyPlan
from pyrite.cluster.plan.sweep import Planned, Point
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.search.decided_runs import DecidedRuns
from pyrite.cluster.search.proposals import AllPlanned, Proposals
from pyrite.ranking.errors import refuse

if TYPE_CHECKING:
    from pyrite.cluster.search.schedulers import TrialStopping

EARLY = ("trial_scheduler", "stoppers")
"""Options that stop runs early."""


def callbacks_of(experiment: Experiment) -> list[ray.tune.Callback]:
    """Return the user's callbacks of Ray Tune, built."""
    if not (nodes := experiment.plan.options.get("callbacks", [])):
        return []
    from pyrite.cluster.search.schedulers import built_as

    return built_as(ray.tune.Callback, nodes, "callbacks", experiment.trust)


def proposals_of(
    plan: StudyPlan, adaptive: Sequence[Point], artifacts: Artifacts, scheduler: TrialStopping | None
) -> Proposals:
    """Return what proposes the runs that depend on earlier ones, if any: seeds until all is decided, or settings by
    Optuna, which only a search needs.
    """
    if plan.options.get("stop") == "decided":
        return DecidedRuns(plan, adaptive, artifacts.provenance)
    if not adaptive:
        return AllPlanned(plan, artifacts.provenance)
    from pyrite.cluster.search.optuna_runs import OptunaRuns

    return OptunaRuns(plan, adaptive, artifacts.provenance, scheduler)


def scheduler_of(
    experiment: Experiment, artifacts: Artifacts, known: Sequence[Planned], planned: Sequence[Planned | Point]
) -> TrialStopping | None:
    """Return what stops runs of the search early; None if the study requests nothing."""
    options = experiment.plan.options
    asked = [key for key in EARLY if options.get(key)]
    if not asked:
        return None
    what = f"{asked[0]} would stop runs that are compared by their seeds, for what they reach"
    refuse(
        not any(each.drawn if isinstance(each, Planned) else each.intervals or each.searched for each in planned),
        what,
        remedy="leave it out, or search: 'optimizer.lr=tag(log,interval(1e-4,1e-2))'",
    )
    from pyrite.cluster.search.schedulers import TrialStopping, built_as, schedulers_of

    scheduler = TrialStopping(
        schedulers_of(options.get("trial_scheduler"), experiment.trust),
        built_as(ray.tune.Stopper, options.get("stoppers", []), "stoppers", experiment.trust),
        EventLog.read(experiment.plan.storage),
        lambda config: content_digest(artifacts.provenance(config)),
    )
    scheduler.enter(known)
    return scheduler
