"""Runs `pyrite mine`: mines negatives for the queries of a collection into a data set that other trainers load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import polars as pl
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pyrite.analysis.reports.report import Table
from pyrite.cluster.commands.conduct import run_command
from pyrite.cluster.commands.experiment import Experiment, Load, Verb, Work
from pyrite.cluster.config.compose import compose, texts_config
from pyrite.cluster.config.groups import without_choices
from pyrite.cluster.config.override import replaced
from pyrite.cluster.executors.address import is_cluster
from pyrite.cluster.executors.local import LocalExecutor
from pyrite.cluster.executors.ray_tasks import RayExecutor
from pyrite.cluster.executors.reach import local_paths
from pyrite.cluster.executors.resources import Resources, check_bundle
from pyrite.cluster.executors.task import Executor, LossLines, Once, Task, TaskLost
from pyrite.cluster.lazy import ray
from pyrite.cluster.mining.data_card import above_advice, check_dataset, finish, remarks
from pyrite.cluster.mining.miner import Miner, Shard, shards_of
from pyrite.cluster.mining.trainer_rows import FORMATS, check_rows
from pyrite.cluster.mining.writing import shard_store
from pyrite.cluster.output.manifest import resume_command
from pyrite.cluster.output.result_store import ResultStore, outdated_lines, unfinished
from pyrite.cluster.output.storage import Storage, output_place
from pyrite.cluster.output.tables import read_table
from pyrite.cluster.output.terminal import counted, print_lines
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.cut_checkpoints import cut_of
from pyrite.cluster.runs.shared_parts import FEW
from pyrite.cluster.runs.trained import precision_line
from pyrite.cluster.runs.what_was_read import cut_words, sentence
from pyrite.cluster.telemetry.tracking.tracking import Tracking
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.encoding import unmatched_queries
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.precision import AUTO

SCORES = ("score of positives", "of negatives")
TITLES = {"median rank": "rank", "rank of 90%": "90%", "score of positives": "score +", "of negatives": "score −"}
"""Shorter titles of columns on the screen."""
PROMPTS = {
    True: "before the queries, in their texts",
    False: "in the column prompt of ids/, which collection=pairs reads; for other trainers put them before the queries",
}
"""Where the prompts of queries are, by whether the rows are in the format of another trainer."""
WIDTH = 80
"""The letters of a line of an example."""


@dataclass(frozen=True)
class MinePlan:
    """A mining as the user requested it."""

    config: dict[str, Any]
    arguments: list[str]
    storage: Storage

    @property
    def options(self) -> dict[str, Any]:
        """The options of its command: one worker mines in this process."""
        return {**{key: self.config[key] for key in ("address", "dashboard")}, "local": self.config["workers"] == 1}


def plan(arguments: list[str]) -> MinePlan:
    """Plan a mining from its overrides."""
    config = compose(arguments, "mine")
    check_rows(config)
    for name, node in config["function"].items():
        default = compose(["function=dense"], "mine")["function"]["dense"] if "refresh" in node else {}
        what = "mining trains no ranker, so the index is built once and never refreshed"
        refuse(node.get("refresh") != default.get("refresh"), what, f"function.{name}.refresh", "leave it out")
    for key in ("memory", "custom"):
        what = f"{key} is reserved on a cluster, but one worker mines in this process"
        refuse(config["workers"] == 1 and config[key], what, key, "choose workers=2 or more, or leave it out")
    storage = Storage(output_place(config["out"], "mine"))
    if config["format"] == "dataset":
        check_dataset(storage)
    return MinePlan(config, arguments, storage)


def prepare(experiment: Experiment, console: Console) -> MineWork:
    """Read the collection, mine one query, and find the shards that are left."""
    artifacts = experiment.artifacts_of(console)
    _write_precision(experiment, artifacts)
    config, storage = experiment.plan.config, experiment.plan.storage
    artifacts.make([texts_config(config)], only=["base"])
    miner = Miner(config, artifacts)
    collection, shards = miner.collection, shards_of(miner.encoded, config)
    store = shard_store(config, storage, artifacts)
    finished, outdated = store.finished(shards)
    print_lines(console, *outdated_lines(outdated, "shards"))
    waiting = unfinished(shards, finished)
    if waiting:  # the first query shows errors before anything is written
        miner.mine(replace(shards[0], queries=shards[0].queries[:1]))
    queries, done = sum(len(shard.queries) for shard in shards), len(shards) - len(waiting)
    words = cut_words(miner.encoded, config["encoding"]) if miner.reads_words else ""  # BM25 reads whole texts
    says = sentence(collection, config)
    print_lines(console, says, *filter(None, [words, precision_line(miner.ranker)]))
    split = "" if config["queries"] == "all" else f"{config['queries']} "
    named = f"{collection.name} ({collection.fingerprint})"
    line = f"{counted(queries, f'{split}query')} of {named} in {counted(len(shards), 'shard')}"
    most = [f"most_queries={config['most_queries']:,} takes no more"] if config["most_queries"] == queries else []
    if notes := [*most, *(["queries=all mines for all splits"] if split else [])]:
        line += f" ({'; '.join(notes)})"
    print_lines(console, f"{line}, {done} done; results in {storage}")
    reads = list(local_paths({key: value for key, value in config.items() if key not in ("out", "cache")}))
    return MineWork(
        experiment=experiment,
        load=Load(bool(waiting), facts={"runs": len(shards), "done": done}, reads=reads),
        used=[(collection, config)],
        config=config,
        storage=storage,
        miner=miner,
        shards=shards,
        store=store,
        waiting=waiting,
    )


def _write_precision(experiment: Experiment, artifacts: Artifacts) -> None:
    """Write the precision of a checkpoint's transformers into the command, so that all workers read alike."""
    plan = experiment.plan
    if plan.config["checkpoint"] and plan.config["precision"] == AUTO:
        precision = artifacts.best_precision(plan.config["gpu"] > 0)
        experiment.chosen = [f"precision={precision}"]
        arguments, config = replaced(plan.arguments, experiment.chosen), plan.config | {"precision": precision}
        experiment.plan = replace(plan, config=config, arguments=arguments)


