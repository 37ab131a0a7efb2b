"""Lists options of sentence-transformers, Tevatron, PyLate, FlagEmbedding and Lightning, with the options here.

docs/reference/glossary.md explains the names that have another meaning here. tests/cluster/config/test_other_tools.py
follows each one until a command is accepted.
"""

from __future__ import annotations

from collections.abc import Callable

OF_OPTION: dict[str, str] = {
    "cache": "cache_dir cache_folder",
    "collection.positive": "positive_column_name",
    "collection.query": "anchor_column_name",
    "collection.tokenizer": "tokenizer",
    "encoding.max_document": "max_seq_length",
    "function.dense.index.factory": "index_factory",
    "guard.absolute": "absolute_margin margin",
    "guard.ceiling": "max_score",
    "guard.ranker": "cross_encoder teacher_model guide",
    "guard.relative": "relative_margin",
    "limits.examples": "max_samples max_train_samples max_example_num_per_dataset",
    "measures": "metrics",
    "objective": "loss loss_function",
    "objective.temperature": "temperature",
    "optimizer": "optim",
    "optimizer.lr": "learning_rate lr",
    "+optimizer.eps": "adam_epsilon",
    "optimizer.weight_decay": "weight_decay",
    "out": "output output_dir output_file encode_output_path target_model_path index_folder",
    "ranker.checkpoint": "checkpoint model_name model_name_or_path embedder_name_or_path base_model",
    "ranker.compiled": "torch_compile",
    "ranker.document_prompt": (
        "corpus_prompt corpus_prompt_name document_prefix passage_prefix passage_instruction_for_retrieval"
    ),
    "ranker.gradient_checkpointing": "gradient_checkpointing activation_checkpointing",
    "ranker.max_document": (
        "document_length p_max_len passage_max_len embedder_passage_max_length max_passage_length doc_maxlen"
    ),
    "ranker.max_query": "query_length q_max_len query_max_len embedder_query_max_length max_query_length query_maxlen",
    "ranker.pooling": "pooling pooling_method sentence_pooling_method pooling_mode",
    "ranker.precision": "dtype torch_dtype",
    "ranker.query_prompt": (
        "query_prompt query_prompt_name query_prefix query_instruction_for_retrieval instruction prompts"
    ),
    "ranker.truncate_dim": "truncate_dim",
    "resources.gpu": "gpu gpus",
    "resources.workers": "num_workers",
    "samples": "n_trials",
    "sampling.negatives": "hard_negatives num_hard_negatives num_negatives negative_number negative_size",
    "save_every_batches": "save_steps",
    "scheduler": "lr_scheduler lr_scheduler_type",
    "scheduler.warmup": "warmup warmup_ratio warmup_steps",
    "seed": "data_seed random_seed",
    "seeds": "num_seeds",
    "selector": "sampler",
    "selector.first": "range_min",
    "selector.last": "range_max",
    "track": "tracker wandb report_to",
    "training.accumulate": "accumulate_grad_batches grad_accumulation gradient_accumulation_steps",
    "training.batch_size": "batch_size per_device_train_batch_size train_batch_size",
    "training.chunk": "mini_batch_size sub_batch_size gc_p_chunk_size gc_q_chunk_size",
    "training.clip_norm": "gradient_clip_val max_grad_norm",
    "training.max_epochs": "epochs max_epochs num_epochs num_train_epochs",
    "training.patience": "early_stopping early_stopping_patience patience",
    "validation.every": "eval_steps",
    "validation.measure": "early_stopping_metric eval_metric metric metric_for_best_model",
}
"""Names elsewhere by options here whose values are the same."""
SAME_VALUE = {name: option for option, names in OF_OPTION.items() for name in names.split()}
WITHIN: dict[str, str] = {
    **{f"collection.{name}": "collection.positive" for name in ("document", "answer", "passage", "pos", "text")},
    **{f"collection.{name}": "collection.query" for name in ("question", "anchor")},
}
"""Names elsewhere of options of one group."""


def _negatives_of_group(size: float) -> float:
    return size - 1


