"""Declares the options of `pyrite study`, and the content of an experiment's file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from pyrite.cluster.config.schema.command import ManyRunsConfig
from pyrite.cluster.config.schema.kinds import DATA, Config, Count, Name, PartConfig


class MethodConfig(Config):
    """A method: options and their values, under a label or not, and further overrides (`plan.methods`)."""

    model_config = ConfigDict(strict=True, extra="allow")
    label: Name | None = None
    overrides: list[str] | list[list[str]] = []


Methods = Annotated[list[list[str] | MethodConfig], Field(min_length=1)]


class ScaleConfig(Config):
    """The changes of an experiment at a scale.

    `seeds` and `methods` replace the experiment's, `overrides` replace its overrides of the same keys, and `learn` is
    added to `policy.learn`.
    """

    seeds: Count | None = None
    overrides: list[str] = []
    methods: Methods | None = None
    learn: list[str] = []


class NextConfig(Config):
    """The experiment that answers the next question about the same data and ranker."""

    question: str
    experiment: Name


class ExperimentConfig(Config):
    title: str
    paper: str | None = None
    seeds: Count = 3
    overrides: list[str] = []
    methods: Methods
    baseline: str | None = None
    contrasts: list[str] = []
    scales: dict[str, ScaleConfig] = {}
    then: NextConfig | None = None


class StudyConfig(ManyRunsConfig):
    experiment: ExperimentConfig
    """The methods to compare: a file of conf/experiment."""
    trial_scheduler: PartConfig | None = None
    """Of a search, on Ray: asha or median stops runs that are behind others."""
    data: str = DATA
    """The folder of the collections that an experiment names."""
    methods: Methods | None = None
    """What is compared, instead of the experiment's methods: 'methods=[{function:bm25},{function:bm25,selector:top}]',
    or with labels: 'methods=[{label:plain,function:in_batch},…]'."""
    seeds: Count | None = None
    """Runs of each point, with seed 0, 1, … null: the experiment's number."""
    samples: Count = 8
    """Draws of the intervals, if the sweep has any."""
    search: Literal["random", "optuna"] = "random"
    """How they are drawn: random (the same draws for every method) or optuna."""
    search_storage: str | None = None
    """search.storage=URL, e.g. sqlite:///search.db: a storage of Optuna, from which its dashboard shows the search."""
    sampler: Literal["tpe", "gp", "cmaes"] = "tpe"
    """The sampler of Optuna: tpe, gp (few runs) or cmaes (many runs, several settings)."""
    parallel: Count = 1
    """Proposals of a method that Optuna makes at once: more use more machines, and learn less from each other."""
    time_budget: str | int | float | None = None
    """For example 2h or 1h30m: no run begins after that, and those that did not are stopped, not failed."""
    stoppers: list[str | PartConfig] = []
    """Of a search: classes of ray.tune.Stopper of the user's, which stop a run, or let no more begin."""
    callbacks: list[str | PartConfig] = []
    """Classes of ray.tune.Callback of the user's, e.g. [mine.Slack] or [{_target_: mine.Slack, channel: runs}]."""
    stop: Literal["decided"] | None = None
    """decided: seeds until every comparison with the best baseline is decided, and no longer."""
    equal_within: Annotated[int | float, Field(gt=0, lt=1)] = 0.01
    """With stop=decided: a difference that makes none in practice."""
    max_seeds: Annotated[int, Field(ge=2)] = 40
    """With stop=decided: the maximum number of seeds of a method."""
    clip: Annotated[int | float, Field(gt=0, le=1)] | None = None
    """With stop=decided: the bound at which a seed's difference is cut. null: 2.5 times the spread of the first three
    seeds, between two and five times equal_within."""
    never_below: int | float | None = None
    """A run below this counts as one that never learned. null: half of the best baseline's median."""
    baseline: str | None = None
    """A method to test the others against besides the best one, e.g. 'policy=fixed function=bm25 selector=uniform'."""
    factors: list[str] | None = None
    """Swept keys by which methods differ, e.g. [training.patience]. null: all names, and numbers of at most eight
    values."""
    contrasts: list[str] | None = None
    """The first method against each of the others, by words of their overrides, tested as one family. null: the
    experiment's."""
