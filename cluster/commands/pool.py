"""Runs `pyrite pool`: simulates orders of judging over methods, pools, options and seeds, in parallel."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

from rich.console import Console
from rich.markup import escape

from pyrite.analysis.reports.pool_words import unjudged_warning
from pyrite.analysis.statistics.pool_summary import unjudged
from pyrite.cluster.commands.conduct import run_command
from pyrite.cluster.commands.experiment import Experiment, Load, Verb, Work
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.config.override import key_of
from pyrite.cluster.config.secrets import concealed_in
from pyrite.cluster.config.validate import check_pooling
from pyrite.cluster.executors.address import is_cluster
from pyrite.cluster.executors.local import LocalExecutor
from pyrite.cluster.executors.object_store import bytes_of, largest_and_all
from pyrite.cluster.executors.resources import check_bundle
from pyrite.cluster.executors.task import Executor
from pyrite.cluster.lazy import ray
from pyrite.cluster.output.result_store import outdated_lines, unfinished
from pyrite.cluster.output.storage import Storage, output_place
from pyrite.cluster.output.tables import write_table
from pyrite.cluster.output.terminal import counted, print_lines
from pyrite.cluster.plan.pool_methods import PoolPlan, Variant, split, variants
from pyrite.cluster.plan.size import TURNS, pool_seconds, saved
from pyrite.cluster.pools.compiling import SecondCompiler
from pyrite.cluster.pools.sources import NamedPool, changed_files, file_digests, open_pools, shown_progress
from pyrite.cluster.pools.trial import StoredPools, Trial, plan_trial, pool_tables, resources_of, task_of, trial_store
from pyrite.cluster.reports.publish import renew
from pyrite.cluster.telemetry.live_table import LiveTable
from pyrite.cluster.telemetry.run_watch import RunWatch, raise_unwritable
from pyrite.cluster.telemetry.tracking.tracking import Tracking
from pyrite.pooling.pool import UNJUDGED_NOTE, Pool
from pyrite.pooling.simulation import needs_of
from pyrite.ranking.cores import cores
from pyrite.ranking.errors import refuse

DEFAULT = [
    "docid", "rank", "mtf", "moffat_c", "hedge", "random", "ucb1_tuned", "bla", "mm", "mm_ns", "posterior_fusion",
]  # fmt: skip
"""The methods that are compared by default."""


def plan(arguments: list[str]) -> PoolPlan:
    """Plan a pooling study from its overrides."""
    names, options, others = split(arguments)
    names = names or DEFAULT
    config = compose(others, "pool")
    config.pop(CHOICES)
    check_pooling(config)
    compared = variants(names, options, config["preset"]["overrides"])
    config["baseline"] = _baseline(config["baseline"], compared, "baseline" in map(key_of, others))
    config["contrasts"] = _contrasts(config["contrasts"] or [], compared)
    return PoolPlan(config, arguments, compared, Storage(output_place(config["out"], "pool")))


def prepare(experiment: Experiment, console: Console) -> PoolWork:
    """Read the pools, and find the trials that are left."""
    plan: PoolPlan = experiment.plan
    methods = {variant.label: variant.build() for variant in plan.variants}
    inputs = {label: needs_of(method) for label, method in methods.items()}
    if not is_cluster(plan.options["address"]):
        compiler = SecondCompiler(methods, {variant.label: variant.node for variant in plan.variants})
        experiment.joined.callback(compiler.close)
    with shown_progress(console) as on_progress:
        pools = open_pools(plan.options, on_progress, reads_texts="texts" in chain.from_iterable(inputs.values()))
    _check_grades(inputs, pools)
    warnings = _print_pools(pools, console)
    trials = [plan_trial(pool, variant, plan.options) for pool in pools for variant in plan.variants]
    done, outdated = trial_store(plan.storage, trials).finished(trials)
    line = f"{counted(len(plan.variants), 'method')} over {counted(len(pools), 'pool')}, "
    line += f"{counted(plan.options['seeds'], 'seed')} each ({len(done)} of {len(trials)} done), "
    print_lines(console, *outdated_lines(outdated), f"{line}results in {plan.storage}")
    waiting = unfinished(trials, done)
    return PoolWork(
        experiment=experiment,
        load=_load(plan, pools, waiting, {"runs": len(trials), "done": len(done)}),
        plan=plan,
        pools=pools,
        trials=trials,
        waiting=waiting,
        ready=len(done),
        warnings=warnings,
    )


def _load(plan: PoolPlan, pools: Sequence[NamedPool], waiting: Sequence[Trial], facts: Mapping[str, Any]) -> Load:
    """Return what the trials that are left take."""
    sizes = largest_and_all([{name: bytes_of(pool)} for name, pool in _pools_of(waiting, pools).items()])
    reserved = plan.options["memory"] or plan.options["custom"]
    needs = "a method that reserves memory or custom resources" if reserved else None
    seconds = _seconds(pools, waiting, plan.options["seeds"]) * TURNS
    return Load(bool(waiting), *sizes, facts=facts, saved=saved(seconds), needs=needs)


def _pools_of(trials: Sequence[Trial], pools: Sequence[NamedPool]) -> dict[str, Pool]:
    """Return the pools of trials, by name."""
    used = {trial.pool for trial in trials}
    return {named.name: named.pool for named in pools if named.name in used}


def _check_grades(inputs: Mapping[str, Collection[str]], pools: Sequence[NamedPool]) -> None:
    """Refuse a method that needs a machine's grades over a pool without any."""
    graded = next((label for label, each in inputs.items() if "machine" in each), None)
    for named in pools:
        what = f"{graded} needs a machine's grades, and the pool {named.name} has none"
        refuse(
            graded and not any(len(topic.pool.machine) for topic in named.pool.topics),
            what,
            remedy="give machine=FILE, in the form of qrels",
        )


