"""Declares the type of each key of a configuration. `build` checks the options of a part against its class.

`SHAPES` has the class of each primary file. `LimitsConfig` is for `limits` there, `ExperimentConfig` for a file of
conf/experiment, and so on.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1)]
Names = Annotated[list[str | int], Field(min_length=1)]
"""Names of topics, which may be numbers."""
Natural = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(min_length=1)]
"""A text that is not empty, as the name of a folder."""
Cores = Annotated[int | float, Field(gt=0)]
"""A fraction of a core is allowed."""
Gigabytes = Annotated[float, Field(gt=0)]
Custom = dict[str, Annotated[float, Field(gt=0)]]
"""Amounts of custom resources of a cluster."""
Local = bool | Literal["auto"]
"""Whether a command runs without Ray. `auto`: if that is faster than starting Ray."""


Precision = Literal["auto", "float32", "bfloat16", "float16"]
Resume = Literal["auto"] | None
"""Whether a command goes on if `out` holds what it left; `commands.resuming` reads it before anything is composed."""


class Config(BaseModel):
    """A mapping with these keys and no others, of exactly these types."""

    model_config = ConfigDict(strict=True, extra="forbid")


class PartConfig(Config):
    """The class of a part and its options."""

    model_config = ConfigDict(strict=True, extra="allow")
    target: str = Field(alias="_target_")


Parts = Annotated[dict[str, PartConfig], Field(min_length=1)]
"""Parts by their names."""


class TrainingConfig(PartConfig):
    """Options that every training class has."""

    batch_size: Count
    max_epochs: Count
    patience: Count


class SamplingConfig(Config):
    negatives: Count | None
    recorded: Annotated[float, Field(ge=0, le=1)]


class ValidationConfig(Config):
    origin: str | Annotated[list[str], Field(min_length=1)]
    every: Count | None
    measure: str
    negatives: Count | None


class LimitsConfig(Config):
    examples: Count | None
    train: Count | None
    dev: Count | None
    test: Count | None


class ResourcesConfig(Config):
    cpu: Cores
    gpu: Annotated[float, Field(ge=0)]
    memory: Gigabytes | None
    workers: Count
    least: Count | None
    placement: Literal["pack", "spread", "strict_pack", "strict_spread"]
    custom: Custom | None


class IndexConfig(Config):
    encoders: Count
    cpu: Annotated[float, Field(gt=0)]
    gpu: Annotated[float, Field(ge=0)]


class TrainerConfig(Config):
    """A training of the user's own, and its options."""

    model_config = ConfigDict(strict=True, extra="allow")
    run: Name | None
    format: Literal["json", "parquet", "csv", "tevatron", "flagembedding", "swift", "nemo"] | None


class NegativesConfig(Config):
    """Options that runs and mining share: what is read, and how negatives are chosen."""

    collection: PartConfig
    vectors: PartConfig
    function: Parts
    policy: PartConfig
    selector: PartConfig
    selectors: dict[str, PartConfig]
    guard: PartConfig
    negatives: dict[str, Natural | None]
    seed: Natural
    encoding: PartConfig
    strict: bool
    cache: str | None


class RunConfig(NegativesConfig):
    objective: PartConfig
    ranker: PartConfig
    peft: PartConfig | None = None
    optimizer: PartConfig
    scheduler: PartConfig
    batches: PartConfig
    teacher: PartConfig | None = None
    origin: Parts
    sampling: SamplingConfig
    training: TrainingConfig
    validation: ValidationConfig
    measures: Annotated[list[str], Field(min_length=1)]
    evaluate: list[str]
    folds: Annotated[int, Field(ge=3)]
    limits: LimitsConfig
    resources: ResourcesConfig
    index: IndexConfig
    trainer: TrainerConfig
    relabel: str | None
    save_every: Annotated[float, Field(ge=0)]
    save_every_batches: Count | None
    weights: bool
    embeddings: bool


class ActionsConfig(Config):
    documents: Annotated[int, Field(ge=2)] | None
    imitate: PartConfig | None


class CommandConfig(Config):
    """Options of commands that leave a folder, and may run on a cluster."""

    out: Name | None
    resume: Resume = None
    address: str | None
    dashboard: bool


class LearningConfig(RunConfig, CommandConfig):
    actions: ActionsConfig
    agent: PartConfig
    reward: PartConfig
    state: PartConfig
    validation_sample: PartConfig
    until: PartConfig | None = None
    gamma: Annotated[float, Field(gt=0, le=1)] | None
    decision_every: Count | Literal["epoch"]
    episodes: Count
    copies: Count
    workers: Natural | None
    random_baseline: Natural
    track: dict[str, PartConfig] = {}


class ScaleConfig(Config):
    """The changes of an experiment at a scale.

    `seeds` and `methods` replace the experiment's, `overrides` replace its overrides of the same keys, and `learn` is
    added to `policy.learn`.
    """

    seeds: Count | None = None
    overrides: list[str] = []
    methods: Annotated[list[list[str]] | list[MethodConfig], Field(min_length=1)] | None = None
    learn: list[str] = []


class MethodConfig(Config):
    """A method with a separate label."""

    label: Name
    overrides: list[str] | list[list[str]]


class ExperimentConfig(Config):
    title: str
    paper: str | None = None
    seeds: Count
    overrides: list[str] = []
    methods: Annotated[list[list[str]] | list[MethodConfig], Field(min_length=1)]
    baseline: str | None = None
    contrasts: list[str] = []
    scales: dict[str, ScaleConfig] = {}


