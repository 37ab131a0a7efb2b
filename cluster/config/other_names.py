"""Maps names of options in other tools to the options here, for messages about unknown options.

docs/reference/glossary.md has the same names with explanations; a test compares both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cluster.config.override import key_of

SAME_VALUE: dict[str, str] = {
    "absolute_margin": "sampling.guard.absolute",
    "accumulate_grad_batches": "training.accumulate",
    "batch_size": "training.batch_size",
    "checkpoint": "ranker.checkpoint",
    "cross_encoder": "sampling.guard.ranker",
    "early_stopping": "training.patience",
    "early_stopping_metric": "validation.measure",
    "early_stopping_patience": "training.patience",
    "epochs": "training.max_epochs",
    "eval_metric": "validation.measure",
    "eval_steps": "validation.every",
    "gpu": "resources.gpu",
    "gpus": "resources.gpu",
    "grad_accumulation": "training.accumulate",
    "gradient_accumulation_steps": "training.accumulate",
    "gradient_clip_val": "training.clip_norm",
    "hard_negatives": "sampling.negatives",
    "learning_rate": "optimizer.lr",
    "loss": "objective",
    "loss_function": "objective",
    "lr": "optimizer.lr",
    "lr_scheduler": "scheduler",
    "lr_scheduler_type": "scheduler",
    "margin": "sampling.guard.absolute",
    "max_epochs": "training.max_epochs",
    "max_grad_norm": "training.clip_norm",
    "max_samples": "limits.examples",
    "max_score": "sampling.guard.ceiling",
    "max_seq_length": "encoding.max_document",
    "metric": "validation.measure",
    "metric_for_best_model": "validation.measure",
    "metrics": "measures",
    "model_name": "ranker.checkpoint",
    "model_name_or_path": "ranker.checkpoint",
    "n_trials": "samples",
    "num_epochs": "training.max_epochs",
    "num_hard_negatives": "sampling.negatives",
    "num_negatives": "sampling.negatives",
    "num_samples": "samples",
    "num_seeds": "seeds",
    "num_train_epochs": "training.max_epochs",
    "num_workers": "resources.workers",
    "output": "out",
    "output_dir": "out",
    "patience": "training.patience",
    "per_device_train_batch_size": "training.batch_size",
    "range_max": "selector.last",
    "range_min": "selector.first",
    "relative_margin": "sampling.guard.relative",
    "sampler": "selector",
    "sampling_strategy": "selector",
    "save_steps": "save_every_batches",
    "temperature": "objective.temperature",
    "tracker": "track",
    "train_batch_size": "training.batch_size",
    "train_group_size": "sampling.negatives",
    "truncate_dim": "ranker.truncate_dim",
    "wandb": "track",
    "warmup": "scheduler.warmup",
    "warmup_ratio": "scheduler.warmup",
    "warmup_steps": "scheduler.warmup",
    "weight_decay": "optimizer.weight_decay",
}
"""Options here by names elsewhere."""
NEEDS: dict[str, str] = {
    "selector.first": "selector=window",
    "selector.last": "selector=window",
    "objective.temperature": "objective=contrastive",
    "ranker.checkpoint": "ranker=bi_encoder",
}
"""What an option needs besides itself."""
ADVICE: dict[str, str] = {
    "bf16": "ranker.precision=bfloat16",
    "data": "collection.path=FILE",
    "data_path": "collection.path=FILE",
    "dataset": "collection.path=FILE",
    "dataset_name": "collection.path=FILE",
    "train_file": "collection.path=FILE",
    "corpus": "collection.path=FOLDER",
    "device": "resources.gpu=1",
    "cuda": "resources.gpu=1",
    "fp16": "ranker.precision=float16",
    "lora": "peft=lora",
    "seeds": "`pyrite study seeds=…`, or seed=… of one run",
    "top_k": "function.NAME.depth=…, the length of a function's lists",
    "k": "function.NAME.depth=…, the length of a function's lists",
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
