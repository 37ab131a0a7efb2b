"""Declares the arguments of each verb. Imports nothing heavy, so that help answers at once."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

from cluster.commands import submit
from cluster.config.groups import group_options, groups_of

Add = Callable[[str, str, str], argparse.ArgumentParser]
"""Makes the parser of a verb from its name, what it does, and examples."""
Groups = Mapping[str, list[str]]
"""The files of each group of `conf/`."""


def parser() -> argparse.ArgumentParser:
    """The command line of `pyrite`."""
    made = argparse.ArgumentParser(
        prog="pyrite",
        description="Where should a neural ranker's negatives come from? Studies of sampling policies, on Ray.",
        epilog="`pyrite VERB --help` says more. A study without arguments is the main job.",
    )
    verbs = made.add_subparsers(dest="verb", metavar="VERB", required=True)

    def add(name: str, says: str, epilog: str) -> argparse.ArgumentParser:
        return verbs.add_parser(
            name, help=says, description=says, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
        )

    groups = group_options()
    for declare in (_study, _train, _mine, _rank, _learn, _fork, _pool, _judge, _audit, _watch, _report, _options):
        declare(add, groups)
    submit.add_verb(add)
    return made


def _of_a_run(groups: Groups) -> str:
    listed = "\n".join(f"  {group}={'|'.join(groups[group])}" for group in groups_of("config"))
    return (
        f"options, as Hydra overrides:\n{listed}\n"
        "  any value by its path, e.g. training.patience=3 function.bm25.k1=1.2 (see `pyrite options`)"
    )


def _takes_overrides(verb: argparse.ArgumentParser, sweeps: bool = False, resumes: bool = False) -> None:
    may = "; may sweep" if sweeps else ""
    verb.add_argument("overrides", nargs="*", metavar="key=value", help=f"what differs from the defaults{may}")
    if resumes:
        verb.add_argument("--resume", metavar="OUT", help="go on with what this folder holds after an interrupt")


def _study(add: Add, groups: Groups) -> None:
    study = add(
        "study",
        "Compare ways of choosing negatives over many seeds and hyperparameters, spread with Ray Tune.",
        f"{_of_a_run(groups)}\n\nsweeps, in Hydra's grammar:\n"
        "  policy=fixed,random   training.batch_size=choice(16,32)   training.patience=range(1,4)\n"
        "  'optimizer.lr=tag(log,interval(1e-4,1e-2))' with samples=N and search=random|optuna\n\n"
        f"of the study:\n  experiment={'|'.join(groups['experiment'])}\n"
        "  seeds=N samples=N search=… baseline='policy=fixed function=bm25 selector=uniform'\n"
        "  stop=decided equal_within=0.01 max_seeds=40  seeds until each comparison with the best baseline is decided\n"
        "  'factors=[KEY,…]'  swept keys by which methods differ; else names, and numbers of at most eight values\n"
        "  out=FOLDER_OR_URI retries=N concurrent=N address=RAY_CLUSTER dashboard=false local=auto|true|false\n"
        "  track=[mlflow,wandb]  besides TensorBoard\n\n"
        "example:\n  pyrite study ranker=feed_forward,match_pyramid selector=uniform,dynamic seeds=5 scale=small",
    )
    _takes_overrides(study, sweeps=True, resumes=True)
    study.add_argument("--relabel", metavar="QRELS", help="mend the collection's judgements by these: relabel=QRELS")
    study.add_argument(
        "--power", metavar="OUT", help="run nothing: say how many seeds differences take, by the spread of this study"
    )


def _train(add: Add, groups: Groups) -> None:
    train = add(
        "train",
        "Train and evaluate one ranker, in this process.",
        f"{_of_a_run(groups)}\n  out=FOLDER_OR_URI  keeps result, state and weights\n"
        "  push=OWNER/NAME  sends the ranker and its card to the Hugging Face hub, with your own HF_TOKEN\n\n"
        "example:\n  pyrite train policy=fixed function=bm25 selector=dynamic scale=small seed=1",
    )
    _takes_overrides(train)


def _mine(add: Add, groups: Groups) -> None:
    mining = add(
        "mine",
        "Mine negatives for the queries of a collection, as a data set that other trainers load.",
        "options, as Hydra overrides:\n"
        + "".join(f"  {group}={'|'.join(groups[group])}\n" for group in ("collection", "function", "selector"))
        + "  count=N negatives a pair   guard.relative=0.05 guard.absolute=…   queries=train|dev|test|all\n"
        "  checkpoint=FOLDER  of a run with weights=true, or a checkpoint: for function=dense and selectors that ask\n"
        "  rows=tuples|triplets|labelled_pairs format=parquet|json|dataset with_scores=true scores=ranker\n"
        "  shard=QUERIES workers=N out=FOLDER_OR_URI   (all: `pyrite options --for mine`)\n\n"
        "examples:\n  pyrite mine collection=beir collection.path=FOLDER function=bm25 guard.relative=0.05 "
        "out=outputs/m\n"
        "  pyrite train collection=pairs collection.path=outputs/m ranker=static function=given",
    )
    _takes_overrides(mining, resumes=True)


def _rank(add: Add, groups: Groups) -> None:
    ranking = add(
        "rank",
        "Rank a collection, or a first stage's candidates, by a trained ranker: a TREC run.",
        "options, as Hydra overrides:\n"
        f"  collection={'|'.join(groups['collection'])}\n"
        "  origin=bm25|full|run_file origin.run_file.path=RUN origin.bm25.depth=N   whose candidates\n"
        "  queries=train|dev|test|all topics=FILE depth=N tag=NAME out=FILE   (all: `pyrite options --for rank`)\n\n"
        "examples:\n  pyrite rank outputs/static collection=beir collection.path=FOLDER out=outputs/static.run\n"
        "  pyrite rank outputs/s/weights/NAME.safetensors origin=full depth=100 out=runs/static.run.gz",
    )
    ranking.add_argument(
        "trained", metavar="RANKER", help="a folder of `pyrite train weights=true`, weights in it, or a checkpoint"
    )
    _takes_overrides(ranking)


def _learn(add: Add, groups: Groups) -> None:
    learn = add(
        "learn",
        "Let an agent learn which function should supply a ranker's negatives, and when.",
        "options, as Hydra overrides: those of one run (an episode), and\n"
        + "".join(f"  {group}={'|'.join(groups[group])}\n" for group in ("agent", "reward", "actions", "state"))
        + "  function=[bm25,random,tfidf]  the actions   decision_every=N|epoch  batches that one is held for\n"
        "  episodes=N copies=N workers=N hosts=N gamma=1 validation_sample.size=N validation_sample.every=N\n"
        "  out=FOLDER_OR_URI save_every=SECONDS   (all: `pyrite options --for learn`)\n\n"
        "example:\n  pyrite learn agent=actor_critic function=[bm25,random] reward=diff scale=small out=outputs/agent\n"
        "  pyrite study policy=learned,random policy.checkpoint=outputs/agent scale=small seeds=20\n"
        "  pyrite learn agent=evolution actions=mixture function=[random,bm25] scale=small episodes=96",
    )
    _takes_overrides(learn, resumes=True)


def _fork(add: Add, groups: Groups) -> None:
    fork = add(
        "fork",
        "Fork a run at some batches: continue it under other actions, and see what each was worth.",
        "RUN is the folder of a `pyrite train out=RUN`; then Hydra overrides:\n"
        "  at=94 or 'at=[0,94,188]'  batches before the fork   length=N  batches that an action lasts\n"
        "  'actions=[random,bm25,bm25:1-10]'  functions, or ranks of their lists\n"
        "  replicates=N bases=N workers=N out=FOLDER_OR_URI   (all: `pyrite options --for fork`)\n\n"
        "example:\n  pyrite fork outputs/run at=94 'actions=[random,bm25]'",
    )
    fork.add_argument("run", nargs="?", metavar="RUN", help="folder of the run")
    _takes_overrides(fork, resumes=True)


def _pool(add: Add, groups: Groups) -> None:
    pool = add(
        "pool",
        "Compare orders of judging a pool in simulation, over many seeds, spread with Ray Tune.",
        "options, as Hydra overrides:\n"
        f"  method={'|'.join(groups['method'])}|all\n  preset={'|'.join(groups['preset'])}\n"
        f"  stopping=[{','.join(groups['stopping'])}]\n"
        "  method.NAME.option=…  of a method; lists are swept: method.mm.rate=0,0.5,1\n"
        "  runs=FOLDER qrels=FILE depth=N order=score|rank|file relevant_from=GRADE groups=FILE\n"
        "  pools=FILE.yaml  instead: several pools\n"
        "  seeds=N 'budgets=[100,300]' baseline=METHOD 'contrasts=[[METHOD,METHOD]]'\n"
        "  ranking_quality=false reuse=true out=FOLDER_OR_URI concurrent=N\n\n"
        "example:\n  pyrite pool runs=trec8/runs qrels=trec8/qrels.txt.gz method=mtf,mm,mm_ns,posterior_fusion",
    )
    _takes_overrides(pool, sweeps=True, resumes=True)


def _judge(add: Add, groups: Groups) -> None:
    judging = add(
        "judge",
        "Serve a page on which people judge a pool, in the order that a method says.",
        "options, as Hydra overrides:\n"
        "  runs=FOLDER collection=beir collection.path=FOLDER topics=FILE qrels=FILE depth=N method=NAME out=FOLDER\n"
        "  'grades=[0,1,2]' budget=N double=N 'assessors=[ada,grace]' port=N   (all: `pyrite options --for judge`)\n\n"
        "examples:\n  pyrite judge runs=runs collection=beir collection.path=FOLDER topics=topics.txt out=judging\n"
        "  pyrite judge out=judging                        go on\n"
        "  pyrite judge --export qrels.txt out=judging     what is judged so far",
    )
    _takes_overrides(judging)
    judging.add_argument(
        "--export", metavar="FILE", help="write the qrels of what is judged so far (.csv: all judgements), and end"
    )


def _audit(add: Add, groups: Groups) -> None:
    audited = add(
        "audit",
        "Find out which of the negatives that rankers were shown are relevant.",
        "options, as Hydra overrides:\n"
        "  'studies=[FOLDER,…]' or the folders themselves   of studies with sampling.recorded above 0\n"
        "  budget=N to judge   judgements=QRELS of them   relevant_from=GRADE seed=N out=FOLDER\n\n"
        "examples:\n  pyrite audit outputs/m                             draw a sample, to judge\n"
        "  pyrite audit outputs/m judgements=judged.txt       what its judgements mean\n"
        "  pyrite study --relabel outputs/audit/qrels.txt …   the study again, with mended labels",
    )
    _takes_overrides(audited)


def _watch(add: Add, groups: Groups) -> None:
    watched = add(
        "watch",
        "Show the live table of a study that runs elsewhere, also of a submitted job.",
        "examples:\n  pyrite watch outputs/m\n  pyrite watch s3://lab/m",
    )
    watched.add_argument("out", metavar="OUT", help="the study's folder or URI")


def _report(add: Add, groups: Groups) -> None:
    report = add("report", "Make a study's summary, figures and report again.", "example:\n  pyrite report outputs/m")
    report.add_argument("out", metavar="OUT", help="the study's folder or URI")
    report.add_argument(
        "overrides",
        nargs="*",
        metavar="key=value",
        help="baseline='policy=… function=… selector=…' 'factors=[KEY,…]', or of a pool baseline=METHOD",
    )


def _options(add: Add, groups: Groups) -> None:
    shown = add(
        "options",
        "Show the whole configuration that overrides give, with what each option means.",
        "examples:\n  pyrite options ranker=match_pyramid scale=tiny\n  pyrite options --for pool method=mm",
    )
    shown.add_argument(
        "--for",
        dest="of",
        choices=("learn", "mine", "rank", "pool", "judge", "audit", "fork"),
        help="options of another verb than train and study",
    )
    _takes_overrides(shown)
