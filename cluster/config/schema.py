"""Declares what each key of a configuration may hold; options of a part are held against its class (`build`)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cluster.config.shapes import Cores, Count, Custom, Gigabytes, Part, Shape
from cluster.config.verb_schema import Auditing, Forking, Judging, Mining, Ranking

Local = bool | Literal["auto"]
"""Whether a command runs in its own process: where that is quicker, or as the user says."""
FIGURE = r"^(\d*\.\d+)(?: ± (\d*\.\d+))?(?: ([*†]+))?$"
"""A figure as papers print it: mean, deviation, marks. Of some measures (bits, say) it may exceed 1."""

COLUMN = r"^([^:]+:)?[^:]+$"
"""A measure, with or without the origin of its candidates."""


class Training(Part):
    """Options that a training of any class has."""

    batch_size: Count
    max_epochs: Count
    patience: Count


class Sampling(Shape):
    """`sampling` of conf/config.yaml."""

    negatives: Count
    guard: Part
    recorded: Annotated[float, Field(ge=0, le=1)]


class Validation(Shape):
    """`validation` of conf/config.yaml."""

    origin: str | Annotated[list[str], Field(min_length=1)]
    every: Count | None
    measure: str
    negatives: Count | None


class Limits(Shape):
    """`limits` of conf/config.yaml."""

    examples: Count | None
    train: Count | None
    dev: Count | None
    test: Count | None


class Resources(Shape):
    """`resources` of conf/config.yaml."""

    cpu: Cores
    gpu: Annotated[float, Field(ge=0)]
    memory: Gigabytes | None
    workers: Count
    least: Count | None
    shard: bool
    placement: Literal["pack", "spread", "strict_pack", "strict_spread"]
    custom: Custom | None


class Index(Shape):
    """`index` of conf/config.yaml."""

    encoders: Count
    cpu: Annotated[float, Field(gt=0)]
    gpu: Annotated[float, Field(ge=0)]


class PartialJudging(Shape):
    """Which of a collection's judgements there are."""

    order: str | None
    budget: Count
    depth: Count
    feeders: list[Literal["bm25", "random"]]
    of: Literal["all", "train", "test"]


class Run(Shape):
    """conf/config.yaml."""

    collection: Part
    vectors: Part
    objective: Part
    ranker: Part
    peft: Part | None = None
    optimizer: Part
    scheduler: Part
    function: Annotated[dict[str, Part], Field(min_length=1)]
    policy: Part
    selector: Part
    batches: Part
    teacher: Part | None = None
    origin: Annotated[dict[str, Part], Field(min_length=1)]
    seed: Annotated[int, Field(ge=0)]
    encoding: Part
    sampling: Sampling
    negatives: dict[str, Annotated[int, Field(ge=0)] | None]
    selectors: dict[str, Part]
    training: Training
    validation: Validation
    measures: Annotated[list[str], Field(min_length=1)]
    evaluate: list[str]
    folds: Annotated[int, Field(ge=3)]
    limits: Limits
    resources: Resources
    index: Index
    relabel: str | None
    judging: PartialJudging
    strict: bool
    cache: str | None
    save_every: Annotated[float, Field(ge=0)]
    save_every_batches: Count | None
    keep_at: list[Count]
    weights: bool
    embeddings: bool


class Actions(Shape):
    """A file of conf/actions."""

    documents: Annotated[int, Field(ge=2)] | None
    imitate: Part | None
    mixture: Part | None
    every: Count


class Learning(Run):
    """conf/learn.yaml."""

    actions: Actions
    agent: Part
    reward: Part
    state: Part
    validation_sample: Part
    until: Part | None = None
    gamma: Annotated[float, Field(gt=0, le=1)] | None
    decision_every: Count | Literal["epoch"]
    episodes: Count
    copies: Count
    workers: Annotated[int, Field(ge=0)] | None
    hosts: Annotated[int, Field(ge=0)]
    random_baseline: Annotated[int, Field(ge=0)]
    track: dict[str, Part] = {}
    out: Annotated[str, Field(min_length=1)] | None
    address: str | None
    dashboard: bool


