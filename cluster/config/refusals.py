"""Refuses options in one line: what Hydra and pydantic refuse, with the options that exist, and old names."""

from __future__ import annotations

import difflib
import functools
import operator
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyrite.cluster.config.groups import CHOICES, CONF, SINGLE_GROUPS, group_options, groups_of
from pyrite.cluster.config.other_names import RENAMED, suggest_all
from pyrite.cluster.config.override import key_of, root_of
from pyrite.ranking.errors import BadInput

if TYPE_CHECKING:
    from pydantic import ValidationError

Compose = Callable[[Sequence[str], str, bool], dict[str, Any]]
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
}
"""Parts of the last release that were removed: why, and what to use instead."""
RENAMED_IN: dict[str, dict[str, str]] = {
    "pool": {"scale": "pool_scale"},
}
"""New names by old ones, of options that mean something else in other verbs, by primary file."""
OF_TRIALS = ("asha", "median", "none")
"""Names that belong to `trial_scheduler`; `scheduler` is the schedule of the learning rate."""
MAIN_OPTION = {"guard": "relative"}
"""The option that a value in the place of a mapping is meant for."""
QUOTES = """write key=value; a value with =,()[]{}: in it needs quotes, as in "key='a=b'" """
LABELLED = """give 'methods=[{label:NAME,overrides:["function=bm25",…]},…]', each override in double quotes"""


def unreadable(override: str, error: Exception) -> BadInput:
    """Return why Hydra's grammar does not allow an override."""
    why = str(error).splitlines()[0].split(". See https")[0]
    remedy = LABELLED if key_of(override) == "methods" else QUOTES
    return BadInput(f"can't read the override {override!r} ({why})", remedy=remedy)


def see(config: str) -> str:
    """Return the hint that points a user to the options of a primary file."""
    return "see `pyrite options`" if config in ("config", "study") else f"see `pyrite options --for {config}`"


TYPES = re.compile(r"(constrained-|literal\[|list\[|dict\[).*|int|float|str|bool|[A-Z]\w*Config")
"""What pydantic adds to the place of an error for each type that an option of several types may have."""


def _nearest(errors: Sequence[Any]) -> tuple[Any, str]:
    """Return pydantic's first error and its message; of an option of several types the error of the type that fits."""
    place = errors[0]["loc"]
    depth = next((depth for depth, part in enumerate(place) if TYPES.fullmatch(str(part))), None)
    if depth is None:
        return errors[0], errors[0]["msg"]
    of_option = [each for each in errors if each["loc"][:depth] == place[:depth]]
    deepest = max(len(each["loc"]) for each in of_option)
    near = [each for each in of_option if not each["type"].endswith(("_type", "literal_error"))]
    near = near or [each for each in of_option if len(each["loc"]) == deepest]
    others = [each["msg"].removeprefix("Input should be ") for each in near[1:]]
    return near[0], " or ".join([near[0]["msg"], *others])


PLAIN = {
    r"Input should be ": "choose ",
    r"greater than or equal to (\S+)": r"a number from \1 up",
    r"greater than (\S+)": r"a number above \1",
    r"less than or equal to (\S+)": r"a number of at most \1",
    r"a valid integer or a valid number|a valid number": "a number",
    r"a valid integer": "a whole number",
    r"a valid boolean": "true or false",
    r"a valid string": "a text",
    r"a valid dictionary( or instance of \w+)?": "a mapping",
    r"a valid list": "a list, as [A,B]",
    r" item(s?) after validation, not \d+$": r" value\1",
}
"""Plain words by those of pydantic."""


def refusal(error: ValidationError, option: str = "", config: str = "config") -> BadInput:
    """Return the first error of pydantic in one line."""
    first, message = _nearest(error.errors())
    for theirs, plain in PLAIN.items():
        message = re.sub(theirs, plain, message)
    key = option or ".".join(part for part in map(str, first["loc"]) if not TYPES.fullmatch(part))
    if first["type"] == "extra_forbidden":
        return BadInput(no_option(key), remedy=see(config))
    if first["type"] == "missing":
        if key in group_options():
            return BadInput(f"{key} has no value", remedy=f"choose one of {', '.join(group_options()[key])}")
        what = no_option(key) if first["type"] == "extra_forbidden" else f"there must be an option {key}"
        return BadInput(what) if ":" in what else BadInput(what, remedy=see(config))
    if key == "negatives" and isinstance(first["input"], int):
        what = "is of single functions, as negatives.bm25=1"
        return BadInput(f"negatives {what}", remedy=f"for all functions give sampling.negatives={first['input']}")
    remedy = "give a mapping" if first["type"] == "model_type" else message
    if key in MAIN_OPTION and first["type"] == "model_type":
        remedy = f"write {key}.{MAIN_OPTION[key]}={first['input']}"
    if first["type"] in ("is_instance_of", "dataclass_exact_type"):  # a part with options
        remedy = f"set its options, as {key}.OPTION=VALUE"
    remedy = "give a list, as [A,B]" if "Sequence" in message or message.startswith("choose a list") else remedy
    if re.fullmatch(r"methods\.\d+", key):
        remedy = f"{LABELLED}; without names give sweeps, as selector=uniform,top"
    return BadInput(f"{key} is {first['input']!r}", remedy=remedy[0].lower() + remedy[1:])


