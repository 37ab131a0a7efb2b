"""Plans a study from its overrides, or again from its folder's configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from pyrite.cluster.commands.experiment import Verb
from pyrite.cluster.commands.taken import divided
from pyrite.cluster.config.build import as_node
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.durations import seconds_of
from pyrite.cluster.config.grammar import parsed
from pyrite.cluster.config.groups import CHOICES, option
from pyrite.cluster.config.nested import nodes
from pyrite.cluster.config.other_names import suggestion
from pyrite.cluster.config.override import key_of, root_of, values_by_key
from pyrite.cluster.config.removed import refuse_renamed
from pyrite.cluster.config.reserved import check_reserved, check_variables
from pyrite.cluster.config.schema import SHAPES
from pyrite.cluster.config.secrets import resolved_in
from pyrite.cluster.config.trainer_option import check_epochs
from pyrite.cluster.config.trust import check_classes, origin
from pyrite.cluster.config.validate import check_shape
from pyrite.cluster.output.manifest import CONFIG
from pyrite.cluster.output.storage import Storage, output_place
from pyrite.cluster.plan.extension import GROWING, extended, refused_change
from pyrite.cluster.plan.methods import Method
from pyrite.cluster.plan.study import StudyPlan
from pyrite.cluster.plan.sweep import given_seeds
from pyrite.ranking.errors import BadInput, refuse

OWN = "experiment={"
"""The beginning of an override that gives a user's experiment."""
LINES = "methods="
"""The beginning of an override that gives lines of methods."""
BESIDE = Path("../shared/data")
"""Where collections are looked for beside a checkout, where no folder is named and there is none of the usual name."""


def plan(arguments: list[str]) -> StudyPlan:
    """Plan a study from its overrides."""
    refuse_renamed(arguments, "study")
    of_study, of_runs = divided(arguments, SHAPES["study"].model_fields)
    check_epochs(values_by_key(of_runs))  # only when it begins: reports once suggested it
    options, design = _options(of_study)
    refuse(
        options["seeds"] is not None and given_seeds(arguments),
        "seed= and seeds= say two things",
        remedy="give one of them",
    )
    options["out"] = output_place(options["out"], "study")
    planned = StudyPlan(options, of_runs, design, Storage(options["out"]))
    planned.refuse_unread(set(map(key_of, of_study)))
    return planned


def continued(arguments: list[str], saved: dict[str, Any], storage: Storage) -> StudyPlan:
    """Plan a study again from its manifest: as it was composed then, with options that change and what is added."""
    refuse_renamed(arguments, "study")
    of_study, of_runs = divided(arguments, SHAPES["study"].model_fields)
    composed, given = _options(of_study)
    changed = {root_of(text): composed.get(root_of(text), {}) for text in of_study}  # track=[] removes the group
    methods, of_file = list[Method](changed.pop("methods", [])), changed.pop("experiment", None) is not None
    added = _with_variables({"added": saved.get("added", [])}, {})["added"]
    planned, lines = _as_written(saved, changed, added, storage)
    options = planned.options
    by_path = [as_node(each) for key in ("stoppers", "callbacks") for each in options.get(key) or ()]
    check_classes([options, by_path, methods], origin())
    check_reserved(options | {"methods": [*lines, *methods]})
    methods += _further(planned, given) if of_file else []
    growing = {key: changed[key] for key in (*GROWING, "contrasts") if key in changed}
    return extended(planned, growing, of_runs, methods) if growing or of_runs or methods else planned


