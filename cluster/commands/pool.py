"""`pyrite pool`: methods × pools × options × seeds, spread with Ray Tune."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from cluster.config.compose import CHOICES, compose
from cluster.output.manifest import CONFIG, read_config_of, refuse_taken, write_config
from cluster.output.storage import Storage, new_place
from cluster.plan.point import root_of
from cluster.plan.pool_methods import Variant, split, variants
from cluster.plan.sweep import key_of
from cluster.runs.pool_sources import NamedPool, open_pools
from cluster.runs.pool_trial import finished, plan_trial
from cluster.telemetry.tracking.tracking import tracked, trackers
from ranking.errors import BadInput

DEFAULT = [
    "docid",
    "rank",
    "mtf",
    "moffat_c",
    "hedge",
    "random",
    "ucb1_tuned",
    "bla",
    "mm",
    "mm_ns",
    "posterior_fusion",
]
"""What is compared where no method is named."""
MAY_CHANGE = ("retries", "concurrent", "address", "dashboard", "cpu", "cache", "track")
"""Options that a study may be resumed with: no result depends on them."""


@dataclass(frozen=True)
class PoolStudy:
    """What the user asked for.

    Args:
        config: of conf/pool.yaml, composed.
        arguments: the overrides that made it.
        variants: the methods to compare.
        storage: where it goes.
        fingerprints: of the pools, where the study began before.
    """

    config: dict[str, Any]
    arguments: list[str]
    variants: list[Variant]
    storage: Storage
    fingerprints: dict[str, str] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """What starts it, for people to copy."""
        return shlex.join(["pyrite", "pool", *self.arguments])


def read_arguments(arguments: Sequence[str], resume: str | None = None) -> PoolStudy:
    """A new study from the command line, or one to continue from its folder.

    Raises:
        BadInput: where an override is malformed or refused, or the folder holds another study, or none to continue.
    """
    if resume is None:
        study = _read(list(arguments))
        refuse_taken(study.storage)
        return study
    storage = Storage(resume)
    fixed = [text for text in arguments if root_of(text) not in MAY_CHANGE]
    if fixed:
        raise BadInput(f"{fixed[0]} can't change a study that has begun", resume, "leave it out, or start another")
    saved = read_config_of("pool", storage)
    try:
        before, fingerprints = list(map(str, saved["overrides"])), dict(saved["pools"])
    except (KeyError, TypeError, ValueError):
        raise BadInput(
            "is not what a pooling study writes down", f"{storage}/{CONFIG}", "name the folder of one"
        ) from None
    now = {key_of(text) for text in arguments} | {"out"}
    study = _read([*(text for text in before if key_of(text) not in now), *arguments, f"out={resume}"])
    return PoolStudy(study.config, before, study.variants, storage, fingerprints)


def _read(arguments: list[str]) -> PoolStudy:
    names, options, others = split(arguments)
    names = names or DEFAULT
    config = compose(others, "pool")
    config.pop(CHOICES)
    found = variants(names, options, config["preset"]["overrides"])
    config["baseline"] = _baseline(config["baseline"], found, any(key_of(text) == "baseline" for text in others))
    return PoolStudy(config, arguments, found, Storage(config["out"] or new_place("pool")))


def _baseline(name: str | None, found: Sequence[Variant], asked: bool) -> str | None:
    """The label that a baseline means: one of them, or the first of that method."""
    labels = [variant.label for variant in found]
    of_method = [variant.label for variant in found if variant.method == name]
    if name is None or name in labels:
        return name
    if asked and not of_method:
        raise BadInput(f"the baseline {name!r} is none of the methods", remedy=f"choose one of {', '.join(labels)}")
    return of_method[0] if of_method else None


def conduct(study: PoolStudy, console: Console) -> int:
    """Simulate what is left of a study, write its tables and its report.

    Returns:
        How many trials failed in the end.
    """
    from cluster.object_store import bytes_of, check_store, largest_and_all
    from cluster.reports.pool_finalize import report, write_tables
    from cluster.session import session
    from cluster.tune.pool import run_on_tune

    built = trackers(study.config["track"])
    with console.status("reading runs and judgements") as status:
        pools = open_pools(study.config, lambda name, done, total: _tell(status, name, done, total))
    for pool in pools:
        _check_unchanged(study, pool)
        console.print(escape(described(pool)), soft_wrap=True)
        for said, count in pool.pool.notes.items():
            if count:
                console.print(f"[dim]  {count:,} {escape(said)}[/]", soft_wrap=True)
    trials = [plan_trial(pool, variant, study.config) for pool in pools for variant in study.variants]
    resumed = study.storage.read(CONFIG) is not None
    _record(study, pools)
    done = finished(study.storage, trials)
    console.print(
        f"{len(study.variants)} methods over {len(pools)} pool{'s'[: len(pools) - 1]}, {study.config['seeds']} seeds "
        f"each ({len(done)} of {len(trials)} done), results in {study.storage}",
        soft_wrap=True, markup=False,
    )  # fmt: skip
    errors: dict[str, str] = {}
    with tracked(built, study.storage, console, "pool", resumed, runs=len(trials), done=len(done)) as tracking:
        if len(done) < len(trials):
            waiting = [trial for trial in trials if trial.name not in done]
            used = {trial.pool for trial in waiting}
            sizes = [{pool.name: bytes_of(pool.pool)} for pool in pools if pool.name in used]
            largest, shared = largest_and_all(sizes)
            with session(study.config["address"], study.config["dashboard"], shared) as dashboard:
                if dashboard:
                    console.print(f"[dim]Ray's dashboard: {dashboard}[/]")
                check_store(largest, shared, lambda line: console.print(f"[dim]{line}[/]"))
                errors = run_on_tune(
                    waiting, {pool.name: pool.pool for pool in pools}, study, len(done), console, tracking
                )
    failed = write_tables(study, trials, pools, errors)
    report(study.storage, console)
    return failed


def described(named: NamedPool) -> str:
    """A pool in one line."""
    pool, name = named.pool, named.name
    relevant = sum(int(pool.is_relevant(topic).sum()) for topic in pool.topics)
    teams = len(set(pool.teams))
    return (
        f"{name}: {len(pool.topics)} topics, {len(pool.runs)} runs of {teams} teams, {pool.size:,} documents in the "
        f"pool of depth {pool.depth} ({pool.size / len(pool.topics):.1f} a topic), {relevant:,} of them relevant "
        f"({relevant / len(pool.topics):.2f} a topic), fingerprint {named.fingerprint}"
    )


def _tell(status: Status, name: str, done: int, total: int) -> None:
    status.update(f"building systems to pool: {name} ({done}/{total})")


def _check_unchanged(study: PoolStudy, pool: NamedPool) -> None:
    before = study.fingerprints.get(pool.name, pool.fingerprint)
    if before != pool.fingerprint:
        raise BadInput(f"the pool {pool.name} has changed since this study began", study.storage.place, "start another")


def _record(study: PoolStudy, pools: Sequence[NamedPool]) -> None:
    if study.storage.read(CONFIG) is not None:
        return
    content = {
        "command": study.command,
        "overrides": study.arguments,
        "pools": {pool.name: pool.fingerprint for pool in pools},
        "facts": {pool.name: described(pool) for pool in pools},
        "notes": {pool.name: {said: count for said, count in pool.pool.notes.items() if count} for pool in pools},
        "methods": {
            variant.label: {"overrides": list(variant.overrides), **variant.node} for variant in study.variants
        },
        "options": {key: value for key, value in study.config.items() if key not in ("method", "preset")},
    }
    write_config(study.storage, content)