def reason(error: Exception, overrides: Sequence[str], config: str, compose: Compose) -> str:
    """Return Hydra's message in one line, with the cause if there is one."""
    causes = [error, *([error.__cause__] if error.__cause__ else [])]
    lines = [line.strip() for cause in causes for line in str(cause).splitlines() if line.strip()]
    first, whole = lines[0] if lines else "", " ".join(lines)
    if several := re.match(r"(?:Ambiguous value for argument|Sweep parameters) '(.+)'( requires|$)", first):
        return _one_value(several[1], overrides, config, compose)
    unknown = re.match(r"Could not (?:override|append to config.*) '([^']+)'\.$", first)
    if unknown and (single := re.match(r"selectors\.(\w+)\.(\w+)", unknown[1])):  # as `aliases` writes it
        return f"there is no option selector.{single[1]}.{single[2]}; is selector.{single[1]}=NAME missing?"
    if unknown:
        known = no_option(unknown[1])
        if ":" in known:
            return known
        siblings = _siblings(unknown[1], overrides, config, compose)
        # The name of another tool is the ranker's option, not that of an agent or of a method.
        of_verb = root_of(unknown[1]) in set(groups_of(config)) - set(groups_of("config"))
        instead = "" if of_verb else suggest_all(overrides, unknown[1], config, compose)
        return known + (siblings if "." in unknown[1] and siblings.endswith("?") else instead or siblings)
    if taken := re.match(r"Could not override '([^']+)'\. No match in the defaults list", whole):  # of another verb
        return f"there is no option {taken[1]} here" + suggest_all(overrides, taken[1], config, compose)
    unnamed = re.search(r"Config group override must|In '.*': Could not find '[^/']+/'|Error resolving interpol", whole)
    if unnamed and (group := _without_value(overrides, config)):
        return f"{group} has no value; choose one of {', '.join(group_options()[group])}"
    absent = re.match(r"In '.*': Could not (?:find|load) '([^/']+)/([^']+)'", first)
    if absent and (removed := REMOVED_PARTS.get(f"{absent[1]}={absent[2]}")):
        return f"there is no {absent[1]}={absent[2]} any more: {removed}"
    if absent and absent[1] in group_options():
        known = ", ".join(group_options()[absent[1]])
        return f"there is no {absent[1]} {absent[2]!r}; there is {known}{_of_yours(absent[1], absent[2])}"
    if "Missing mandatory value" in first:
        full = [line.removeprefix("full_key: ") for line in lines if line.startswith("full_key")]
        read = re.search(r"interpolation: Missing mandatory value: ([\w.]+)$", first)
        where = read[1] if read else next(iter(full), "")
        return f"{where} has no default; give it with {where}=…"
    if unchosen := re.match(r"You must specify '([^']+)'", first):
        return f"{unchosen[1]} has no default; choose one of {', '.join(group_options()[unchosen[1]])}"
    noise = ("full_key", "object_type", "reference_type", "^", "See https", "To append")
    messages = [line for line in lines if not line.startswith(noise)]
    return "; ".join(dict.fromkeys(messages[:4])) or f"can't compose {' '.join(overrides)}"


def _of_yours(group: str, name: str) -> str:
    """Return how a class or a file of the user's own is given instead of a name."""
    if "." in name:
        return f"; to use a class of yours, add {group}._target_={name} to one"
    if group == "experiment":
        return f"; a YAML list of overrides of yours is a word: `pyrite study {name}.yaml`"
    return ""


def _one_value(override: str, overrides: Sequence[str], config: str, compose: Compose) -> str:
    """Return why an option can't have several values here: it takes a list, or a single value."""
    key, _, value = override.partition("=")
    if "." in key:
        with suppress(BadInput, KeyError, TypeError):
            config_without = compose([text for text in overrides if text != override], config, True)
            if isinstance(functools.reduce(operator.getitem, key.split("."), config_without), str):
                quoted = f"\"{key}='{value}'\""
                return f"{key} takes one value here, not {value}; if it has a comma in it, write {quoted}"
    if as_list := list_form(override, overrides, config, compose):
        return f"{key} takes a list; write {as_list}"
    return f"{key} takes one value here, not {value}"


