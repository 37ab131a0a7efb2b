"""Declares each option of a command once: its name, type, default and explanation.

`SHAPES` has the class of each primary file, which chooses the parts. `LimitsConfig` is for `limits` there,
`ExperimentConfig` for a file of conf/experiment, and so on. The options of a part are declared by its class, and
`build` checks them against it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

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
Measures = Annotated[list[str], Field(min_length=1)]
Split = Literal["train", "dev", "test", "all"]
Order = Literal["score", "rank", "file"]
OrderPrecision = Literal["single", "double"]
Repeated = Literal["max", "mean", "stop"]
Precision = Literal["auto", "float32", "bfloat16", "float16"]
CACHE = "${oc.env:PYRITE_CACHE,null}"
DATA = "${oc.env:PYRITE_DATA,data}"


class Config(BaseModel):
    """A mapping with these keys and no others, of exactly these types."""

    model_config = ConfigDict(strict=True, extra="forbid", use_attribute_docstrings=True)


class PartConfig(Config):
    """The class of a part and its options."""

    model_config = ConfigDict(strict=True, extra="allow")
    target: str = Field(alias="_target_")


class CheckpointConfig(Config):
    """Options of a checkpoint, and its class if its files do not say it."""

    model_config = ConfigDict(strict=True, extra="allow")
    target: str | None = Field(default=None, alias="_target_")


def part(target: str, **options: Any) -> Any:
    """Return the default of an option that holds a part."""
    return Field(default_factory=lambda: PartConfig(_target_=target, **options))


Parts = Annotated[dict[str, PartConfig], Field(min_length=1)]
"""Parts by their names."""


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
    relabel: str | None = None
    """Qrels that correct the collection's judgements, as `pyrite audit` writes them."""
    save_every: Annotated[float, Field(ge=0)] = 30
    """Seconds between two states of a run that is kept in a folder, to continue after a loss, also within an epoch. 0:
    one after each step."""
    save_every_batches: Count | None = None
    """Batches between two further states."""
    weights: bool = False
    """Keep the trained ranker's weights (safetensors) beside the result."""
    embeddings: bool = False
    """Keep vectors of test queries, and compare their clusters with the categories."""


class ActionsConfig(Config):
    documents: Annotated[int, Field(ge=2)] | None
    imitate: PartConfig | None


class CommandConfig(Config):
    """Options of commands that leave a folder, and may run on a cluster."""

    out: Name | None = None
    """A folder or URI. null: outputs/VERB-<time>."""
    resume: Literal["auto"] | None = None
    """auto: start, or continue with what out= holds; the command is given again as it was."""
    address: str | None = None
    """The address of a Ray cluster. null: RAY_ADDRESS, or a local one that starts by itself."""
    dashboard: bool = True
    """Start the dashboard with a local Ray."""


class LearningConfig(RunConfig, CommandConfig):
    actions: ActionsConfig
    """What the agent chooses: functions, or documents."""
    agent: PartConfig
    reward: PartConfig
    state: PartConfig
    """What the agent sees: the paper's numbers of a batch."""
    until: PartConfig | None = None
    """Learning ends after `episodes`; converged: before, once it gains no more."""
    track: dict[str, PartConfig] = {}
    """Where numbers are reported too: tensorboard, mlflow, wandb."""
    gamma: Annotated[float, Field(gt=0, le=1)] | None = None
    """γ, the discount of a decision. null: 1 with reward=diff, 0.995 with others."""
    decision_every: Count | Literal["epoch"] = 1
    """Batches that an action is held for; or epoch: one decision per epoch."""
    episodes: Count
    """Episodes that the agent learns from; each is the training of a fresh ranker."""
    copies: Count = 8
    """Copies of the environment, all at once. The result depends on them and not on the workers."""
    workers: Natural | None = None
    """Processes that step the copies, each with resources.cpu and resources.gpu. null: as many as there is room for;
    0: this process."""
    validation_sample: PartConfig = part("pyrite.rl.rewards.ValidationSampleOptions")
    """Validation queries that the reward is measured on. A measurement costs as much as three batches at
    scale=small."""
    random_baseline: Natural = 16
    """Episodes of the random agent to compare with. 0: none."""
    save_every: Annotated[float, Field(ge=0)] = 60
    """Seconds between two states that are kept, to continue after an interrupt."""


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


class ExperimentConfig(Config):
    title: str
    paper: str | None = None
    seeds: Count = 3
    overrides: list[str] = []
    methods: Methods
    baseline: str | None = None
    contrasts: list[str] = []
    scales: dict[str, ScaleConfig] = {}


class ManyRunsConfig(CommandConfig):
    """Options that studies and pooling studies share: how their runs are spread, followed and compared."""

    track: dict[str, PartConfig] = {}
    """Where numbers of runs are reported too: tensorboard, mlflow, wandb."""
    retries: Natural = 1
    """Retries of a run or method that failed, before it is reported."""
    concurrent: Count | None = None
    """Runs or methods at once. null: as many as the cluster has room for."""
    renew_every: Annotated[int | float, Field(gt=0)] | None = 60
    """Seconds after which report.html is written again while it runs. null: only at the end."""
    local: bool | Literal["auto"] = "auto"
    """true: run in this process, without Ray; false: never; auto: if that is quicker than Ray's start."""


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


