"""Declares what each key may hold of the verbs that train no ranker by a plan: fork, judge, mine, rank, audit."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cluster.config.shapes import Cores, Count, Custom, Gigabytes, Part, Shape


class Forking(Shape):
    """conf/fork.yaml."""

    run: Annotated[str, Field(min_length=1)] | None
    at: Annotated[int, Field(ge=0)] | Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    instead: list[str]
    length: Count
    replicates: Count
    bases: Count
    workers: Annotated[int, Field(ge=0)] | None
    out: Annotated[str, Field(min_length=1)] | None
    address: str | None
    dashboard: bool


class Judging(Shape):
    """conf/judge.yaml."""

    collection: Part
    method: Annotated[dict[str, Part], Field(min_length=1)]
    runs: str | list[str]
    topics: str | None
    qrels: str | None
    depth: Count
    order: Literal["score", "rank", "file"]
    groups: str | None
    encoding: str
    strict: bool
    grades: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=2)]
    names: list[str] | None
    relevant_from: Count
    budget: Count | None
    double: Annotated[int | float, Field(ge=0)]
    judges: Annotated[int, Field(ge=2)]
    gold: str | None
    burn_in: Annotated[int, Field(ge=0)]
    gold_every: Count
    guidelines: list[str] | None
    search: bool
    machine: str | None
    resolve: Literal["highest", "first", "last"]
    assessors: list[str] | None
    owners: str | None
    recall: float | None
    confidence: float
    seed: Annotated[int, Field(ge=0)]
    stemming: str | None
    out: Annotated[str, Field(min_length=1)] | None
    title: str
    host: str
    url: str | None
    hosts: list[str]
    port: Annotated[int, Field(ge=0, le=65535)]
    open_browser: bool


class Mining(Shape):
    """conf/mine.yaml."""

    collection: Part
    vectors: Part
    function: Annotated[dict[str, Part], Field(min_length=1)]
    policy: Part
    selector: Part
    selectors: dict[str, Part]
    negatives: dict[str, Annotated[int, Field(ge=0)] | None]
    checkpoint: str | None
    ranker: Part | None
    count: Count
    guard: Part
    scores: Literal["function", "ranker"]
    queries: Literal["train", "dev", "test", "all"]
    most_queries: Count | None
    rows: Literal["tuples", "triplets", "labelled_pairs"]
    with_scores: bool
    format: Literal["parquet", "json", "dataset"]
    seed: Annotated[int, Field(ge=0)]
    shard: Count
    batch: Count
    workers: Count
    cpu: Cores
    gpu: Annotated[float, Field(ge=0)]
    memory: Gigabytes | None = None
    custom: Custom | None = None
    encoding: Part
    strict: bool
    cache: str | None
    out: Annotated[str, Field(min_length=1)] | None
    address: str | None
    dashboard: bool


class Ranking(Shape):
    """conf/rank.yaml."""

    collection: Part
    origin: Annotated[dict[str, Part], Field(min_length=1)]
    checkpoint: str
    ranker: Part | None
    queries: Literal["train", "dev", "test", "all"]
    topics: str | None
    depth: Count
    tag: Annotated[str, Field(pattern=r"^\S+$")] | None
    measures: Annotated[list[str], Field(min_length=1)]
    cpu: Count
    strict: bool
    cache: str | None
    out: Annotated[str, Field(min_length=1)] | None


class Auditing(Shape):
    """conf/audit.yaml."""

    studies: str | list[str]
    judgements: str | None
    order: Literal["sample", "bandit"]
    budget: Annotated[int, Field(ge=1)]
    relevant_from: Annotated[int, Field(ge=1)]
    seed: Annotated[int, Field(ge=0)]
    out: str
