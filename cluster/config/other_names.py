"""Maps names of options in other tools to the options here, for messages about unknown options.

docs/reference/glossary.md has the same names with explanations; a test compares both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyrite.cluster.config.override import key_of
from pyrite.ranking.errors import BadInput

OF_OPTION: dict[str, str] = {
    "collection.tokenizer": "tokenizer",
    "encoding.max_document": "max_seq_length",
    "limits.examples": "max_samples",
    "measures": "metrics",
    "objective": "loss loss_function",
    "objective.temperature": "temperature",
    "optimizer.lr": "learning_rate lr",
    "optimizer.weight_decay": "weight_decay",
    "out": "output output_dir",
    "ranker.checkpoint": "checkpoint model_name model_name_or_path",
    "ranker.truncate_dim": "truncate_dim",
    "resources.gpu": "gpu gpus",
    "resources.workers": "num_workers",
    "samples": "n_trials num_samples",
    "guard.absolute": "absolute_margin margin",
    "guard.ceiling": "max_score",
    "guard.ranker": "cross_encoder",
    "guard.relative": "relative_margin",
    "sampling.negatives": "hard_negatives num_hard_negatives num_negatives train_group_size",
    "save_every_batches": "save_steps",
    "scheduler": "lr_scheduler lr_scheduler_type",
    "scheduler.warmup": "warmup warmup_ratio warmup_steps",
    "seeds": "num_seeds",
    "selector": "sampler sampling_strategy",
    "selector.first": "range_min",
    "selector.last": "range_max",
    "track": "tracker wandb",
    "training.accumulate": "accumulate_grad_batches grad_accumulation gradient_accumulation_steps",
    "training.batch_size": "batch_size per_device_train_batch_size train_batch_size",
    "training.clip_norm": "gradient_clip_val max_grad_norm",
    "training.max_epochs": "epochs max_epochs num_epochs num_train_epochs",
    "training.patience": "early_stopping early_stopping_patience patience",
    "validation.every": "eval_steps",
    "validation.measure": "early_stopping_metric eval_metric metric metric_for_best_model",
}
"""Names elsewhere by options here whose values are the same."""
SAME_VALUE = {name: option for option, names in OF_OPTION.items() for name in names.split()}
WITHIN: dict[str, dict[str, str]] = {"collection": {"document": "positive", "answer": "positive", "question": "query"}}
"""Names of options by other names, within a group."""
CONVERTED: dict[str, tuple[str, Callable[[float], float]]] = {
    # Negatives below 95% of the positive's score are those with a margin of 5%.
    **dict.fromkeys(["ratio", "margin_ratio", "percent", "hn_filter_ratio"], ("guard.relative", lambda v: 1 - v)),
}
"""Options with another scale, and their value here."""
OF_VALUE: dict[str, dict[str, str]] = {
    "loss": {
        **dict.fromkeys(
            ["mnrl", "multiplenegativesrankingloss", "infonce", "mnr", "cachedmultiplenegativesrankingloss"],
            "objective=softmax function=[in_batch,bm25]",
        ),
        "marginmseloss": "objective=margin_mse teacher=ranker teacher.checkpoint=FOLDER",
    },
}
"""What to write instead of an option with one of these values."""
NEEDS: dict[str, str] = {
    "selector.first": "selector=window",
    "selector.last": "selector=window",
    "objective.temperature": "objective=contrastive",
    "ranker.checkpoint": "ranker=bi_encoder",
}
"""What an option needs besides itself."""
OF_VERB: dict[str, dict[str, str]] = {
    "mine": {
        "sampling.negatives": "count",
        "ranker=bi_encoder ranker.checkpoint": "checkpoint",
    },
    "rank": {"ranker=bi_encoder ranker.checkpoint": "checkpoint"},
}
"""How a verb writes what it has in common with a run, by its primary file."""
ADVICE: dict[str, str] = {
    "bf16": "ranker.precision=bfloat16",
    **dict.fromkeys(["data", "data_path", "dataset", "dataset_name", "train_file"], "collection.path=FILE"),
    "corpus": "collection.path=FOLDER",
    **dict.fromkeys(["device", "cuda"], "resources.gpu=1"),
    "fp16": "ranker.precision=float16",
    "lora": "peft=lora",
    "seeds": "`pyrite study seeds=…`, or seed=… of one run",
    **dict.fromkeys(["top_k", "k"], "function.NAME.depth=…, the length of a function's lists"),
    "hidden_size": "ranker.preset=paper|small|tiny",
}
"""What to write instead, if the value is not the same."""


def suggestion(override: str, config: str = "config") -> str | None:
    """Return what to write instead of an option with a name from another tool; None if the name is unknown.

    >>> suggestion("relative_margin=0.05", "mine")
    'guard.relative=0.05'

    Args:
        config: the primary file of the verb, whose options have other names for the same things.
    """
    instead = _of_run(override) or override.lstrip("+~")
    for ours, of_verb in OF_VERB.get(config, {}).items():
        instead = instead.replace(ours, of_verb)
    return None if instead == override.lstrip("+~") else instead


def _of_run(override: str) -> str | None:
    """Return what to write in the verbs that train a ranker."""
    key, _, value = override.lstrip("+~").partition("=")
    group, _, last = key.rpartition(".")
    name = re.sub(r"\W", "_", last).lower()
    if name == "model" and value:
        return f"ranker={value}" if re.fullmatch(r"[a-z_]+", value) else f"ranker=bi_encoder ranker.checkpoint={value}"
    if name in WITHIN.get(group, {}):
        return f"{group}.{WITHIN[group][name]}={value}"
    if value.lower() in OF_VALUE.get(name, {}):
        return OF_VALUE[name][value.lower()]
    if name in CONVERTED:
        option, convert = CONVERTED[name]
        return f"{option}={_converted(value, convert)}"
    if name in ADVICE:
        file = re.search(r"\.(csv|tsv|json|jsonl|parquet)(\.gz)?$", value)
        return ADVICE[name].replace("FILE", value if file else "FILE")
    if name not in SAME_VALUE:
        return None
    option = SAME_VALUE[name]
    return " ".join(filter(None, [NEEDS.get(option), f"{option}={value or '…'}"]))


def _converted(value: str, convert: Callable[[float], float]) -> str:
    try:
        return f"{convert(float(value)):.6g}"
    except ValueError:
        return "…"


def suggest_all(
    overrides: Sequence[str],
    unknown: str,
    config: str,
    compose: Callable[[Sequence[str], str, bool], Mapping[str, Any]],
) -> str:
    """Return the end of a message about an unknown option: what to write instead, or nothing if that is refused too.

    Args:
        overrides: all overrides of the command.
        unknown: the key that does not exist.
        config: the primary file of the verb.
        compose: `pyrite.cluster.config.compose.compose`, which tries the suggestion instead of the option.
    """
    override = next((text for text in overrides if key_of(text) == unknown), unknown)
    instead = suggestion(override, config)
    if not instead:
        return ""
    if re.fullmatch(r"[\w.]+=[^ …|]+( [\w.]+=[^ …|]+)*", instead):  # overrides, no sentence
        others = [text for text in overrides if text != override]
        groups = {key_of(text) for text in instead.split() if "." not in key_of(text)}
        try:
            compose([*(text for text in others if key_of(text) not in groups), *instead.split()], config, True)
        except BadInput:
            return ""
    return f"; did you mean {instead}?"