class JudgeConfig(RunListsConfig):
    collection: PartConfig
    """The texts of the documents: collection=beir collection.path=FOLDER."""
    method: Parts
    """The order of judging; method=shared also chooses the topic."""
    runs: str | list[str]
    """A folder of TREC runs, or a list of files."""
    topics: str | Names | None = None
    """TREC topics, JSON lines or lines of id, tab, text. null: the collection's queries; or the names of those that are
    judged, e.g. [301,302]."""
    qrels: str | None = None
    """Judgements made before: they are taken over and not asked for again."""
    grades: Annotated[list[int], Field(min_length=2)] | None = None
    """Grades that assessors may give; 0 to 9 are given by their keys. null: those of the labels, or [0,1]."""
    labels: list[str] | dict[int, str] | None = None
    """Words for the grades: [not,partly,fully] for 0, 1 and 2 (or for `grades`, in their order), or
    {0:not,1:partly,3:fully}."""
    duplicates: Literal["merge", "near", "keep"] = "merge"
    """Documents of a topic with the same text (but for case and blanks). merge: one is shown, whose judgement is that
    of all; near: also those that share nine tenths of their runs of three words; keep: each is shown."""
    budget: Count | str | None = None
    """Documents to judge of each topic, or a file of lines of topic, tab, number. null: the whole pool."""
    double: Annotated[int | float, Field(ge=0)] = 0
    """Documents of each topic that a second assessor judges too; a share as 0.1."""
    judges: Annotated[int, Field(ge=2)] = 2
    """Assessors of each of these documents, including the first one."""
    gold: str | None = None
    """Qrels of pooled documents that every assessor is tested with; the rest of the judging leaves them out."""
    burn_in: Natural = 5
    """The number of these that an assessor begins with, and is shown the known grade of."""
    gold_every: Count = 20
    """Judgements after which one more comes, unannounced."""
    guidelines: list[str] | None = None
    """What each grade means, in their order, e.g. ['not about it','touches it','answers it']."""
    rationale: bool = False
    """Assessors may mark the passage that decided; it is saved with the grade."""
    search: bool = True
    """Assessors may search the whole collection, and judge what they find."""
    resolve: Literal["highest", "first", "last"] = "highest"
    """The grade that counts then: highest, first or last."""
    assessors: list[str] | None = None
    """The names of those who may judge, e.g. [ada,grace], each by a separate link. null: anyone with the link."""
    owners: str | None = None
    """Owners of topics: first (the assessor of its first document), or a file of lines of topic, tab, assessor."""
    recall: float | None = 0.9
    """The share of a topic's relevant documents at which the page says that they are found. null: never."""
    confidence: float = 0.95
    """The confidence of that."""
    seed: Natural = 0
    """The seed of the method."""
    stemming: str | None = "english"
    """The language of the Snowball stemmer for the words that are marked. null: words as they are."""
    out: Name | None = None
    """The folder of the judgements, on this machine. null: outputs/judging."""
    resume: Literal["auto"] | None = None
    """auto: start, or continue with what out= holds; the command is given again as it was."""
    title: str = "Relevance judgements"
    """The title of the page."""
    host: str = "127.0.0.1"
    """The address to listen on; 0.0.0.0 lets other machines in."""
    url: str | None = None
    """The URL at which assessors reach the page, e.g. https://judging.example.org; for the links."""
    hosts: list[str] = []
    """Names besides localhost by which the page is reached, e.g. behind a proxy."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8765
    """The port. 0: any that is free."""
    open_browser: bool = False
    """Open the page in this machine's browser."""


class MineConfig(NegativesConfig, CommandConfig):
    checkpoint: str | None = None
    """The ranker that scores for function=dense and for selectors that need scores: a folder of `pyrite train
    weights=true`, or a checkpoint. null: none."""
    ranker: CheckpointConfig | None = None
    """The class of a checkpoint that does not name it: {_target_: …}; or options of it alone."""
    precision: Precision = "auto"
    """The precision of a checkpoint's transformers: float32, bfloat16, float16. auto: bfloat16 if the processor
    multiplies in it, else float32."""
    count: Count = 4
    """Negatives for each pair of a query and a relevant document."""
    promote: bool = False
    """Documents that guard.ranker scores above the positive become positives, in separate rows."""
    scores: Literal["function", "ranker"] = "function"
    """The scores that are written beside each document: of the function, or of the checkpoint (ranker)."""
    queries: Split = "train"
    """The split: train, dev, test or all."""
    most_queries: Count | None = None
    """The maximum number of queries of a split, drawn by a hash of their texts. null: all."""
    rows: Literal["tuples", "triplets", "labelled_pairs"] = "tuples"
    """tuples: a row per pair; triplets: a row per negative; labelled_pairs: a row per document."""
    with_scores: bool = False
    """Scores are among the texts too, for trainers that distil."""
    format: Literal["parquet", "json", "dataset", "tevatron", "flagembedding", "swift", "nemo"] = "parquet"
    """parquet, json (lines), dataset (what the library datasets loads from disk), or lines as another trainer reads
    them: tevatron, flagembedding, swift, nemo."""
    shard: Count = 1000
    """Queries that are mined at once: this bounds the memory, and is mined again after a loss."""
    batch: Count = 128
    """Pairs that are chosen for together: function=in_batch offers their positives."""
    workers: Count = 1
    """Processes on Ray that mine shards. 1: this process, without Ray."""
    cpu: Cores = 1
    """Cores of each, and torch threads; may be a share of one."""
    gpu: Annotated[float, Field(ge=0)] = 0
    """The share of a GPU of each."""
    memory: Gigabytes | None = None
    """GB that each reserves of a cluster."""
    custom: Custom | None = None
    """Custom resources of the cluster for each, e.g. {rack_a: 0.1}."""


