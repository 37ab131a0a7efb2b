"""Declares the type of each key of the verbs fork, judge, mine, rank and audit."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cluster.config.shapes import Config, Cores, Count, Custom, Gigabytes, Name, Natural, PartConfig


class ForkConfig(Config):
    """conf/fork.yaml."""

    run: Name | None
    at: Natural | Annotated[list[Natural], Field(min_length=1)]
    instead: list[str]
    by: Literal["positive_rank", "score_gap", "guard_margin", "margin"] | None
    regress: bool
    length: Count
    replicates: Count
    bases: Count
    workers: Natural | None
    out: Name | None
    address: str | None
    dashboard: bool


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


class JudgeConfig(RunListsConfig):
    """conf/judge.yaml."""

    collection: PartConfig
    method: Annotated[dict[str, PartConfig], Field(min_length=1)]
    runs: str | list[str]
    topics: str | None
    grades: Annotated[list[int], Field(min_length=2)]
    names: list[str] | None
    budget: Count | None
    double: Annotated[int | float, Field(ge=0)]
    judges: Annotated[int, Field(ge=2)]
    gold: str | None
    burn_in: Natural
    gold_every: Count
    guidelines: list[str] | None
    search: bool
    resolve: Literal["highest", "first", "last"]
    assessors: list[str] | None
    owners: str | None
    recall: float | None
    confidence: float
    seed: Natural
    stemming: str | None
    out: Name | None
    title: str
    host: str
    url: str | None
    hosts: list[str]
    port: Annotated[int, Field(ge=0, le=65535)]
    open_browser: bool


class MineConfig(Config):
    """conf/mine.yaml."""

    collection: PartConfig
    vectors: PartConfig
    function: Annotated[dict[str, PartConfig], Field(min_length=1)]
    policy: PartConfig
    selector: PartConfig
    selectors: dict[str, PartConfig]
    negatives: dict[str, Natural | None]
    checkpoint: str | None
    ranker: PartConfig | None
    count: Count
    guard: PartConfig
    scores: Literal["function", "ranker"]
    queries: Literal["train", "dev", "test", "all"]
    most_queries: Count | None
    rows: Literal["tuples", "triplets", "labelled_pairs"]
    with_scores: bool
    format: Literal["parquet", "json", "dataset"]
    seed: Natural
    shard: Count
    batch: Count
    workers: Count
    cpu: Cores
    gpu: Annotated[float, Field(ge=0)]
    memory: Gigabytes | None = None
    custom: Custom | None = None
    encoding: PartConfig
    strict: bool
    cache: str | None
    out: Name | None
    address: str | None
    dashboard: bool


class RankConfig(Config):
    """conf/rank.yaml."""

    collection: PartConfig
    origin: Annotated[dict[str, PartConfig], Field(min_length=1)]
    checkpoint: str
    ranker: PartConfig | None
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


class AuditConfig(Config):
    """conf/audit.yaml."""

    studies: str | list[str]
    judgements: str | None
    order: Literal["sample", "bandit"]
    budget: Count
    relevant_from: Count
    encoding: str
    strict: bool
    seed: Natural
    out: str
