"""Declares the verbs of `pyrite` in one table, and parses a command line by it.

It imports nothing heavy, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from pyrite.cluster.config.aliases import is_override, not_an_override, with_named
from pyrite.cluster.config.groups import group_options, groups_of
from pyrite.cluster.config.other_names import OF_STUDY, suggestion
from pyrite.cluster.config.override import key_of
from pyrite.cluster.output.provenance import release
from pyrite.ranking.errors import BadInput
from pyrite.ranking.similar import similar

RESUME = (
    "--resume",
    {
        "metavar": "OUT",
        "help": "continue what this folder or URI holds after an interrupt; "
        "the whole command with resume=auto out=OUT starts, or goes on",
    },
)
SUBMITTABLE = ("study", "train", "learn", "pool")
"""Verbs that can be sent to a cluster as a job."""


@dataclass(frozen=True)
class FurtherWords:
    """Words of a command line that are no overrides.

    Args:
        shown: how the help names them; empty if a verb takes none.
        includes: whether a word is one of them.
    """

    shown: str = ""
    includes: Callable[[str], bool] = lambda text: "=" not in text and not text.startswith("~")

    @property
    def metavar(self) -> str:
        """The words and overrides that follow a verb, for its help."""
        return f"{self.shown} key=value".strip()

    @property
    def help(self) -> str:
        """The explanation of both."""
        return f"changes to the defaults{f', and {self.shown}' if self.shown else ''}"


FOLDERS = FurtherWords("FOLDER", lambda text: not is_override(text))
"""Folders, which may be named like an override (outputs/lr=0.1), as files may (k=1.txt)."""


@dataclass(frozen=True)
class Usage:
    """A verb as the command line reads it.

    Args:
        summary: one sentence for `pyrite --help`.
        details: what `pyrite VERB --help` adds; `{group}` is replaced by the names in a group.
        runs: the function, as `package.module:name`, that takes the parsed arguments and a console and returns the exit
            code.
        arguments: those before the overrides, and flags, with what argparse needs to know of them.
        words: its further words that are no overrides.
        overrides: whether it takes `key=value`.
    """

    summary: str
    details: str
    runs: str
    arguments: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    overrides: bool = True
    words: FurtherWords = FurtherWords()


RUN_OPTIONS = (
    "options, as Hydra overrides:\n{run}\n"
    "  any value by its path, e.g. training.patience=3 function.bm25.k1=1.2 (see `pyrite options`)"
)

VERBS: dict[str, Usage] = {
    "study": Usage(
        "Compare ways of choosing negatives over many seeds and options, in parallel.",
        RUN_OPTIONS + "\n\nsweeps, in Hydra's grammar:\n"
        "  policy=fixed,random   training.batch_size=choice(16,32)   training.patience=range(1,4)\n"
        "  'optimizer.lr=tag(log,interval(1e-4,1e-2))' with samples=N and search=random|optuna\n\n"
        "options of the study:\n  experiment={experiment}\n"
        "  seeds=N samples=N search=… baseline='policy=fixed function=bm25 selector=uniform'\n"
        "  stop=decided equal_within=0.01 max_seeds=40  add seeds until each comparison with the baseline is decided\n"
        "  'factors=[KEY,…]'  swept keys by which methods differ; default: names, and numbers of at most eight values\n"
        "  out=FOLDER_OR_URI retries=N concurrent=N address=RAY_CLUSTER dashboard=false local=auto|true|false\n"
        "  track=[mlflow,wandb]  in addition to TensorBoard\n\n"
        "examples:\n  pyrite study ranker=feed_forward,match_pyramid selector=uniform,dynamic seeds=5 scale=small\n"
        "  pyrite study study.yaml   (a YAML list of overrides, or an experiment: title, methods, …)",
        runs="pyrite.cluster.commands.study:run_verb",
        words=FurtherWords("study.yaml"),
        arguments=(
            RESUME,
            ("--relabel", {"metavar": "QRELS", "help": "correct the collection's judgements by these: relabel=QRELS"}),
            ("--power", {"metavar": "OUT", "help": "run nothing; print how many seeds differences need, by the "
                         "variation in this study"}),
        ),
    ),
    "train": Usage(
        "Train and evaluate one ranker, in this process.",
        RUN_OPTIONS + "\n  out=FOLDER_OR_URI  saves the result, the state and the weights\n"
        "  push=OWNER/NAME  uploads the ranker and its card to the Hugging Face hub, with your HF_TOKEN\n\n"
        "example:\n  pyrite train policy=fixed function=bm25 selector=dynamic scale=small seed=1",
        runs="pyrite.cluster.commands.train:run_verb",
        arguments=(RESUME,),
    ),
    "mine": Usage(
        "Mine negatives for the queries of a collection into a data set that other trainers load.",
        "options, as Hydra overrides:\n  collection={collection}\n  function={function}\n  selector={selector}\n"
        "  count=N negatives per pair   guard.relative=0.05 guard.absolute=…   queries=train|dev|test|all\n"
        "  checkpoint=FOLDER  a run with weights=true, or a checkpoint: for function=dense and selectors that need it\n"
        "  rows=tuples|triplets|labelled_pairs format=parquet|json|dataset|tevatron|… with_scores=true scores=ranker\n"
        "  shard=QUERIES workers=N out=FOLDER_OR_URI   (all: `pyrite options --for mine`)\n\n"
        "examples:\n  pyrite mine collection.path=FOLDER function=bm25 guard.relative=0.05 "
        "out=outputs/m\n"
        "  pyrite train collection=pairs collection.path=outputs/m ranker=static function=given",
        runs="pyrite.cluster.commands.mine:run_verb",
        arguments=(RESUME,),
    ),
    "rank": Usage(
        "Rank a collection, or the candidates of a first stage, with a trained ranker, into a TREC run.",
        "options, as Hydra overrides:\n  collection={collection}\n"
        "  origin=bm25|full|run_file origin.run_file.path=RUN origin.bm25.depth=N   the candidates\n"
        "  queries=train|dev|test|all topics=FILE depth=N tag=NAME out=FILE   (all: `pyrite options --for rank`)\n\n"
        "examples:\n  pyrite rank outputs/static collection.path=FOLDER out=outputs/static.run\n"
        "  pyrite rank outputs/s/weights/NAME.safetensors origin=full depth=100 out=runs/static.run.gz",
        runs="pyrite.cluster.commands.rank:run_verb",
        arguments=(("trained", {"metavar": "RANKER", "help": "a folder of `pyrite train weights=true`, weights in "
                                "it, or a checkpoint"}),),
    ),
    "learn": Usage(
        "Let an agent learn which function should supply a ranker's negatives, and when.",
        "options, as Hydra overrides: those of one run (which is one episode), and\n"
        "  agent={agent}\n  reward={reward}\n  actions={actions}\n  state={state}\n"
        "  function=[bm25,random,tfidf]  the actions   decision_every=N|epoch  batches per action\n"
        "  episodes=N copies=N workers=N gamma=1 validation_sample.size=N validation_sample.every=N\n"
        "  out=FOLDER_OR_URI save_every=SECONDS   (all: `pyrite options --for learn`)\n\n"
        "examples:\n  pyrite learn agent=actor_critic function=[bm25,random] scale=small out=outputs/agent\n"
        "  pyrite study policy=learned,random policy.checkpoint=outputs/agent scale=small seeds=20",
        runs="pyrite.cluster.commands.learn:run_verb",
        arguments=(RESUME,),
    ),
    "pool": Usage(
        "Compare orders of judging a pool in simulation, over many seeds, in parallel.",
        "options, as Hydra overrides:\n  method={method}|all\n  preset={preset}\n  stopping=[{stopping}]\n"
        "  method.NAME.option=…  an option of a method; lists are swept: method.mm.rate=0,0.5,1\n"
        "  runs=FOLDER qrels=FILE depth=N order=score|rank|file relevant_from=GRADE groups=FILE\n"
        "  pools=FILE.yaml  instead: several pools\n"
        "  seeds=N 'budgets=[100,300]' baseline=METHOD 'contrasts=[[METHOD,METHOD]]'\n"
        "  ranking_quality=false reuse=true out=FOLDER_OR_URI concurrent=N pool_scale={pool_scale}\n\n"
        "example:\n  pyrite pool runs=trec8/runs qrels=trec8/qrels.txt.gz method=mtf,mm,mm_ns,posterior_fusion",
        runs="pyrite.cluster.commands.pool:run_verb",
        arguments=(RESUME,),
    ),
    "judge": Usage(
        "Serve a page on which people judge a pool, in the order of a method.",
        "options, as Hydra overrides:\n"
        "  runs=FOLDER collection.path=FOLDER topics=FILE qrels=FILE depth=N method=NAME out=FOLDER\n"
        "  'grades=[0,1,2]' budget=N double=N 'assessors=[ada,grace]' port=N   (all: `pyrite options --for judge`)\n\n"
        "examples:\n  pyrite judge runs=runs collection.path=FOLDER topics=topics.txt out=judging\n"
        "  pyrite judge out=judging                        continue\n"
        "  pyrite judge --resume judging runs=more_runs    continue with more runs\n"
        "  pyrite judge --export qrels.txt out=judging     the judgements so far\n"
        "  pyrite judge --import made.csv out=judging       add judgements that were made elsewhere\n"
        "  pyrite judge --backup copy.sqlite out=judging   a copy of the folder's file, also while it is served",
        runs="pyrite.cluster.commands.judge:run_verb",
        arguments=(
            ("--resume", {"metavar": "FOLDER", "help": "continue, and let the pool grow: runs= adds runs, depth= may "
                          "rise; the whole command with resume=auto starts, or goes on"}),
            ("--export", {"metavar": "FILE", "help": "write the judgements so far as qrels (.txt, .json, .jsonl, .tsv, "
                          ".parquet; .csv: as a table; each with .gz), and end"}),
            ("--import", {"metavar": "FILE", "dest": "imported", "help": "record judgements that were made elsewhere, "
                          "with assessor, time and note, and end (.csv, .tsv: as --export writes them; .json of Label "
                          "Studio, .jsonl of doccano)"}),
            ("--backup", {"metavar": "FILE", "help": "write a copy of the judgements' file, and end"}),
        ),
    ),
    "evaluate": Usage(
        "Measure retrieval runs by judgements, and test their differences from a baseline.",
        "The last word names the judgements, unless qrels= does (several files: 'qrels=[a.txt,b.txt]').\n"
        "options, as Hydra overrides:\n"
        "  'measures=[AP,nDCG@10,judged@10]'  of ir-measures; judged@k is the share of the first k that is judged\n"
        "  baseline=RUN  paired tests with intervals, adjusted by Holm   per_query=true   judged_only=true\n"
        "  complete=false relevant_from=GRADE order=score|rank|file out=FILE.csv\n"
        "  (all: `pyrite options --for evaluate`)\n\n"
        "examples:\n  pyrite evaluate run.txt qrels.txt\n"
        "  pyrite evaluate runs qrels.txt baseline=bm25 'measures=[AP,RBP(p=0.8),nDCG@10]' out=values.csv",
        runs="pyrite.cluster.commands.evaluate:run_verb",
        words=FurtherWords("RUN… QRELS", FOLDERS.includes),
    ),
    "audit": Usage(
        "Estimate how many of the negatives that rankers were shown are relevant.",
        "options, as Hydra overrides:\n"
        "  'studies=[FOLDER,…]' or the folders themselves: studies with sampling.recorded above 0\n"
        "  budget=N to judge   judgements=QRELS   relevant_from=GRADE seed=N out=FOLDER\n"
        "  collections=NAME of folders with several   'functions=[NAME,…]'\n\n"
        "examples:\n  pyrite audit outputs/m                             draw a sample to judge\n"
        "  pyrite audit outputs/m judgements=judged.txt       evaluate its judgements\n"
        "  pyrite study --relabel outputs/audit/qrels.txt …   run the study again with corrected judgements",
        runs="pyrite.cluster.commands.audit:run_verb",
        words=FOLDERS,
    ),
    "report": Usage(
        "Write the summary, the figures and the report of a study again.",
        "options: baseline='policy=… function=… selector=…' 'factors=[KEY,…]' 'contrasts=[METHOD,…]',\n"
        "or of a pool baseline=METHOD\n\n"
        "example:\n  pyrite report outputs/m",
        runs="pyrite.cluster.commands.report:run_verb",
        arguments=(("out", {"metavar": "OUT", "help": "the study's folder or URI"}),),
    ),
    "compare": Usage(
        "Compare studies: what differs between them, and whether their methods differ, paired by seed.",
        "Runs that several studies have in common are counted once.\n"
        "options: baseline='policy=… function=…' out=FOLDER\n\n"
        "example:\n  pyrite compare outputs/monday outputs/tuesday",
        runs="pyrite.cluster.commands.compare:run_verb",
        words=FOLDERS,
    ),
    "list": Usage(
        "List the studies and other results in a folder (default: outputs), with their state.",
        "example:\n  pyrite list outputs",
        runs="pyrite.cluster.commands.list_studies:run_verb",
        words=FOLDERS,
    ),
    "doctor": Usage(
        "Check what this machine offers, and what is missing for which verb.",
        "Exit code 1 if something keeps `pyrite study` from running.",
        runs="pyrite.cluster.commands.doctor:run_verb",
        overrides=False,
    ),
    "options": Usage(
        "Show the whole configuration that overrides give, with an explanation of each option.",
        "examples:\n  pyrite options ranker=match_pyramid scale=tiny\n  pyrite options --for pool method=mm",
        runs="pyrite.cluster.commands.options:run_verb",
        arguments=(
            ("--for", {"dest": "of", "choices": ("study", "train", "learn", "mine", "rank", "pool", "judge", "audit",
                       "evaluate"),
                       "help": "the verb; default: the options of runs, in study and train"}),
        ),
    ),
    "submit": Usage(
        "Send a study, a training, a learning or a pooling study to a Ray cluster as a job.",
        "The files of the working folder are sent, and the command runs in their copy on the cluster. Files that\n"
        ".gitignore or .rayignore name stay. Other inputs must be URIs or paths that every node sees (--shared).\n"
        "Results go to a URI or under a folder that every node sees, unless the cluster is this machine.\n"
        "The job's log is printed, and its exit code is this command's; Ctrl-C leaves the job running.\n"
        "If the cluster requires a token: RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token.\n\n"
        "examples:\n  ray start --head && pyrite submit study scale=small seeds=2 out=outputs/s\n"
        "  pyrite submit --address http://head:8265 --shared /mnt/lab --cpus 1 study seeds=20 out=/mnt/lab/s\n"
        "  pyrite submit --detach learn agent=ppo_returns out=s3://lab/agent\n"
        "  pyrite submit study study.yaml out=s3://lab/s\n"
        "  pyrite submit study --resume s3://lab/s",
        runs="pyrite.cluster.jobs.submission:run_verb",
        arguments=(
            ("sent", {"metavar": "VERB", "choices": SUBMITTABLE, "help": "|".join(SUBMITTABLE)}),
            ("--name", {"help": "start of the job's id (default: the verb)"}),
            ("--note", {"help": "a line that `ray job list` and Ray's dashboard show"}),
            ("--detach", {"action": "store_true", "help": "return as soon as the job is submitted"}),
            ("--shared", {"metavar": "FOLDER", "action": "append", "default": [], "help": "a folder that every node "
                          "has (repeatable)"}),
            ("--pip", {"metavar": "FILE", "help": "requirements that the nodes install (default: none)"}),
            ("--uv", {"metavar": "FILE", "help": "the same, installed with uv"}),
            ("--cpus", {"metavar": "N", "type": float, "default": 0, "help": "cores reserved for the driver; 0: it "
                        "runs on the head node"}),
            ("--resources", {"metavar": "JSON", "help": "other resources reserved for it, as '{\"big_memory\": 1}'"}),
            ("--env", {"metavar": "NAME[=VALUE]", "action": "append", "default": [], "help": "a variable of the job's "
                       "environment, by default with its value here (repeatable)"}),
            ("--runtime-env-json", {"metavar": "JSON", "help": "more of Ray's runtime environment, as "
                                    "'{\"config\": {\"setup_timeout_seconds\": 1800}}'"}),
            ("--headers", {"metavar": "JSON", "help": "headers of each request to the job server (default: "
                           "RAY_JOB_HEADERS)"}),
            ("--verify", {"metavar": "true|false|FILE", "default": "true", "help": "whether certificates are checked, "
                          "or those that are trusted (default: true)"}),
            ("--working-dir", {"metavar": "FOLDER", "help": "the working folder (default: the current one)"}),
            ("--exclude", {"metavar": "PATTERN", "action": "append", "default": [], "help": "files to leave out, as in "
                           ".gitignore"}),
            ("--python", {"help": "the nodes' interpreter (default: python; this one if they are this machine)"}),
            RESUME,
            ("--address", {"help": "address of the job server, http://HOST:8265 (default: RAY_API_SERVER_ADDRESS, or "
                           "a local Ray)"}),
        ),
    ),
}  # fmt: skip

REMOVED = {
    "completion": "the help lists all options: use `pyrite VERB --help` or `pyrite options`",
    "fork": "its questions are answered (docs/experiments/forks.md): compare whole trainings by `pyrite study`",
    "init": "a study needs no file: use `pyrite study collection.path=FILE`",
    "watch": "Ray and the study's pages show the same: use `ray job logs --follow ID`, Ray's dashboard, TensorBoard, "
    "OUT/report.html or `pyrite list`",
}
"""Verbs of the last release that were removed: why, and what to use instead."""
MEANT = {
    "config": "pyrite options",
    "export": "pyrite judge --export FILE out=OUT",
    "help": "pyrite --help",
    "ls": "pyrite list",
    "resume": "pyrite study --resume OUT",
    "search": "pyrite rank",
    "version": "pyrite --version",
}
"""What does what a verb of other tools does."""
FLAGS = {
    **dict.fromkeys(["--cfg", "-c", "--info", "-i"], "`pyrite options` prints the configuration with its defaults"),
    **dict.fromkeys(["--config-dir", "-cd", "--config-path", "-cp", "--config-name", "-cn"], "a file of overrides is "
                    "a word: `pyrite study FILE.yaml`"),
    **dict.fromkeys(["--multirun", "-m"], "a study runs all values of a sweep by itself: leave it out"),
}  # fmt: skip
"""What to do instead of Hydra's own flags."""


