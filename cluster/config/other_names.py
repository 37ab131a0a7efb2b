"""Maps names of options in other tools to the options here, for messages about unknown options.

docs/reference/glossary.md has the same names with explanations; a test compares both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyrite.cluster.config.override import key_of

OF_OPTION: dict[str, str] = {
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
    "sampling.guard.absolute": "absolute_margin margin",
    "sampling.guard.ceiling": "max_score",
    "sampling.guard.ranker": "cross_encoder",
    "sampling.guard.relative": "relative_margin",
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
NEEDS: dict[str, str] = {
    "selector.first": "selector=window",
    "selector.last": "selector=window",
    "objective.temperature": "objective=contrastive",
    "ranker.checkpoint": "ranker=bi_encoder",
}
"""What an option needs besides itself."""
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


def suggestion(override: str) -> str | None:
    """Return what to write instead of an option with a name from another tool; None if the name is unknown."""
    key, _, value = override.lstrip("+~").partition("=")
    name = re.sub(r"\W", "_", key.rpartition(".")[2]).lower()
    if name == "model" and value:
        return f"ranker={value}" if re.fullmatch(r"[a-z_]+", value) else f"ranker=bi_encoder ranker.checkpoint={value}"
    if name in ADVICE:
        file = re.search(r"\.(csv|tsv|json|jsonl|parquet)(\.gz)?$", value)
        return ADVICE[name].replace("FILE", value if file else "FILE")
    if name not in SAME_VALUE:
        return None
    option = SAME_VALUE[name]
    return " ".join(filter(None, [NEEDS.get(option), f"{option}={value or '…'}"]))


def suggest_all(overrides: Sequence[str], unknown: str) -> str:
    """Return the end of a message about an unknown option: what to write instead, or nothing."""
    override = next((text for text in overrides if key_of(text) == unknown), unknown)
    instead = suggestion(override)
    return f"; did you mean {instead}?" if instead else ""
