"""Serves batches of texts with their negatives to a loop of the user's own, and attaches them to other trainers."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import IterableDataset, get_worker_info

from pyrite.cluster.config.build import build
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.config.validate import check_guards
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.assemble import make_sampler
from pyrite.cluster.runs.what_was_read import notes, sentence
from pyrite.data import Collection, about_tables, as_collection
from pyrite.parts import of_negatives, part_given
from pyrite.ranking.batch import Batch, UpdateResult, pairs_of
from pyrite.ranking.bounds import checked
from pyrite.ranking.collections.collection import Collection as RunCollection
from pyrite.ranking.collections.collection import with_prompts
from pyrite.ranking.dropout import DropoutSeeds
from pyrite.ranking.errors import BadInput, refuse
from pyrite.running import listed, settings
from pyrite.sampling.guard import Guard
from pyrite.sampling.policies.fixed import Fixed
from pyrite.sampling.policies.schedule import Schedule
from pyrite.sampling.retrieval.dense import Refresh
from pyrite.sampling.sampler import Sampler
from pyrite.sampling.selection.uniform import Uniform
from pyrite.torch.batch_versions import LoaderCounts
from pyrite.torch.external_training import ExternalTraining, Score, numbers
from pyrite.torch.moving_index import MovingIndex, refresh_of
from pyrite.torch.pair_draws import PairDraws
from pyrite.torch.report import NegativesReport, ShownFiles
from pyrite.torch.served_dense import ServedDense
from pyrite.torch.text_encoder import COLUMNS, Encode, FunctionEncoder, TextEncoder, encoder_of
from pyrite.torch.text_pairs import TextPairs
from pyrite.torch.trainer_batches import (
    LABELS,
    BatchNegatives,
    CollatorWithNegatives,
    as_raised,
    check_loader,
    check_loss,
    check_trainer,
    compares_within_batch,
    resumed_folder,
    with_negative_columns,
)

if TYPE_CHECKING:
    from datasets import Dataset

    from pyrite.torch.row_transform import NegativesTransform
    from pyrite.torch.trainer_callback import IndexCallback

SERVED = "pyrite.torch.served_dense.ServedDense"
IN_BATCH = "pyrite.sampling.retrieval.in_batch.InBatch"
_PARTS = ("base", "function", "agent", "compressed", "similarity", "candidates", "teacher")
"""Parts of a run that a sampler reads."""


@dataclass(frozen=True)
class ServedBatch:
    """A batch as texts.

    Args:
        step: its number, from 0.
        queries: b texts.
        documents: for each query its positive and its negatives: b lists of one length, "" if there are too few.
        present: bool [b, 1 + n], whether there is a document.
        query_ids: the ids of the queries.
        document_ids: the ids of the documents, None if there is no document.
        scores: float32 [b, n], the functions' scores of the negatives, nan if they have none.
        teacher: float32 [b, 1 + n], the scores of `teacher=` for distillation, nan if it has none; None without a
            teacher.
        places: the batch and its negatives as indices.
    """

    step: int
    queries: list[str]
    documents: list[list[str]]
    present: torch.Tensor
    query_ids: list[str]
    document_ids: list[list[str | None]]
    scores: torch.Tensor
    teacher: torch.Tensor | None
    places: tuple[Batch, NDArray[np.int32]] = field(repr=False)

    def __len__(self) -> int:
        return len(self.queries)


class Negatives(IterableDataset[ServedBatch]):
    """Negatives for a training that is not Pyrite's: in a trainer of sentence-transformers, or in a loop.

    In a trainer, `dataset` are its rows and `attach` adds negatives to them batch by batch. In a loop, each iteration
    is an epoch of batches. Their pairs, order and negatives are the same as those of `pyrite train` with these
    overrides, as far as they do not depend on the ranker. Iterate in the training's process (`num_workers=0`, and
    `batch_size=None` for a `DataLoader`), since a policy continues from the last batch.

    Args:
        data: the collection, its path, or a table of pairs; or overrides of a run: collection, functions, policy,
            selector, `training.batch_size`, `sampling.negatives`, seed.
        negatives: where negatives come from, if `data` is a collection.
        guard: what is left out as probably relevant.
        model: a SentenceTransformer, SparseEncoder or ColBERT that is trained: `function=dense` searches its vectors,
            and selectors receive its scores, both of the version that a batch is served. None takes the model of the
            trainer that is attached.
        encode: the same for any other model: returns the vectors of texts that are a `query` or a `document`.
        score: returns the model's current scores in a loop, for selectors that ask for them (`dynamic`, `simans`, …);
            `attach` and `transform` refuse it.
        refresh: when the index follows the model, if no dense function specifies it.
        rows: the rows that the loss of a trainer reads: `tuples` of query, positive and negatives, `labelled_pairs`
            with a row per document, or `lists` of documents and labels.
        options: further overrides by key, as `{"training.batch_size": 16}`.
        note: called with a line for each preparation step.

    Raises:
        BadInput: if an option is wrong; with `attach` or the first batch if a part needs Pyrite's ranker
            (`function=memory`, `selector=adversarial`), and `function=dense` without `model` or `encode`; in `observe`
            if a policy needs its step (`policy=curriculum`).
    """

    _data: tuple[str, ...] = ()
    """Lines about what was read; a study prints its own."""

    @checked
    def __init__(
        self,
        data: Collection | str | os.PathLike[str] | Iterable[object] = (),
        negatives: object = None,
        *,
        guard: Guard | None = None,
        model: Any = None,
        encode: Encode | None = None,
        score: Score | None = None,
        refresh: Refresh | int | str | None = None,
        rows: Literal["tuples", "labelled_pairs", "lists"] = "tuples",
        options: Mapping[str, object] | None = None,
        note: Callable[[str], None] = lambda line: None,
    ) -> None:
        data = as_collection(data)
        with about_tables("negatives" if isinstance(data, Collection) else None):
            config, collection, parts = self._opened(data, negatives, guard, options, note)
            self._prepare(config, collection, parts, 0, encoder_of(model, encode), score, refresh, rows)

    def _opened(
        self,
        data: Any,
        negatives: object,
        guard: Guard | None,
        options: Mapping[str, object] | None,
        note: Callable[[str], None],
    ) -> tuple[dict[str, Any], RunCollection, dict[str, Any]]:
        """Return the configuration of the arguments, the collection, and the parts that a sampler reads."""
        texts = data.overrides() if isinstance(data, Collection) else listed(data)
        texts += [*of_negatives(negatives), *part_given("guard", guard)]
        config = compose([*texts, *settings(options=options)])
        check_guards(config)
        artifacts = Artifacts(note)
        collection = artifacts.collection(config)
        read = {key: value for key, value in config.items() if key != "origin"}
        self._data = (sentence(collection, read), *notes(collection, config[CHOICES]["collection"]))
        wanted = [name for name in artifacts.keys(config) if name.split(":")[0] in _PARTS]
        return config, collection, {name: artifacts.part(config, name) for name in wanted}

    @classmethod
    def of_run(
        cls, config: dict[str, Any], collection: RunCollection, parts: dict[str, Any], fold: int = 0
    ) -> Negatives:
        """Return the negatives of a run of a study, whose parts exist."""
        negatives = cls.__new__(cls)
        negatives._prepare(config, collection, parts, fold)
        return negatives

    def use(self, model: Any = None, encode: Encode | None = None, score: Score | None = None) -> Negatives:
        """Name the model that a loop trains, as `Negatives(…, model=…)` does: the negatives of a study's run have none.

        Args:
            model, encode, score: see the class.

        Returns:
            These negatives.
        """
        self.close()
        self._encoder, self._score, self._of_trainer = encoder_of(model, encode), score, False
        self.training, self._uncounted = self._training(), 0
        return self

    def _prepare(
        self,
        config: dict[str, Any],
        collection: RunCollection,
        parts: dict[str, Any],
        fold: int,
        encoder: TextEncoder | None = None,
        score: Score | None = None,
        refresh: Refresh | int | str | None = None,
        rows: str = "tuples",
    ) -> None:
        super().__init__()
        self._plain = collection.queries["text"]  # without prompts, as in the files of other trainers
        collection = collection.changed(queries=with_prompts(collection.queries))  # models of others read texts alone
        self.collection, self._parts, self._split = collection, parts, parts["base"].splits[fold]
        self._config, self._score, self._encoder, self._form = _served(config), score, encoder, rows
        base, split = parts["base"], self._split
        _, order, sampling = np.random.SeedSequence([config["seed"], fold]).spawn(3)
        self._rng = np.random.default_rng(order)
        DropoutSeeds(self._rng)  # a run's training draws these first
        self.sampler = make_sampler(self._config, self._parts, np.random.default_rng(sampling))
        self._batches = build(config["batches"], "batches", trust="composed")
        self._batches.prepare(base.encoded, base.vectors, split.train)
        self._refresh = refresh_of(self.sampler, refresh)
        self.training = self._training()
        self._indexes: list[MovingIndex] = []  # those that build into the temporary folder
        self.shown = ShownFiles(self._temporary / "shown")
        self._index: MovingIndex | None = None
        self._of_trainer = False
        self._callback: IndexCallback | None = None
        self._served: ServedBatch | None = None
        self._uncounted = 0  # the pairs of a batch that was served, and is not counted in `training` yet

    def __len__(self) -> int:
        """Return the number of batches per epoch."""
        return self.training.steps_per_epoch

    def __iter__(self) -> Iterator[ServedBatch]:
        """Iterate over the batches of the next epoch."""
        if get_worker_info() is not None:
            raise BadInput("a policy can't continue in several processes", "num_workers", "load with num_workers=0")
        training = self.training
        self._count_served()  # of a loop that was left by `break`
        if self._index is None and self._encoder is not None and self._reads_versions(self.sampler):
            self._start_index()
        order = self._batches.order(training.examples, training.batch_size, self._rng)
        training.position = 0
        for start in range(0, len(order), training.batch_size):
            batch = training.examples.take(order[start : start + training.batch_size])
            waited = training.service.use(training.step) if training.service is not None else 0.0
            self._served = self._serve(batch, self.sampler.negatives(batch, training), waited)  # type: ignore[arg-type]
            self._uncounted = len(batch)
            yield self._served
            self._count_served()
        training.epoch += 1

    def _count_served(self) -> None:
        """Count the batch that was served last as trained on, once, and publish the weights if that is due."""
        pairs, self._uncounted = self._uncounted, 0
        if not pairs:
            return
        self.training.step += 1
        self.training.position += pairs
        if self._index is not None:
            self._index.after_step(self.training.step, lambda step: {})

    def _start_index(self) -> None:
        """Start the index of a loop: at its first batch, or at its next one after `close` or `use`."""
        training = self.training
        self._index = self._new_index(self.sampler, training)
        self._stopped_at_the_end(self._index)
        if training.service is not None:  # of the index that was closed, which functions know
            self._index.start(training.service, step=training.step)
            return
        training.service = self._index.service(self._temporary / "index", LoaderCounts(len(self), ahead=0))
        self._index.start(training.service)
        self.sampler.start(training)  # type: ignore[arg-type]

    def _serve(self, batch: Batch, negatives: NDArray[np.int32], waited: float) -> ServedBatch:
        training = self.training
        shown = np.concatenate([batch.positives[:, None], negatives], axis=1)
        texts, ids = training.texts(shown), training.cells(shown, "id")
        queries = self.collection.queries[batch.queries.astype(np.uint32)]
        teacher = training.teacher
        functions = {name: function.guarded for name, function in self.sampler.functions.items()}
        self.shown.count(
            training.service, "0-0", training.step, waited, batch, negatives, self.sampler.assigned, functions
        )  # fmt: skip
        return ServedBatch(
            training.step,
            queries["text"].to_list(),
            texts,
            torch.from_numpy(shown >= 0),
            queries["id"].to_list(),
            ids,
            torch.from_numpy(self.sampler.source_scores.copy()),
            None if teacher is None else torch.from_numpy(teacher.lookup(batch.queries, shown)),
            (batch, negatives),
        )

    @functools.cached_property
    def dataset(self) -> Dataset:
        """The pairs as a data set with the columns `query` and `positive`, for a trainer.

        If queries have prompts of their own, these are the beginnings of their texts.
        """
        from datasets import Dataset

        pairs = self.training.examples
        queries = self.collection.queries["text"].gather(pairs.queries.astype(np.uint32)).to_list()
        positives = self.collection.documents["text"].gather(pairs.positives.astype(np.uint32)).to_list()
        return Dataset.from_dict({"query": queries, "positive": positives})

    @property
    def columns(self) -> list[str]:
        """The columns of a batch's rows as `tuples`, all of them texts."""
        count = self._trainer_sampler.count
        return ["query", "positive", *(f"negative_{place}" for place in range(1, 1 + count))]

    def attach(self, trainer: Any, collator: bool = True) -> None:
        """Add negatives to the batches of a trainer of sentence-transformers, or of another one of transformers.

        Args:
            trainer: the finished trainer, with `dataset` as its data.
            collator: whether its collator receives rows of `dataset` and adds negatives. False for a trainer whose rows
                get them by `transform`: its steps refresh the index.

        Raises:
            BadInput: if it reads its data or keeps its weights in a way that negatives can't follow.
        """
        from pyrite.torch.trainer_callback import IndexCallback, loader_counts

        check_trainer(trainer)
        folder = Path(trainer.args.output_dir) / "negatives"
        wrapped = None
        if collator:
            check_loader(trainer, LABELS.get(self._form, self.columns[2:]))
            loss = getattr(trainer, "loss", None)
            in_batch = any(node["_target_"] == IN_BATCH for node in self._config["function"].values())
            check_loss(loss, self._form, in_batch)
            inner = trainer.data_collator
            self._follow(trainer.model)
            self._use_prompts(getattr(inner, "prompts", None), getattr(inner, "router_mapping", None))
            within = self._form == "tuples" and compares_within_batch(loss)
            negatives = self._batch_negatives(folder / "index", loader_counts(trainer.args), within)
            with_negative_columns(inner, self.columns[2:])
            wrapped = CollatorWithNegatives(inner, negatives)
            trainer.get_train_dataloader = _with_collator(trainer, wrapped)
            negatives.shown = self.shown = ShownFiles(folder / "shown")
        else:
            negatives = self._transformed
        callback = IndexCallback(
            negatives, self._index, wrapped, self.shown, trainer.accelerator.wait_for_everyone
        )  # fmt: skip
        trainer.add_callback(callback)
        callbacks = trainer.callback_handler.callbacks
        callbacks.insert(0, callbacks.pop())  # before those that write logs
        train, self._callback = trainer.train, callback

        @functools.wraps(train)
        def train_from(resume_from_checkpoint: Any = None, *arguments: Any, **options: Any) -> Any:
            # Trainers do not read `args.resume_from_checkpoint`: it is for scripts, which pass it on.
            callback.resumed = resumed_folder(trainer.args, resume_from_checkpoint)
            try:
                return train(resume_from_checkpoint, *arguments, **options)
            except BadInput as error:
                raise as_raised(error) from None

        trainer.train = train_from

    @functools.cached_property
    def transform(self) -> NegativesTransform:
        """A transform of `datasets` that adds negatives of the newest version to rows, for trainers without a collator.

        It reads the columns of Tevatron (`positive_passages`), FlagEmbedding (`pos`), NeMo AutoModel (`pos_doc`), or
        `positive`. Each time that a row is read its negatives are drawn again. Which version it has depends on timing,
        so with an index no two trainings are equal.

        Raises:
            BadInput: if several processes train, the mode of refreshing is another than `async`, or the policy is a
                schedule.
        """
        from pyrite.torch.row_transform import NegativesTransform

        return NegativesTransform(self._transformed)

    @property
    def trained(self) -> tuple[int, int]:
        """The steps that the attached trainer or the loop has made, and the step of the weights that it left."""
        if (callback := self._callback) is not None:
            return callback.steps, callback.scored_step
        steps = self.training.step + bool(self._uncounted)
        return steps, steps

    def lines(self) -> list[dict[str, Any]]:
        """Return what was shown so far, batch by batch; see `pyrite.torch.report.ShownFiles`."""
        return self.shown.lines() if self._callback is None else self._callback.lines()

    def report(self) -> NegativesReport:
        """Return what was shown so far, by function and version, and what was read of the data."""
        remarks = []
        if self._index is not None and self._refresh.mode == "async":
            remarks.append("versions were served as they were built (async): a training repeated or resumed has others")
        indexed = self._index is not None or self.training.service is not None  # also after `close`
        mode = self._refresh.mode if indexed else None
        return NegativesReport.of(self.lines(), mode, remarks, self._data)

    def evaluator(self, **options: Any) -> Any:
        """Return an evaluator that ranks all documents for the validation queries, but for the query itself.

        It is called with a SentenceTransformer, a SparseEncoder, a MultiVectorEncoder or a ColBERT, and evaluates each
        with the evaluator of sentence-transformers, or of PyLate, for its class.

        Args:
            options: options of `InformationRetrievalEvaluator`, as `name="dev"`.

        Raises:
            BadInput: if there are no validation queries, or an option is unknown.
        """
        from pyrite.torch.validation_evaluator import ValidationEvaluator

        encoded, dev = self.training.encoded, self._split.dev
        refuse(not len(dev), "has no validation queries", "collection", "give it a dev split")
        queries, documents = self.collection.queries, self.collection.documents
        ids, texts = documents["id"].to_list(), documents["text"].to_list()
        ranked = np.unique(encoded.counted(np.arange(len(ids)))).tolist()
        relevant = encoded.counted_judgements().relevant()
        judged = {
            query: relevant.documents[relevant.offsets[query] : relevant.offsets[query + 1]].tolist()
            for query in dev.tolist()
        }
        own = zip(dev.tolist(), encoded.counted(encoded.own_documents(dev)).tolist(), strict=True)
        itself = {query: {document for document in row if document >= 0} for query, row in own}
        return ValidationEvaluator(
            {queries["id"][query]: queries["text"][query] for query in judged},
            {ids[document]: texts[document] for document in ranked},
            {queries["id"][query]: {ids[each] for each in found} for query, found in judged.items()},
            {queries["id"][query]: [ids[each] for each in found] for query, found in itself.items() if found},
            {"name": "validation"} | options,
        )

    def close(self) -> None:
        """Stop what builds the index of a loop, and delete its files. The end of this object does it too."""
        if self._index is not None:
            self._index.close()
            self._indexes[:] = [index for index in self._indexes if index is not self._index]
            self._index = None

    def _stopped_at_the_end(self, index: MovingIndex) -> None:
        """Have the end of this object stop what builds an index."""
        if not isinstance(index.encoder, FunctionEncoder):  # which nothing else builds with, and may hold this object
            self._indexes.append(index)

    @functools.cached_property
    def _temporary(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="pyrite-negatives-"))
        weakref.finalize(self, _delete, folder, self._indexes)
        return folder

    @functools.cached_property
    def _transformed(self) -> BatchNegatives:
        """The negatives of `transform`, with an index that has been started."""
        refuse(
            int(os.environ.get("WORLD_SIZE", "1")) > 1,
            "several processes train, and each would have an index of its own",
            "transform",
            "attach the trainer's collator, or mine to a file",
        )
        refuse(
            self._reads_versions(self._trainer_sampler) and self._refresh.mode != "async",
            "rows of a transform have no number of their batch, so that they get the newest version",
            "refresh.mode",
            'choose Refresh("async", …)',
        )
        what = "rows of a transform have no number of their batch, so that a schedule would stay at its start"
        moves = isinstance(self._trainer_sampler.policy, Schedule)
        refuse(moves, what, "policy", "choose policy=mixture, or attach the trainer's collator")
        negatives = self._batch_negatives(self._temporary / "index", LoaderCounts(len(self)))
        negatives.shown = self.shown
        if self._index is not None and negatives.service is not None:
            self._stopped_at_the_end(self._index)
            self._index.start(negatives.service)
        return negatives

    def _batch_negatives(self, folder: Path, loader: LoaderCounts, within_batch: bool = False) -> BatchNegatives:
        """Return the negatives of a trainer's batches, with an index in a folder if they read one."""
        what = "score= is for a loop: in a trainer, selectors receive the scores of its model's versions"
        refuse(self._score is not None, what, "score", "leave it out")
        sampler = self._trainer_sampler
        training = self._training()
        if self._encoder is not None and self._reads_versions(sampler):
            self._index = self._new_index(sampler, training)
            training.service = self._index.service(folder, loader)
        draws = PairDraws(sampler, training, self._config["seed"], within_batch)
        return BatchNegatives(self._text_pairs(), draws, training.service, self._form)

    def _text_pairs(self) -> TextPairs:
        """Return the pairs of `dataset`, which rows of the files that were read are, too."""
        split, plain = self._split, self._plain
        asked = plain.gather(self.training.examples.queries.astype(np.uint32))
        held_out = plain.gather(np.concatenate([split.dev, split.test]).astype(np.uint32))
        return TextPairs(self.dataset["query"], self.dataset["positive"], asked.to_list(), held_out.to_list())

    def _reads_versions(self, sampler: Sampler) -> bool:
        """Return whether a function or a selector reads the versions of an index."""
        choosing = [sampler.selector, *sampler.selectors.values(), *sampler.policy.selectors.values()]
        reads = not all(vars(type(part)).get("independent", False) for part in choosing)
        dense = any(isinstance(function, ServedDense) for function in sampler.functions.values())
        return dense or (self._score is None and reads)

    @functools.cached_property
    def _trainer_sampler(self) -> Sampler:
        """The sampler of a trainer's batches; it supplies nothing if all negatives are those of the batch."""
        config, rng = _without_in_batch(self._config), np.random.default_rng(0)
        if not any(config["negatives"].get(name, 1) for name in config["function"]):
            return Sampler(Fixed(), {}, Uniform(), 0, rng)
        return make_sampler(config, self._parts, rng)

    def _new_index(self, sampler: Sampler, training: ExternalTraining) -> MovingIndex:
        assert self._encoder is not None
        index = MovingIndex(self._encoder, self._refresh, self._config["index"])
        index.prepare(self.collection, training, sampler)
        return index

    def _follow(self, trained: Any) -> None:
        """Read texts with the model that a trainer trains, unless another one was given that may stand still."""
        if not self._reads_versions(self._trainer_sampler):
            return
        if self._encoder is None or self._of_trainer:
            self._encoder, self._of_trainer = encoder_of(trained, None), True
        elif self._refresh.mode != "never":
            what = "the trainer trains another model, so that each version would have the same weights"
            remedy = 'give Negatives the model of the trainer, or choose Refresh("never")'
            refuse(self._encoder.stands_still(trained), what, "model", remedy)

    def _use_prompts(self, prompts: Any, routes: Any) -> None:
        """Read texts with the prompts and routes of a trainer."""
        if self._encoder is None:
            return
        of = prompts if isinstance(prompts, Mapping) else dict.fromkeys(COLUMNS.values(), prompts or "")
        self._encoder.prompts = {kind: of.get(column) or "" for kind, column in COLUMNS.items()}
        self._encoder.routes = {kind: routes[column] for kind, column in COLUMNS.items() if column in (routes or {})}

    def _training(self) -> ExternalTraining:
        base, config = self._parts["base"], self._config
        of_run = (config["training"], self._parts.get("teacher"), self._score)
        training = ExternalTraining(self.collection, base.encoded, *of_run)
        training.examples = pairs_of(base.encoded, self._split.train, config["limits"]["examples"])
        return training

    def observe(self, batch: ServedBatch, scores: Any, loss: float = 0.0, gradient_norm: float = 0.0) -> None:
        """Receive the model's scores of a batch, before its update: policies and selectors learn from them.

        Args:
            batch: the batch that was served last.
            scores: [b, 1 + n], the scores of its documents, as an array or tensor.
            loss: the batch loss.
            gradient_norm: the norm of its gradient, for policies that read it.

        Raises:
            ValueError: if it is not the last batch, or the scores have another shape.
        """
        if self._served is None or batch.step != self._served.step:
            raise ValueError(f"batch {batch.step} was not served last: observe each batch before the next")
        observed = numbers(scores)
        if observed.shape != tuple(batch.present.shape):
            raise ValueError(f"scores are {observed.shape}, and the batch is {tuple(batch.present.shape)}")
        of_batch, negatives = batch.places
        self.training.position += len(of_batch)
        self.training.step += 1
        try:
            self.sampler.observe(negatives, UpdateResult(float(loss), float(gradient_norm), observed))
        finally:
            self.training.position -= len(of_batch)
            self.training.step -= 1
        self._served = None