class _Version(argparse.Action):
    """Prints the version; reads it only when asked, because Git takes a while."""

    def __call__(self, parser: argparse.ArgumentParser, *rest: object) -> NoReturn:
        print("pyrite", ", commit ".join(release().values()))
        parser.exit()


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(message, remedy=f"see `{self.prog} --help`")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = _Parser(
        prog="pyrite",
        description="Where should a neural ranker's negatives come from? Studies of sampling policies, on Ray.",
        epilog="`pyrite VERB --help` says more. A study without arguments is the main job.",
    )
    made.add_argument("--version", action=_Version, nargs=0, help="show the version, and the commit of a clone")
    verbs = made.add_subparsers(dest="verb", metavar="VERB", required=True)
    names = {group: "|".join(options) for group, options in group_options().items()}
    names["stopping"] = names["stopping"].replace("|", ",")
    names["run"] = "\n".join(f"  {group}={names[group]}" for group in groups_of("config"))
    for name, verb in VERBS.items():
        added = verbs.add_parser(
            name,
            help=verb.summary,
            description=verb.summary,
            epilog=verb.details.format_map(names),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for argument, details in verb.arguments:
            added.add_argument(argument, **details)
        if verb.overrides:
            added.add_argument("overrides", nargs="*", metavar=verb.words.metavar, help=verb.words.help)
    return made


def _no_verb(name: str) -> BadInput:
    """Return the error for a verb that does not exist, with the one that is most like it."""
    if name in REMOVED:
        return BadInput(f"there is no verb {name} any more", remedy=REMOVED[name])
    close = similar(name, VERBS)
    meant = MEANT.get(name, f"pyrite {close}" if close else None)
    remedy = f"did you mean {meant}?" if meant else f"choose one of {', '.join(VERBS)}"
    return BadInput(f"there is no verb {name!r}", remedy=remedy)


def _no_flag(verb: str, flag: str, following: Sequence[str]) -> BadInput:
    """Return the error for a flag that does not exist: options are written without dashes, as seeds=5."""
    name, _, value = flag.partition("=")
    if name in FLAGS:
        return BadInput(f"there is no option {name}", remedy=FLAGS[name])
    value = value or next((text for text in following[:1] if not text.startswith("-")), "…")
    override = f"{name.lstrip('-').replace('-', '_')}={value}"
    instead = suggestion(override, verb) if key_of(override) not in OF_STUDY else None
    return BadInput(f"there is no option {name}", remedy=f"options are written without dashes: {instead or override}")


def _parsed(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return what argparse reads, and words behind an option, which it leaves; refuse flags that don't exist."""
    known = parser()
    chosen, more = known.parse_known_args(arguments)
    for flag in (text for text in more if text.startswith("-")):
        raise _no_flag(chosen.verb, flag, arguments[arguments.index(flag) + 1 :])
    if more and not VERBS[chosen.verb].overrides:
        known.error(f"unrecognized arguments: {' '.join(more)}")
    return chosen, more


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; refuse a verb that was removed, and words that are no overrides."""
    if arguments and not arguments[0].startswith("-") and arguments[0] not in VERBS:
        raise _no_verb(arguments[0])
    chosen, more = _parsed(arguments)
    words = VERBS[getattr(chosen, "sent", chosen.verb)].words  # those of the verb that a job runs
    given = [*getattr(chosen, "overrides", []), *more]  # overrides behind an option
    chosen.words = [text for text in given if words.includes(text)]
    if chosen.words and not words.shown:
        raise not_an_override(chosen.words[0])
    chosen.overrides = with_named(chosen, [text for text in given if text not in chosen.words])
    return chosen