class Published(Shape):
    """What a paper reports, for a study's report to put its own figures beside.

    `figures` and `convergence` are laid out as in the paper: by collection, method and column, under the paper's
    names. The columns are `measures` where there are any, else `rankers`; these, `collections` and `methods` say what
    stands for the paper's in the study, a method as key=value pairs of `summary.csv` or of overrides: of a list the
    items that it holds, `[_,_]` for any list of two, and `*` for any part of a text. A column of `measures` is a
    measure over the study's leading origin (`R@1`), or an origin and a measure over it (`full:R@1`, `embeddings:MI`).
    """

    source: str
    collections: dict[str, str]
    rankers: dict[str, str] = {}
    measures: dict[str, Annotated[str, Field(pattern=COLUMN)]] = {}
    methods: dict[str, str]
    figures: dict[str, dict[str, dict[str, Annotated[str, Field(pattern=FIGURE)]]]] = {}
    convergence: dict[str, dict[str, dict[str, Annotated[float, Field(ge=0, le=1)]]]] = {}
    says: list[str] = []
    differs: list[str] = []


class Scaled(Shape):
    """What an experiment changes at a scale.

    `seeds` and `methods` take the place of its own, `overrides` that of the same keys in its own; `learn` is more of
    `policy.learn`.
    """

    seeds: Count | None = None
    overrides: list[str] = []
    methods: Annotated[list[list[str]], Field(min_length=1)] | None = None
    learn: list[str] = []


class Experiment(Shape):
    """A file of conf/experiment."""

    title: str
    paper: str | None = None
    seeds: Count
    overrides: list[str] = []
    methods: Annotated[list[list[str]], Field(min_length=1)]
    baseline: str | None = None
    contrasts: list[str] = []
    scales: dict[str, Scaled] = {}
    published: Published | None = None


class Study(Shape):
    """conf/study.yaml."""

    experiment: Experiment
    data: str = "data"
    seeds: Count | None
    samples: Count
    search: Literal["random", "optuna"]
    sampler: Literal["tpe", "gp", "cmaes"] = "tpe"
    parallel: Count = 1
    time_budget: str | int | float | None = None
    trial_scheduler: Part | None = None
    stoppers: list[str | Part] = []
    callbacks: list[str | Part] = []
    stop: Literal["decided"] | None = None
    equal_within: Annotated[int | float, Field(gt=0, lt=1)] = 0.01
    max_seeds: Annotated[int, Field(ge=2)] = 40
    clip: Annotated[int | float, Field(gt=0, le=1)] | None = None
    never_below: int | float | None = None
    track: dict[str, Part] = {}
    baseline: str | None
    factors: list[str] | None = None
    contrasts: list[str] | None = None
    out: Annotated[str, Field(min_length=1)] | None
    retries: Annotated[int, Field(ge=0)]
    concurrent: Count | None
    address: str | None
    local: Local = "auto"
    renew_every: Annotated[int | float, Field(gt=0)] | None = 60
    dashboard: bool


class Preset(Shape):
    """A file of conf/preset."""

    overrides: list[str]


class PoolSource(Shape):
    """Where a pool comes from: of conf/pool.yaml, or an entry of the file that its `pools` names."""

    runs: str | list[str] | None
    qrels: str | None
    depth: Count
    order: Literal["score", "rank", "file"]
    groups: str | None
    relevant_from: Count
    topics: Literal["all", "even", "odd"]
    most_topics: Count | None
    beyond: Annotated[int, Field(ge=0)]
    machine: str | None
    encoding: str
    strict: bool


class Pooling(PoolSource):
    """conf/pool.yaml."""

    collection: Part | None = None
    method: Annotated[dict[str, Part], Field(min_length=1)]
    stopping: dict[str, Part] = {}
    track: dict[str, Part] = {}
    preset: Preset
    pools: str | None
    seeds: Count
    budgets: Annotated[list[Count], Field(min_length=1)] | None
    baseline: str | None
    contrasts: list[Annotated[list[str], Field(min_length=2, max_length=2)]] | None
    ranking_quality: bool
    reuse: bool
    out: Annotated[str, Field(min_length=1)] | None
    cpu: Cores
    memory: Gigabytes | None = None
    custom: Custom | None = None
    retries: Annotated[int, Field(ge=0)]
    concurrent: Count | None
    address: str | None
    local: Local = "auto"
    renew_every: Annotated[int | float, Field(gt=0)] | None = 60
    dashboard: bool
    cache: str | None


SHAPES: dict[str, type[Shape]] = {
    "config": Run,
    "learn": Learning,
    "study": Study,
    "pool": Pooling,
    "judge": Judging,
    "mine": Mining,
    "rank": Ranking,
    "audit": Auditing,
    "fork": Forking,
}
"""By the name of the primary file."""
