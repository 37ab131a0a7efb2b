"""The command line. Heavy libraries are imported where a verb needs them, so that help answers at once."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from cluster.commands import submit as jobs
from ranking.errors import BadInput

INTERRUPTED = 130


def _parser() -> argparse.ArgumentParser:
    from cluster.config.compose import group_options, groups_of

    groups = group_options()
    listed = "\n".join(f"  {group}={'|'.join(groups[group])}" for group in groups_of("config"))
    options = (
        f"options, as Hydra overrides:\n{listed}\n"
        "  any value by its path, e.g. training.patience=3 function.bm25.k1=1.2 (see `pyrite options`)"
    )
    parser = argparse.ArgumentParser(
        prog="pyrite",
        description="Where should a neural ranker's negatives come from? Studies of sampling policies, on Ray.",
        epilog="`pyrite VERB --help` says more. A study without arguments is the main job.",
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    def verb(name: str, says: str, epilog: str) -> argparse.ArgumentParser:
        return verbs.add_parser(
            name, help=says, description=says, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
        )

    train = verb(
        "train",
        "Train and evaluate one ranker, in this process.",
        f"{options}\n  out=FOLDER_OR_URI  keeps result, state and weights\n\n"
        "example:\n  pyrite train policy=fixed function=bm25 selector=dynamic scale=small seed=1",
    )
    train.add_argument("overrides", nargs="*", metavar="key=value", help="what differs from the defaults")
    study = verb(
        "study",
        "Compare ways of choosing negatives over many seeds and hyperparameters, spread with Ray Tune.",
        f"{options}\n\nsweeps, in Hydra's grammar:\n"
        "  policy=fixed,random   training.batch_size=choice(16,32)   training.patience=range(1,4)\n"
        "  'optimizer.lr=tag(log,interval(1e-4,1e-2))' with samples=N and search=random|optuna\n\n"
        f"of the study:\n  experiment={'|'.join(groups['experiment'])}\n"
        "  seeds=N samples=N search=… baseline='policy=fixed function=bm25 selector=uniform'\n"
        "  out=FOLDER_OR_URI retries=N concurrent=N address=RAY_CLUSTER dashboard=false\n"
        "  track=[mlflow,wandb]  besides TensorBoard\n\n"
        "example:\n  pyrite study ranker=feed_forward,match_pyramid selector=uniform,dynamic seeds=5 scale=small",
    )
    learn = verb(
        "learn",
        "Let an agent learn which function should supply a ranker's negatives, and when.",
        "options, as Hydra overrides: those of one run (an episode), and\n"
        + "".join(f"  {group}={'|'.join(groups[group])}\n" for group in ("agent", "reward"))
        + "  function=[bm25,random,tfidf]  the actions   decision_every=N|epoch  batches that one is held for\n"
        "  episodes=N copies=N workers=N hosts=N gamma=0.995 validation_sample.size=N validation_sample.every=N\n"
        "  out=FOLDER_OR_URI save_every=SECONDS   (all: `pyrite options --for learn`)\n\n"
        "example:\n  pyrite learn agent=actor_critic function=[bm25,random] reward=diff scale=small out=outputs/agent\n"
        "  pyrite study policy=learned,random policy.checkpoint=outputs/agent scale=small seeds=20",
    )
    pool = verb(
        "pool",
        "Compare orders of judging a pool in simulation, over many seeds, spread with Ray Tune.",
        "options, as Hydra overrides:\n"
        f"  method={'|'.join(groups['method'])}|all\n  preset={'|'.join(groups['preset'])}\n"
        f"  stopping=[{','.join(groups['stopping'])}]\n"
        "  method.NAME.option=…  of a method; lists are swept: method.mm.rate=0,0.5,1\n"
        "  runs=FOLDER qrels=FILE depth=N order=score|rank|file relevant_from=GRADE groups=FILE\n"
        "  pools=FILE.yaml  instead: several pools\n"
        "  seeds=N 'budgets=[100,300]' baseline=METHOD ranking_quality=false reuse=true\n"
        "  out=FOLDER_OR_URI concurrent=N\n\n"
        "example:\n  pyrite pool runs=trec8/runs qrels=trec8/qrels.txt.gz method=mtf,mm,mm_ns,posterior_fusion",
    )
    for many, may in ((study, "; may sweep"), (pool, "; may sweep"), (learn, "")):
        many.add_argument("overrides", nargs="*", metavar="key=value", help=f"what differs from the defaults{may}")
        many.add_argument("--resume", metavar="OUT", help="go on with what this folder holds after an interrupt")
    judging = verb(
        "judge",
        "Serve a page on which people judge a pool, in the order that a method says.",
        "options, as Hydra overrides:\n"
        "  runs=FOLDER documents=beir documents.path=FOLDER topics=FILE qrels=FILE depth=N method=NAME out=FOLDER\n"
        "  'grades=[0,1,2]' budget=N double=N 'assessors=[ada,grace]' port=N   (all: `pyrite options --for judge`)\n\n"
        "examples:\n  pyrite judge runs=runs documents=beir documents.path=collection topics=topics.txt out=judging\n"
        "  pyrite judge out=judging                        go on\n"
        "  pyrite judge --export qrels.txt out=judging     what is judged so far",
    )
    judging.add_argument("overrides", nargs="*", metavar="key=value", help="what differs from the defaults")
    judging.add_argument("--export", metavar="FILE", help="write the qrels of what is judged so far, and end")
    report = verb("report", "Make a study's summary, figures and report again.", "example:\n  pyrite report outputs/m")
    report.add_argument("out", metavar="OUT", help="the study's folder or URI")
    report.add_argument(
        "overrides",
        nargs="*",
        metavar="key=value",
        help="baseline='policy=… function=… selector=…', or of a pool baseline=METHOD",
    )
    watching = verb(
        "dashboard",
        "Provision the Grafana dashboard of the Ray session that runs here, and start Prometheus for it.",
        "examples:\n  pyrite dashboard            until Ctrl-C\n"
        "  pyrite dashboard --check    does every query of the dashboard return data?",
    )
    watching.add_argument("--check", action="store_true", help="run the dashboard's queries, say which return data")
    watching.add_argument("--port", type=int, help="of Prometheus, on this machine alone; else 9090, or any free one")
    watching.add_argument("--session", metavar="FOLDER", help="of the Ray session; else the one that started last")
    shown = verb(
        "options",
        "Show the whole configuration that overrides give, with what each option means.",
        "examples:\n  pyrite options ranker=match_pyramid scale=tiny\n  pyrite options --for pool method=mm",
    )
    shown.add_argument(
        "--for", dest="of", choices=("learn", "pool", "judge"), help="options of another verb than train and study"
    )
    shown.add_argument("overrides", nargs="*", metavar="key=value", help="what differs from the defaults")
    jobs.add_verbs(verb)
    return parser


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command; exit code 0 for success, 1 for runs that failed, 2 for bad input, 130 for Ctrl-C."""
    jobs.listen()
    parser = _parser()
    chosen, more = parser.parse_known_args(arguments)
    if any(text.startswith("-") for text in more) or (more and not hasattr(chosen, "overrides")):
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    if more:  # overrides that stand behind an option
        chosen.overrides += more
    try:
        sys.exit(_run(chosen))
    except BadInput as error:
        print(f"pyrite: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("pyrite: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader of a pipe had enough
        sys.stderr.close()
        sys.exit(0)


def _baseline(overrides: Sequence[str]) -> str | None:
    """The one thing that the report of a pooling study may be told."""
    for text in overrides:
        if not text.startswith("baseline="):
            raise BadInput(f"{text} can't change a report", remedy="give baseline=METHOD alone")
    return overrides[-1].removeprefix("baseline=") if overrides else None


def _quoted(override: str) -> str:
    """A study's baseline is a line of key=value pairs: one text to Hydra, in the quotes that the shell has eaten."""
    key, _, value = override.partition("=")
    return f"{key}='{value}'" if key == "baseline" and "=" in value and value[0] not in "'\"" else override


def _run(chosen: argparse.Namespace) -> int:
    for override in getattr(chosen, "overrides", []):
        if "=" not in override and not override.startswith("~"):
            raise BadInput(f"{override!r} is not an override", remedy="write key=value")
    if hasattr(chosen, "overrides"):
        chosen.overrides = [_quoted(override) for override in chosen.overrides]
    from rich.console import Console

    console = Console(highlight=False)
    if chosen.verb in jobs.VERBS:
        return jobs.run(chosen, console)
    if chosen.verb == "options":
        from cluster.config.show import show

        show(chosen.overrides, console, chosen.of or "config")
        return 0
    if chosen.verb == "train":
        from cluster.commands.train import train

        train(chosen.overrides, console)
        return 0
    if chosen.verb == "judge":
        from cluster.commands.judge import judge, write_qrels

        if chosen.export:
            write_qrels(chosen.overrides, chosen.export, console)
        else:
            judge(chosen.overrides, console)
        return 0
    if chosen.verb == "dashboard":
        from cluster.commands.dashboard import dashboard

        return dashboard(console, chosen.check, chosen.port, chosen.session)
    if chosen.verb == "report":
        from cluster.config.compose import compose
        from cluster.output.manifest import read_config
        from cluster.output.storage import Storage
        from cluster.reports import pool_finalize as of_pools
        from cluster.reports.finalize import report

        storage = Storage(chosen.out)
        if "pools" in read_config(storage):
            of_pools.report(storage, console, _baseline(chosen.overrides))
        else:
            report(storage, console, compose(chosen.overrides, "study")["baseline"])
        return 0
    kind: Any
    if chosen.verb == "pool":
        from cluster.commands import pool as kind
    elif chosen.verb == "learn":
        from cluster.commands import learn as kind
    else:
        from cluster.commands import study as kind

    from cluster.output.lock import output_lock

    study = kind.read_arguments(chosen.overrides, chosen.resume)
    try:
        with output_lock(study.storage):
            return 1 if kind.conduct(study, console) else 0
    except KeyboardInterrupt:
        again = shlex.join(["pyrite", chosen.verb, "--resume", study.storage.place])
        console.print(f"interrupted; go on with: {again}", soft_wrap=True, markup=False)
        return INTERRUPTED