def _delete(folder: Path, indexes: Iterable[MovingIndex]) -> None:
    """Stop what builds into a folder, then delete the folder."""
    for index in indexes:
        index.close()
    shutil.rmtree(folder, ignore_errors=True)


def _served(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration whose dense functions are served from versions of the user's model."""
    functions = {
        name: {**node, "_target_": SERVED} if "refresh" in node else node for name, node in config["function"].items()
    }
    return {**config, "function": functions}


def _without_in_batch(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration without in-batch negatives, which the loss of a trainer adds by itself."""
    functions = {name: node for name, node in config["function"].items() if node["_target_"] != IN_BATCH}
    dropped = config["function"].keys() - functions.keys()
    refuse(
        dropped and not config["policy"]["_target_"].endswith(".Fixed"),
        "in-batch negatives are added by the loss to every row, and a policy can't choose them for some",
        "policy",
        "leave InBatch() out, or choose policy=fixed",
    )
    for name in dropped:
        _check_in_batch(config, name)
    others = {
        key: {name: value for name, value in (config[key] or {}).items() if name not in dropped}
        for key in ("negatives", "selectors")
    }
    return {**config, **others, "function": functions}


def _check_in_batch(config: dict[str, Any], name: str) -> None:
    """Refuse options of in-batch negatives: the loss of a trainer takes the whole batch."""
    node = config["function"][name]
    guard = [value for key, value in (node.get("guard") or {}).items() if key != "_target_" and value is not None]
    options = {"a count": config["negatives"].get(name), "hard": node.get("hard"), "guard": guard}
    options["pick"] = (config["selectors"] or {}).get(name)
    given = [option for option, value in options.items() if value]
    what = "{} of InBatch does nothing in a trainer, whose loss compares with the whole batch"
    remedy = "write InBatch(): the trainer's batch size sets the number, and GISTEmbedLoss masks what may be relevant"
    refuse(given, what, "negatives", remedy)


def _with_collator(trainer: Any, collator: Any) -> Callable[[], Any]:
    """Return a trainer's `get_train_dataloader` with another collator: evaluation keeps the trainer's."""
    make = trainer.get_train_dataloader

    @functools.wraps(make)
    def get_train_dataloader() -> Any:
        inner, trainer.data_collator = trainer.data_collator, collator
        try:
            return make()
        finally:
            trainer.data_collator = inner

    return get_train_dataloader