class ManyRunsConfig(CommandConfig):
    """Options that studies and pooling studies share: how their runs are spread, followed and compared."""

    track: dict[str, PartConfig] = {}
    baseline: str | None
    retries: Natural
    concurrent: Count | None
    local: Local = "auto"
    renew_every: Annotated[int | float, Field(gt=0)] | None = 60


class StudyConfig(ManyRunsConfig):
    experiment: ExperimentConfig
    data: str = "data"
    methods: list[MethodConfig] | None = None
    seeds: Count | None
    samples: Count
    search: Literal["random", "optuna"]
    search_storage: str | None = None
    sampler: Literal["tpe", "gp", "cmaes"] = "tpe"
    parallel: Count = 1
    time_budget: str | int | float | None = None
    trial_scheduler: PartConfig | None = None
    stoppers: list[str | PartConfig] = []
    callbacks: list[str | PartConfig] = []
    stop: Literal["decided"] | None = None
    equal_within: Annotated[int | float, Field(gt=0, lt=1)] = 0.01
    max_seeds: Annotated[int, Field(ge=2)] = 40
    clip: Annotated[int | float, Field(gt=0, le=1)] | None = None
    never_below: int | float | None = None
    factors: list[str] | None = None
    contrasts: list[str] | None = None


class PresetConfig(Config):
    overrides: list[str]


class RunListsConfig(Config):
    """Options that pooling and judging share: how runs and judgements are read."""

    qrels: str | None
    qrels_repeated: Literal["max", "mean", "stop"] = "max"
    depth: Count
    order: Literal["score", "rank", "file"]
    order_precision: Literal["single", "double"] = "single"
    groups: str | None
    relevant_from: Count
    machine: str | None
    encoding: str
    strict: bool


class PoolSourceConfig(RunListsConfig):
    """The source of a pool, in conf/pool.yaml or in an entry of the file that `pools` names."""

    runs: str | list[str] | None
    topics: Literal["all", "even", "odd"] | Names
    most_topics: Count | None
    beyond: Natural


class PoolingConfig(PoolSourceConfig, ManyRunsConfig):
    collection: PartConfig | None = None
    method: Parts
    stopping: dict[str, PartConfig] = {}
    preset: PresetConfig
    pools: str | None
    seeds: Count
    budgets: Annotated[list[Count], Field(min_length=1)] | None
    contrasts: list[Annotated[list[str], Field(min_length=2, max_length=2)]] | None
    ranking_quality: bool
    reuse: bool
    cpu: Cores
    memory: Gigabytes | None = None
    custom: Custom | None = None
    cache: str | None


class JudgeConfig(RunListsConfig):
    collection: PartConfig
    method: Parts
    runs: str | list[str]
    topics: str | Names | None
    grades: Annotated[list[int], Field(min_length=2)] | None
    labels: list[str] | dict[int, str] | None
    budget: Count | str | None
    double: Annotated[int | float, Field(ge=0)]
    judges: Annotated[int, Field(ge=2)]
    gold: str | None
    burn_in: Natural
    gold_every: Count
    guidelines: list[str] | None
    search: bool
    rationale: bool
    resolve: Literal["highest", "first", "last"]
    assessors: list[str] | None
    owners: str | None
    recall: float | None
    confidence: float
    seed: Natural
    stemming: str | None
    out: Name | None
    resume: Resume = None
    title: str
    host: str
    url: str | None
    hosts: list[str]
    port: Annotated[int, Field(ge=0, le=65535)]
    open_browser: bool


class MineConfig(NegativesConfig, CommandConfig):
    checkpoint: str | None
    ranker: PartConfig | None
    precision: Precision
    count: Count
    promote: bool
    scores: Literal["function", "ranker"]
    queries: Literal["train", "dev", "test", "all"]
    most_queries: Count | None
    rows: Literal["tuples", "triplets", "labelled_pairs"]
    with_scores: bool
    format: Literal["parquet", "json", "dataset", "tevatron", "flagembedding", "swift", "nemo"]
    shard: Count
    batch: Count
    workers: Count
    cpu: Cores
    gpu: Annotated[float, Field(ge=0)]
    memory: Gigabytes | None = None
    custom: Custom | None = None


class RankConfig(Config):
    collection: PartConfig
    origin: Parts
    checkpoint: str
    ranker: PartConfig | None
    precision: Precision
    queries: Literal["train", "dev", "test", "all"]
    topics: str | None
    encoding: str
    depth: Count
    tag: Annotated[str, Field(pattern=r"^\S+$")] | None
    measures: Annotated[list[str], Field(min_length=1)]
    cpu: Count
    strict: bool
    cache: str | None
    out: Name | None


class EvaluateConfig(Config):
    runs: str | Annotated[list[str], Field(min_length=1)]
    qrels: str | Annotated[list[str], Field(min_length=1)]
    measures: Annotated[list[str], Field(min_length=1)]
    baseline: str | None
    per_query: bool
    judged_only: bool
    complete: bool
    relevant_from: Count
    order: Literal["score", "rank", "file"]
    order_precision: Literal["single", "double"]
    qrels_repeated: Literal["max", "mean", "stop"]
    encoding: str
    strict: bool
    out: Name | None


class AuditConfig(Config):
    studies: str | list[str]
    judgements: str | None
    order: Literal["sample", "bandit"]
    budget: Count
    relevant_from: Count
    encoding: str
    strict: bool
    seed: Natural
    out: str


SHAPES: dict[str, type[Config]] = {
    "config": RunConfig,
    "learn": LearningConfig,
    "study": StudyConfig,
    "pool": PoolingConfig,
    "judge": JudgeConfig,
    "mine": MineConfig,
    "rank": RankConfig,
    "audit": AuditConfig,
    "evaluate": EvaluateConfig,
}
"""Schemas by the name of the primary file."""