def _print_pools(pools: Sequence[NamedPool], console: Console) -> dict[str, str]:
    """Print what was read, and return the warnings by pool."""
    warnings = {}
    for named in pools:
        print_lines(console, described(named))
        for note, count in notes_of(named).items():
            console.print(f"[dim]  {escape(note)}: {count:,}[/]", soft_wrap=True)
        if UNJUDGED_NOTE in named.pool.notes and (found := unjudged(named.pool)):
            warnings[named.name] = unjudged_warning(found)
    for text in warnings.values():
        console.print(f"[yellow]warning[/]: {escape(text)}", soft_wrap=True)
    return warnings


def notes_of(named: NamedPool) -> dict[str, int]:
    """Return the notes of reading a pool that count anything."""
    return {note: count for note, count in named.pool.notes.items() if count}


def _seconds(pools: Sequence[NamedPool], waiting: Sequence[Trial], seeds: int) -> float:
    """Return the seconds of the trials in threads of this process."""
    seconds = {
        name: pool_seconds(pool.size, len(pool.runs) * len(pool.topics) * pool.depth, seeds)
        for name, pool in _pools_of(waiting, pools).items()
    }
    return sum(seconds[trial.pool] for trial in waiting)


@dataclass(kw_only=True)
class PoolWork(Work):
    """A pooling study: its pools, its methods, and the trials that are left."""

    plan: PoolPlan
    pools: Sequence[NamedPool]
    trials: Sequence[Trial]
    waiting: Sequence[Trial]
    ready: int
    warnings: Mapping[str, str]
    errors: Mapping[str, str] = field(default_factory=dict)
    shown: int = 0

    @property
    def inputs(self) -> Mapping[str, str]:
        return {pool.fingerprint: pool.name for pool in self.pools}

    def content(self) -> dict[str, Any]:
        plan, pools = self.plan, self.pools
        return {
            "pools": {pool.name: pool.fingerprint for pool in pools},
            "files": {pool.name: file_digests(pool.files) for pool in pools if pool.files},
            "facts": {pool.name: described(pool) for pool in pools},
            "notes": {pool.name: notes_of(pool) for pool in pools},
            "warnings": dict(self.warnings),
            "methods": {each.label: {"overrides": list(each.overrides), **each.node} for each in plan.variants},
            "options": {key: value for key, value in plan.options.items() if key not in ("method", "preset")},
        }

    def difference(self, name: str, before: Mapping[str, Any]) -> str:
        (pool,) = (each for each in self.pools if each.name == name)
        known = before.get("files", {}).get(name)
        others = changed_files(known, concealed_in(file_digests(pool.files))) if known else ""
        return "the same files are read differently" if others is None else others

    def execute(self, console: Console, tracking: Tracking) -> None:
        plan = self.plan
        tasks = [task_of(trial, plan.storage, plan.options) for trial in self.waiting]
        with LiveTable(console, len(tasks) + self.ready, self.ready, "area", "seed") as table:
            watch = RunWatch(table, tracking)
            for done in self._executor().run(tasks, watch=watch, retries=plan.options["retries"]):
                raise_unwritable(done)
            watch.record_states()
        self.errors = watch.errors

    def _executor(self) -> Executor:
        """Return what runs the trials: threads of this process, for the compiled loops let go of Python; or trials."""
        config, pools = self.plan.options, _pools_of(self.waiting, self.pools)
        if self.experiment.local:
            threads = config["concurrent"] or max(1, int(cores() // max(1, config["cpu"])))
            return LocalExecutor(threads, shared={"pools": pools})

        from pyrite.cluster.executors.tune import TuneExecutor

        if not is_cluster(config["address"]):
            check_bundle(resources_of(config).bundle(), ray.cluster_resources(), "a method")
        stored = StoredPools({name: ray.put(pool) for name, pool in pools.items()})
        return TuneExecutor({"pools": stored}, config["concurrent"], name="PoolRun")

    def renew(self) -> None:
        from pyrite.cluster.reports.pool_results import report_of

        names, _ = trial_store(self.plan.storage, self.trials).finished(self.trials)
        if len(names) != self.shown:
            self.shown = len(names)
            done = [trial for trial in self.trials if trial.name in names]
            tables = pool_tables(self.plan, done, {})
            if "budgets" in tables:
                page = report_of(self.plan.storage, tables, waiting=len(self.trials) - len(done))
                renew(page, self.plan.storage)

    def report(self, console: Console) -> int:
        from pyrite.cluster.reports.pool_results import report_pools

        tables = pool_tables(self.plan, self.trials, self.errors)
        for name, table in tables.items():
            write_table(self.plan.storage, name, table)
        report_pools(self.plan.storage, console, tables=tables)
        return int((tables["trials"]["status"] == "failed").sum())


POOL = Verb(
    "pool",
    "pooling study",
    plan,
    prepare,
    may_change=(
        "retries", "concurrent", "address", "dashboard", "cpu", "memory", "custom", "cache", "track", "local",
        "renew_every",
    ),
    without_ray="local=true",
    input="pool",
)  # fmt: skip
run_verb = partial(run_command, POOL)
"""Runs `pyrite pool`."""


def _baseline(name: str | None, compared: Sequence[Variant], requested: bool, what: str = "baseline") -> str | None:
    """Return the label that a name means: a label itself, or the only variant of a method.

    Args:
        requested: whether the user names it; the default may be missing, and means the first of several variants.
    """
    labels = [variant.label for variant in compared]
    if name is None or name in labels:
        return name
    of_method = [variant.label for variant in compared if variant.method == name]
    refuse(requested and len(of_method) != 1, *_unclear(f"the {what} {name!r}", of_method, labels))
    return next(iter(of_method), None)


def _unclear(named: str, of_method: Sequence[str], labels: Sequence[str]) -> tuple[str, None, str]:
    """Return what is wrong with a name that means no variant, or several, and what to do."""
    if not of_method:
        return f"{named} is none of the methods", None, f"choose one of {', '.join(labels)}"
    return f"{named} has {len(of_method)} variants", None, f"name one: {', '.join(map(repr, of_method))}"


def _contrasts(requested: Sequence[Sequence[str]], compared: Sequence[Variant]) -> list[list[str]]:
    """Return the pairs of labels to test separately; a method's name means its only variant."""
    pairs = []
    for pair in requested:
        labels = [_baseline(name, compared, requested=True, what="contrast's") for name in pair]
        refuse(labels[0] == labels[1], f"a contrast of {labels[0]} with itself", "contrasts", "name two methods")
        pairs.append([str(label) for label in labels])
    return pairs


def described(named: NamedPool) -> str:
    """Return a description of a pool in one line."""
    pool, name = named.pool, named.name
    relevant = sum(int(pool.is_relevant(topic).sum()) for topic in pool.topics)
    teams = counted(len(set(pool.teams)), "team")
    sizes = f"{counted(len(pool.topics), 'topic')}, {counted(len(pool.runs), 'run')} of {teams}"
    return (
        f"{name}: {sizes}, {counted(pool.size, 'document')} in the pool of depth {pool.depth} "
        f"({pool.size / len(pool.topics):.1f} per topic), {relevant:,} of them relevant "
        f"({relevant / len(pool.topics):.2f} per topic), fingerprint {named.fingerprint}"
    )
