"""Declares the options of one run, by any verb that trains a ranker."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from pyrite.cluster.config.schema.kinds import (
    CACHE,
    Config,
    Cores,
    Count,
    Custom,
    Gigabytes,
    Measures,
    Name,
    Natural,
    PartConfig,
    Parts,
    part,
)


class TrainingConfig(PartConfig):
    """Options that every training class has."""

    batch_size: Count
    max_epochs: Count
    patience: Count


class SamplingConfig(Config):
    negatives: Count | None = None
    """The negatives of each example. null: 4; with function=in_batch alone all others of the batch, and with
    function=[in_batch,…] and policy.each what the other functions add to them."""
    recorded: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The share of the training queries whose negatives are counted, for `pyrite audit`."""


class ValidationConfig(Config):
    origin: str | Annotated[list[str], Field(min_length=1)] = "bm25"
    """Any of conf/origin, whether or not it is evaluated at the end. Of several, [bm25,random], the first leads, each
    origin is measured at the end with the weights that were best by it, and training continues while any improves."""
    every: Count | None = None
    """The batches after which a run also validates within an epoch. null: only at the end of each."""
    measure: str = "AP@100"
    """The measure that stops the training and chooses the best weights, by its ir-measures name."""
    negatives: Count | None = None
    """Random documents beside each dev query's relevant document, for a dev loss. null: no dev loss."""


class LimitsConfig(Config):
    examples: Count | None = None
    """Pairs of a training query and a relevant document, drawn by a hash of both."""
    train: Count | None = None
    """Training queries."""
    dev: Count | None = None
    """Queries to validate on."""
    test: Count | None = None
    """Queries that the table is computed from."""


class ResourcesConfig(Config):
    cpu: Cores = 1
    """Cores, and torch threads, of a run or each of its workers; may be a share of one, e.g. 0.5."""
    gpu: Annotated[float, Field(ge=0)] = 0
    """The share of a GPU of a run or each of its workers, e.g. 0.25."""
    memory: Gigabytes | None = None
    """GB that a run or each of its workers reserves; doubled for a run that is killed for memory."""
    workers: Count = 1
    """Processes that train the ranker together, each on its rows of every batch."""
    least: Count | None = None
    """Workers to continue with if the cluster has lost some. null: wait for all."""
    placement: Literal["pack", "spread", "strict_pack", "strict_spread"] = "pack"
    """How a run or an agent is spread. pack: on as few machines as hold it; spread: over many; strict_pack: on one or
    not at all; strict_spread: each process on a separate one."""
    custom: Custom | None = None
    """Custom resources of the cluster for a run or each of its workers, e.g. {rack_a: 0.1}."""


class IndexConfig(Config):
    encoders: Count = 1
    """Actors that encode the collection."""
    cpu: Annotated[float, Field(gt=0)] = 1
    """Cores, and torch threads, of each; may be a share of one."""
    gpu: Annotated[float, Field(ge=0)] = 0
    """The share of a GPU of each."""


class TrainerConfig(Config):
    """A training of the user's own, and its options."""

    model_config = ConfigDict(strict=True, extra="allow")
    run: Name | None = None
    """The function (FILE.py:NAME) or the command."""
    format: Literal["json", "parquet", "csv", "tevatron", "flagembedding", "swift", "nemo"] | None = None
    """The format of the file {data} of a command."""


class NegativesConfig(Config):
    """Options that runs and mining share: what is read, and how negatives are chosen."""

    collection: PartConfig
    vectors: PartConfig
    """Word vectors."""
    function: Parts
    """One function, or a list for policies that choose: function=[random,bm25]."""
    policy: PartConfig
    """The choice among functions. Some policies name the functions that they choose among by default."""
    selector: PartConfig
    selectors: dict[str, PartConfig] = {}
    """Selectors of single functions, instead of the selector: selector.bm25=dynamic selector.bm25.lam=0."""
    guard: PartConfig = part("pyrite.sampling.guard.Guard")
    """Drops probable false negatives: candidates that score close to a relevant document."""
    negatives: dict[str, Natural | None] = {}
    """Negatives of each of several functions, if the policy leaves that open: negatives.bm25=1. By default in_batch
    gives all, and another one sampling.negatives."""
    seed: Natural = 0
    """The seed of every draw: weights, order of examples, sampling."""
    encoding: PartConfig = part("pyrite.ranking.encoding.Encoder")
    """How texts become numbers."""
    strict: bool = True
    """false: skip and count broken input instead of stopping at it."""
    relabel: str | None = None
    """Qrels that correct the collection's judgements, as `pyrite audit` writes them."""
    cache: str | None = CACHE
    """A folder, on a cluster one that all machines share. null: the user's cache folder."""


class RunConfig(NegativesConfig):
    objective: PartConfig
    ranker: PartConfig
    """The ranker. It names the objective, optimizer and sizes that it is trained with by default."""
    peft: PartConfig | None = None
    """lora: train adapters instead of a transformer's weights."""
    optimizer: PartConfig
    scheduler: PartConfig
    """The schedule of the learning rate."""
    batches: PartConfig
    """The examples that share a batch."""
    teacher: PartConfig | None = None
    """Scores that objectives, selectors and the guard may read."""
    origin: Parts
    """Origins of the candidates that the ranker re-ranks at the end."""
    sampling: SamplingConfig = SamplingConfig()
    training: TrainingConfig = part("pyrite.ranking.training.RankerTraining", _partial_=True)
    validation: ValidationConfig = ValidationConfig()
    measures: Measures = ["AP@100", "RR@10", "nDCG@20", "R@1"]
    """Measures by their ir-measures names; the first one leads the report."""
    evaluate: list[str] = []
    """Other collections to measure on at the end, zero-shot: BEIR folders, or folders of several."""
    folds: Annotated[int, Field(ge=3)] = 5
    """The folds of a cross-validation, if the collection has no split."""
    limits: LimitsConfig = LimitsConfig()
    """The maximum number of queries of each split, drawn by a hash of their ids. null: all."""
    resources: ResourcesConfig = ResourcesConfig()
    trainer: TrainerConfig = TrainerConfig()
    """Trains instead of Pyrite's rankers: a function (FILE.py:NAME) or a command, short trainer=X."""
    index: IndexConfig = IndexConfig()
    """The index of function=dense, if it is built beside the training."""
    save_every: Annotated[float, Field(ge=0)] = 30
    """Seconds between two states of a run that is kept in a folder, to continue after a loss, also within an epoch. 0:
    one after each step."""
    save_every_batches: Count | None = None
    """Batches between two further states."""
    weights: bool = False
    """Keep the trained ranker's weights (safetensors) beside the result."""
    embeddings: bool = False
    """Keep vectors of test queries, and compare their clusters with the categories."""
