"""Refuses options and parts of the last release that were removed or renamed, with what to use instead."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from pyrite.ranking.errors import refuse

SEARCH = (
    "search shares of functions by `pyrite study search=optuna policy=schedule 'policy.end=interval(0,1)'`, "
    "or policy=mixture with several policy.weights (docs/guide/learning.md)"
)
"""What to do instead of a search of mixtures."""
REMOVED: dict[str, str] = {
    "judging": "what fewer judgements change is answered (docs/experiments/partial_judgements.md): leave it out; "
    "orders of judging are compared by `pyrite pool`",
    "serve": "one process serves the page, on the machine with its folder: leave it out, and put a proxy in front "
    "of it (url=)",
    "resources.shard": "a ranker was never split over GPUs; resources.workers=N gives each worker the whole "
    "ranker, and peft=lora, ranker.precision=bfloat16 or ranker.gradient_checkpointing=true needs less memory",
    "experiment.published": "a paper's figures are in benchmarks/papers, and `python -m benchmarks.published OUT` "
    "prints them beside a study's: leave it out",
    "actions.mixture": f"Optuna does what the searches of mixtures did: {SEARCH}",
    "agent.warm_start": f"searches of mixtures were removed: {SEARCH}",
    "agent.iterations": f"searches of mixtures were removed: {SEARCH}",
    "hosts": "each worker holds the rankers that it steps: leave it out, and choose workers=N, and resources.gpu=0.5 "
    "so that two share a GPU",
    "replicas": "each run has one reader, so further actors per shard sped nothing up: leave it out, and choose more "
    "shards, or on_lost_shard=skip to not wait for a shard that died",
    "ranker.preset": "a checkpoint is read whole: leave it out; ranker.layers=, ranker.max_query= and "
    "ranker.max_document= cut one, and each table says so",
    "changes": "options stay the same throughout a run: train one run per setting, or choose a scheduler=",
    "keep_at": "it kept states for `pyrite fork`, which was removed: leave it out",
    "run_time": "Slurm ends a job that takes too long, and a study begins no run after its time_budget: leave it out, "
    "or give `pyrite study time_budget=2h`",
    "run_memory": "Ray ends the process that takes the most before a machine's memory is full: leave it out, or "
    "reserve memory for each run, as resources.memory=8 (GB)",
}
"""Options of the last release that were removed: why, and what to do instead."""
REMOVED_PARTS: dict[str, str] = {
    **dict.fromkeys(
        ["actions=mixture", "agent=bandit", "agent=evolution", "agent=population", "agent=schedule"],
        f"Optuna does what the searches of mixtures did: {SEARCH}",
    ),
    **dict.fromkeys(
        [f"experiment=mixture_{name}" for name in ("categories", "feed_forward", "neighbours", "policies", "transfer")],
        f"its question is answered (docs/experiments/mixtures.md): {SEARCH}",
    ),
    "experiment=partial_judgements": "its question is answered (docs/experiments/partial_judgements.md): orders of "
    "judging are compared by `pyrite pool`",
    "state=progress": f"only searches of mixtures read it: leave it out, or {SEARCH}",
    "policy=by_query": "no decision per query was better than one for all (docs/experiments/forks.md): give "
    "policy=recommended",
    "policy=from_forks": "forks left feedback nothing to choose among actions (docs/experiments/forks.md): give "
    "policy=recommended",
    "ranker=decoder": "a language model is a form of cross-encoder: write ranker=cross_encoder (ranker.words and "
    "ranker.template as before; ranker.label=new for a new head over the last token)",
    "ranker=cascade": "it was a one-off experiment: BM25 can choose the candidates, with "
    "ranker=cross_encoder function=bm25 selector=top",
    **dict.fromkeys(
        ["trial_scheduler=hyperband", "scheduler=hyperband"],
        "Ray Tune's asynchronous HyperBand is ASHA with several brackets: "
        "use trial_scheduler=asha trial_scheduler.brackets=3",
    ),
    **dict.fromkeys(
        ["trial_scheduler=pb2", "scheduler=pb2"],
        "runs that continue from each other's weights are no independent sample, so methods could not be compared: "
        "use search=optuna, and trial_scheduler=asha to stop runs early",
    ),
    **{
        f"scheduler={name}": f"scheduler= is the schedule of the learning rate; write trial_scheduler={instead}"
        for name, instead in {"asha": "asha", "median": "median", "none": "null"}.items()
    },
}
"""Parts of the last release that were removed: why, and what to use instead."""
RENAMED: dict[str, dict[str, str]] = {
    "every verb": {"sampling.guard": "guard"},
    "pool": {"scale": "pool_scale"},
}
"""New names by old ones, of options and of all that stand below them, in every verb or by primary file."""


def why_removed(key: str) -> str | None:
    """Return why there is an option no more, and what to do instead; None if there never was one."""
    return next((why for old, why in REMOVED.items() if f".{old}." in f".{key}."), None)


def refuse_renamed(overrides: Sequence[str], config: str) -> None:
    """Refuse options that have another name now, or another one in this verb."""
    renamed = RENAMED["every verb"] | RENAMED.get(config, {})
    for text, (old, new) in itertools.product(overrides, renamed.items()):
        key, _, value = text.lstrip("+~").partition("=")
        refuse(
            f"{key}.".startswith(f"{old}."),
            f"is called {new} now",
            text,
            f"write {new}{key.removeprefix(old)}={value or '…'}",
        )
