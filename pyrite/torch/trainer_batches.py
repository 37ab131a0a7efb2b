"""Adds negatives to the batches of a trainer: its collator with negatives, and a callback that follows its steps."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn
from torch.utils.data import get_worker_info

from pyrite.ranking.errors import BadInput, refuse
from pyrite.torch.batch_versions import LoaderCounts
from pyrite.torch.pair_draws import PairDraws
from pyrite.torch.report import ShownFiles
from pyrite.torch.served_dense import ServedVersion
from pyrite.torch.text_pairs import TextPairs


def tuples(rows: list[dict[str, Any]], negatives: list[list[str]]) -> list[dict[str, Any]]:
    """Return one row per pair: query, positive, negative_1, …"""
    return [
        {**row, **{f"negative_{number}": text for number, text in enumerate(texts, 1)}}
        for row, texts in zip(rows, negatives, strict=True)
    ]


def labelled_pairs(rows: list[dict[str, Any]], negatives: list[list[str]]) -> list[dict[str, Any]]:
    """Return one row per document, with the label 1 if it is the positive."""
    return [
        {**row, "positive": text, "label": label}
        for row, texts in zip(rows, negatives, strict=True)
        for text, label in [(row["positive"], 1.0), *((text, 0.0) for text in texts)]
    ]


def lists(rows: list[dict[str, Any]], negatives: list[list[str]]) -> list[dict[str, Any]]:
    """Return one row per pair, with the list of its documents and of their labels."""
    return [
        {**row, "positive": [row["positive"], *texts], "labels": [1.0, *(0.0 for _ in texts)]}
        for row, texts in zip(rows, negatives, strict=True)
    ]


FORMS = {"tuples": tuples, "labelled_pairs": labelled_pairs, "lists": lists}
"""The rows that losses read, by name."""
LABELS = {"labelled_pairs": ["label"], "lists": ["labels"]}
"""The columns that forms with labels add."""
WITHIN_BATCH = ("MultipleNegatives", "GIST", "Batch")
"""Words in the names of sentence-transformers' losses that compare the documents of a batch."""
TEACHER = "a teacher's scores"
ROWS_OF: dict[str, str] = {
    **dict.fromkeys((*WITHIN_BATCH, "Triplet"), "tuples"),
    **dict.fromkeys(("CoSENT", "AnglE", "CosineSimilarity", "ContrastiveLoss", "BinaryCrossEntropy"), "labelled_pairs"),
    **dict.fromkeys(("ListNet", "ListMLE", "LambdaLoss", "RankNet", "ADRMSE"), "lists"),
    **dict.fromkeys(("MarginMSE", "DistillKLDiv"), TEACHER),
}
"""What losses of sentence-transformers read, by a word in their names."""
LIBRARY = "sentence_transformers."
CALLBACK = "pyrite.torch.trainer_callback"
"""The module of the callback that `attach` adds."""
EVALUATOR = "pyrite.torch.validation_evaluator"
"""The module of the evaluator of the validation queries."""


class BatchNegatives:
    """The negatives of batches of texts, in any process of a training.

    Args:
        service: the version in use; None without an index.
        shown: the files of what was shown; None counts nothing.
    """

    def __init__(self, pairs: TextPairs, draws: PairDraws, service: ServedVersion | None, form: str) -> None:
        self.pairs, self.draws, self.service, self.form = pairs, draws, service, FORMS[form]
        self.loader = LoaderCounts(1)
        self.shown: ShownFiles | None = None
        self.process = "0-0"
        # How often each pair was read without a batch, in memory that loader workers, which are forked, share.
        self._reads = np.frombuffer(mmap.mmap(-1, 4 * max(len(pairs), 1)), np.int32)

    def rows(self, rows: list[dict[str, Any]], batch: int) -> list[dict[str, Any]]:
        """Return the rows of a batch with negatives, in the form that the loss reads."""
        texts = self.texts([(row["query"], row["positive"]) for row in rows], batch, self.loader.epoch_of(batch))
        return self.form(rows, texts)

    def texts(self, pairs: Sequence[tuple[str, str]], batch: int | None, epoch: int = 0) -> list[list[str]]:
        """Return the negatives of each pair.

        Args:
            batch: the number of the batch, which decides the version; None for the newest version.
            epoch: the number of the epoch, which decides the draw; without a batch it is how often a pair was read.
        """
        training, service = self.draws.training, self.service
        waited = service.use(batch, self.process.partition("-")[0]) if service is not None else 0.0
        step = -1 if service is None else service.step
        training.step = 0 if batch is None else self.loader.step_of(batch)
        training.epoch, training.loader = epoch, self.loader
        found = self.pairs.find(pairs, of_files=batch is None)
        drawn = self.draws(found, step, epoch if batch is not None else self._reads[found])
        if batch is None:
            np.add.at(self._reads, found, 1)
        if self.shown is not None:
            guarded = {name: function.guarded for name, function in self.draws.sampler.functions.items()}
            number = -1 if batch is None else batch
            of_pairs = training.examples.take(found)
            self.shown.count(
                service, self.process, number, waited, of_pairs, drawn.negatives, drawn.assigned, guarded
            )  # fmt: skip
        return training.texts(drawn.negatives)


