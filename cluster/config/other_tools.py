"""Lists options of sentence-transformers, Tevatron, PyLate, FlagEmbedding and Lightning, with the options here.

docs/reference/glossary.md explains the names that have another meaning here. tests/cluster/config/test_other_tools.py
follows each one until a command is accepted.
"""

from __future__ import annotations

from collections.abc import Callable

OF_OPTION: dict[str, str] = {
    "cache": "cache_dir cache_folder dataset_cache_dir",
    "collection.positive": "positive_column_name",
    "collection.query": "anchor_column_name",
    "collection.tokenizer": "tokenizer",
    "function": "retrieval_method",
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
    "optimizer.lr": "learn_rate learning_rate lr",
    "+optimizer.eps": "adam_epsilon",
    "optimizer.weight_decay": "weight_decay",
    "out": "output output_dir output_file encode_output_path target_model_path index_folder default_root_dir",
    "ranker.checkpoint": (
        "checkpoint model_name model_name_or_path embedder_name_or_path base_model lora_name_or_path"
    ),
    "ranker.compiled": "torch_compile",
    "ranker.document_flops": "document_regularizer_weight",
    "ranker.document_prompt": (
        "corpus_prompt corpus_prompt_name document_prefix passage_prefix passage_instruction_for_retrieval"
    ),
    "ranker.gradient_checkpointing": "gradient_checkpointing activation_checkpointing",
    "ranker.max_document": (
        "document_length p_max_len passage_max_len embedder_passage_max_length max_passage_length doc_maxlen "
        "doc_length max_length max_seq_length passage_max_length"
    ),
    "ranker.max_query": (
        "query_length q_max_len query_max_len embedder_query_max_length max_query_length query_maxlen query_max_length"
    ),
    "ranker.pooling": (
        "pooling pooling_method sentence_pooling_method pooling_mode query_pooling_strategy doc_pooling_strategy"
    ),
    "ranker.precision": "dtype torch_dtype precision",
    "ranker.query_flops": "query_regularizer_weight",
    "ranker.query_prompt": (
        "query_prompt query_prompt_name query_prefix query_instruction_for_retrieval instruction prompts prompt "
        "prompt_name default_prompt_name"
    ),
    "ranker.truncate_dim": "truncate_dim",
    "resources.gpu": "gpu gpus",
    "resources.workers": "num_workers",
    "samples": "n_trials",
    "sampling.negatives": (
        "hard_negatives num_hard_negatives num_negatives negative_count negative_number negative_size "
        "negatives_per_query"
    ),
    "save_every_batches": "save_steps",
    "scheduler": "lr_scheduler lr_scheduler_type",
    "scheduler.warmup": "warmup warmup_ratio warmup_steps",
    "seed": "data_seed random_seed seed_everything",
    "seeds": "num_seeds",
    "selector": "sampler",
    "selector.first": "range_min",
    "selector.last": "range_max",
    "track": "tracker wandb report_to logger",
    "training.accumulate": "accumulate_grad_batches grad_accumulation gradient_accumulation_steps",
    "training.batch_size": "batch batch_size per_device_train_batch_size train_batch_size",
    "training.chunk": "mini_batch_size sub_batch_size gc_p_chunk_size gc_q_chunk_size",
    "training.clip_norm": "gradient_clip_val max_grad_norm",
    "training.max_epochs": "epoch epochs max_epochs num_epochs num_train_epochs",
    "training.patience": "early_stopping early_stopping_patience patience",
    "validation.every": "eval_steps val_check_interval",
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
    **dict.fromkeys(
        ["sample_size", "train_group_size", "train_n_passages"], ("sampling.negatives", _negatives_of_group)
    ),
}
"""Options with another scale, and their value here."""
DISTILLED = "objective=kl teacher=ranker teacher.checkpoint=FOLDER"
POOLING = dict.fromkeys(["lasttoken", "last_token", "eos"], "ranker.pooling=last") | {"first": "ranker.pooling=cls"}
DTYPE = {
    **dict.fromkeys(["bf16", "bf16-mixed", "bf16-true"], "ranker.precision=bfloat16"),
    **dict.fromkeys(["fp16", "16", "16-mixed", "16-true"], "ranker.precision=float16"),
    **dict.fromkeys(["fp32", "32", "32-true"], "ranker.precision=float32"),
}
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
    "model_type": {
        **dict.fromkeys(["bi-encoder", "bi_encoder", "dual-encoder"], "ranker=bi_encoder ranker.checkpoint=FOLDER"),
        **dict.fromkeys(["cross-encoder", "cross_encoder"], "ranker=cross_encoder ranker.checkpoint=FOLDER"),
        **dict.fromkeys(["col", "colbert"], "ranker=late_interaction ranker.checkpoint=FOLDER"),
        "splade": "ranker=sparse ranker.checkpoint=FOLDER",
    },
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
    "precision": DTYPE,
}
"""What to write instead of an option with one of these values."""
NEEDS: dict[str, str] = {
    "+optimizer.eps": "optimizer=adamw",
    "function.dense.index.factory": "function=dense",
    "guard.ranker": "guard.relative=0.05",
    "objective.temperature": "objective=contrastive",
    "ranker.checkpoint": "ranker=bi_encoder",
    **dict.fromkeys(["ranker.document_flops", "ranker.query_flops"], "ranker=sparse ranker.checkpoint=FOLDER"),
    "selector.first": "selector=window",
    "selector.last": "selector=window",
}
"""What an option needs besides itself."""
OF_SCORES = "limits are in scores, `scale` (20) times the cosine for a cosine ranker"
UNIT: dict[str, str] = dict.fromkeys(["guard.absolute", "guard.ceiling"], OF_SCORES)
"""The unit of an option whose values elsewhere are cosines, or what a guide scores."""
CHECKPOINT = {
    f"ranker={kind} ranker.checkpoint": "checkpoint"
    for kind in ("bi_encoder", "cross_encoder", "late_interaction", "sparse")
}
OF_VERB: dict[str, dict[str, str]] = {
    "mine": {
        "sampling.negatives": "count",
        **CHECKPOINT,
        "resources.gpu": "gpu",
        "resources.workers": "workers",
        "limits.examples": "most_queries",
        "ranker.precision": "precision",
    },
    "rank": {**CHECKPOINT, "ranker.precision": "precision"},
}
"""How a verb writes what it has in common with a run, by its primary file."""
DATA = ["corpus_path", "data", "data_path", "dataset", "dataset_name", "dataset_path", "input_file", "train_data"]
DATA += ["train_dataset", "train_dir", "train_file"]
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
    "lora_target_modules": "peft=lora peft.modules=VALUE",
    **dict.fromkeys(["matryoshka_dims", "mrl_dims"], "objective=matryoshka objective.dimensions=VALUE"),
    **dict.fromkeys(["limit_train_batches", "overfit_batches"], "limits.examples=1000"),
    "limit_val_batches": "limits.dev=200",
    "limit_test_batches": "limits.test=200",
    "output_scores": "with_scores=true",
    "range_for_sampling": "selector=window selector.first=2 selector.last=200",
    "reranker_name_or_path": "ranker=cross_encoder ranker.checkpoint=VALUE",
    "resume_from_checkpoint": "resume=auto out=FOLDER",
    "save_strategy": "save_every_batches=100",
    **dict.fromkeys(["top_k", "k", "rerank_top_k", "search_top_k", "top_k_candidates"], "function.bm25.depth=VALUE"),
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
        "per_device_eval_batch_size prediction_loss_only eval_batch_size check_val_every_n_epoch "
        "num_sanity_val_steps fast_dev_run"
    ),
    "a run's length is in epochs (training.max_epochs)": "max_steps min_epochs min_steps max_time",
    "an objective's options are printed by `pyrite options objective=NAME`": (
        "activation_fn aggregation concatenation_sent_difference concatenation_sent_multiplication "
        "concatenation_sent_rep cos_score_transformation decoder_name_or_path document_regularizer "
        "document_regularizer_threshold hardness_mode hardness_strength lambda_weight loss_fct matryoshka_weights "
        "mean_weight n_dims_per_step negative_margin partition_mode pos_neg_ratio pos_weight positive_margin "
        "projection_dim query_regularizer query_regularizer_threshold rank_discount_fn reduction_log "
        "respect_input_order second_moment_weight student_temperature teacher_temperature tie_encoder_decoder "
        "triplet_margin use_document_regularizer_only use_mini_batched_version weighting_scheme contrast_anchors "
        "contrast_positives directions kl_div_weight kl_temperature last_layer_weight layer_weighting margin_strategy "
        "mini_batch_num_tokens n_layers_per_step prior_layers_weight"
    ),
    "negatives come from the collection's documents (collection.path)": "candidate_pool",
    "pairs are divided into train, dev and test, or as the collection's files are": (
        "dev_dataset eval_dataset test_dataset val_dataset inference_datasets"
    ),
    "late interaction scores the first stage's documents exactly": (
        "nbits ncells ndocs n_full_scores n_ivf_probe kmeans_niters centroid_score_threshold"
    ),
    "each document is scored once, not in windows": (
        "window_size step_size stride context_size num_passes variable_passages"
    ),
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
        "enable_model_summary enable_progress_bar log_every_n_steps profiler "
        "logging_first_step logging_nan_inf_filter logging_steps logging_strategy show_progress_bar "
        "skip_memory_metrics verbose"
    ),
    "Ray places runs and their workers (resources.workers, resources.gpu)": (
        "accelerator_config average_tokens_across_devices ddp_backend ddp_broadcast_buffers ddp_bucket_cap_mb "
        "ddp_find_unused_parameters ddp_static_graph ddp_timeout deepspeed device_map fsdp fsdp_config "
        "gather_across_devices local_rank negatives_cross_device negatives_x_device parallelism_config "
        "use_multi_process num_nodes strategy use_distributed_sampler"
    ),
    "runs repeat to the last bit without it": "full_determinism ignore_data_skip use_cpu deterministic",
    "states are kept for resuming, one per run": (
        "enable_checkpointing enable_jit_checkpoint "
        "restore_callback_states_from_checkpoint save_on_each_node save_only_model "
        "save_total_limit"
    ),
    "texts are read as the checkpoint's folder says": (
        "add_special_tokens append_eos_token attend_to_expansion_tokens attn_implementation bias "
        "do_query_expansion embedding_size fix_position_embedding normalize normalize_embeddings "
        "backend doc_expansion embedding_dim embedding_dimension mask_scoring_tokens num_labels output_value "
        "passage_instruction_for_rerank passage_suffix processor_kwargs projection_in_dim projection_out_dim "
        "query_expansion query_instruction_for_rerank query_suffix similarity_fct similarity_function "
        "use_flash_attn normlized normalize_scores pad_to_multiple_of padding_side "
        "passage_instruction_format query_instruction_format "
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
        "apply_softmax chunk_size convert_to_numpy convert_to_tensor encode_is_query encode_num_shard "
        "encode_shard_index gradient_clip_algorithm index_name inputs keep_in_fp32_modules local_files_only "
        "model_card_data negative_passage_no_shuffle positive_passage_no_shuffle return_documents shuffle_buffer "
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
