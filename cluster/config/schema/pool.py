"""Declares the options of `pyrite pool`, and of what it reads."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pyrite.cluster.config.schema.command import ManyRunsConfig
from pyrite.cluster.config.schema.kinds import (
    CACHE,
    Config,
    Cores,
    Count,
    Custom,
    Gigabytes,
    Names,
    Natural,
    Order,
    OrderPrecision,
    PartConfig,
    Parts,
    Repeated,
)


class PresetConfig(Config):
    overrides: list[str]


class RunListsConfig(Config):
    """Options that pooling and judging share: how runs and judgements are read."""

    qrels: str | None = None
    """The judgements of the runs."""
    qrels_repeated: Repeated = "max"
    """The grade of a document judged more than once: max, mean (rounded), or stop to refuse."""
    depth: Count = 100
    """Documents taken of each run."""
    order: Order = "score"
    """The order of a run within a topic: score as trec_eval, rank, or file (the order of the lines)."""
    order_precision: OrderPrecision = "single"
    """The precision of scores that are compared: single as trec_eval 9, double as trec_eval 10."""
    groups: str | None = "prefix"
    """Each run's team: a file of two columns, or prefix, the letters its name begins with. null: itself."""
    relevant_from: Count = 1
    """The lowest grade that counts as relevant."""
    machine: str | None = None
    """Grades that a model gave, as qrels: a prior for method=machine_prior, corrected in estimates and exported
    separately."""
    encoding: str = "utf-8"
    """The encoding of runs, topics and judgements."""
    strict: bool = True
    """false: leave out and count broken lines instead of stopping at the first."""


class PoolSourceConfig(RunListsConfig):
    """The source of a pool: options of a pool, or of an entry of the file that `pools` names."""

    runs: str | list[str] | None = None
    """A folder of TREC runs, or a list of files. null: systems that are built over pydocs."""
    topics: Literal["all", "even", "odd"] | Names = "all"
    """All topics, or every second one: even, odd (by place); or names, e.g. [301,302]."""
    most_topics: Count | None = None
    """The number of these that are taken, the first ones."""
    beyond: Natural = 0
    """Further documents of the collection that join each topic's pool, the best by BM25."""


class PoolingConfig(PoolSourceConfig, ManyRunsConfig):
    method: Parts
    """Several: method=mtf,mm,… or method=all."""
    stopping: dict[str, PartConfig] = {}
    preset: PresetConfig
    """Overrides of methods: losada2016 takes the paper literally."""
    collection: PartConfig | None = None
    """Texts of documents and topics, for method=cal,autotar,scal and beyond=…; without runs=, systems are built over
    it. null: pydocs."""
    pools: str | None = None
    """Instead: a YAML file of several pools, each NAME: {runs: …, qrels: …, depth: …, …}."""
    seeds: Count = 10
    """Simulations of each method, with seed 0, 1, …"""
    budgets: Annotated[list[Count], Field(min_length=1)] | None = None
    """Judgements per topic, e.g. [100, 300]. null: the paper's 100 to 2000, fewer for small pools."""
    baseline: str | None = "mtf"
    """The method that the others are tested against, if it is among them."""
    contrasts: list[Annotated[list[str], Field(min_length=2, max_length=2)]] | None = None
    """Pairs tested separately, e.g. [[posterior_fusion,mm]]: name those that you ask about beforehand."""
    ranking_quality: bool = True
    """Measure how well the judgements of each budget rank the runs, and where stopping rules stop."""
    reuse: bool = False
    """Leave each team out in turn and judge without it (seed 0): takes as long as all teams."""
    cpu: Cores = 1
    """Cores of a method; may be a share of one."""
    memory: Gigabytes | None = None
    """GB that each reserves of a cluster."""
    custom: Custom | None = None
    """Custom resources of the cluster for each, e.g. {rack_a: 0.1}."""
    cache: str | None = CACHE
    """A folder for the systems over pydocs. null: the user's cache folder."""