class CollatorWithNegatives:
    """A trainer's collator that adds negatives to each row first.

    It counts its calls: with the number of the loader's worker they are the number of the batch.

    Args:
        inner: the trainer's collator.
    """

    def __init__(self, inner: Any, negatives: BatchNegatives) -> None:
        self.inner, self.negatives = inner, negatives
        self.first = self.calls = 0

    def __getattr__(self, name: str) -> Any:
        if name in ("inner", "negatives") or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def start_at(self, batch: int) -> None:
        """Number the batches of the next iteration of the loader from this one on."""
        self.first, self.calls = batch, 0

    def __call__(self, rows: list[dict[str, Any]]) -> Any:
        worker = get_worker_info()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        batch = self.first + number + self.calls * workers
        self.calls += 1
        self.negatives.process = f"{os.environ.get('RANK', '0')}-{number}"
        return self.inner(self.negatives.rows(rows, batch))


def with_negative_columns(inner: Any, columns: Sequence[str]) -> None:
    """Give the columns of negatives the prompt and the route of the positive."""
    for name in ("prompts", "router_mapping"):
        mapping = getattr(inner, name, None)
        if isinstance(mapping, Mapping) and "positive" in mapping:
            setattr(inner, name, {**mapping, **dict.fromkeys(columns, mapping["positive"])})


def check_trainer(trainer: Any) -> None:
    """Refuse what is no finished trainer, and one whose weights can't be sent or whose batches have negatives."""
    what = f"{type(trainer).__name__} is no trainer of transformers"
    refuse(not hasattr(trainer, "callback_handler"), what, "attach", "make the trainer first, then attach it")
    attached = any(type(each).__module__ == CALLBACK for each in trainer.callback_handler.callbacks)
    refuse(attached, "this trainer has negatives already", "attach", "attach once, or make another trainer")
    sharded = getattr(trainer, "is_fsdp_enabled", False) or _zero3(trainer)
    what = "FSDP or ZeRO-3 keeps the weights in parts, which can't be sent"
    refuse(sharded, what, "trainer", "train with data parallelism or LoRA")
    evaluator: Any = getattr(trainer, "evaluator", None)
    if type(evaluator).__module__ == EVALUATOR:  # before the first evaluation
        evaluator.check(trainer.model)