CONVERTED: dict[str, tuple[str, Callable[[float], float]]] = {
    # Negatives below 95% of the positive's score are those with a margin of 5%.
    **dict.fromkeys(["ratio", "margin_ratio", "percent", "hn_filter_ratio"], ("guard.relative", lambda v: 1 - v)),
    # A group is one positive and its negatives.
    **dict.fromkeys(["train_group_size", "train_n_passages"], ("sampling.negatives", _negatives_of_group)),
}
"""Options with another scale, and their value here."""
DISTILLED = "objective=kl teacher=ranker teacher.checkpoint=FOLDER"
POOLING = dict.fromkeys(["lasttoken", "last_token", "eos"], "ranker.pooling=last") | {"first": "ranker.pooling=cls"}
DTYPE = {"bf16": "ranker.precision=bfloat16", "fp16": "ranker.precision=float16", "fp32": "ranker.precision=float32"}
MNRL = "objective=softmax function=[in_batch,bm25]"
OF_VALUE: dict[str, dict[str, str]] = {
    "loss": {
        **dict.fromkeys(
            ["mnrl", "multiplenegativesrankingloss", "infonce", "mnr", "cachedmultiplenegativesrankingloss"], MNRL
        ),
        "marginmseloss": "objective=margin_mse teacher=ranker teacher.checkpoint=FOLDER",
        "distillation": DISTILLED,
    },
    "lr_scheduler_type": {"constant_with_warmup": "scheduler=constant scheduler.warmup=0.1"},
    "optim": dict.fromkeys(["adamw_torch", "adamw_torch_fused", "adamw_hf"], "optimizer=adamw"),
    "output_format": {
        "triplet": "rows=triplets",
        "n-tuple": "rows=tuples",
        **dict.fromkeys(["n-tuple-scores", "n-tuple-score"], "rows=tuples with_scores=true"),
        **dict.fromkeys(["labeled-pair", "labeled-list"], "rows=labelled_pairs"),
    },
    "pooling": POOLING,
    "pooling_method": POOLING,
    "pooling_mode": POOLING,
    "sentence_pooling_method": POOLING,
    "sampling_strategy": {"random": "selector=uniform", "top": "selector=top"},
    "dtype": DTYPE,
    "torch_dtype": DTYPE,
}
"""What to write instead of an option with one of these values."""
NEEDS: dict[str, str] = {
    "+optimizer.eps": "optimizer=adamw",
    "function.dense.index.factory": "function=dense",
    "guard.ranker": "guard.relative=0.05",
    "objective.temperature": "objective=contrastive",
    "ranker.checkpoint": "ranker=bi_encoder",
    "selector.first": "selector=window",
    "selector.last": "selector=window",
}
"""What an option needs besides itself."""
OF_VERB: dict[str, dict[str, str]] = {
    "mine": {
        "sampling.negatives": "count",
        "ranker=bi_encoder ranker.checkpoint": "checkpoint",
        "resources.gpu": "gpu",
        "resources.workers": "workers",
        "limits.examples": "most_queries",
        "ranker.precision": "precision",
    },
    "rank": {"ranker=bi_encoder ranker.checkpoint": "checkpoint", "ranker.precision": "precision"},
}
"""How a verb writes what it has in common with a run, by its primary file."""
DATA = ["corpus_path", "data", "data_path", "dataset", "dataset_name", "dataset_path", "input_file", "train_data"]
DATA += ["train_dir", "train_file"]
ADVICE: dict[str, str] = {
    "adam_beta1": "optimizer.betas=[VALUE,0.999]",
    "adam_beta2": "optimizer.betas=[0.9,VALUE]",
    "as_triplets": "rows=triplets",
    "bf16": "ranker.precision=bfloat16",
    "bf16_full_eval": "ranker.precision=bfloat16",
    "corpus": "collection.path=FOLDER",
    **dict.fromkeys(DATA, "collection.path=FILE"),
    **dict.fromkeys(["cuda", "device", "devices"], "resources.gpu=1"),
    "eval_strategy": "validation.every=500",
    **dict.fromkeys(["fp16", "fp16_full_eval", "use_fp16"], "ranker.precision=float16"),
    "grad_cache": "training.chunk=32",
    "hidden_size": "ranker.preset=small",
    **dict.fromkeys(
        ["knowledge_distillation", "kd_loss_type"], "objective=kl teacher=ranker teacher.checkpoint=FOLDER"
    ),
    "load_best_model_at_end": "training.keep=best",
    **dict.fromkeys(["lora", "use_lora"], "peft=lora"),
    **dict.fromkeys(["lora_r", "lora_rank"], "peft=lora peft.rank=VALUE"),
    "lora_alpha": "peft=lora peft.alpha=VALUE",
    "mrl_dims": "objective=matryoshka objective.dimensions=VALUE",
    "output_scores": "with_scores=true",
    "resume_from_checkpoint": "resume=auto out=FOLDER",
    "save_strategy": "save_every_batches=100",
    **dict.fromkeys(["top_k", "k"], "function.bm25.depth=VALUE"),
    "untie_encoder": "ranker.tied=false",
    "use_mrl": "objective=matryoshka objective.dimensions=[128,64]",
}
"""What to write instead, if the value is not the same. `VALUE` is the value, `FILE` the value if it is a file."""
OF_A_STUDY: dict[str, str] = {
    "samples": "`pyrite study samples=VALUE`",
    "seeds": "`pyrite study seeds=VALUE`, or seed=… of one run",
}
"""What to write instead of an option of studies that is given to `pyrite train`."""
OFF = ("false", "no", "0", "null", "none", "")
"""Values by which a flag asks for nothing."""
FLAGS = frozenset({
    "as_triplets", "bf16", "bf16_full_eval", "fp16", "fp16_full_eval", "use_fp16", "grad_cache",
    "knowledge_distillation", "lora", "use_lora", "load_best_model_at_end", "output_scores", "untie_encoder", "use_mrl",
    "eval_strategy", "save_strategy",
})  # fmt: skip
"""Names in `ADVICE` that are switched on or off."""
WITHOUT: dict[str, str] = {
    "a run has no such step: everything is measured in one way": (
        "batch_eval_metrics do_eval do_predict do_train eval_accumulation_steps eval_delay eval_do_concat_batches "
        "eval_on_start eval_use_gather_object greater_is_better include_for_metrics label_names "
        "per_device_eval_batch_size prediction_loss_only"
    ),
    "a run's length is in epochs (training.max_epochs)": "max_steps",
    "checkpoints of other code are never run": "trust_remote_code config_kwargs config_name model_kwargs revision",
    "Hugging Face's token is read from HF_TOKEN": "token hub_token use_auth_token",
    "nothing is uploaded": (
        "push_to_hub hub_always_push hub_model_id hub_private_repo hub_revision hub_strategy project "
        "trackio_bucket_id trackio_space_id trackio_static_space_id"
    ),
    "no negative has too low a score; selector=window chooses by rank": "min_score",
    "positives stand in each row": "include_positives",
    "progress and logs need no option": (
        "debug disable_tqdm include_num_input_tokens_seen log_level log_level_replica log_on_each_node "
        "logging_first_step logging_nan_inf_filter logging_steps logging_strategy show_progress_bar "
        "skip_memory_metrics verbose"
    ),
    "Ray places runs and their workers (resources.workers, resources.gpu)": (
        "accelerator_config average_tokens_across_devices ddp_backend ddp_broadcast_buffers ddp_bucket_cap_mb "
        "ddp_find_unused_parameters ddp_static_graph ddp_timeout deepspeed device_map fsdp fsdp_config "
        "gather_across_devices local_rank negatives_cross_device negatives_x_device parallelism_config "
        "use_multi_process"
    ),
    "runs repeat to the last bit without it": "full_determinism ignore_data_skip use_cpu",
    "states are kept for resuming, one per run": (
        "enable_jit_checkpoint restore_callback_states_from_checkpoint save_on_each_node save_only_model "
        "save_total_limit"
    ),
    "texts are read as the checkpoint's folder says": (
        "add_special_tokens append_eos_token attend_to_expansion_tokens attn_implementation bias "
        "do_query_expansion embedding_size fix_position_embedding normalize normalize_embeddings "
        "normalize_scores pad_to_multiple_of padding_side passage_instruction_format query_instruction_format "
        "similarity_fn_name skiplist_words tokenizer_kwargs tokenizer_name truncation use_fast_tokenizer"
    ),
    "the batch never holds a text twice as a negative (batches= orders examples)": (
        "batch_sampler multi_dataset_batch_sampler no_duplicates same_dataset_within_batch shuffle_ratio "
        "small_threshold drop_threshold train_sampling_strategy length_column_name"
    ),
    "there is nothing like it here": (
        "activation_checkpointing_kwargs add_pooler adam_kwargs auto_find_batch_size dataset_config dataset_split "
        "dataloader_drop_last dataloader_in_order dataloader_multiprocessing_context dataloader_num_workers "
        "dataloader_persistent_workers dataloader_pin_memory dataloader_prefetch_factor exclude_title "
        "faiss_batch_size gradient_checkpointing_kwargs label_smoothing_factor learning_rate_mapping "
        "liger_kernel_config lr_scheduler_kwargs neftune_noise_alpha num_proc optim_args optim_target_modules "
        "remove_unused_columns router_mapping run_name search_batch_size size_average tf32 "
        "torch_compile_backend torch_compile_mode torch_empty_cache_steps use_cache use_faiss "
        "use_gpu_for_searching use_liger_kernel unified_finetuning use_self_distill"
    ),
}
"""Names that have nothing to set here, by the reason."""
LEFT_OUT = {name: reason for reason, names in WITHOUT.items() for name in names.split()}
NOT_IN: dict[str, str] = {
    "mine": "`pyrite mine` trains and measures nothing",
    "rank": "`pyrite rank` trains and mines nothing",
    "config": "`pyrite mine` alone writes rows",
    "study": "`pyrite mine` alone writes rows",
}
"""What verbs don't do, by their primary files: the reason to leave out what another verb has."""