def list_form(override: str, overrides: Sequence[str], config: str, compose: Compose) -> str | None:
    """Return several values of an option as a list, as `function=[bm25,random]`; None if the option takes no list."""
    key, _, value = override.partition("=")
    as_list = f"{key}=[{value}]"
    if key in SINGLE_GROUPS:
        return None
    with suppress(BadInput, KeyError, TypeError):
        compose([as_list if text == override else text for text in overrides], config, True)
        return as_list
    return None


def refuse_lists(overrides: Sequence[str], config: str) -> None:
    """Refuse several names of a group of which one part is chosen: Hydra would mix them, the last on top."""
    for text in overrides:
        key, _, value = text.partition("=")
        if key in SINGLE_GROUPS and value.startswith("[") and "," in value:
            raise BadInput(f"{key} takes one value here, not {value}", remedy=see(config))


def _without_value(overrides: Sequence[str], config: str) -> str | None:
    """Return a group that is overridden by nothing, if nothing is not its default."""
    optional = re.findall(r"- (\w+): null", (CONF / f"{config}.yaml").read_text("utf-8"))
    given = dict(text.lstrip("~").partition("=")[::2] for text in overrides)  # ~group means group=null
    empty = [key for key, value in given.items() if value.strip() in ("", "null") and key in group_options()]
    return next((key for key in empty if key not in optional), None)


def _siblings(unknown: str, overrides: Sequence[str], config: str, compose: Compose) -> str:
    """Return the known options next to an unknown one, and the one that is most like it."""
    try:  # incomplete: the unknown option may be a misspelt one that has no default
        node: Any = compose([text for text in overrides if key_of(text) != unknown], config, False)
    except BadInput:
        return ""
    *path, last = unknown.split(".")
    if path and path[0] in groups_of(config) and not node.get(path[0]):
        return f"; is {path[0]}={'|'.join(group_options()[path[0]])} missing?"
    if path and path[0] not in node:  # the option of a part, without the part
        owners = [name for name, part in node.items() if name != CHOICES and isinstance(part, dict) and path[0] in part]
        path = [*owners[:1], *path]
    for depth, key in enumerate(path):
        if not isinstance(node, dict) or key not in node:
            return _siblings_of(node, ".".join(path[:depth]), key)
        node = node[key]
    value = next((text.partition("=")[2] for text in overrides if key_of(text) == unknown), "")
    return _siblings_of(node, ".".join(path), last, value)


def _siblings_of(node: Any, key: str, requested: str, value: str | None = None) -> str:
    if not isinstance(node, dict):
        return f"; {key} is a value and has no options"
    names = [str(key) for key in node if not str(key).startswith("_") and key != CHOICES]
    close = difflib.get_close_matches(requested, names, 1)
    if not key:  # the whole configuration: too many to list
        return f"; did you mean {close[0]}?" if close else ""
    if close and value is not None:
        return f"; {key} has {', '.join(names)}; did you mean {key}.{close[0]}={value or '…'}?"
    return f"; {key} has {', '.join(names)}" if names else f"; {key} has no options"


def refuse_renamed(overrides: Sequence[str], config: str) -> None:
    """Refuse options that have another name in one verb."""
    renamed = RENAMED_IN.get(config, {})
    for text in overrides:
        key, _, value = text.lstrip("+~").partition("=")
        root, dot, rest = key.partition(".")
        for old, new in RENAMED.items():
            if f"{key}.".startswith(f"{old}."):
                instead = f"{new}{key.removeprefix(old)}={value or '…'}"
                raise BadInput(f"is called {new} in every verb", text, f"write {instead}")
        if root in renamed:
            new = f"{renamed[root]}{dot}{rest}={value}"
            raise BadInput(f"there is no option {root} in `pyrite {config}`", text, f"it is called {new} now")
        if removed := REMOVED_PARTS.get(f"{key}={value}"):
            raise BadInput(f"there is no {key}={value} any more: {removed}")
        if key == "scheduler" and value in OF_TRIALS:
            what = f"{value} is no schedule of the learning rate"
            raise BadInput(what, text, f"runs are stopped early by trial_scheduler={value.replace('none', 'null')}")


def no_option(option: str) -> str:
    """Return the message for an option that does not exist, or does not exist any more, with what to use instead."""
    for old, instead in REMOVED.items():
        if re.search(rf"(^|\.){re.escape(old)}(\.|$)", option):
            return f"there is no option {option} any more: {instead}"
    return f"there is no option {option}"