def _as_written(
    saved: Mapping[str, Any], changed: Mapping[str, Any], added: Sequence[Any], storage: Storage
) -> tuple[StudyPlan, list[Method]]:
    """Return the plan that a manifest has, with options that change, and its lines; refuse what no study writes."""
    study = _with_variables(saved.get("study"), changed)
    try:
        kept, design = dict(study), saved["design"]
        options = kept | {key: value for key, value in changed.items() if key not in GROWING}
        lines = [*(kept.get("methods") or []), *(each for each in added if not isinstance(each, str))]
        check_shape(options | {"experiment": design, "methods": lines or None}, "study")
        batches = tuple(map(int, saved.get("sample_batches", ())))
        precision = str(saved.get("precision", "float32"))
        runs = list(map(str, saved["overrides"]))
        return StudyPlan(options, runs, design, storage, batches, precision, tuple(added)), lines
    except (KeyError, TypeError, BadInput):
        where = f"{storage}/{CONFIG}"
        raise BadInput("is not what a study writes down", where, "name the folder of a study") from None


def _further(plan: StudyPlan, given: Mapping[str, Any]) -> list[Method]:
    """Return the methods of the study's file as it is now; refuse other changes of it than further methods."""
    design, methods = plan.design, list[Method](given["methods"])
    same = design | {"methods": methods} == given and all(each in methods for each in design["methods"])
    if not same or plan.options.get("methods") or plan.scaled.get("methods"):
        raise refused_change(f"experiment='{given['title']}'", plan.storage.place)
    return methods


def check_change(verb: Verb, text: str, folder: str) -> None:
    """Refuse an override on resume by which nothing is added."""
    root = root_of(text)
    if text.startswith((OWN, LINES)):  # further methods; `continued` looks at the rest of a file
        return
    if root not in GROWING and (root in SHAPES["study"].model_fields or text.startswith("~")):
        raise refused_change(text, folder)


def _options(overrides: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    options = _with_data(_composed(overrides), overrides)
    if options["time_budget"] is not None:
        seconds_of(options["time_budget"], "time_budget")
    for key in ("callbacks", "stoppers"):
        options[key] = [as_node(each) for each in options[key]]
    name, design = options.pop(CHOICES)["experiment"], options.pop("experiment")
    return {"experiment": name, **options}, design


def _composed(overrides: Sequence[str]) -> dict[str, Any]:
    """Return the composed options; an experiment that is given as a mapping replaces Pyrite's."""
    own = [text for text in overrides if text.startswith(OWN)]
    options = compose([text for text in overrides if text not in own], "study")
    if not own:
        return options
    given = OmegaConf.create({"data": options["data"], "experiment": parsed(own[-1]).value()})
    try:
        whole: Any = OmegaConf.to_container(given, resolve=True)
    except OmegaConfBaseException as error:
        what = f"{error.full_key}: {str(error.msg).partition(chr(10))[0]}"
        raise BadInput(what, "the study's file", "set the variable, or write its value") from None
    options["experiment"] = whole["experiment"]
    choices = options.pop(CHOICES)
    check_shape(options, "study")
    for name in options["experiment"].get("scales") or {}:
        option("scale", name)  # which refuses an unknown one
    return options | {CHOICES: choices | {"experiment": options["experiment"]["title"]}}


def _with_data(options: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Return options with the folder beside a checkout as `data`, if that of the usual name is not there."""
    given, reads_data = divided(overrides, ["data"])[0], f"'{options['data']}/" in str(options["experiment"])
    if given and not reads_data:
        remedy = f"leave it out; for a file of your own: {suggestion(given[-1])}"
        raise BadInput("this experiment takes no collections from a folder of them", given[-1], remedy)
    absent = reads_data and not given and not Path(options["data"]).exists()
    return _composed([*overrides, f"data={BESIDE}"]) if absent and BESIDE.is_dir() else options


def _with_variables(kept: Any, given: Mapping[str, Any]) -> Any:
    """Return recorded options with the values of the variables of the environment that they name."""
    if not isinstance(kept, dict):
        return kept
    left = {key: value for key, value in kept.items() if key not in given}
    resolved = {key: resolved_in(value, key) for key, value in left.items()}
    check_variables((text for text in nodes(left) if isinstance(text, str)), resolved)
    return kept | resolved