def check_loader(trainer: Any, added: Sequence[str]) -> None:
    """Refuse data that hide their rows or move or have columns that are `added`, and a loader that loses count."""
    arguments, data = trainer.args, trainer.train_dataset
    remedy = "give the trainer negatives.dataset"
    refuse(isinstance(data, Mapping), "several data sets have no pairs to look up", "train_dataset", remedy)
    missing = {"query", "positive"} - {*(getattr(data, "column_names", None) or ())}
    refuse(missing, "has no columns query and positive", "train_dataset", remedy)
    given = [column for column in added if column in data.column_names]
    what = "has a column {}, which negatives would replace"
    refuse(given, what, "train_dataset", "rename it, or leave it out")
    others = sorted({*data.column_names} - {"query", "positive"}) if "labels" in added else []
    what = f"has a column {others[0]}, which losses over lists don't take" if others else ""
    refuse(others, what, "train_dataset", "leave it out: dataset.select_columns(['query', 'positive'])")
    what = "an iterable data set is read by one process alone"
    refuse(not hasattr(data, "__len__"), what, "train_dataset", remedy)
    what = "its rows have negatives by a transform"
    refuse(_moves(data), what, "train_dataset", f"{remedy}, or attach(trainer, collator=False)")
    what = "a worker that lives on loses count of its batches"
    refuse(arguments.dataloader_persistent_workers, what, "dataloader_persistent_workers", "leave it out")
    what = "batches that are read again after a resume have other numbers"
    refuse(arguments.ignore_data_skip, what, "ignore_data_skip", "leave it out")
    evaluated = getattr(trainer, "eval_dataset", None)
    moving = [each for each in (evaluated.values() if isinstance(evaluated, dict) else [evaluated]) if _moves(each)]
    what = "the moving negatives would be in the evaluation too, and no two of its losses compare"
    refuse(moving, what, "eval_dataset", "evaluate with negatives.evaluator(), or with rows that are fixed")


def compares_within_batch(losses: Any) -> bool:
    """Return whether a loss compares the documents of a batch; one that is not of sentence-transformers may."""
    return any(names is None or _named(names, WITHIN_BATCH) for names in map(_names, _each(losses)))


def check_loss(losses: Any, rows: str = "tuples", in_batch: bool = False) -> None:
    """Refuse losses of sentence-transformers that read other rows, or add no in-batch negatives.

    Args:
        losses: the loss of a trainer, or its losses by data set.
        rows: the form of the rows, a name in `FORMS`.
        in_batch: whether in-batch negatives are asked for.
    """
    for loss in _each(losses):
        name, read = type(loss).__name__, _read_by(loss)
        what = f"{name} learns from {TEACHER}, which rows with moving negatives lack"
        refuse(read == TEACHER, what, "loss", 'choose another, or a loop of your own with options={"teacher": …}')
        refuse(read not in (None, rows), f"{name} does not read {rows}", "rows", f'give Negatives(…, rows="{read}")')
        what = f"{name} compares no documents of the batch, so that InBatch() adds nothing"
        remedy = "leave InBatch() out, or choose MultipleNegativesRankingLoss"
        refuse(in_batch and not compares_within_batch(loss), what, "loss", remedy)


def _read_by(loss: Any) -> str | None:
    """Return what a loss reads, a value of `ROWS_OF`; None if it is unknown."""
    return next((rows for word, rows in ROWS_OF.items() if _named(_names(loss) or [], [word])), None)


def _each(losses: Any) -> list[Any]:
    return list(losses.values()) if isinstance(losses, Mapping) else [losses]


def _names(loss: Any) -> list[str] | None:
    """Return the names of a loss and of the losses within it; None if it is not of sentence-transformers."""
    if not isinstance(loss, nn.Module) or not type(loss).__module__.startswith(LIBRARY):
        return None
    return [type(part).__name__ for part in loss.modules() if type(part).__module__.startswith(LIBRARY)]


def _named(names: Sequence[str], words: Iterable[str]) -> bool:
    return any(word in name for word in words for name in names)


def as_raised(error: BadInput) -> BadInput:
    """Return an error as it was raised: torch puts the traceback of a loader's worker into its message."""
    if not error.what.startswith("Caught "):
        return error
    last = error.what.rstrip().rpartition("\n")[2]
    return BadInput(last.partition(": ")[2])


def _zero3(trainer: Any) -> bool:
    plugin = getattr(trainer.accelerator.state, "deepspeed_plugin", None)
    return plugin is not None and plugin.zero_stage == 3


def _moves(data: Any) -> bool:
    transform = (getattr(data, "format", None) or {}).get("format_kwargs", {}).get("transform")
    return type(transform).__module__.startswith("pyrite.torch")


def resumed_folder(arguments: Any, given: Any) -> Path | None:
    """Return the checkpoint that a training is resumed from; None if it starts."""
    if given is True:
        from transformers.trainer_utils import get_last_checkpoint

        given = get_last_checkpoint(arguments.output_dir)
    return None if not given else Path(given)