@dataclass(kw_only=True)
class MineWork(Work):
    """The shards of a mining, and those that are not mined yet."""

    config: dict[str, Any]
    storage: Storage
    miner: Miner
    shards: Sequence[Shard]
    store: ResultStore
    waiting: Sequence[Shard]

    def content(self) -> dict[str, Any]:
        return without_choices(self.config)

    def execute(self, console: Console, tracking: Tracking) -> None:
        body = "pyrite.cluster.mining.writing:mine_shard"
        tasks = [Task(shard.name, body, {"shard": shard}) for shard in self.waiting]
        columns = (TextColumn("shards"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            bar = progress.add_task("", total=len(self.shards), completed=len(self.shards) - len(self.waiting))
            for done in self._executor().run(tasks, watch=LossLines(progress.console, "shard", tracking.events)):
                if isinstance(done.error, TaskLost):
                    remedy = "remove the cause (a smaller shard= in a new mining needs less memory), then continue: "
                    raise BadInput(done.error.what, remedy=remedy + resume_command("mine", self.storage.place))
                done.result()
                progress.advance(bar)
                tracking.events.emit("run ended", run=done.task.key)  # for `pyrite list`

    def _executor(self) -> Executor:
        """Return this process, or `workers` actors of a cluster, each of which opens the collection."""
        config = self.config
        if config["workers"] == 1:
            return LocalExecutor(shared={"miner": self.miner, "store": self.store})
        if not is_cluster(config["address"]):
            check_bundle(Resources.of(config).bundle(), ray.cluster_resources(), "a miner")
        shared = {"miner": Once("pyrite.cluster.mining.miner:Miner", {"config": config}), "store": self.store}
        count = min(config["workers"], len(self.waiting))
        return RayExecutor(shared, lambda: count, Resources.of(config), "ShardMiner")

    def report(self, console: Console) -> int:
        collection = self.miner.collection
        about = {"collection": f"{collection.name} (fingerprint {collection.fingerprint})"}
        about["read"] = " ".join(self.read_lines)
        about |= {"checkpoint": f"{cut}, no more of it"} if (cut := cut_of(self.config)) else {}
        about |= {"precision": self.config["precision"]} if self.config["checkpoint"] else {}
        about |= {key: str(self.config[key]) for key in ("seed", "queries", "scores")}
        prompted = "prompt" in collection.queries.columns
        about |= {"prompts": PROMPTS[self.config["format"] in FORMATS]} if prompted else {}
        command, judgements = self.experiment.command, collection.judgements
        totals, functions = finish(self.store, self.shards, self.config, command, about, judgements)
        console.print(_summary(totals, functions, cut_of(self.config)), crop=False)
        what = f"no row was mined: of {counted(totals['examples'], 'pair')}, each had too few negatives"
        if not totals["rows"]:
            raise BadInput(what, self.storage.place, f"start another with {_for_rows(self.miner, functions)}")
        guard = self.miner.guard
        guarded = ("query", "pair")[guard.per_row] if guard.active else ""
        config = self.config
        above = above_advice(guard, config["scores"], config["checkpoint"])
        advice = remarks(totals, functions, guarded, self.storage.place, config["count"], config["rows"], above)
        ids = read_table(self.storage, f"ids/{self.shards[0].name}") if self.shards else None
        shown = [] if ids is None else _example(ids, collection)
        prompts = [f"prompts of queries: {about['prompts']}"] if prompted else []
        print_lines(console, *shown, *prompts, *advice, f"results: {self.storage}")
        return 0


def _for_rows(miner: Miner, functions: pl.DataFrame) -> str:
    """Return what gives rows to a mining that has none, because functions had fewer negatives than were asked of them.

    Args:
        functions: the summary of the functions.
    """
    short, numbers = functions.filter(pl.col("missing") > 0)["function"], miner.config["negatives"]
    unnumbered = [name for name in short if numbers.get(name) is None and len(functions) > 1]
    if unnumbered:
        name, kind = unnumbered[0], type(miner.functions[unnumbered[0]]).__name__
        return f"a number for {name}: negatives.{name}=2, or {kind}(2) in Python"
    few = len(unmatched_queries(miner.encoded)) <= FEW * len(miner.encoded.queries)
    words = "" if few else "; queries share no word with any document, and a line above says what to set"
    return f"fewer (count=, negatives.NAME=), a longer list (function.NAME.depth=) or a weaker guard{words}"


MINE = Verb(
    "mine",
    "mining",
    plan,
    prepare,
    may_change=("workers", "cpu", "gpu", "memory", "custom", "address", "dashboard", "cache"),
    without_ray="workers=1",
)
run_verb = partial(run_command, MINE)
"""Runs `pyrite mine`."""


def _summary(totals: dict[str, int], functions: pl.DataFrame, cut: str) -> Table:
    """Return the table for the screen."""
    caption = (
        f"{counted(totals['rows'], 'row')} of {counted(totals['examples'], 'pair')}; "
        f"{totals['left out']:,} had too few negatives{f'; with {cut}' if cut else ''}"
    )
    note = "rank: the median, and what nine in ten do not exceed; score +: of the positives, −: of the negatives"
    if not functions["fallback"].sum():
        functions = functions.drop("fallback")
    rows = [[_figure(name, value) for name, value in row.items()] for row in functions.iter_rows(named=True)]
    return Table([TITLES.get(name, name) for name in functions.columns], rows, caption=caption, note=note)


def _figure(column: str, value: float | str | None) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return f"{value:,.2f}" if column in SCORES else f"{value:,.0f}"


def _example(ids: pl.DataFrame, collection: Collection) -> list[str]:
    """Return lines with the texts of the first row that has a negative, each cut to a line; none if there is none."""
    for row in ids.iter_rows(named=True):
        if any(row["functions"]):
            question = collection.queries.filter(id=row["query_id"])["text"][0]
            found = collection.document_rows(pl.Series(row["document_ids"])).to_numpy()
            names = [
                f"{function}, rank {rank}" if function and rank else function or "positive"
                for function, rank in zip(row["functions"], row["ranks"], strict=True)
            ]
            texts = {"query": question, **dict(zip(names, collection.gather("text", found), strict=True))}
            width = max(map(len, texts)) + 2
            lines = [f"  {name:<{width}}{' '.join(text.split())}" for name, text in texts.items()]
            return [line if len(line) <= WIDTH else line[: WIDTH - 2] + " …" for line in lines]
    return []