class RankConfig(Config):
    collection: PartConfig
    origin: Parts
    """The origin of the candidates that are ranked: bm25, run_file, full (every document), category."""
    checkpoint: str
    """The ranker: a folder of `pyrite train weights=true`, weights, or a checkpoint."""
    ranker: CheckpointConfig | None = None
    """The class of a checkpoint that does not name it: cross_encoder, bi_encoder, …, or {_target_: …}. Options alone,
    as ranker.query_prompt=NAME, are those of the class that its files say."""
    precision: Precision = "auto"
    """The precision of a checkpoint's transformers: float32, bfloat16, float16. auto: bfloat16 if the processor
    multiplies in it, else float32."""
    queries: Split = "test"
    """The split: train, dev, test or all; all if there are no splits."""
    topics: str | None = None
    """A file of other queries than the collection's: TREC topics, JSON lines, or lines of id, tab, text."""
    encoding: str = "utf-8"
    """The encoding of topics."""
    depth: Count = 1000
    """The maximum number of documents of a query."""
    tag: Annotated[str, Field(pattern=r"^\S+$")] | None = None
    """The run's name, in its last column. null: the file's."""
    measures: Measures = ["AP@100", "RR@10", "nDCG@10"]
    """Measures that are shown if queries are judged."""
    cpu: Count = 1
    """Torch threads."""
    strict: bool = True
    """false: skip and count broken input instead of stopping at it."""
    cache: str | None = CACHE
    """A folder, on a cluster one that all machines share. null: the user's cache folder."""
    out: Name | None = None
    """A file or URI, packed if it ends in .gz. null: outputs/rank-<time>.run."""


class EvaluateConfig(Config):
    runs: str | Annotated[list[str], Field(min_length=1)]
    """Files, folders or patterns of runs: TREC's lines, CSV, JSON or parquet."""
    qrels: str | Annotated[list[str], Field(min_length=1)]
    """Judgements: a file, or several whose topics or documents differ, as [a.txt,b.txt]."""
    measures: Measures = ["AP", "nDCG@10", "RR@10", "P@10", "R@1000", "judged@10"]
    """Measures of ir-measures, and judged@k: the share that is judged."""
    baseline: str | None = None
    """The run from which the others' differences are tested, paired by topic."""
    per_query: bool = False
    """Also show the values of each topic."""
    judged_only: bool = False
    """Leave documents that are not judged out of the runs (condensed lists)."""
    complete: bool = True
    """A topic that a run lacks counts as 0. false: means are over the topics that a run has."""
    relevant_from: Count = 1
    """The lowest grade that counts as relevant."""
    order: Order = "score"
    """The order of a run: score, rank, or file (the order of the lines)."""
    order_precision: OrderPrecision = "single"
    """The precision of scores: single, as in trec_eval 9, or double, as in trec_eval 10."""
    qrels_repeated: Repeated = "max"
    """The grade of a document judged again: max or mean, or stop."""
    encoding: str = "utf-8"
    """The encoding of all files."""
    strict: bool = True
    """false: skip and count broken lines."""
    out: Name | None = None
    """A table of run, topic, measure and value: .csv, .tsv, .json, .jsonl or .parquet, also .gz."""


class AuditConfig(Config):
    studies: str | list[str]
    """Folders of studies that ran with sampling.recorded above 0, or of `pyrite mine`."""
    judgements: str | None = None
    """Qrels of the sample, from `pyrite judge --export` or elsewhere. null: draws the sample."""
    order: Literal["sample", "bandit"] = "sample"
    """What is judged: a random sample, which gives rates; or bandit, for relevant documents alone: runs of what each
    method and function showed, hardest first, for `pyrite judge`."""
    budget: Count = 300
    """Negatives of the sample."""
    relevant_from: Count = 1
    """The lowest grade that counts as relevant."""
    encoding: str = "utf-8"
    """The encoding of the judgements."""
    strict: bool = True
    """false: skip and count broken lines of the judgements instead of stopping at the first."""
    seed: Natural = 0
    """The seed of the sample."""
    out: str = "outputs/audit"
    """A folder."""


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
"""The declared options of each primary file."""
